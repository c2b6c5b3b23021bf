/* SPDX-License-Identifier: Apache-2.0 */
#include "perf.h"

#include <stdio.h>
#include <stdlib.h>

enum { FLUSH_BYTES = 256 << 20, WARM_UP = 5, REPEATS = 20 };

static uint64_t next_random(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

int64_t *perf_choices(const struct perf *p, uint32_t rank)
{
	int64_t *choices = malloc(sizeof(*choices) * p->tokens * p->topk);
	uint64_t state = rank + 1;

	for (uint32_t t = 0; t < p->tokens; t++) {
		int64_t *have = choices + (size_t)t * p->topk;

		for (uint32_t k = 0; k < p->topk;) {
			uint32_t i = 0;

			have[k] = (int64_t)(next_random(&state) % p->experts);
			while (i < k && have[i] != have[k])
				i++;
			k += i == k;
		}
	}
	return choices;
}

struct perf_bytes perf_bytes(const struct perf *p, int64_t *const *choices, double row_bytes,
			     int per_choice)
{
	double received[URCCL_EP_MAX_RANKS] = {0}, sent[URCCL_EP_MAX_RANKS] = {0};
	struct perf_bytes most = {0, 0};

	for (uint32_t s = 0; s < p->ranks; s++) {
		for (uint32_t t = 0; t < p->tokens; t++) {
			uint32_t ranks = 0;

			for (uint32_t k = 0; k < p->topk; k++) {
				const int64_t e = choices[s][(size_t)t * p->topk + k];
				const uint32_t r = (uint32_t)(e / (p->experts / p->ranks));

				if (per_choice || !(ranks >> r & 1))
					received[r] += row_bytes;
				if (!(ranks >> r & 1) && r != s)
					sent[s] += row_bytes;
				ranks |= 1u << r;
			}
		}
	}
	for (uint32_t r = 0; r < p->ranks; r++) {
		most.logical = received[r] > most.logical ? received[r] : most.logical;
		most.wire = sent[r] > most.wire ? sent[r] : most.wire;
	}
	return most;
}

static int ascending(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* The slowest rank's time of each iteration, in us. */
static void collect(const struct gpu_group *g, const struct perf *p, void *(*events)[2],
		    double *times)
{
	for (uint32_t i = 0; i < p->iterations; i++) {
		times[i] = 0;
		for (uint32_t r = 0; r < g->attr.ranks; r++) {
			void **pair = events[i * g->attr.ranks + r];
			const double us = gpu_event_us(pair[0], pair[1]);

			times[i] = us > times[i] ? us : times[i];
		}
	}
	qsort(times, p->iterations, sizeof(*times), ascending);
}

/* The slowest rank's time of a call in a graph of REPEATS calls, in us. */
static double time_graph(struct gpu_group *g, void (*call)(struct gpu_group *g, uint32_t rank))
{
	void *graphs[URCCL_EP_MAX_RANKS], *events[URCCL_EP_MAX_RANKS][2];
	double most = 0;

	for (uint32_t r = 0; r < g->attr.ranks; r++)
		gpu_capture_begin(gpu_use(g, r)->stream);
	for (uint32_t i = 0; i < REPEATS * g->attr.ranks; i++) {
		gpu_use(g, i % g->attr.ranks);
		call(g, i % g->attr.ranks);
	}
	for (uint32_t r = 0; r < g->attr.ranks; r++) {
		graphs[r] = gpu_capture_end(gpu_use(g, r)->stream);
		events[r][0] = gpu_event_new(), events[r][1] = gpu_event_new();
	}
	for (int turn = 0; turn < 2; turn++)
		for (uint32_t r = 0; r < g->attr.ranks; r++) {
			gpu_use(g, r);
			gpu_event_record(events[r][0], g->rank[r].stream);
			gpu_graph_launch(graphs[r], g->rank[r].stream);
			gpu_event_record(events[r][1], g->rank[r].stream);
		}
	gpu_group_wait(g);
	for (uint32_t r = 0; r < g->attr.ranks; r++) {
		const double us = gpu_event_us(events[r][0], events[r][1]) / REPEATS;

		gpu_use(g, r);
		most = us > most ? us : most;
		gpu_event_free(events[r][0]), gpu_event_free(events[r][1]);
		gpu_graph_free(graphs[r]);
	}
	return most;
}

void perf_time(struct gpu_group *g, const struct perf *p, const char *name, uint32_t sms,
	       const struct perf_bytes *bytes, void (*call)(struct gpu_group *g, uint32_t rank))
{
	const uint32_t n = p->iterations * g->attr.ranks;
	void *(*events)[2] = malloc(sizeof(*events) * n), *flush[URCCL_EP_MAX_RANKS];
	double *times = malloc(sizeof(*times) * p->iterations), p50, p99;

	for (uint32_t r = 0; r < g->attr.ranks; r++) {
		gpu_use(g, r);
		flush[r] = gpu_alloc(FLUSH_BYTES);
		for (uint32_t i = r; i < n; i += g->attr.ranks)
			for (int e = 0; e < 2; e++)
				events[i][e] = gpu_event_new();
	}
	for (uint32_t i = 0; i < WARM_UP + p->iterations; i++) {
		for (uint32_t r = 0; r < g->attr.ranks; r++)
			gpu_fill_async(flush[r], 0, FLUSH_BYTES, gpu_use(g, r)->stream);
		for (uint32_t r = 0; r < g->attr.ranks; r++) {
			void **pair =
				i < WARM_UP ? NULL : events[(i - WARM_UP) * g->attr.ranks + r];

			gpu_use(g, r);
			if (pair)
				gpu_event_record(pair[0], g->rank[r].stream);
			call(g, r);
			if (pair)
				gpu_event_record(pair[1], g->rank[r].stream);
		}
	}
	gpu_group_wait(g);
	collect(g, p, events, times);
	p50 = times[p->iterations / 2], p99 = times[(p->iterations - 1) * 99 / 100];
	printf("%-28s %4u SMs %9.1f us p50 %9.1f us p99 %9.1f us in a graph", name, sms, p50, p99,
	       time_graph(g, call));
	if (bytes)
		printf(" %7.1f GB/s logical %7.1f GB/s wire", bytes->logical / p50 / 1e3,
		       bytes->wire / p50 / 1e3);
	printf("\n");
	fflush(stdout);
	for (uint32_t i = 0; i < n; i++)
		for (int e = 0; e < 2; e++)
			gpu_event_free(events[i][e]);
	for (uint32_t r = 0; r < g->attr.ranks; r++) {
		gpu_use(g, r);
		gpu_free(flush[r]);
	}
	free(events), free(times);
}
