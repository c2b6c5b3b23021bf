/* SPDX-License-Identifier: Apache-2.0 */
/* Every range of every region, by address. */
#include <stdlib.h>

#include "memory/memory.h"

static int by_addr(const void *a, const void *b)
{
	const struct memory_range *x = a, *y = b;

	if (x->addr != y->addr)
		return x->addr < y->addr ? -1 : 1;
	return x->age < y->age ? -1 : x->age > y->age;
}

/* Adds the region's ranges, those that touch in offset and in memory as one, since an entry may
 * cross them. */
static void map_add(struct memory_map *map, struct memory *m, uint32_t age)
{
	struct memory_range *r = NULL;
	uint32_t i;

	for (i = 0; i < m->nspans; i++) {
		const struct span *s = &m->spans[i];

		if (r && r->end == s->addr) {
			r->end += s->len;
			continue;
		}
		r = &map->ranges[map->n++];
		*r = (struct memory_range){.addr = s->addr,
					   .end = s->addr + s->len,
					   .age = age,
					   .memory = m};
	}
}

struct memory_map *memory_map_new(struct memory *const *regions, uint32_t n)
{
	struct memory_map *map;
	uint64_t ranges = 0, reach = 0;
	uint32_t i;

	for (i = 0; i < n; i++)
		ranges += regions[i]->nspans;
	if (ranges > UINT32_MAX)
		return NULL;
	map = malloc(sizeof(*map) + ranges * sizeof(map->ranges[0]));
	if (!map)
		return NULL;
	map->n = 0;
	for (i = 0; i < n; i++)
		map_add(map, regions[i], i);
	qsort(map->ranges, map->n, sizeof(map->ranges[0]), by_addr);
	for (i = 0; i < map->n; i++) {
		if (map->ranges[i].end > reach)
			reach = map->ranges[i].end;
		map->ranges[i].reach = reach;
	}
	return map;
}

/* How many ranges begin at or below addr. */
static uint32_t map_below(const struct memory_map *map, uint64_t addr)
{
	uint32_t lo = 0, hi = map->n;

	while (lo < hi) {
		uint32_t mid = lo + (hi - lo) / 2;

		if (map->ranges[mid].addr <= addr)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

struct memory *memory_map_find(const struct memory_map *map, uint64_t addr, uint64_t len)
{
	const struct memory_range *best = NULL;
	uint32_t i;

	/* Backwards until nothing earlier reaches the address. Where ranges do not overlap that is
	 * one step. */
	for (i = map_below(map, addr); i && map->ranges[i - 1].reach > addr; i--) {
		const struct memory_range *r = &map->ranges[i - 1];

		if (r->end <= addr || r->end - addr < len)
			continue;
		if (!best || r->age > best->age)
			best = r;
	}
	return best ? best->memory : NULL;
}
