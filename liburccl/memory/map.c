/* SPDX-License-Identifier: Apache-2.0 */
/* Every range of every region, by address, as an interval tree in an array. Adding a region must
 * stay cheap: its ranges join a small map of the newest, which is merged with the large map only
 * when it exceeds FEW ranges. */
#include <stdlib.h>

#include "memory/memory.h"

#define FEW 128u

static int by_addr(const void *a, const void *b)
{
	const struct memory_range *x = a, *y = b;

	if (x->addr != y->addr)
		return x->addr < y->addr ? -1 : 1;
	return x->age < y->age ? -1 : x->age > y->age;
}

/* A map with room for n ranges, linked to old. NULL: no memory. */
static struct memory_map *map_new(uint64_t n, struct memory_map *old, uint64_t age)
{
	struct memory_map *map;

	if (n > UINT32_MAX)
		return NULL;
	map = malloc(sizeof(*map) + n * sizeof(map->ranges[0]));
	if (!map)
		return NULL;
	map->users = 1;
	map->n = 0;
	map->age = age;
	map->old = old;
	if (old)
		old->users++;
	return map;
}

void memory_map_free(struct memory_map *map)
{
	struct memory_map *old;

	for (; map && !--map->users; map = old) {
		old = map->old;
		free(map);
	}
}

/* Copies from's ranges except m's. */
static void map_copy(struct memory_map *map, const struct memory_map *from, const struct memory *m)
{
	uint32_t i;

	for (i = 0; from && i < from->n; i++)
		if (from->ranges[i].memory != m)
			map->ranges[map->n++] = from->ranges[i];
}

/* Appends the region's ranges with map->age. Ranges adjacent in offset and in memory become one,
 * since an entry may cross them. */
static void map_append(struct memory_map *map, struct memory *m)
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
					   .age = map->age,
					   .memory = m};
	}
}

/* Insertion sort: the first `sorted` are in order. */
static void map_insert(struct memory_map *map, uint32_t sorted)
{
	uint32_t i, k;

	for (i = sorted; i < map->n; i++) {
		struct memory_range r = map->ranges[i];

		for (k = i; k && by_addr(&map->ranges[k - 1], &r) > 0; k--)
			map->ranges[k] = map->ranges[k - 1];
		map->ranges[k] = r;
	}
}

/* Sets reach in the subtree [lo, hi), whose root is its middle. */
static uint64_t tree_reach(struct memory_map *map, uint32_t lo, uint32_t hi)
{
	uint32_t mid = lo + (hi - lo) / 2;
	uint64_t reach, other;

	if (lo == hi)
		return 0;
	reach = tree_reach(map, lo, mid);
	other = tree_reach(map, mid + 1, hi);
	reach = reach > other ? reach : other;
	if (map->ranges[mid].end > reach)
		reach = map->ranges[mid].end;
	return map->ranges[mid].reach = reach;
}

struct memory_map *memory_map_add(struct memory_map *now, struct memory *m)
{
	uint64_t age = now ? now->age + 1 : 1, all = m->nspans;
	struct memory_map *map, *old = now ? now->old : NULL;
	uint32_t sorted;

	/* A large map becomes `old` of the next maps. */
	if (now && !old && now->n > FEW) {
		old = now;
		now = NULL;
	}
	if (now)
		all += now->n;
	if (old && all > FEW)
		map = map_new(all + old->n, NULL, age);
	else
		map = map_new(all, old, age);
	if (!map)
		return NULL;
	map_copy(map, now, NULL);
	sorted = map->n;
	if (!map->old)
		map_copy(map, old, NULL);
	map_append(map, m);
	if (map->n > FEW)
		qsort(map->ranges, map->n, sizeof(map->ranges[0]), by_addr);
	else
		map_insert(map, sorted);
	tree_reach(map, 0, map->n);
	return map;
}

/* A copy of from's own ranges without m's. */
static struct memory_map *map_without(const struct memory_map *from, struct memory_map *old,
				      const struct memory *m)
{
	struct memory_map *map = map_new(from->n, old, from->age);

	if (!map)
		return NULL;
	map_copy(map, from, m);
	tree_reach(map, 0, map->n);
	return map;
}

static int map_has(const struct memory_map *map, const struct memory *m)
{
	uint32_t i;

	for (i = 0; i < map->n; i++)
		if (map->ranges[i].memory == m)
			return 1;
	return 0;
}

struct memory_map *memory_map_del(struct memory_map *now, const struct memory *m)
{
	struct memory_map *map, *old = now->old;

	if (!old || !map_has(old, m))
		return map_without(now, old, m);
	old = map_without(old, NULL, m);
	if (!old)
		return NULL;
	map = map_without(now, old, m);
	memory_map_free(old); /* map holds a reference */
	return map;
}

/* The newest of best and the ranges in [lo, hi) that hold [addr, addr + len). */
static const struct memory_range *tree_find(const struct memory_map *map, uint32_t lo, uint32_t hi,
					    uint64_t addr, uint64_t len,
					    const struct memory_range *best)
{
	while (lo < hi) {
		uint32_t mid = lo + (hi - lo) / 2;
		const struct memory_range *r = &map->ranges[mid];

		if (r->reach <= addr)
			break;
		if (r->addr > addr) {
			hi = mid;
			continue;
		}
		if (r->end > addr && r->end - addr >= len && (!best || r->age > best->age))
			best = r;
		best = tree_find(map, lo, mid, addr, len, best);
		lo = mid + 1;
	}
	return best;
}

struct memory *memory_map_find(const struct memory_map *map, uint64_t addr, uint64_t len)
{
	const struct memory_range *best = NULL;

	for (; map; map = map->old)
		best = tree_find(map, 0, map->n, addr, len, best);
	return best ? best->memory : NULL;
}
