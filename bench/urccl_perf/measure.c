/* SPDX-License-Identifier: Apache-2.0 */
/* The common job: warm up, run the load on every ring for the time, count both ends' CPU. */
#include "client.h"
#include "result.h"
#include "sink.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A ring with its load; all but the first have a thread. */
struct worker {
	struct client *client;
	struct end own_end; /* all but the first */
	struct end *end;
	struct load load;
	struct hist latency, submit;
	pthread_t thread;
	int cpu;
	double seconds; /* to run */
	uint64_t count;
	pthread_barrier_t *together;
};

/* Below so much time an entry, reading the clock twice for each would be seen in the figures. */
enum { SAMPLE_ALL_NS = 2000, SAMPLE_ONE_OF = 61, WARM_PASS_BYTES = 4096 };

/* Other rings get no events, and their control entries are none. */
static void worker_event(struct end *e, const struct urccl_cqe *cqe)
{
	end_fail(e, "an entry", cqe);
}

/* i: which ring of the client */
static void open_worker(struct worker *w, struct client *c, uint32_t i)
{
	const struct options *o = c->options;

	w->client = c;
	w->cpu = bench_cpu_after(o->cpu[OURS], i);
	w->end = &c->end;
	if (i) {
		w->end = &w->own_end;
		end_open(w->end, o, c->ctx, o->wait);
		w->end->event = worker_event;
	}
	w->load.target = client_target(c, i);
	w->load.target.ring = urccl_ring_id(c->sink ? sink_ring(c->sink) : w->end->ring);
	load_open(&w->load, w->end, o, TAG_LOAD);
	w->load.latency = &w->latency;
}

static void close_worker(struct worker *w)
{
	load_close(&w->load);
	if (w->end == &w->own_end)
		end_close(w->end);
}

static void *work(void *arg)
{
	struct worker *w = arg;

	bench_pin(w->cpu);
	pthread_barrier_wait(w->together);
	load_run(&w->load, w->seconds, w->count);
	return NULL;
}

static void run_all(struct worker *w, uint32_t n, double seconds, uint64_t count)
{
	pthread_barrier_t together;
	uint32_t i;

	pthread_barrier_init(&together, NULL, n);
	for (i = 0; i < n; i++) {
		w[i].seconds = seconds;
		w[i].count = count;
		w[i].together = &together;
		if (i && pthread_create(&w[i].thread, NULL, work, &w[i]))
			bench_die("cannot start a thread");
	}
	work(&w[0]);
	for (i = 1; i < n; i++)
		pthread_join(w[i].thread, NULL);
	pthread_barrier_destroy(&together);
}

/* Every page of the span is touched, and the entry's time is known, when this is over. */
static void warm_up(struct worker *w, uint32_t n, const struct options *o)
{
	uint32_t i;

	run_all(w, n, o->warmup, 0);
	if (w->load.bytes >= WARM_PASS_BYTES && w->load.ended < w->load.places.entries)
		run_all(w, n, 0, w->load.places.entries - w->load.ended);
	for (i = 0; i < n; i++) {
		struct load *l = &w[i].load;
		uint64_t each = (l->stopped - l->started) / (l->ended ? l->ended : 1);

		l->sample = each < SAMPLE_ALL_NS ? SAMPLE_ONE_OF : 1;
		if (options_scattered(o))
			l->submit = &w[i].submit;
	}
}

static void add_worker(struct figures *f, struct worker *w)
{
	double seconds = (double)(w->load.stopped - w->load.started) * 1e-9;

	f->entries += w->load.ended;
	f->bytes += w->load.ended * w->load.bytes;
	f->depth += w->load.depth;
	if (seconds > f->seconds)
		f->seconds = seconds;
	f->path = w->load.path;
	hist_merge(&f->latency, &w->latency);
	hist_merge(&f->submit, &w->submit);
}

/* Adds what the client's context and its server have counted since mark_start(). */
static void mark_stop(struct client *c, struct figures *f, int is_first)
{
	struct urccl_stats now = {.size = sizeof(now)};
	struct talk_result before = c->result, after;

	urccl_get_stats(c->ctx, &now);
	f->chunks += now.chunks - c->stats.chunks;
	f->merged += now.merged - c->stats.merged;
	after = client_mark(c, TALK_STOP);
	if (is_first) /* the servers of all contexts are one process */
		f->cpu[SERVERS] = after.cpu - before.cpu;
	f->back_bytes += after.bytes - before.bytes;
	f->notes += after.notes - before.notes;
}

static void mark_start(struct client *c)
{
	client_mark(c, TALK_START);
	c->stats = (struct urccl_stats){.size = sizeof(c->stats)};
	urccl_get_stats(c->ctx, &c->stats);
}

static void measure(struct client *c, uint32_t n, struct worker *w, struct figures *f,
		    struct load *beside)
{
	const struct options *o = c->options;
	uint32_t i, workers = n * o->rings;

	memset(f, 0, sizeof(*f));
	for (i = 0; i < workers; i++) {
		hist_clear(&w[i].latency);
		hist_clear(&w[i].submit);
	}
	if (c->sink)
		sink_mark(c->sink, &c->end);
	for (i = 0; i < n; i++)
		mark_start(&c[i]);
	f->cpu[OURS] = bench_cpu_seconds();
	if (beside)
		load_start(beside, ~0ull);
	run_all(w, workers, o->seconds, o->count);
	if (beside)
		load_stop(beside);
	f->cpu[OURS] = bench_cpu_seconds() - f->cpu[OURS];
	for (i = 0; i < n; i++)
		mark_stop(&c[i], f, !i);
	if (c->sink)
		f->delivery = *sink_mark(c->sink, &c->end);
	for (i = 0; i < workers; i++)
		add_worker(f, &w[i]);
	if (!beside)
		return;
	f->background_bytes = beside->ended * beside->bytes;
	f->background_seconds = (double)(beside->stopped - beside->started) * 1e-9;
}

/* The same entries once more, while big ones fill the path to the same peer. */
static void measure_beside(struct client *c, struct worker *w, struct figures *f)
{
	struct options o = *c->options;
	struct load *beside = calloc(1, sizeof(*beside));

	if (!beside)
		bench_die("out of memory");
	o.op = URCCL_OP_WRITE;
	o.cls = URCCL_CLASS_BULK;
	o.size = o.span = o.background;
	o.depth = o.background_depth;
	beside->target = client_target(c, 0);
	beside->target.remote_off = c->background_off;
	beside->target.local = c->area.base + c->background_off;
	beside->target.local_off = c->background_off;
	load_open(beside, &c->end, &o, TAG_BACKGROUND);
	load_start(beside, o.depth);
	load_post(beside);
	load_stop(beside);
	measure(c, 1, w, f, beside);
	load_close(beside);
	free(beside);
}

static void print(const struct options *o, const struct figures *f, const struct figures *beside,
		  uint64_t checked)
{
	struct report r;

	if (!o->json) {
		result_heading(o, f->path);
		result_line(o, f, beside ? "alone" : "");
		if (beside)
			result_line(o, beside, "beside");
		if (o->check)
			printf("%lu bytes compared, all right%s\n", checked,
			       o->bidirectional ? "; none of those that the server moved" : "");
		return;
	}
	result_open(&r, o, f->path);
	result_metrics(&r, o, f, beside ? "alone." : "");
	if (beside) {
		result_metrics(&r, o, beside, "");
		report_metric(&r,
			      hist_quantile(&beside->latency, 0.99) /
				      hist_quantile(&f->latency, 0.99),
			      "x", "latency.p99.growth");
	}
	if (o->check)
		report_metric(&r, (double)checked, "bytes", "checked");
	report_close(&r);
}

void client_measure(struct client *c, uint32_t n)
{
	const struct options *o = c->options;
	uint32_t workers = n * o->rings, i;
	struct worker *w = calloc(workers, sizeof(*w));
	struct figures *f = calloc(2, sizeof(*f));
	uint64_t checked = 0;

	if (!w || !f)
		bench_die("out of memory");
	if (o->op == URCCL_OP_MSG_RING && !o->is_inline)
		c->sink = sink_open(o, c->ctx);
	for (i = 0; i < workers; i++)
		open_worker(&w[i], &c[i / o->rings], i % o->rings);
	warm_up(w, workers, o);
	measure(c, n, w, &f[0], NULL);
	if (o->background)
		measure_beside(c, w, &f[1]);
	if (o->check)
		checked = load_check(&w->load);
	print(o, &f[0], o->background ? &f[1] : NULL, checked);
	for (i = 0; i < workers; i++)
		close_worker(&w[i]);
	if (c->sink)
		sink_close(c->sink);
	free(w);
	free(f);
}
