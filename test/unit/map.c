/* SPDX-License-Identifier: Apache-2.0 */
/* The map finds the newest region that holds all of a buffer, as looking at every region does. */
#include "memory/memory.h"
#include "test.h"
#include "random.h"

#define REGIONS_MAX 12u
#define SPACE	    200u

static struct memory *region_new(uint64_t *seed)
{
	uint32_t n = 1 + (uint32_t)random_below(seed, 3), i;
	struct memory *m = calloc(1, sizeof(*m) + n * sizeof(m->spans[0]));

	CHECK(m);
	m->nspans = n;
	for (i = 0; i < n; i++) {
		struct span *s = &m->spans[i];
		uint64_t most = random_below(seed, 8) ? 12 : SPACE;

		s->start = m->len;
		s->len = 1 + random_below(seed, most);
		s->addr = i && random_below(seed, 2) ? s[-1].addr + s[-1].len
						     : random_below(seed, SPACE);
		m->len += s->len;
	}
	return m;
}

static struct memory *newest(struct memory *const *regions, uint32_t n, uint64_t addr, uint64_t len)
{
	while (n--)
		if (memory_offset(regions[n], addr, len) != UINT64_MAX)
			return regions[n];
	return NULL;
}

static void check_map(struct memory *const *regions, uint32_t n)
{
	struct memory_map *map = memory_map_new(regions, n);
	uint64_t addr, len;

	CHECK(map);
	for (addr = 0; addr < SPACE + 20; addr++)
		for (len = 1; len < 40; len++)
			CHECK(memory_map_find(map, addr, len) == newest(regions, n, addr, len));
	CHECK(!memory_map_find(map, 5, UINT64_MAX - 2));
	CHECK(!memory_map_find(map, UINT64_MAX, 1));
	free(map);
}

int main(void)
{
	struct memory *regions[REGIONS_MAX];
	uint64_t seed = 77;
	uint32_t n, i;
	int round;

	check_map(NULL, 0);
	for (round = 0; round < 200; round++) {
		n = 1 + (uint32_t)random_below(&seed, REGIONS_MAX);
		for (i = 0; i < n; i++)
			regions[i] = region_new(&seed);
		check_map(regions, n);
		for (i = 0; i < n; i++)
			free(regions[i]);
	}
	return 0;
}
