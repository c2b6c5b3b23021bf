/* SPDX-License-Identifier: Apache-2.0 */
/* The layouts of paged KV caches, each written and read by one entry and compared byte by byte with
 * a loop of plain WRITEs to another target, or of READs: [2, blocks, ...] and [blocks, 2, ...] with
 * a tensor a layer, MLA, a slice of heads from two ranks to four, and pages of 16 tokens against
 * pages of 64. */
#include "pair.h"

#define LEN    (8u << 20)
#define PAGES  24u
#define LAYERS 3u
#define DEPTH  128u /* entries by hand at a time */

static struct pair p;
static struct target t, expected;
static uint8_t *local, *copy; /* what READs by hand gave */
static struct urccl_region region, copies;
static uint32_t unfinished;
static uint64_t merged, chunks; /* of the last paged entry */
static uint32_t here[PAGES * 4], there[PAGES * 4];

/* A table of pages in a random order, with some neighbours. */
static void shuffle(uint32_t *table, uint32_t n, uint32_t pool, uint64_t seed)
{
	uint8_t used[1024] = {0};
	uint32_t i, page = 0;

	CHECK_LE(pool, sizeof(used));
	for (i = 0; i < n; i++) {
		do {
			seed = seed * 6364136223846793005ull + 1442695040888963407ull;
			page = i % 3 == 2 ? (page + 1) % pool : (uint32_t)(seed >> 33) % pool;
		} while (used[page]);
		used[page] = 1;
		table[i] = page;
	}
}

static uint64_t index_of(uint64_t table, uint64_t i)
{
	return table ? ((const uint32_t *)(uintptr_t)table)[i] : i;
}

static void take(uint64_t block)
{
	struct urccl_cqe cqe;

	side_take(&p.a, &p.b, &cqe, NULL);
	CHECK_EQ(cqe.res, (int64_t)block);
	unfinished--;
}

static void one_by_hand(uint64_t block, uint64_t l, uint64_t r, int read)
{
	struct urccl_sqe *sqe;

	while (unfinished >= DEPTH)
		take(block);
	sqe = side_sqe(&p.a);
	if (read)
		urccl_prep_read(sqe, t.remote, copy + l, block, r);
	else
		urccl_prep_write(sqe, expected.remote, local + l, block, r);
	urccl_sqe_set_region(sqe, read ? copies : region);
	CHECK_EQ(urccl_submit(p.a.ring), 1);
	unfinished++;
}

/* The same by hand: for each block an entry, from the local place to the remote one (or back). */
static void by_hand(const struct urccl_paged *d, uint32_t k, uint64_t l, uint64_t r, int read)
{
	const struct urccl_dim *dim;
	uint64_t i;

	if (k == d->ndims || k == URCCL_DIMS_MAX) {
		one_by_hand(d->block, l, r, read);
		return;
	}
	dim = &d->dim[k];
	for (i = 0; i < dim->count; i++)
		by_hand(d, k + 1, l + index_of(dim->local_index, i) * (uint64_t)dim->local_stride,
			r + index_of(dim->remote_index, i) * (uint64_t)dim->remote_stride, read);
}

static uint64_t bytes_of(const struct urccl_paged *d)
{
	uint64_t n = d->block;
	uint32_t k;

	for (k = 0; k < d->ndims; k++)
		n *= d->dim[k].count;
	return n;
}

static void run(const struct urccl_paged *d, uint32_t n, int read)
{
	struct urccl_stats before = {.size = sizeof(before)}, after = before;
	struct urccl_sqe *sqe;
	uint64_t sum = 0;
	uint32_t i;

	pattern_fill(local, LEN, 0, 1 + (uint64_t)read);
	pattern_fill(t.bytes, LEN, 0, 3);
	memcpy(read ? copy : expected.bytes, read ? local : t.bytes, LEN);
	for (i = 0; i < n; i++) {
		by_hand(&d[i], 0, d[i].local_off, d[i].remote_off, read);
		while (unfinished)
			take(d[i].block);
		sum += bytes_of(&d[i]);
	}
	sqe = side_sqe(&p.a);
	if (read)
		urccl_prep_read_paged(sqe, t.remote, region, d, n);
	else
		urccl_prep_write_paged(sqe, t.remote, region, d, n);
	CHECK_EQ(urccl_get_stats(p.a.ctx, &before), 0);
	CHECK_EQ(pair_run(&p, &p.a, sqe).res, (int64_t)sum);
	CHECK_EQ(urccl_get_stats(p.a.ctx, &after), 0);
	merged = after.merged - before.merged;
	chunks = after.chunks - before.chunks;
	CHECK(!memcmp(read ? copy : expected.bytes, read ? local : t.bytes, LEN));
}

static void both(const struct urccl_paged *d, uint32_t n)
{
	run(d, n, 0);
	run(d, n, 1);
}

static struct urccl_dim dim(uint64_t count, int64_t local_stride, int64_t remote_stride,
			    int indexed)
{
	return (struct urccl_dim){.count = count,
				  .local_stride = local_stride,
				  .remote_stride = remote_stride,
				  .local_index = indexed ? (uint64_t)(uintptr_t)here : 0,
				  .remote_index = indexed ? (uint64_t)(uintptr_t)there : 0};
}

/* [2, blocks, 16, heads, dim], 2 KiB a block; the local pool has 32 pages, the remote one 40. */
static void planes_outside(void)
{
	struct urccl_paged d = {.size = sizeof(d), .ndims = 3, .block = 2048};

	shuffle(here, PAGES, 32, 1);
	shuffle(there, PAGES, 40, 2);
	d.dim[0] = dim(LAYERS, 2 * 32 * 2048, 2 * 40 * 2048, 0);
	d.dim[1] = dim(2, 32 * 2048, 40 * 2048, 0);
	d.dim[2] = dim(PAGES, 2048, 2048, 1);
	both(&d, 1);
}

/* [blocks, 2, ...]: K and V of a page are neighbours, one block of 4 KiB. */
static void planes_inside(void)
{
	struct urccl_paged d = {.size = sizeof(d), .ndims = 2, .block = 4096};

	shuffle(here, PAGES, 64, 3);
	shuffle(there, PAGES, 48, 4);
	d.dim[0] = dim(LAYERS, 64 * 4096, 48 * 4096, 0);
	d.dim[1] = dim(PAGES, 4096, 4096, 1);
	both(&d, 1);
}

/* 16 tokens of 576 values of 2 bytes, and a second descriptor for an indexer of 128 bytes a token.
 */
static void mla(void)
{
	const uint64_t page = 16 * 576 * 2, indexer = 16 * 128;
	struct urccl_paged d[2] = {{.size = sizeof(d[0]), .ndims = 2, .block = page},
				   {.size = sizeof(d[0]), .ndims = 2, .block = indexer}};

	shuffle(here, PAGES, 64, 5);
	shuffle(there, PAGES, 64, 6);
	d[0].dim[0] = dim(LAYERS, (int64_t)(64 * page), (int64_t)(64 * page), 0);
	d[0].dim[1] = dim(PAGES, (int64_t)page, (int64_t)page, 1);
	d[1].local_off = d[1].remote_off = LAYERS * 64 * page;
	d[1].dim[0] = dim(LAYERS, (int64_t)(64 * indexer), (int64_t)(64 * indexer), 0);
	d[1].dim[1] = dim(PAGES, (int64_t)indexer, (int64_t)indexer, 1);
	both(d, 2);
}

/* Two ranks have 4 heads each of 64 values of 2 bytes, four have 2: rows of the smaller width, from
 * the middle. */
static void head_slice(void)
{
	struct urccl_paged d = {.size = sizeof(d),
				.ndims = 4,
				.block = 2 * 64 * 2,
				.local_off = 2 * 64 * 2};
	const int64_t row = 4 * 64 * 2, narrow = 2 * 64 * 2;

	shuffle(here, PAGES, 32, 7);
	shuffle(there, PAGES, 32, 8);
	d.dim[0] = dim(LAYERS, 2 * 32 * 16 * row, 2 * 32 * 16 * narrow, 0);
	d.dim[1] = dim(2, 32 * 16 * row, 32 * 16 * narrow, 0);
	d.dim[2] = dim(PAGES, 16 * row, 16 * narrow, 1);
	d.dim[3] = dim(16, row, narrow, 0);
	both(&d, 1);
}

/* Pages of 64 tokens there, of 16 here: the tables are in units of the smaller page. */
static void page_sizes(void)
{
	struct urccl_paged d = {.size = sizeof(d), .ndims = 2, .block = 16 * 128};
	uint32_t large[PAGES / 4], i;

	shuffle(here, PAGES, 96, 9);
	shuffle(large, PAGES / 4, 24, 10);
	for (i = 0; i < PAGES; i++)
		there[i] = large[i / 4] * 4 + i % 4;
	d.dim[0] = dim(LAYERS, 96 * 16 * 128, 96 * 16 * 128, 0);
	d.dim[1] = dim(PAGES, 16 * 128, 16 * 128, 1);
	both(&d, 1);
}

/* Strides may go backwards, and nothing is joined; everything in order is one run, whose blocks are
 * all joined to the one before, but for those that begin a chunk. */
static void strides(void)
{
	struct urccl_paged d = {.size = sizeof(d), .ndims = 1, .block = 100, .local_off = 99 * 100};
	int read;

	d.dim[0] = dim(100, -100, 300, 0);
	both(&d, 1);
	CHECK_EQ(merged, 0);
	d.local_off = 0;
	d.dim[0] = dim(1000, 100, 100, 0);
	for (read = 0; read < 2; read++) {
		run(&d, 1, read);
		CHECK_GE(merged + chunks, 1000);
		CHECK_LE(chunks, 20);
	}
	d.dim[0].count = 0;
	both(&d, 1);
}

int main(int argc, char **argv)
{
	pair_begin(&p, argc, argv);
	target_open(&p, &t, LEN, p.shared);
	target_open(&p, &expected, LEN, p.shared);
	local = malloc(LEN);
	copy = malloc(LEN);
	CHECK(local && copy);
	region = side_register(&p.a, local, LEN, 0);
	copies = side_register(&p.a, copy, LEN, 0);
	planes_outside();
	planes_inside();
	mla();
	head_slice();
	page_sizes();
	strides();
	target_close(&p, &expected);
	target_close(&p, &t);
	pair_close(&p);
	return 0;
}
