/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One layer's descriptors, carried out by plain loops as abi.h says they mean, move exactly the
 * pages of the request: whatever the ranks, the order in a page and the pages' numbers.
 */
#include <string.h>
#include "pusher.h"
#include "test.h"

#define LOCAL_PAGES  9u
#define REMOTE_PAGES 13u
#define N	     4u

static const uint32_t local_pages[N] = {7, 0, 3, 8};
static const uint32_t remote_pages[N] = {2, 3, 12, 5};

static uint64_t step(uint64_t index, int64_t stride, uint64_t i)
{
	const uint32_t *table = (const uint32_t *)(uintptr_t)index;

	return (table ? table[i] : i) * (uint64_t)stride;
}

static void move(const struct urccl_paged *d, uint32_t dim, const uint8_t *from, uint8_t *to)
{
	uint64_t i;

	if (dim == d->ndims || dim == URCCL_DIMS_MAX) {
		memcpy(to, from, d->block);
		return;
	}
	for (i = 0; i < d->dim[dim].count; i++)
		move(d, dim + 1, from + step(d->dim[dim].local_index, d->dim[dim].local_stride, i),
		     to + step(d->dim[dim].remote_index, d->dim[dim].remote_stride, i));
}

static uint32_t untouched(const struct side *s, const uint8_t *memory)
{
	uint32_t n = 0;
	uint64_t i;

	for (i = 0; i < side_bytes(s); i++)
		n += memory[i] == 0xee;
	return n;
}

static void check(const struct shape *shape, uint32_t prefill, uint32_t decode)
{
	struct side local = {.shape = shape, .ranks = prefill, .pages = LOCAL_PAGES};
	struct side remote = {.shape = shape, .ranks = decode, .pages = REMOTE_PAGES};
	struct urccl_paged descs[64];
	uint32_t layer, n, i;
	uint64_t bytes = 0;

	local.base = calloc(1, side_bytes(&local));
	remote.base = malloc(side_bytes(&remote));
	CHECK(local.base && remote.base);
	memset(remote.base, 0xee, side_bytes(&remote));
	CHECK_EQ(side_bytes(&local), LOCAL_PAGES * shape_page_bytes(shape));
	for (layer = 0; layer < shape->layers; layer++) {
		for (i = 0; i < N; i++)
			page_fill(&local, local_pages[i], layer, 40 + i, i);
		n = layer_fill(&local, &remote, layer, N, local_pages, remote_pages, descs);
		CHECK_EQ(n, layer_descs(&local, &remote));
		for (i = 0; i < n; i++) {
			CHECK_EQ(descs[i].size, sizeof(descs[i]));
			move(&descs[i], 0, local.base + descs[i].local_off,
			     remote.base + descs[i].remote_off);
		}
		for (i = 0; i < N; i++) {
			CHECK(page_right(&local, local_pages[i], layer, 40 + i, i));
			CHECK(page_right(&remote, remote_pages[i], layer, 40 + i, i));
			CHECK(!page_right(&remote, remote_pages[i], layer, 40 + i, i + 1));
			CHECK(!page_right(&remote, remote_pages[i], layer, 41 + i, i));
		}
		bytes += N * shape_page_bytes(shape) / shape->layers;
	}
	/* Nothing beside them; made-up bytes are 0xee as often as any other. */
	CHECK_GE(untouched(&remote, remote.base), side_bytes(&remote) - bytes);
	CHECK_LE(untouched(&remote, remote.base), side_bytes(&remote) - bytes + bytes / 128);
	free(local.base);
	free(remote.base);
}

int main(void)
{
	static const uint32_t tp[][2] = {{1, 1}, {2, 4}, {4, 2}, {8, 8}, {1, 8}, {8, 1}, {2, 1}};
	struct shape s = {.layers = 3, .planes = 2, .heads = 8, .dim = 64, .elt = 2, .page = 16};
	struct shape odd = {.layers = 2, .planes = 2, .heads = 12, .dim = 5, .elt = 1, .page = 3};
	struct shape mla = {.layers = 3, .planes = 1, .heads = 1, .dim = 576, .elt = 2, .page = 64};
	size_t i;

	for (s.hnd = 0; s.hnd < 2; s.hnd++)
		for (i = 0; i < sizeof(tp) / sizeof(tp[0]); i++)
			check(&s, tp[i][0], tp[i][1]);
	/* Ranks whose shares overlap in part: 6 heads and 4. */
	for (odd.hnd = 0; odd.hnd < 2; odd.hnd++) {
		check(&odd, 2, 3);
		check(&odd, 3, 4);
	}
	check(&mla, 1, 1);
	return 0;
}
