/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pages and prefix blocks. Free pages are a stack: those given back last go first, so that a page
 * of an aborted request is written again at once. Blocks that no request uses stay, found by their
 * hash, until their pages are needed; then the least recently used goes. A block that a request
 * uses, or that is being filled, never goes.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "pusher.h"

#define NONE NO_BLOCK

int pool_open(struct pool *pool, uint32_t npages)
{
	uint32_t i, nbuckets = 1;

	while (nbuckets < npages)
		nbuckets <<= 1;
	memset(pool, 0, sizeof(*pool));
	pool->npages = pool->nfree = npages;
	pool->stack = malloc(npages * sizeof(*pool->stack));
	pool->next = malloc(npages * sizeof(*pool->next));
	pool->blocks = calloc(npages, sizeof(*pool->blocks));
	pool->buckets = malloc(nbuckets * sizeof(*pool->buckets));
	if (!pool->stack || !pool->next || !pool->blocks || !pool->buckets) {
		pool_close(pool);
		return -ENOMEM;
	}
	pool->mask = nbuckets - 1;
	memset(pool->buckets, 0xff, nbuckets * sizeof(*pool->buckets));
	for (i = 0; i < npages; i++) {
		pool->stack[i] = npages - 1 - i;
		pool->blocks[i].chain = i + 1 < npages ? i + 1 : NONE;
	}
	pool->oldest = pool->newest = NONE;
	return 0;
}

void pool_close(struct pool *pool)
{
	free(pool->stack);
	free(pool->next);
	free(pool->blocks);
	free(pool->buckets);
	memset(pool, 0, sizeof(*pool));
}

int pool_take(struct pool *pool, uint32_t n, uint32_t *pages)
{
	uint32_t i;

	if (n > pool->nfree)
		return -EAGAIN;
	for (i = 0; i < n; i++)
		pages[i] = pool->stack[--pool->nfree];
	return 0;
}

void pool_give(struct pool *pool, uint32_t n, const uint32_t *pages)
{
	while (n)
		pool->stack[pool->nfree++] = pages[--n];
}

/* ---- the order of last use, of blocks that may go ---- */

static void idle_add(struct pool *pool, uint32_t b)
{
	pool->blocks[b].older = pool->newest;
	pool->blocks[b].newer = NONE;
	if (pool->newest == NONE)
		pool->oldest = b;
	else
		pool->blocks[pool->newest].newer = b;
	pool->newest = b;
	pool->idle_pages += pool->blocks[b].npages;
}

static void idle_del(struct pool *pool, uint32_t b)
{
	const struct block *block = &pool->blocks[b];

	if (block->older == NONE)
		pool->oldest = block->newer;
	else
		pool->blocks[block->older].newer = block->newer;
	if (block->newer == NONE)
		pool->newest = block->older;
	else
		pool->blocks[block->newer].older = block->older;
	pool->idle_pages -= block->npages;
}

/* ---- hashes of known blocks ---- */

static uint32_t *bucket(struct pool *pool, uint64_t hash)
{
	return &pool->buckets[((hash * 0x9e3779b97f4a7c15ull) >> 32) & pool->mask];
}

static uint32_t find(struct pool *pool, uint64_t hash)
{
	uint32_t b = *bucket(pool, hash);

	while (b != NONE && pool->blocks[b].hash != hash)
		b = pool->blocks[b].chain;
	return b;
}

static void learn(struct pool *pool, uint32_t b)
{
	uint32_t *head = bucket(pool, pool->blocks[b].hash);

	pool->blocks[b].chain = *head;
	pool->blocks[b].known = true;
	*head = b;
}

static void forget(struct pool *pool, uint32_t b)
{
	uint32_t *at = bucket(pool, pool->blocks[b].hash);

	while (*at != b)
		at = &pool->blocks[*at].chain;
	*at = pool->blocks[b].chain;
	pool->blocks[b].known = false;
}

/* ---- blocks ---- */

static uint32_t block_new(struct pool *pool, uint64_t hash, uint32_t npages)
{
	uint32_t b = pool->free_block, *link, i;
	struct block *block = &pool->blocks[b];

	pool->free_block = block->chain;
	block->hash = hash;
	block->npages = npages;
	block->refs = 1;
	block->known = false;
	link = &block->first;
	for (i = 0; i < npages; i++) {
		*link = pool->stack[--pool->nfree];
		link = &pool->next[*link];
	}
	*link = NO_PAGE;
	return b;
}

static void give_chain(struct pool *pool, uint32_t page)
{
	uint32_t n = 0, i, at = pool->nfree;

	for (; page != NO_PAGE; page = pool->next[page], n++)
		pool->stack[pool->nfree++] = page;
	/* Turned around, they come off the stack in the order they had: neighbours stay
	 * neighbours. */
	for (i = 0; i < n / 2; i++) {
		uint32_t swap = pool->stack[at + i];

		pool->stack[at + i] = pool->stack[at + n - 1 - i];
		pool->stack[at + n - 1 - i] = swap;
	}
}

static void block_free(struct pool *pool, uint32_t b)
{
	give_chain(pool, pool->blocks[b].first);
	pool->blocks[b].chain = pool->free_block;
	pool->free_block = b;
}

static void evict(struct pool *pool)
{
	uint32_t b = pool->oldest;

	idle_del(pool, b);
	forget(pool, b);
	block_free(pool, b);
	pool->evicted++;
}

static void block_ref(struct pool *pool, uint32_t b)
{
	if (!pool->blocks[b].refs++)
		idle_del(pool, b);
}

static void block_unref(struct pool *pool, uint32_t b)
{
	if (--pool->blocks[b].refs)
		return;
	if (pool->blocks[b].known)
		idle_add(pool, b);
	else
		block_free(pool, b);
}

/* Finds what is there and keeps it. Returns how many pages are missing. */
static uint64_t hold_known(struct pool *pool, struct want *wants, uint32_t n)
{
	uint64_t missing = 0;
	uint32_t i;

	for (i = 0; i < n; i++) {
		struct want *w = &wants[i];

		w->block = find(pool, w->hash);
		w->held = w->block != NONE && pool->blocks[w->block].npages >= w->npages;
		if (w->held)
			block_ref(pool, w->block);
		else
			missing += w->npages;
	}
	return missing;
}

static uint64_t sum_pages(const struct want *wants, uint32_t n)
{
	uint64_t sum = 0;
	uint32_t i;

	for (i = 0; i < n; i++)
		sum += wants[i].npages;
	return sum;
}

int pool_get(struct pool *pool, struct want *wants, uint32_t n)
{
	uint64_t missing;
	uint32_t i;

	if (sum_pages(wants, n) > pool->npages)
		return -ENOSPC;
	missing = hold_known(pool, wants, n);
	if (missing > (uint64_t)pool->nfree + pool->idle_pages) {
		for (i = n; i-- > 0;)
			if (wants[i].held)
				block_unref(pool, wants[i].block);
		return -EAGAIN;
	}
	while (missing > pool->nfree)
		evict(pool);
	for (i = 0; i < n; i++)
		if (!wants[i].held)
			wants[i].block = block_new(pool, wants[i].hash, wants[i].npages);
	return 0;
}

/* A filled block may be found from now on, unless as good a one has become known meanwhile. */
static void block_filled(struct pool *pool, uint32_t b)
{
	uint32_t other = find(pool, pool->blocks[b].hash);

	if (other != NONE && pool->blocks[other].npages >= pool->blocks[b].npages)
		return;
	if (other != NONE) {
		forget(pool, other);
		if (!pool->blocks[other].refs) {
			idle_del(pool, other);
			block_free(pool, other);
		}
	}
	learn(pool, b);
}

void pool_put(struct pool *pool, const struct want *wants, uint32_t n, bool filled)
{
	uint32_t i;

	/* From the last to the first: the end of a prefix is of less use than its beginning. */
	for (i = n; i-- > 0;) {
		if (filled && !wants[i].held)
			block_filled(pool, wants[i].block);
		block_unref(pool, wants[i].block);
	}
}

void pool_set_aside(struct pool *pool, const struct want *wants, uint32_t n, uint32_t *list)
{
	uint32_t i;

	for (i = 0; i < n; i++) {
		if (wants[i].held) {
			block_unref(pool, wants[i].block);
			continue;
		}
		pool->blocks[wants[i].block].chain = *list;
		*list = wants[i].block;
	}
}

void pool_give_back(struct pool *pool, uint32_t *list)
{
	while (*list != NO_BLOCK) {
		uint32_t b = *list;

		*list = pool->blocks[b].chain;
		block_unref(pool, b);
	}
}
