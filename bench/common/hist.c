/* SPDX-License-Identifier: Apache-2.0 */
#include "hist.h"

#include <string.h>

/*
 * Values below HIST_STEPS have a cell each; above, the top HIST_STEP_BITS + 1 bits name the cell.
 */
static unsigned int cell_of(uint64_t ns)
{
	unsigned int shift;

	if (ns < HIST_STEPS)
		return (unsigned int)ns;
	shift = 63u - (unsigned int)__builtin_clzll(ns) - HIST_STEP_BITS;
	return shift * HIST_STEPS + (unsigned int)(ns >> shift);
}

/* The middle of a cell's values. */
static double value_of(unsigned int cell)
{
	unsigned int shift;

	if (cell < 2 * HIST_STEPS)
		return cell;
	shift = cell / HIST_STEPS - 1;
	return ((double)(cell % HIST_STEPS + HIST_STEPS) + 0.5) * (double)(1ull << shift);
}

void hist_clear(struct hist *h)
{
	memset(h, 0, sizeof(*h));
}

void hist_add(struct hist *h, uint64_t ns)
{
	h->count++;
	if (ns > h->max)
		h->max = ns;
	h->cell[cell_of(ns)]++;
}

void hist_merge(struct hist *h, const struct hist *from)
{
	unsigned int i;

	h->count += from->count;
	if (from->max > h->max)
		h->max = from->max;
	for (i = 0; i < HIST_CELLS; i++)
		h->cell[i] += from->cell[i];
}

double hist_quantile(const struct hist *h, double q)
{
	uint64_t want = (uint64_t)((double)h->count * q), seen = 0;
	unsigned int i;

	if (!h->count)
		return 0;
	if (want >= h->count)
		return (double)h->max;
	for (i = 0; i < HIST_CELLS; i++) {
		seen += h->cell[i];
		if (seen > want)
			return value_of(i);
	}
	return (double)h->max;
}
