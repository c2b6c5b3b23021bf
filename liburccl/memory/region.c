/* SPDX-License-Identifier: Apache-2.0 */
/* A region's ranges as one offset space. */
#include "memory/memory.h"

const struct span *memory_span(const struct memory *m, uint64_t off)
{
	uint32_t lo = 0, hi = m->nspans;

	/* Find the last span that starts at or before off. */
	while (hi - lo > 1) {
		uint32_t mid = lo + (hi - lo) / 2;

		if (m->spans[mid].start <= off)
			lo = mid;
		else
			hi = mid;
	}
	return &m->spans[lo];
}

/* The offset of addr if the len bytes there start in span i and go on in adjacent spans. */
static uint64_t offset_from(const struct memory *m, uint32_t i, uint64_t addr, uint64_t len)
{
	const struct span *s = &m->spans[i];
	uint64_t in = addr - s->addr, off = s->start + in, run;

	if (addr < s->addr || in >= s->len)
		return UINT64_MAX;
	for (run = s->len - in; run < len; run = s->len) {
		len -= run;
		if (++i == m->nspans || s[1].addr != s->addr + s->len)
			return UINT64_MAX;
		s++;
	}
	return off;
}

/* The span that is k-th by address. */
static uint32_t span_ranked(const struct memory *m, uint32_t k)
{
	return m->by_addr ? m->by_addr[k] : k;
}

/* The last span that starts at or below addr; any if there is none or by_addr is missing. */
static uint32_t span_guess(const struct memory *m, uint64_t addr)
{
	uint32_t lo = 0, hi = m->nspans;

	while (hi - lo > 1) {
		uint32_t mid = lo + (hi - lo) / 2;

		if (m->spans[span_ranked(m, mid)].addr <= addr)
			lo = mid;
		else
			hi = mid;
	}
	return span_ranked(m, lo);
}

uint64_t memory_offset(const struct memory *m, uint64_t addr, uint64_t len)
{
	uint64_t off = offset_from(m, span_guess(m, addr), addr, len);
	uint32_t i;

	/* Overlapping spans: try each. */
	for (i = 0; off == UINT64_MAX && i < m->nspans; i++)
		off = offset_from(m, i, addr, len);
	return off;
}
