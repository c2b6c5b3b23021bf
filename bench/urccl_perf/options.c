/* SPDX-License-Identifier: Apache-2.0 */
#include "options.h"
#include "words.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NO_SIZE	     UINT64_MAX /* none was asked for */
#define CONTEXTS_MAX 64u

static uint64_t size_value(int opt, const char *arg, uint64_t min, uint64_t max)
{
	uint64_t value;

	if (bench_parse_size(arg, &value) || value < min || value > max)
		bench_die("--%s wants a number from %lu to %lu, not '%s'", option_name(opt), min,
			  max, arg);
	return value;
}

static uint32_t count_value(int opt, const char *arg, uint32_t min, uint32_t max)
{
	return (uint32_t)size_value(opt, arg, min, max);
}

static double seconds_value(int opt, const char *arg)
{
	double value;

	if (bench_parse_double(arg, &value) || !(value >= 0 && value <= 86400)) /* nor NaN */
		bench_die("--%s wants seconds, not '%s'", option_name(opt), arg);
	return value;
}

static int cpu_value(int opt, const char *arg)
{
	return !strcmp(arg, "-1") ? -1 : (int)size_value(opt, arg, 0, 1023);
}

/* The name of a kind of memory, or a list of RDMA devices. */
static void device_value(struct options *o, int opt, const char *arg)
{
	int which = opt == OPT_DEVICE ? OURS : SERVERS;
	struct memory m = {.kind = MEMORY_HOST};

	if (!strcmp(arg, "pinned")) {
		m.kind = MEMORY_PINNED;
	} else if (!strcmp(arg, "gpu") || !strncmp(arg, "gpu:", 4)) {
		m.kind = MEMORY_GPU;
		m.gpu = arg[3] ? (int)size_value(opt, arg + 4, 0, 31) : 0;
	} else if (strcmp(arg, "host") != 0) {
		o->device[which] = arg;
		return;
	}
	o->memory[which] = m;
}

/* What is to be done. 0: not one of these. */
static int set_work(struct options *o, int opt, const char *arg)
{
	switch (opt) {
	case OPT_OP:
		o->op = (enum urccl_op)word_value(opt, word_ops, arg);
		return 1;
	case OPT_SIZE:
		o->size = size_value(opt, arg, 0, 1ull << 40);
		return 1;
	case OPT_DEPTH:
		o->depth = count_value(opt, arg, 1, 8192);
		return 1;
	case OPT_THREADS:
		o->rings = count_value(opt, arg, 1, 64);
		return 1;
	case OPT_CONTEXTS:
		o->contexts = count_value(opt, arg, 1, CONTEXTS_MAX);
		return 1;
	case OPT_IOVS:
		o->iovs = count_value(opt, arg, 1, 1 << 20);
		return 1;
	case OPT_BLOCKS:
		o->blocks = count_value(opt, arg, 1, 1 << 30);
		return 1;
	case OPT_PLANES:
		o->planes = count_value(opt, arg, 1, 1 << 16);
		return 1;
	case OPT_TABLE:
		o->table = (enum perf_table)word_value(opt, word_tables, arg);
		return 1;
	case OPT_RUN:
		o->run = count_value(opt, arg, 1, 1 << 20);
		return 1;
	case OPT_CLASS:
		o->cls = (uint32_t)word_value(opt, word_classes, arg);
		return 1;
	case OPT_BIDIRECTIONAL:
		o->bidirectional = 1;
		return 1;
	case OPT_BACKGROUND:
		o->background = size_value(opt, arg, 1, 1ull << 40);
		return 1;
	case OPT_BACKGROUND_DEPTH:
		o->background_depth = count_value(opt, arg, 1, 64);
		return 1;
	case OPT_CHECK:
		o->check = 1;
		return 1;
	case OPT_CHECKSUM:
		o->checksum = 1;
		return 1;
	case OPT_ACKED:
		o->acked = 1;
		return 1;
	case OPT_PING_PONG:
		o->job = JOB_PING;
		o->op = URCCL_OP_NOTIFY;
		return 1;
	case OPT_DURATION:
		o->seconds = seconds_value(opt, arg);
		return 1;
	case OPT_WARMUP:
		o->warmup = seconds_value(opt, arg);
		return 1;
	case OPT_COUNT:
		o->count = size_value(opt, arg, 1, 1ull << 40);
		return 1;
	case OPT_HANDSHAKES:
		o->job = JOB_HANDSHAKES;
		o->handshakes = size_value(opt, arg, 1, 1ull << 32);
		return 1;
	case OPT_IDLE_PEERS:
		o->job = JOB_IDLE;
		o->idle_peers = count_value(opt, arg, 0, 100000);
		return 1;
	case OPT_MAX_WARM:
		o->max_warm = count_value(opt, arg, 1, 100000);
		return 1;
	case OPT_REGISTER:
		o->job = JOB_REGISTER;
		o->tensors = count_value(opt, arg, 1, 1u << 20);
		return 1;
	case OPT_RANDOM:
		o->job = JOB_RANDOM;
		o->random = size_value(opt, arg, 1, 1ull << 32);
		return 1;
	}
	return 0;
}

/* How a context is opened and its memory made. 0: not one of these. */
static int set_context(struct options *o, int opt, const char *arg)
{
	switch (opt) {
	case OPT_INLINE:
		o->is_inline = 1;
		return 1;
	case OPT_WAIT:
		o->wait = (enum perf_wait)word_value(opt, word_waits, arg);
		return 1;
	case OPT_SERVER_WAIT:
		o->server_wait = (enum perf_wait)word_value(opt, word_waits, arg);
		return 1;
	case OPT_TRANSPORT:
		o->transport = arg;
		return 1;
	case OPT_ALLOC:
	case OPT_HEAP:
		o->alloc = opt == OPT_ALLOC;
		return 1;
	case OPT_SERVER_ALLOC:
		o->server_alloc = 1;
		return 1;
	case OPT_PAGES:
		o->pages = (enum bench_pages)word_value(opt, word_pages, arg);
		return 1;
	case OPT_HOT:
	case OPT_COLD:
		o->cold = opt == OPT_COLD;
		return 1;
	case OPT_SPAN:
		o->span = size_value(opt, arg, 1, 1ull << 40);
		return 1;
	case OPT_LOOKUP:
		o->lookup = 1;
		return 1;
	case OPT_CC:
		o->cc = arg;
		return 1;
	case OPT_DRIVER:
		o->driver = (uint32_t)word_value(opt, word_drivers, arg);
		return 1;
	case OPT_STREAMS:
		o->streams = count_value(opt, arg, 1, 8);
		return 1;
	case OPT_CHUNK:
		o->chunk = count_value(opt, arg, 1, 1u << 31);
		return 1;
	case OPT_DEVICE:
	case OPT_SERVER_DEVICE:
		device_value(o, opt, arg);
		return 1;
	case OPT_SPIN_US:
		o->spin_us = !strcmp(arg, "-1") ? ~0u : count_value(opt, arg, 0, 1u << 31);
		o->spin_us_given = 1;
		return 1;
	}
	return 0;
}

static void set(struct options *o, int opt, const char *arg)
{
	if (set_work(o, opt, arg) || set_context(o, opt, arg))
		return;
	switch (opt) {
	case OPT_SERVE:
		o->role = ROLE_SERVE;
		break;
	case OPT_SELF:
		o->role = ROLE_SELF;
		break;
	case OPT_NOP:
		o->role = ROLE_NOP;
		o->op = o->op == URCCL_OP_MSG_RING ? o->op : URCCL_OP_NOP;
		break;
	case OPT_LISTEN:
		o->listen = arg;
		break;
	case OPT_CPU:
		o->cpu[OURS] = cpu_value(opt, arg);
		break;
	case OPT_SERVER_CPU:
		o->cpu[SERVERS] = cpu_value(opt, arg);
		break;
	case OPT_ENGINE_CPU:
		o->engine_cpu[OURS] = cpu_value(opt, arg);
		break;
	case OPT_SERVER_ENGINE_CPU:
		o->engine_cpu[SERVERS] = cpu_value(opt, arg);
		break;
	case OPT_JSON:
		o->json = 1;
		break;
	case OPT_HELP:
		fputs(options_help, stdout);
		bench_flush();
		exit(0);
	default: /* getopt_long() has said why */
		exit(1);
	}
}

/* A CPU that was not given: the two ends side by side where we start both, each with one thread,
 * and may use two; else any. */
static void place(struct options *o)
{
	static const int unset = -2;
	int end, second = o->rings * o->contexts > 1 ? -1 : bench_cpu(1);
	int first = second < 0 ? -1 : bench_cpu(0);

	if (o->cpu[OURS] == unset)
		o->cpu[OURS] = o->role == ROLE_SELF || o->role == ROLE_NOP ? first : -1;
	if (o->cpu[SERVERS] == unset)
		o->cpu[SERVERS] = o->role == ROLE_SELF ? second : -1;
	if (o->role == ROLE_NOP && o->engine_cpu[OURS] == unset)
		o->engine_cpu[OURS] = second;
	for (end = OURS; end <= SERVERS; end++)
		if (o->engine_cpu[end] == unset)
			o->engine_cpu[end] = o->cpu[end];
}

static int is_note(const struct options *o)
{
	return o->op == URCCL_OP_NOTIFY || o->job == JOB_PING;
}

/* What load_check() can compare. */
static int is_compared(const struct options *o)
{
	return o->job == JOB_LOAD && o->role != ROLE_NOP && o->op != URCCL_OP_NOTIFY && o->size;
}

static void finish(struct options *o)
{
	uint64_t bytes;

	if (options_atomic(o))
		o->size = sizeof(uint64_t);
	if (o->size == NO_SIZE)
		o->size = is_note(o) ? 64 : 64 << 10;
	bytes = options_entry_bytes(o);
	if ((o->op == URCCL_OP_NOP || o->op == URCCL_OP_MSG_RING) && o->role != ROLE_SERVE) {
		o->role = ROLE_NOP;
		o->size = 0;
	}
	if ((o->job == JOB_IDLE || o->job == JOB_HANDSHAKES) && o->role == ROLE_NONE)
		o->role = ROLE_SELF;
	if (o->job == JOB_REGISTER)
		o->role = ROLE_NOP;
	if (o->role == ROLE_NONE)
		bench_die("say HOST:PORT, --serve, --self or --nop; --help has more");
	if (o->is_inline && o->rings > 1)
		bench_die("an inline context has one ring: --threads 1");
	if (o->contexts > 1 && (o->job != JOB_LOAD || o->background || o->op == URCCL_OP_MSG_RING))
		bench_die("several contexts measure a load alone: --contexts 1");
	if (is_note(o) && o->size > URCCL_NOTE_MAX)
		bench_die("a notification carries at most %u bytes: --size", URCCL_NOTE_MAX);
	if (o->size % o->iovs && (o->op == URCCL_OP_WRITEV || o->op == URCCL_OP_READV))
		bench_die("--size is the sum of the segments: a multiple of --iovs");
	if (options_scattered(o) && !bytes)
		bench_die("--size of a vector or a page is not 0");
	if (o->check && !is_compared(o))
		bench_die("--check compares bytes that were moved, and here none are");
	if (o->job == JOB_RANDOM) {
		o->wait = WAIT_EPOLL;
		o->span = o->span > 65536 ? o->span : 65536;
	}
	if (o->wait == WAIT_DEFAULT)
		o->wait = o->is_inline || o->role == ROLE_NOP ? WAIT_SPIN : WAIT_CALL;
	/* A threaded server's own thread has nothing to spin for. */
	if (o->server_wait == WAIT_DEFAULT)
		o->server_wait = o->wait == WAIT_SPIN && !o->is_inline ? WAIT_CALL : o->wait;
	if (!o->span)
		o->span = o->cold ? 1ull << 30 : bytes;
	if (o->span < bytes)
		o->span = bytes;
	if (!o->span)
		o->span = 1;
	if (!o->device[SERVERS])
		o->device[SERVERS] = o->device[OURS];
	if (!o->memory[SERVERS].kind)
		o->memory[SERVERS] = o->memory[OURS];
	if (o->memory[OURS].kind == MEMORY_GPU && (is_note(o) || o->job == JOB_RANDOM))
		bench_die("the payload of a notification is memory of the host: --device");
	if (o->job == JOB_REGISTER && o->memory[OURS].kind > MEMORY_HOST)
		bench_die("--register measures memory of the host: --device");
	place(o);
}

void options_parse(struct options *o, int argc, char **argv)
{
	int opt;

	*o = (struct options){
		.op = URCCL_OP_WRITE,
		.size = NO_SIZE,
		.depth = 1,
		.rings = 1,
		.contexts = 1,
		.iovs = 16,
		.blocks = 1024,
		.planes = 1,
		.run = 8,
		.background_depth = 2,
		.cpu = {-2, -2},
		.engine_cpu = {-2, -2},
		.seconds = 1,
		.warmup = 0.2,
	};
	while ((opt = getopt_long(argc, argv, "", long_options, NULL)) >= 0)
		set(o, opt, optarg);
	if (optind < argc && o->role == ROLE_NONE) {
		o->role = ROLE_CLIENT;
		o->address = argv[optind++];
	}
	if (optind < argc)
		bench_die("'%s' is one word too many; --help lists the options", argv[optind]);
	finish(o);
}

uint64_t options_entry_bytes(const struct options *o)
{
	switch (o->op) {
	case URCCL_OP_NOP:
	case URCCL_OP_MSG_RING:
		return 0;
	case URCCL_OP_WRITE_PAGED:
	case URCCL_OP_READ_PAGED:
		return o->size * o->blocks * o->planes;
	default:
		return o->size;
	}
}

int options_scattered(const struct options *o)
{
	return o->op == URCCL_OP_WRITEV || o->op == URCCL_OP_READV ||
	       o->op == URCCL_OP_WRITE_PAGED || o->op == URCCL_OP_READ_PAGED;
}

int options_atomic(const struct options *o)
{
	return o->op == URCCL_OP_FETCH_ADD || o->op == URCCL_OP_CMP_SWAP;
}

struct memory options_memory(const struct options *o, int which)
{
	struct memory m = o->memory[which];

	if (m.kind == MEMORY_DEFAULT)
		m.kind = MEMORY_HOST;
	m.alloc = o->alloc || (which == SERVERS && o->server_alloc);
	m.pages = o->pages;
	return m;
}

const char *options_op_name(enum urccl_op op)
{
	return word_name(word_ops, (int)op);
}

const char *options_wait_name(enum perf_wait wait)
{
	return word_name(word_waits, (int)wait);
}
