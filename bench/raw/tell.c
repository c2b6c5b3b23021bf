/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a reader of statistics is owed, and nothing else: for each message, at both of its ends,
 * how long it took goes to the cell of a histogram, as liburccl's have them, and two sums grow:
 * messages and bytes. All are words that another process may read at any time. With the times at
 * hand, so no look at a clock.
 */
#include "raw.h"

#define CELL_BITS  4u
#define CELL_STEPS (1u << CELL_BITS)
#define CELLS	   (61u * CELL_STEPS)
#define BATCH	   1024u

struct counts {
	uint64_t messages, bytes, cells[CELLS];
};

static struct counts ends[2];
static uint64_t started[BATCH];

static void add(uint64_t *word, uint64_t n)
{
	__atomic_store_n(word, __atomic_load_n(word, __ATOMIC_RELAXED) + n, __ATOMIC_RELAXED);
}

static uint32_t cell(uint64_t ns)
{
	uint64_t v = ns + CELL_STEPS;
	uint32_t shift = 63u - (uint32_t)__builtin_clzll(v) - CELL_BITS;

	return shift * CELL_STEPS + (uint32_t)(v >> shift) - CELL_STEPS;
}

/* Another process does it at the other end: nothing of it is known here. */
static void tell(struct counts *end, uint64_t ns, uint64_t len)
{
	__asm__ volatile("" : "+r"(ns));
	add(&end->cells[cell(ns)], 1);
	add(&end->messages, 1);
	add(&end->bytes, len);
}

/* By its name it is known to cost.py. A message at a time, as they end. */
__attribute__((noinline)) static void counted(uint64_t now, uint64_t len)
{
	uint32_t i;

	for (i = 0; i < BATCH; i++) {
		tell(&ends[0], now - started[i], len);
		tell(&ends[1], now - started[i], len);
	}
}

int main(int argc, char **argv)
{
	uint64_t seed = 1, begun, before, took, best = UINT64_MAX, n = 0;
	struct raw_options options;
	struct report report;
	uint32_t i;

	raw_options(&options, argc, argv, "raw_tell: statistics of messages, by themselves");
	bench_pin(options.cpu[0]);
	begun = bench_now();
	for (i = 0; i < BATCH; i++)
		started[i] = begun - bench_random(&seed) % 100000;
	do {
		before = bench_now();
		counted(before, 8);
		took = bench_now() - before;
		best = took < best ? took : best;
		n += BATCH;
	} while ((double)(bench_now() - begun) < options.seconds * 1e9);
	if (ends[0].messages != n || ends[1].bytes != 8 * n)
		bench_die("%lu messages were not counted", n);
	report_open(&report, "raw_tell", options.json);
	report_metric(&report, (double)best / BATCH, "ns", "tell.each");
	report_metric(&report, (double)n, "messages", "tell.messages");
	report_close(&report);
	return 0;
}
