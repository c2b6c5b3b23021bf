/* SPDX-License-Identifier: Apache-2.0 */
/* The progress bar, the table and the JSON object. */
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <json-c/json.h>
#include "report.h"

static bool bar_is_drawn;

void say(const char *fmt, ...)
{
	va_list ap;

	flockfile(stderr);
	if (bar_is_drawn) {
		fputs("\r\033[K", stderr);
		bar_is_drawn = false;
	}
	va_start(ap, fmt);
	fputs("kvcache_pusher: ", stderr);
	vfprintf(stderr, fmt, ap);
	fputc('\n', stderr);
	va_end(ap);
	funlockfile(stderr);
}

int tally_open(struct tally *t, const struct options *o, const struct shape *s, uint32_t total)
{
	memset(t, 0, sizeof(*t));
	t->o = o;
	t->shape = s;
	t->total = total;
	t->refused = calloc(total, sizeof(*t->refused));
	t->exposed.ns = calloc(total, sizeof(*t->exposed.ns));
	t->whole.ns = calloc(total, sizeof(*t->whole.ns));
	if (t->refused && t->exposed.ns && t->whole.ns)
		return 0;
	tally_close(t);
	return -ENOMEM;
}

void tally_close(struct tally *t)
{
	free(t->refused);
	free(t->exposed.ns);
	free(t->whole.ns);
	memset(t, 0, sizeof(*t));
}

static void times_add(struct times *t, const struct times *other)
{
	memcpy(t->ns + t->n, other->ns, other->n * sizeof(*t->ns));
	t->n += other->n;
}

/* CPU time is of decode's process, and reads of several contexts are in flight together. */
static void stats_add(struct msg_stats *s, const struct msg_stats *other)
{
	s->cpu_ns = other->cpu_ns > s->cpu_ns ? other->cpu_ns : s->cpu_ns;
	s->read_ns = other->read_ns > s->read_ns ? other->read_ns : s->read_ns;
	s->verify_ns += other->verify_ns;
	s->checked += other->checked;
	s->wrong += other->wrong;
	s->evicted += other->evicted;
	s->read_bytes += other->read_bytes;
	s->path |= other->path;
	s->transports |= other->transports;
	s->beside |= other->beside;
}

void tally_add(struct tally *t, const struct tally *other)
{
	t->done += other->done;
	t->wrong += other->wrong;
	t->aborted += other->aborted;
	t->quiet += other->quiet;
	t->failed += other->failed;
	memcpy(t->refused + t->nrefused, other->refused, other->nrefused * sizeof(*t->refused));
	t->nrefused += other->nrefused;
	t->cancelled += other->cancelled;
	t->blocks_sent += other->blocks_sent;
	t->blocks_reused += other->blocks_reused;
	t->bytes += other->bytes;
	times_add(&t->exposed, &other->exposed);
	times_add(&t->whole, &other->whole);
	t->end = other->end > t->end ? other->end : t->end;
	t->path |= other->path;
	t->transports |= other->transports;
	stats_add(&t->decode, &other->decode);
	t->have_stats &= other->have_stats;
	t->interrupted |= other->interrupted;
	t->status = other->status > t->status ? other->status : t->status;
}

void tally_path(uint32_t *path, uint32_t *transports, uint32_t cqe_path)
{
	*path |= cqe_path & ~(uint32_t)URCCL_PATH_TRANSPORT;
	*transports |= 1u << (cqe_path & URCCL_PATH_TRANSPORT & 31);
}

/* ---- figures ---- */

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* In ms; the times are sorted. */
static double quantile(const struct times *t, double q)
{
	uint32_t i = (uint32_t)(q * t->n);

	if (!t->n)
		return 0;
	return (double)t->ns[i < t->n ? i : t->n - 1] / 1e6;
}

static uint64_t moved_bytes(const struct tally *t)
{
	return t->o->pull ? t->decode.read_bytes : t->bytes;
}

static double gb_per_s(const struct tally *t)
{
	uint64_t ns = t->o->pull ? t->decode.read_ns : t->busy.total;

	return ns ? (double)moved_bytes(t) / (double)ns : 0;
}

static double cpu_per_gb(const struct tally *t, uint64_t ns)
{
	return moved_bytes(t) ? (double)ns / (double)moved_bytes(t) : 0;
}

static bool decode_cpu_known(const struct tally *t)
{
	return t->have_stats && !t->decode.beside;
}

static const char *const transports[] = {
	"none", "sim", "shm", "tcp", "ib", "efa", "cxi", "fabric", "ipc", "nccl", "tcpx",
};

static void path_text(const struct tally *t, char *buf, size_t len)
{
	uint32_t seen = t->o->pull ? t->decode.transports : t->transports;
	uint32_t path = t->o->pull ? t->decode.path : t->path;
	size_t i, at = 0;

	buf[0] = 0;
	for (i = 1; i < sizeof(transports) / sizeof(transports[0]); i++)
		if (seen & (1u << i) && at < len)
			at += (size_t)snprintf(buf + at, len - at, "%s%s", at ? " and " : "",
					       transports[i]);
	if (!at)
		at = (size_t)snprintf(buf, len, "none");
	if (path & URCCL_PATH_DEVICE && at < len)
		at += (size_t)snprintf(buf + at, len - at, ", copied by a GPU");
	if (path & URCCL_PATH_BOUNCE_LOCAL && at < len)
		at += (size_t)snprintf(buf + at, len - at, ", bounced here");
	if (path & URCCL_PATH_BOUNCE_REMOTE && at < len)
		at += (size_t)snprintf(buf + at, len - at, ", bounced at the peer");
	if (path & URCCL_PATH_EMULATED && at < len)
		at += (size_t)snprintf(buf + at, len - at, ", placed by the peer's CPU");
	if (path & URCCL_PATH_REPLAYED && at < len)
		snprintf(buf + at, len - at, ", replayed");
}

static void memory_text(const struct memory *m, char *buf, size_t len)
{
	if (m->kind == MEMORY_GPU)
		snprintf(buf, len, "gpu:%u", m->gpu);
	else
		snprintf(buf, len, "%s", m->kind == MEMORY_PINNED ? "pinned" : "host");
}

/* ---- progress ---- */

#define BAR_WIDTH 28

/* Columns of the terminal that the bar is drawn on, or 0: there is none that could. */
static int columns(void)
{
	const char *term = getenv("TERM");
	struct winsize size;

	if (!isatty(STDERR_FILENO) || !term || !*term || !strcmp(term, "dumb"))
		return 0;
	return !ioctl(STDERR_FILENO, TIOCGWINSZ, &size) && size.ws_col ? size.ws_col : 80;
}

void report_progress(struct tally *t, uint64_t now)
{
	uint32_t gone = t->done + t->wrong + t->aborted + t->failed + t->nrefused, i, full;
	char bar[BAR_WIDTH + 1], line[200];
	int wide, len;
	double busy;

	/* Several contexts count apart until the end. */
	if (t->o->quiet || t->o->json || t->o->contexts > 1 || now - t->drawn < NSEC / 10)
		return;
	t->drawn = now;
	wide = columns();
	if (!wide)
		return;
	full = (uint32_t)((uint64_t)BAR_WIDTH * gone / t->total);
	for (i = 0; i < BAR_WIDTH; i++)
		bar[i] = i < full ? '#' : '.';
	bar[BAR_WIDTH] = 0;
	busy = (double)(t->busy.total + (t->busy.n ? now - t->busy.since : 0));
	len = snprintf(line, sizeof(line), "[%s] %u/%u requests, %llu blocks sent, %llu reused",
		       bar, gone, t->total, (unsigned long long)t->blocks_sent,
		       (unsigned long long)t->blocks_reused);
	if (!t->o->pull)
		snprintf(line + len, sizeof(line) - (size_t)len, ", %.1f GB, %.1f GB/s",
			 (double)t->bytes / 1e9, busy > 0 ? (double)t->bytes / busy : 0);
	/* What does not fit the terminal would be broken into lines that nobody erases. */
	fprintf(stderr, "\r\033[K%.*s", wide - 1, line);
	fflush(stderr);
	bar_is_drawn = true;
}

/* ---- the table ---- */

static uint32_t unfinished(const struct tally *t)
{
	return t->total - (t->done + t->wrong + t->failed + t->aborted + t->nrefused);
}

static void print_refused(const struct tally *t)
{
	uint32_t i, shown = t->nrefused < 8 ? t->nrefused : 8;

	if (!t->nrefused)
		return;
	printf("  refused         %u, longer than the pool: line%s", t->nrefused,
	       t->nrefused > 1 ? "s" : "");
	for (i = 0; i < shown; i++)
		printf("%s %u", i ? "," : "", t->refused[i]);
	printf("%s\n", shown < t->nrefused ? ", ... (all in --json)" : "");
}

static void print_times(const char *name, const struct times *t, const char *what)
{
	printf("  %-15s p50 %.2f ms, p99 %.2f ms, max %.2f ms (%s)\n", name, quantile(t, 0.5),
	       quantile(t, 0.99), quantile(t, 1), what);
}

static void print_cpu(const struct tally *t)
{
	if (decode_cpu_known(t))
		printf("  CPU             %.3f s a GB: %.3f prefill, %.3f decode\n",
		       cpu_per_gb(t, t->cpu_ns + t->decode.cpu_ns), cpu_per_gb(t, t->cpu_ns),
		       cpu_per_gb(t, t->decode.cpu_ns));
	else
		printf("  CPU             %.3f s a GB of prefill; %s\n", cpu_per_gb(t, t->cpu_ns),
		       t->have_stats ? "decode's was for other pushers, too"
				     : "decode did not say");
}

static void print_verify(const struct tally *t)
{
	if (!t->verify)
		printf("  verified        nothing (--no-verify)\n");
	else if (!t->have_stats)
		printf("  verified        decode did not say\n");
	else
		printf("  verified        %llu pages of a layer, %llu wrong, %.2f s of decode's CPU apart\n",
		       (unsigned long long)t->decode.checked, (unsigned long long)t->decode.wrong,
		       (double)t->decode.verify_ns / 1e9);
}

static void print_table(const struct tally *t)
{
	uint64_t blocks = t->blocks_sent + t->blocks_reused;
	char path[160], shape[160], from[16], to[16];

	shape_text(t->shape, shape, sizeof(shape));
	path_text(t, path, sizeof(path));
	printf("%s: %s, %llu bytes a token, tp %u:%u\n", t->o->pull ? "pull" : "push", shape,
	       (unsigned long long)shape_token_bytes(t->shape), t->o->tp_prefill, t->o->tp_decode);
	printf("  requests        %u of %u right, %u wrong, %u failed", t->done, t->total, t->wrong,
	       t->failed);
	if (unfinished(t))
		printf(", %u not finished", unfinished(t));
	printf("%s\n", t->interrupted ? " (interrupted)" : "");
	if (t->o->contexts > 1)
		printf("  contexts        %u of prefill, with a thread and a share of the requests each\n",
		       t->o->contexts);
	if (t->aborted)
		printf("  aborted         %u in mid-transfer, %llu writes cancelled, %u with proof that nothing more lands\n",
		       t->aborted, (unsigned long long)t->cancelled, t->quiet);
	print_refused(t);
	printf("  blocks          %llu sent, %llu reused (%.0f %%), %llu evicted\n",
	       (unsigned long long)t->blocks_sent, (unsigned long long)t->blocks_reused,
	       blocks ? 100.0 * (double)t->blocks_reused / (double)blocks : 0,
	       (unsigned long long)t->decode.evicted);
	printf("  moved           %.2f GB in %.2f s, %.2f GB/s while any %s was in flight\n",
	       (double)moved_bytes(t) / 1e9, (double)(t->end - t->start) / 1e9, gb_per_s(t),
	       t->o->pull ? "read" : "write");
	print_times("exposed time", &t->exposed,
		    t->o->pull ? "last compute to all read" : "last compute to notification");
	print_times("total time", &t->whole,
		    t->o->speed > 0 ? "due to notification" : "asked to notification");
	print_cpu(t);
	memory_text(&t->memory[0], from, sizeof(from));
	memory_text(&t->memory[1], to, sizeof(to));
	printf("  path            %s; prefill %s, decode %s\n", path, from, to);
	print_verify(t);
}

/* ---- JSON ---- */

static struct json_object *times_json(const struct times *t)
{
	struct json_object *o = json_object_new_object();

	json_object_object_add(o, "p50", json_object_new_double(quantile(t, 0.5)));
	json_object_object_add(o, "p99", json_object_new_double(quantile(t, 0.99)));
	json_object_object_add(o, "max", json_object_new_double(quantile(t, 1)));
	return o;
}

static void add_count(struct json_object *o, const char *name, uint64_t n)
{
	json_object_object_add(o, name, json_object_new_uint64(n));
}

static void add_figure(struct json_object *o, const char *name, double x)
{
	json_object_object_add(o, name, json_object_new_double(x));
}

static struct json_object *requests_json(const struct tally *t)
{
	struct json_object *o = json_object_new_object(), *lines = json_object_new_array();
	uint32_t i;

	add_count(o, "total", t->total);
	add_count(o, "right", t->done);
	add_count(o, "wrong", t->wrong);
	add_count(o, "failed", t->failed);
	add_count(o, "unfinished", unfinished(t));
	add_count(o, "aborted", t->aborted);
	add_count(o, "aborted_quiet", t->quiet);
	add_count(o, "cancelled_writes", t->cancelled);
	add_count(o, "refused", t->nrefused);
	for (i = 0; i < t->nrefused; i++)
		json_object_array_add(lines, json_object_new_int64(t->refused[i]));
	json_object_object_add(o, "refused_lines", lines);
	return o;
}

static struct json_object *shape_json(const struct tally *t)
{
	const struct shape *s = t->shape;
	struct json_object *o = json_object_new_object();

	add_count(o, "layers", s->layers);
	add_count(o, "planes", s->planes);
	add_count(o, "kv_heads", s->heads);
	add_count(o, "head_dim", s->dim);
	add_count(o, "element_bytes", s->elt);
	add_count(o, "page_tokens", s->page);
	json_object_object_add(o, "layout", json_object_new_string(s->hnd ? "hnd" : "nhd"));
	add_count(o, "tp_prefill", t->o->tp_prefill);
	add_count(o, "tp_decode", t->o->tp_decode);
	add_count(o, "bytes_per_token", shape_token_bytes(s));
	return o;
}

static struct json_object *memory_json(const struct tally *t)
{
	static const char *const ends[] = {"prefill", "decode"};
	struct json_object *o = json_object_new_object();
	char text[16];
	int i;

	for (i = 0; i < 2; i++) {
		memory_text(&t->memory[i], text, sizeof(text));
		json_object_object_add(o, ends[i], json_object_new_string(text));
	}
	return o;
}

/* null: decode's is not known. */
static struct json_object *cpu_json(const struct tally *t)
{
	struct json_object *o = json_object_new_object();

	json_object_object_add(o, "total", NULL);
	add_figure(o, "prefill", cpu_per_gb(t, t->cpu_ns));
	json_object_object_add(o, "decode", NULL);
	if (decode_cpu_known(t)) {
		add_figure(o, "total", cpu_per_gb(t, t->cpu_ns + t->decode.cpu_ns));
		add_figure(o, "decode", cpu_per_gb(t, t->decode.cpu_ns));
	}
	return o;
}

static struct json_object *verify_json(const struct tally *t)
{
	struct json_object *o = json_object_new_object();

	json_object_object_add(o, "on", json_object_new_boolean(t->verify));
	add_count(o, "pages", t->decode.checked);
	add_count(o, "wrong", t->decode.wrong);
	add_figure(o, "seconds", (double)t->decode.verify_ns / 1e9);
	return o;
}

static void print_json(const struct tally *t)
{
	struct json_object *o = json_object_new_object(), *blocks = json_object_new_object();
	char path[160];

	path_text(t, path, sizeof(path));
	add_count(blocks, "sent", t->blocks_sent);
	add_count(blocks, "reused", t->blocks_reused);
	add_count(blocks, "evicted", t->decode.evicted);
	json_object_object_add(o, "mode", json_object_new_string(t->o->pull ? "pull" : "push"));
	add_count(o, "contexts", t->o->contexts);
	json_object_object_add(o, "shape", shape_json(t));
	json_object_object_add(o, "requests", requests_json(t));
	json_object_object_add(o, "blocks", blocks);
	add_count(o, "bytes", moved_bytes(t));
	add_figure(o, "seconds", (double)(t->end - t->start) / 1e9);
	add_figure(o, "gb_per_s", gb_per_s(t));
	json_object_object_add(o, "exposed_ms", times_json(&t->exposed));
	json_object_object_add(o, "total_ms", times_json(&t->whole));
	json_object_object_add(o, "cpu_s_per_gb", cpu_json(t));
	json_object_object_add(o, "path", json_object_new_string(path));
	json_object_object_add(o, "memory", memory_json(t));
	json_object_object_add(o, "verify", verify_json(t));
	json_object_object_add(o, "interrupted", json_object_new_boolean(t->interrupted));
	printf("%s\n", json_object_to_json_string_ext(o, JSON_C_TO_STRING_PRETTY));
	json_object_put(o);
}

int report_end(struct tally *t)
{
	if (bar_is_drawn)
		fputs("\r\033[K", stderr);
	bar_is_drawn = false;
	qsort(t->exposed.ns, t->exposed.n, sizeof(uint64_t), compare);
	qsort(t->whole.ns, t->whole.n, sizeof(uint64_t), compare);
	if (t->o->json)
		print_json(t);
	else
		print_table(t);
	return report_written();
}

int report_written(void)
{
	if (!fflush(stdout) && !ferror(stdout))
		return 0;
	say("the result cannot be written: %s", strerror(errno));
	return -1;
}
