/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A histogram of nanoseconds in a fixed 60 KiB: 128 steps for each doubling, so that a percentile
 * is at most 0.8 % off, over the whole range of 64 bits.
 */
#ifndef BENCH_HIST_H
#define BENCH_HIST_H

#include <stdint.h>

enum { HIST_STEP_BITS = 7, HIST_STEPS = 1 << HIST_STEP_BITS };
enum { HIST_CELLS = (64 - HIST_STEP_BITS + 1) * HIST_STEPS };

struct hist {
	uint64_t count;
	uint64_t max;
	uint64_t cell[HIST_CELLS];
};

void hist_clear(struct hist *h);
void hist_add(struct hist *h, uint64_t ns);

/* Adds all of `from` to h. */
void hist_merge(struct hist *h, const struct hist *from);

/* The value that the share q (0 to 1) of all values does not exceed; 0 of an empty histogram. */
double hist_quantile(const struct hist *h, double q);

#endif
