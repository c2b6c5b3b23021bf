/* SPDX-License-Identifier: Apache-2.0 */
/* A region's lookups give what counting byte by byte gives, whatever the order of its ranges. */
#include "memory/memory.h"
#include "test.h"
#include "random.h"

#define SPANS_MAX 6u
#define SPACE	  64u /* addresses: 1,000 to 1,063 */
#define BASE	  1000u

static struct memory *region_new(uint64_t *seed, int touching)
{
	uint32_t n = 1 + (uint32_t)random_below(seed, SPANS_MAX), i;
	struct memory *m = calloc(1, sizeof(*m) + n * sizeof(m->spans[0]));
	uint64_t next = BASE + random_below(seed, 8);

	CHECK(m);
	m->nspans = n;
	for (i = 0; i < n; i++) {
		struct span *s = &m->spans[i];

		s->start = m->len;
		s->len = 1 + random_below(seed, 8);
		s->addr =
			touching && random_below(seed, 2) ? next : BASE + random_below(seed, SPACE);
		s->fd = -1;
		next = s->addr + s->len;
		m->len += s->len;
	}
	return m;
}

/* The address of each byte of the offset space. */
static uint32_t flatten(const struct memory *m, uint64_t *addrs)
{
	uint32_t n = 0, i;
	uint64_t k;

	for (i = 0; i < m->nspans; i++)
		for (k = 0; k < m->spans[i].len; k++)
			addrs[n++] = m->spans[i].addr + k;
	return n;
}

static void check_offsets(const struct memory *m, const uint64_t *addrs, uint32_t n)
{
	uint64_t run;
	uint32_t off, k;

	for (off = 0; off < n; off++) {
		const struct span *s = memory_span(m, off);

		CHECK(s->start <= off && off < s->start + s->len);
		CHECK_EQ((uintptr_t)memory_at(m, off, &run), addrs[off]);
		CHECK_EQ(run, s->start + s->len - off);
		for (k = 0; k < run; k++)
			CHECK_EQ(addrs[off + k], addrs[off] + k);
	}
}

/* Does the offset space hold the len bytes at addr, at off? */
static int holds(const uint64_t *addrs, uint32_t n, uint64_t off, uint64_t addr, uint64_t len)
{
	uint64_t k;

	for (k = 0; k < len; k++)
		if (off + k >= n || addrs[off + k] != addr + k)
			return 0;
	return 1;
}

static void check_addresses(const struct memory *m, const uint64_t *addrs, uint32_t n)
{
	uint64_t addr, len, off;

	for (addr = BASE - 2; addr < BASE + SPACE + 10; addr++) {
		for (len = 1; len < 12; len++) {
			uint64_t found = memory_offset(m, addr, len);

			for (off = 0; off < n && !holds(addrs, n, off, addr, len); off++)
				;
			if (off == n)
				CHECK_EQ(found, UINT64_MAX);
			else
				CHECK(holds(addrs, n, found, addr, len));
		}
	}
	CHECK_EQ(memory_offset(m, addrs[0], UINT64_MAX), UINT64_MAX);
	CHECK_EQ(memory_offset(m, UINT64_MAX, 2), UINT64_MAX);
}

int case_region(void)
{
	uint64_t seed = 20240901, addrs[SPANS_MAX * 8];
	int i;

	for (i = 0; i < 500; i++) {
		struct memory *m = region_new(&seed, i % 2);
		uint32_t n = flatten(m, addrs);

		CHECK_EQ(n, m->len);
		check_offsets(m, addrs, n);
		check_addresses(m, addrs, n);
		free(m);
	}
	return 0;
}
