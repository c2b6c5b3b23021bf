/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Notifications there and back: the server answers each with one of the same payload. The time is
 * from the submit to the answer's event.
 */
#include "client.h"
#include "result.h"

#include <stdio.h>
#include <stdlib.h>

enum { WARM_UP = 100 };

static void there_and_back(struct client *c)
{
	uint32_t before = c->pongs;
	struct urccl_sqe *sqe = end_sqe(&c->end);

	urccl_prep_notify(sqe, c->peer, TALK_PING, c->area.base, (uint32_t)c->options->size);
	end_submit(&c->end, sqe);
	while (c->pongs == before)
		if (!end_reap(&c->end))
			end_idle(&c->end);
}

static void print(const struct options *o, const struct hist *h, uint64_t ns, double cpu)
{
	double mean = (double)ns / (double)h->count;
	struct report r;

	if (!o->json) {
		printf("%lu notifications of %lu bytes there and back: mean %.2f us, p50 %.2f, "
		       "p99 %.2f; %.2f CPU seconds here\n",
		       h->count, o->size, mean * 1e-3, hist_quantile(h, 0.5) * 1e-3,
		       hist_quantile(h, 0.99) * 1e-3, cpu);
		return;
	}
	result_open(&r, o, 0);
	report_metric(&r, mean, "ns", "round_trip.mean");
	report_metric(&r, hist_quantile(h, 0.5), "ns", "round_trip.p50");
	report_metric(&r, hist_quantile(h, 0.99), "ns", "round_trip.p99");
	report_metric(&r, cpu, "s", "cpu.client");
	report_close(&r);
}

void client_ping(struct client *c)
{
	const struct options *o = c->options;
	struct hist *hist = calloc(1, sizeof(*hist));
	uint64_t start, before, now, i;
	double cpu;

	if (!hist)
		bench_die("out of memory");
	for (i = 0; i < WARM_UP; i++)
		there_and_back(c);
	cpu = bench_cpu_seconds();
	start = now = bench_now();
	for (i = 0; o->count ? i < o->count : (double)(now - start) < o->seconds * 1e9; i++) {
		before = now;
		there_and_back(c);
		now = bench_now();
		hist_add(hist, now - before);
	}
	print(o, hist, now - start, bench_cpu_seconds() - cpu);
	free(hist);
}
