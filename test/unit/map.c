/* SPDX-License-Identifier: Apache-2.0 */
/* The map finds the newest region that holds all of a buffer, as looking at every region does,
 * however regions come and go. */
#include "memory/memory.h"
#include "test.h"
#include "random.h"

#define REGIONS_MAX 300u
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

static void check_map(const struct memory_map *map, struct memory *const *regions, uint32_t n)
{
	uint64_t addr, len;

	for (addr = 0; addr < SPACE + 20; addr++)
		for (len = 1; len < 40; len++)
			CHECK(memory_map_find(map, addr, len) == newest(regions, n, addr, len));
	CHECK(!memory_map_find(map, 5, UINT64_MAX - 2));
	CHECK(!memory_map_find(map, UINT64_MAX, 1));
}

/* What map becomes in its place. */
static struct memory_map *becomes(struct memory_map *map, struct memory_map *next)
{
	CHECK(next);
	memory_map_free(map);
	return next;
}

static void round_of(uint32_t most, uint64_t *seed)
{
	struct memory *regions[REGIONS_MAX] = {NULL};
	struct memory_map *map = NULL;
	uint32_t n = 0, i, left = 2 * most;

	while (left--) {
		if (n < most && random_below(seed, 4)) {
			regions[n] = region_new(seed);
			map = becomes(map, memory_map_add(map, regions[n]));
			n++;
		} else if (n) {
			i = (uint32_t)random_below(seed, n);
			map = becomes(map, memory_map_del(map, regions[i]));
			free(regions[i]);
			for (n--; i < n; i++)
				regions[i] = regions[i + 1];
		}
		if (!random_below(seed, most))
			check_map(map, regions, n);
	}
	check_map(map, regions, n);
	for (i = 0; i < n; i++)
		free(regions[i]);
	memory_map_free(map);
}

int case_map(void)
{
	uint64_t seed = 77;
	int round;

	CHECK(!memory_map_find(NULL, 5, 1));
	for (round = 0; round < 100; round++)
		round_of(12, &seed);
	/* So many that not all are put together each time. */
	for (round = 0; round < 4; round++)
		round_of(REGIONS_MAX, &seed);
	return 0;
}
