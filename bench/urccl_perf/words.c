/* SPDX-License-Identifier: Apache-2.0 */
#include "words.h"

#include <string.h>

#include "options.h"

const struct word word_ops[] = {
	{"nop", URCCL_OP_NOP},
	{"write", URCCL_OP_WRITE},
	{"read", URCCL_OP_READ},
	{"writev", URCCL_OP_WRITEV},
	{"readv", URCCL_OP_READV},
	{"write_paged", URCCL_OP_WRITE_PAGED},
	{"read_paged", URCCL_OP_READ_PAGED},
	{"notify", URCCL_OP_NOTIFY},
	{"fetch_add", URCCL_OP_FETCH_ADD},
	{"cmp_swap", URCCL_OP_CMP_SWAP},
	{"msg_ring", URCCL_OP_MSG_RING},
	{"paged", URCCL_OP_WRITE_PAGED},
	{NULL, 0},
};

const struct word word_classes[] = {
	{"bulk", URCCL_CLASS_BULK},
	{"latency", URCCL_CLASS_LATENCY},
	{"control", URCCL_CLASS_CONTROL},
	{NULL, 0},
};

const struct word word_waits[] = {{"spin", WAIT_SPIN},
				  {"epoll", WAIT_EPOLL},
				  {"call", WAIT_CALL},
				  {NULL, 0}};

const struct word word_tables[] = {{"random", TABLE_RANDOM},
				   {"run", TABLE_RUN},
				   {"dense", TABLE_DENSE},
				   {NULL, 0}};

const struct word word_drivers[] = {
	{"auto", URCCL_TCP_AUTO},
	{"readiness", URCCL_TCP_READINESS},
	{"io_uring", URCCL_TCP_IO_URING},
	{NULL, 0},
};

const struct word word_pages[] = {{"4k", BENCH_PAGES_4K}, {"thp", BENCH_PAGES_THP}, {NULL, 0}};

const struct option long_options[] = {
	{"serve", 0, NULL, OPT_SERVE},
	{"self", 0, NULL, OPT_SELF},
	{"nop", 0, NULL, OPT_NOP},
	{"listen", 1, NULL, OPT_LISTEN},
	{"op", 1, NULL, OPT_OP},
	{"size", 1, NULL, OPT_SIZE},
	{"depth", 1, NULL, OPT_DEPTH},
	{"threads", 1, NULL, OPT_THREADS},
	{"contexts", 1, NULL, OPT_CONTEXTS},
	{"iovs", 1, NULL, OPT_IOVS},
	{"blocks", 1, NULL, OPT_BLOCKS},
	{"planes", 1, NULL, OPT_PLANES},
	{"table", 1, NULL, OPT_TABLE},
	{"run", 1, NULL, OPT_RUN},
	{"class", 1, NULL, OPT_CLASS},
	{"bidirectional", 0, NULL, OPT_BIDIRECTIONAL},
	{"background", 1, NULL, OPT_BACKGROUND},
	{"background-depth", 1, NULL, OPT_BACKGROUND_DEPTH},
	{"check", 0, NULL, OPT_CHECK},
	{"checksum", 0, NULL, OPT_CHECKSUM},
	{"acked", 0, NULL, OPT_ACKED},
	{"ping-pong", 0, NULL, OPT_PING_PONG},
	{"duration", 1, NULL, OPT_DURATION},
	{"warmup", 1, NULL, OPT_WARMUP},
	{"count", 1, NULL, OPT_COUNT},
	{"handshakes", 1, NULL, OPT_HANDSHAKES},
	{"idle-peers", 1, NULL, OPT_IDLE_PEERS},
	{"max-warm", 1, NULL, OPT_MAX_WARM},
	{"random", 1, NULL, OPT_RANDOM},
	{"register", 1, NULL, OPT_REGISTER},
	{"inline", 0, NULL, OPT_INLINE},
	{"wait", 1, NULL, OPT_WAIT},
	{"server-wait", 1, NULL, OPT_SERVER_WAIT},
	{"transport", 1, NULL, OPT_TRANSPORT},
	{"alloc", 0, NULL, OPT_ALLOC},
	{"heap", 0, NULL, OPT_HEAP},
	{"server-alloc", 0, NULL, OPT_SERVER_ALLOC},
	{"pages", 1, NULL, OPT_PAGES},
	{"hot", 0, NULL, OPT_HOT},
	{"cold", 0, NULL, OPT_COLD},
	{"span", 1, NULL, OPT_SPAN},
	{"lookup", 0, NULL, OPT_LOOKUP},
	{"cc", 1, NULL, OPT_CC},
	{"driver", 1, NULL, OPT_DRIVER},
	{"streams", 1, NULL, OPT_STREAMS},
	{"chunk", 1, NULL, OPT_CHUNK},
	{"device", 1, NULL, OPT_DEVICE},
	{"server-device", 1, NULL, OPT_SERVER_DEVICE},
	{"spin-us", 1, NULL, OPT_SPIN_US},
	{"cpu", 1, NULL, OPT_CPU},
	{"server-cpu", 1, NULL, OPT_SERVER_CPU},
	{"engine-cpu", 1, NULL, OPT_ENGINE_CPU},
	{"server-engine-cpu", 1, NULL, OPT_SERVER_ENGINE_CPU},
	{"json", 0, NULL, OPT_JSON},
	{"help", 0, NULL, OPT_HELP},
	{NULL, 0, NULL, 0},
};

const char *option_name(int opt)
{
	const struct option *o;

	for (o = long_options; o->name; o++)
		if (o->val == opt)
			return o->name;
	return "?";
}

int word_value(int opt, const struct word *words, const char *arg)
{
	const struct word *w;

	for (w = words; w->name; w++)
		if (!strcmp(w->name, arg))
			return w->value;
	bench_die("--%s does not know '%s'; --help lists what it does", option_name(opt), arg);
}

const char *word_name(const struct word *words, int value)
{
	for (; words->name; words++)
		if (words->value == value)
			return words->name;
	return "?";
}
