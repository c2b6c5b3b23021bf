/* SPDX-License-Identifier: Apache-2.0 */
#include "result.h"

#include <stdio.h>

static const char *const transports[] = {
	"none", "sim", "shm", "tcp", "ib", "efa", "cxi", "fabric", "ipc", "nccl", "tcpx",
};

static const char *transport_name(uint32_t path)
{
	uint32_t t = path & URCCL_PATH_TRANSPORT;

	return t < sizeof(transports) / sizeof(transports[0]) ? transports[t] : "?";
}

static void path_text(uint32_t path, char *text, size_t len)
{
	snprintf(text, len, "%s%s%s%s%s%s", transport_name(path),
		 path & URCCL_PATH_BOUNCE_LOCAL ? " bounce-local" : "",
		 path & URCCL_PATH_BOUNCE_REMOTE ? " bounce-remote" : "",
		 path & URCCL_PATH_EMULATED ? " emulated" : "",
		 path & URCCL_PATH_DEVICE ? " gpu" : "",
		 path & URCCL_PATH_REPLAYED ? " replayed" : "");
}

static void size_text(uint64_t v, char *text, size_t len)
{
	static const char units[] = " KMGT";
	unsigned int u = 0;

	while (v && v % 1024 == 0 && u < 4) {
		v /= 1024;
		u++;
	}
	if (u)
		snprintf(text, len, "%lu %ciB", v, units[u]);
	else
		snprintf(text, len, "%lu B", v);
}

/* An end whose memory --device named. */
static const char *end_name(const struct options *o, int which, char text[16])
{
	const struct memory *m = &o->memory[which];

	snprintf(text, 16, m->kind == MEMORY_GPU ? "gpu:%d" : "pinned", m->gpu);
	return m->kind > MEMORY_HOST ? text : "host";
}

static const char *memory_name(const struct options *o)
{
	static char both[48];
	char ours[16], servers[16];

	if (o->memory[OURS].kind > MEMORY_HOST || o->memory[SERVERS].kind > MEMORY_HOST) {
		snprintf(both, sizeof(both), "%s to %s", end_name(o, OURS, ours),
			 end_name(o, SERVERS, servers));
		return both;
	}
	if (o->alloc)
		return "urccl_alloc";
	if (o->server_alloc)
		return o->pages == BENCH_PAGES_THP ? "huge pages to urccl_alloc"
						   : "heap to urccl_alloc";
	return o->pages == BENCH_PAGES_THP ? "heap, huge pages" : "heap, 4 KiB pages";
}

void result_open(struct report *r, const struct options *o, uint32_t path)
{
	static const char *const drivers[] = {"auto", "readiness", "io_uring"};
	char text[128];

	report_open(r, "urccl_perf", 1);
	report_setting(r, "version", "%s", urccl_version());
	report_setting(r, "op", "%s", options_op_name(o->op));
	report_setting(r, "size", "%lu", o->size);
	report_setting(r, "entry_bytes", "%lu", options_entry_bytes(o));
	report_setting(r, "depth", "%u", o->depth);
	report_setting(r, "rings", "%u", o->rings);
	report_setting(r, "contexts", "%u", o->contexts);
	report_setting(r, "span", "%lu", o->span);
	report_setting(r, "memory", "%s", memory_name(o));
	report_setting(r, "progress", "%s", o->is_inline ? "inline" : "thread");
	report_setting(r, "wait", "%s", options_wait_name(o->wait));
	report_setting(r, "server_wait", "%s", options_wait_name(o->server_wait));
	report_setting(r, "congestion_control", "%s", o->cc ? o->cc : "default");
	report_setting(r, "driver", "%s", drivers[o->driver]);
	report_setting(r, "cpus", "%d,%d engine %d,%d", o->cpu[OURS], o->cpu[SERVERS],
		       o->engine_cpu[OURS], o->engine_cpu[SERVERS]);
	path_text(path, text, sizeof(text));
	report_setting(r, "path", "%s", text);
}

static double per_second(uint64_t n, double seconds)
{
	return seconds > 0 ? (double)n / seconds : 0;
}

static void latency_metrics(struct report *r, const struct hist *h, const char *prefix,
			    const char *name)
{
	if (!h->count)
		return;
	report_metric(r, hist_quantile(h, 0.5), "ns", "%s%s.p50", prefix, name);
	report_metric(r, hist_quantile(h, 0.99), "ns", "%s%s.p99", prefix, name);
	report_metric(r, hist_quantile(h, 0.999), "ns", "%s%s.p99.9", prefix, name);
	report_metric(r, (double)h->max, "ns", "%s%s.max", prefix, name);
}

void result_metrics(struct report *r, const struct options *o, const struct figures *f,
		    const char *prefix)
{
	double gb = (double)(f->bytes + f->back_bytes + f->background_bytes) * 1e-9;
	double cpu = f->cpu[OURS] + f->cpu[SERVERS];

	report_metric(r, (double)f->entries, "entries", "%sentries", prefix);
	report_metric(r, f->seconds, "s", "%sseconds", prefix);
	report_metric(r, per_second(f->bytes, f->seconds) * 1e-9, "GB/s", "%sbandwidth", prefix);
	report_metric(r, per_second(f->entries, f->seconds) * 1e-6, "M/s", "%srate", prefix);
	report_metric(r, f->seconds * 1e9 / (double)f->entries * f->depth, "ns", "%smean", prefix);
	if (o->bidirectional)
		report_metric(r, per_second(f->back_bytes, f->seconds) * 1e-9, "GB/s",
			      "%sback.bandwidth", prefix);
	if (f->background_bytes)
		report_metric(r, per_second(f->background_bytes, f->background_seconds) * 1e-9,
			      "GB/s", "%sbackground.bandwidth", prefix);
	latency_metrics(r, &f->latency, prefix, "latency");
	latency_metrics(r, &f->submit, prefix, "submit");
	latency_metrics(r, &f->delivery, prefix, "delivery");
	report_metric(r, (double)f->chunks, "chunks", "%schunks", prefix);
	report_metric(r, (double)f->merged, "blocks", "%sblocks.merged", prefix);
	report_metric(r, f->cpu[OURS], "s", "%scpu.client", prefix);
	report_metric(r, f->cpu[SERVERS], "s", "%scpu.server", prefix);
	report_metric(r, cpu * 1e6 / (double)f->entries, "us", "%scpu.entry", prefix);
	if (gb > 0)
		report_metric(r, cpu / gb, "s/GB", "%scpu.gb", prefix);
}

void result_heading(const struct options *o, uint32_t path)
{
	char size[32], span[32], text[128];

	size_text(options_entry_bytes(o), size, sizeof(size));
	size_text(o->span, span, sizeof(span));
	path_text(path, text, sizeof(text));
	printf("%s", options_op_name(o->op));
	if (o->role != ROLE_NOP)
		printf(" of %s", size);
	printf(", %u in flight on %u ring%s", o->depth, o->rings, o->rings > 1 ? "s" : "");
	if (o->contexts > 1)
		printf(" of %u contexts each", o->contexts);
	if (o->role != ROLE_NOP)
		printf(", %s, %s over %s", text, memory_name(o), span);
	printf("\n%s, waiting by %s", o->is_inline ? "inline" : "progress thread",
	       options_wait_name(o->wait));
	if (o->role == ROLE_SELF)
		printf(", cpus %d and %d", o->cpu[OURS], o->cpu[SERVERS]);
	if (o->cc)
		printf(", congestion control %s", o->cc);
	printf("\n\n");
	printf("%-12s %10s %10s %10s | %9s %9s %9s %9s | %8s %8s %9s\n", "", "entries", "GB/s",
	       "M/s", "mean us", "p50 us", "p99 us", "p99.9 us", "cpu ours", "cpu peer",
	       "cpu s/GB");
}

static void line_of(const struct hist *h, const char *what)
{
	if (h->count)
		printf("%-12s %32s | %9s %9.3f %9.3f %9.3f\n", what, "", "",
		       hist_quantile(h, 0.5) * 1e-3, hist_quantile(h, 0.99) * 1e-3,
		       hist_quantile(h, 0.999) * 1e-3);
}

void result_line(const struct options *o, const struct figures *f, const char *what)
{
	double gb = (double)(f->bytes + f->back_bytes + f->background_bytes) * 1e-9;
	const struct hist *h = &f->latency;

	printf("%-12s %10lu %10.3f %10.4f | %9.3f %9.3f %9.3f %9.3f | %8.3f %8.3f", what,
	       f->entries, per_second(f->bytes, f->seconds) * 1e-9,
	       per_second(f->entries, f->seconds) * 1e-6,
	       f->seconds * 1e6 / (double)f->entries * f->depth, hist_quantile(h, 0.5) * 1e-3,
	       hist_quantile(h, 0.99) * 1e-3, hist_quantile(h, 0.999) * 1e-3, f->cpu[OURS],
	       f->cpu[SERVERS]);
	if (gb > 0)
		printf(" %9.4f", (f->cpu[OURS] + f->cpu[SERVERS]) / gb);
	putchar('\n');
	if (o->bidirectional)
		printf("%-12s %10s %10.3f\n", "back", "",
		       per_second(f->back_bytes, f->seconds) * 1e-9);
	if (f->background_bytes)
		printf("%-12s %10s %10.3f\n", "background", "",
		       per_second(f->background_bytes, f->background_seconds) * 1e-9);
	line_of(&f->submit, "submit call");
	line_of(&f->delivery, "delivery");
}
