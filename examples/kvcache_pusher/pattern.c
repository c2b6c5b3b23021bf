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

static void row_fill(uint8_t *row, size_t len, uint64_t key)
{
	size_t i;

	for (i = 0; i + 8 <= len; i += 8, key += ODD)
		memcpy(row + i, &key, 8);
	memcpy(row + i, &key, len - i);
}

static bool row_right(const uint8_t *row, size_t len, uint64_t key)
{
	uint64_t word, differ = 0;
	size_t i;

	for (i = 0; i + 8 <= len; i += 8, key += ODD) {
		memcpy(&word, row + i, 8);
		differ |= word ^ key;
	}
	return !differ && !memcmp(row + i, &key, len - i);
}

/* Rows of one rank and plane of a page, as they lie in memory. */
struct plane {
	const struct side *side;
	uint8_t *start;
	uint64_t key;
	uint32_t number;
	uint32_t first_head;
};

static void plane_fill(const struct plane *p)
{
	const struct shape *s = p->side->shape;
	uint32_t heads = side_heads(p->side), token, head;
	size_t len = (size_t)s->dim * s->elt;

	for (head = 0; head < heads; head++)
		for (token = 0; token < s->page; token++)
			row_fill(p->start + side_row(p->side, token, head), len,
				 row_key(p->key, p->number, token, p->first_head + head));
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
	const struct shape *s = p->side->shape;
	uint32_t heads = side_heads(p->side), token, head;
	size_t len = (size_t)s->dim * s->elt;

	for (head = 0; head < heads; head++)
		for (token = 0; token < s->page; token++)
			if (!row_right(p->start + side_row(p->side, token, head), len,
				       row_key(p->key, p->number, token, p->first_head + head)))
				return false;
	return true;
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
