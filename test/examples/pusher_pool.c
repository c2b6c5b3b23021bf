/* SPDX-License-Identifier: Apache-2.0 */
/* The pool of pages: prefixes are found, the least recently used goes, and nothing that is in
 * use. */
#include <string.h>
#include "pusher.h"
#include "test.h"

#define PAGES 64u

static struct want want(uint64_t hash, uint32_t npages)
{
	return (struct want){.hash = hash, .npages = npages};
}

static void reuse(struct pool *pool)
{
	struct want a[2] = {want(1, 8), want(2, 8)}, b[2] = {want(1, 8), want(3, 4)};
	uint32_t first;

	CHECK_EQ(pool_get(pool, a, 2), 0);
	CHECK(!a[0].held && !a[1].held);
	CHECK_EQ(pool->nfree, PAGES - 16);
	first = pool->blocks[a[0].block].first;
	/* What is being filled cannot be found yet: the second request gets pages of its own. */
	CHECK_EQ(pool_get(pool, b, 2), 0);
	CHECK(!b[0].held);
	CHECK(pool->blocks[b[0].block].first != first);
	pool_put(pool, a, 2, true);
	/* The other has filled it as well: one of the two is enough. */
	pool_put(pool, b, 2, true);
	CHECK_EQ(pool->nfree, PAGES - 20);
	CHECK_EQ(pool_get(pool, b, 2), 0);
	CHECK(b[0].held && b[1].held);
	CHECK_EQ(pool->blocks[b[0].block].first, first);
	pool_put(pool, b, 2, true);
}

/* A block of which more tokens are wanted than it has is as good as none, and then replaced. */
static void longer(struct pool *pool)
{
	struct want a = want(3, 5), b = want(3, 2);

	CHECK_EQ(pool_get(pool, &a, 1), 0);
	CHECK(!a.held);
	pool_put(pool, &a, 1, true);
	CHECK_EQ(pool->nfree, PAGES - 21);
	CHECK_EQ(pool_get(pool, &b, 1), 0);
	CHECK(b.held);
	pool_put(pool, &b, 1, true);
}

static void evict(struct pool *pool)
{
	struct want one = want(1, 8), two = want(2, 8), big[2] = {want(9, 40), want(10, 8)};

	/* 1 was used last, and is in use: 2 and 3 are the ones to go. */
	CHECK_EQ(pool_get(pool, &two, 1), 0);
	pool_put(pool, &two, 1, true);
	CHECK_EQ(pool_get(pool, &one, 1), 0);
	CHECK_EQ(pool_get(pool, big, 2), 0);
	CHECK_EQ(pool->evicted, 1);
	CHECK_EQ(pool_get(pool, &two, 1), 0);
	CHECK(two.held);
	pool_put(pool, &two, 1, true);
	CHECK_EQ(pool->evicted, 1);
}

static void full(struct pool *pool)
{
	struct want too_long = want(11, PAGES + 1), all = want(12, PAGES);

	CHECK_EQ(pool_get(pool, &too_long, 1), -ENOSPC);
	CHECK_EQ(pool_get(pool, &all, 1), -EAGAIN);
}

/* Pages that come back unfilled are the first to be given out again. */
static void abort_one(struct pool *pool)
{
	struct want a = want(20, 4), b = want(21, 4);
	uint32_t page, i, again;

	CHECK_EQ(pool_get(pool, &a, 1), 0);
	page = pool->blocks[a.block].first;
	pool_put(pool, &a, 1, false);
	CHECK_EQ(pool_get(pool, &b, 1), 0);
	again = pool->blocks[b.block].first;
	for (i = 0; i < 4; i++) {
		CHECK_EQ(again, page);
		again = pool->next[again];
		page = pool->next[page];
	}
	CHECK_EQ(again, NO_PAGE);
	pool_put(pool, &b, 1, false);
	CHECK_EQ(pool_get(pool, &a, 1), 0);
	CHECK(!a.held);
	pool_put(pool, &a, 1, false);
}

/* Against a count of pages, for as long as it takes to meet every case. */
static void random_requests(struct pool *pool)
{
	struct want w[4][5];
	uint32_t used[4] = {0}, held[PAGES], round, i, k;
	unsigned int seed = 1;

	for (round = 0; round < 200000; round++) {
		k = (uint32_t)rand_r(&seed) % 4;
		if (used[k]) {
			pool_put(pool, w[k], used[k], rand_r(&seed) % 4 != 0);
			used[k] = 0;
			continue;
		}
		for (i = 0; i < 5; i++)
			w[k][i] = want((uint64_t)(rand_r(&seed) % 12),
				       1 + (uint32_t)rand_r(&seed) % 8);
		if (!pool_get(pool, w[k], 5))
			used[k] = 5;
		/* No page belongs to two blocks in use. */
		memset(held, 0xff, sizeof(held));
		for (k = 0; k < 4; k++) {
			for (i = 0; i < used[k]; i++) {
				uint32_t b = w[k][i].block, page = pool->blocks[b].first, n = 0;

				for (; page != NO_PAGE; page = pool->next[page], n++) {
					CHECK(held[page] == UINT32_MAX || held[page] == b);
					held[page] = b;
				}
				CHECK_GE(n, w[k][i].npages);
				CHECK_EQ(n, pool->blocks[b].npages);
			}
		}
	}
	for (k = 0; k < 4; k++)
		if (used[k])
			pool_put(pool, w[k], used[k], true);
	CHECK_EQ(pool->nfree + pool->idle_pages, PAGES);
}

/* Blocks that are set aside are nobody's until they are given back. */
static void set_aside(struct pool *pool)
{
	struct want w[2] = {want(40, 8), want(41, 8)};
	uint32_t list = NO_BLOCK;

	CHECK_EQ(pool_get(pool, w, 1), 0);
	pool_put(pool, w, 1, true);
	CHECK_EQ(pool_get(pool, w, 2), 0);
	CHECK(w[0].held && !w[1].held);
	pool_set_aside(pool, w, 2, &list);
	CHECK_EQ(pool->nfree + pool->idle_pages, PAGES - 8);
	pool_give_back(pool, &list);
	CHECK_EQ(list, NO_BLOCK);
	CHECK_EQ(pool->nfree + pool->idle_pages, PAGES);
	CHECK_EQ(pool_get(pool, w, 2), 0);
	CHECK(w[0].held && !w[1].held);
	pool_put(pool, w, 2, false);
}

int main(void)
{
	struct pool pool;

	CHECK_EQ(pool_open(&pool, PAGES), 0);
	reuse(&pool);
	longer(&pool);
	evict(&pool);
	pool_close(&pool);
	CHECK_EQ(pool_open(&pool, PAGES), 0);
	abort_one(&pool);
	set_aside(&pool);
	random_requests(&pool);
	pool_close(&pool);
	CHECK_EQ(pool_open(&pool, PAGES), 0);
	{
		struct want one = want(1, 8);

		CHECK_EQ(pool_get(&pool, &one, 1), 0);
		full(&pool);
		pool_put(&pool, &one, 1, true);
	}
	pool_close(&pool);
	return 0;
}
