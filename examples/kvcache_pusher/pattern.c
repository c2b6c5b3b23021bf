/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What stands in a page. It is made up: a pure function of (block hash, layer, page of the block)
 * and of the place in the page (plane, token, head), so that both ends know it without telling each
 * other, however the heads are dealt out to ranks and in whatever order they lie.
 */
#include <string.h>
#include <xxhash.h>
#include "pusher.h"

#define ODD 0x9e3779b97f4a7c15ull

static uint64_t page_key(uint32_t layer, uint64_t hash, uint32_t k)
{
	const uint64_t key[3] = {hash, layer, k};

	return XXH64(key, sizeof(key), 0);
}

static uint64_t row_key(uint64_t page, uint32_t plane, uint32_t token, uint32_t head)
{
	uint64_t x = page + ODD * (((uint64_t)plane << 48) + ((uint64_t)head << 32) + token + 1);

	x = (x ^ (x >> 32)) * 0xd6e8feb86659fd93ull;
	return x ^ (x >> 32);
}

static bool row_fill(uint8_t *row, size_t len, uint64_t key)
{
	size_t i;

	for (i = 0; i + 8 <= len; i += 8, key += ODD)
		memcpy(row + i, &key, 8);
	if (i < len)
		memcpy(row + i, &key, len - i);
	return true;
}

/* Two words that are compared at once. */
typedef uint64_t pair __attribute__((vector_size(16)));

static inline pair pair_at(const uint8_t *row)
{
	pair p;

	memcpy(&p, row, sizeof(p));
	return p;
}

static bool row_right(uint8_t *row, size_t len, uint64_t key)
{
	const pair step = {4 * ODD, 4 * ODD};
	pair low = {key, key + ODD}, high = {key + 2 * ODD, key + 3 * ODD}, differ = {0, 0};
	uint64_t word, rest = 0;

	for (; len >= 2 * sizeof(pair); row += 2 * sizeof(pair), len -= 2 * sizeof(pair)) {
		differ |= (pair_at(row) ^ low) | (pair_at(row + sizeof(pair)) ^ high);
		low += step;
		high += step;
	}
	for (key = low[0]; len >= 8; row += 8, len -= 8, key += ODD) {
		memcpy(&word, row, 8);
		rest |= word ^ key;
	}
	rest |= differ[0] | differ[1];
	return !rest && (!len || !memcmp(row, &key, len));
}

/* Rows of one rank and plane of a page, as they lie in memory. */
struct plane {
	const struct side *side;
	uint8_t *start;
	uint64_t key;
	uint32_t number;
	uint32_t first_head;
};

/* Calls each for every row, in the order of memory, until it returns false. false: it did. */
static inline __attribute__((always_inline)) bool
rows_each(const struct plane *p, bool (*each)(uint8_t *row, size_t len, uint64_t key))
{
	const struct shape *s = p->side->shape;
	uint32_t heads = side_heads(p->side), token, head, i, k;
	uint32_t outer = s->hnd ? heads : s->page, inner = s->hnd ? s->page : heads;
	size_t len = (size_t)s->dim * s->elt;
	uint8_t *row = p->start;

	for (i = 0; i < outer; i++) {
		for (k = 0; k < inner; k++, row += len) {
			token = s->hnd ? k : i;
			head = s->hnd ? i : k;
			if (!each(row, len,
				  row_key(p->key, p->number, token, p->first_head + head)))
				return false;
		}
	}
	return true;
}

static void plane_fill(const struct plane *p)
{
	rows_each(p, row_fill);
}

/* Puts the plane's bytes into the page, by way of the host's copy of one if that is a GPU's. */
static void plane_put(const struct plane *p)
{
	struct plane copy = *p;

	if (!p->side->page) {
		plane_fill(p);
		return;
	}
	copy.start = p->side->page;
	plane_fill(&copy);
	gpu_put(p->start, copy.start, side_page_bytes(p->side));
}

static bool rows_right(const struct plane *p)
{
	return rows_each(p, row_right);
}

static bool plane_right(const struct plane *p)
{
	struct plane copy = *p;

	if (!p->side->page)
		return rows_right(p);
	copy.start = p->side->page;
	gpu_get(copy.start, p->start, side_page_bytes(p->side));
	return rows_right(&copy);
}

static struct plane plane_of(const struct side *s, uint32_t page, uint32_t layer, uint64_t key,
			     uint32_t rank, uint32_t number)
{
	struct plane p = {
		.side = s,
		.start = s->base + side_tensor(s, rank, layer) + number * side_plane_bytes(s) +
			 page * side_page_bytes(s),
		.key = key,
		.number = number,
		.first_head = rank * side_heads(s),
	};

	return p;
}

void page_fill(const struct side *s, uint32_t page, uint32_t layer, uint64_t hash, uint32_t k)
{
	uint64_t key = page_key(layer, hash, k);
	uint32_t rank, number;

	for (rank = 0; rank < s->ranks; rank++) {
		for (number = 0; number < s->shape->planes; number++) {
			struct plane p = plane_of(s, page, layer, key, rank, number);

			plane_put(&p);
		}
	}
	if (s->page)
		gpu_wait();
}

bool page_right(const struct side *s, uint32_t page, uint32_t layer, uint64_t hash, uint32_t k)
{
	uint64_t key = page_key(layer, hash, k);
	uint32_t rank, number;

	for (rank = 0; rank < s->ranks; rank++) {
		for (number = 0; number < s->shape->planes; number++) {
			struct plane p = plane_of(s, page, layer, key, rank, number);

			if (!plane_right(&p))
				return false;
		}
	}
	return true;
}
