/* SPDX-License-Identifier: Apache-2.0 */
/* Scattered blocks of a GPU whose entry has ended are the program's, however it ended: by itself,
 * by its deadline or by CANCEL, beside kernels and copies that begin late. Those of a peer are its
 * owner's once its revocation has ended, which waits for what is issued. */
#include <stdlib.h>
#include "pair.h"
#include "cuda/device.h"

#define BLOCK  4096u
#define BLOCKS 3000u /* three bundles */
#define APART  (2 * BLOCK)
#define LEN    ((uint64_t)BLOCKS * APART)
#define ROUNDS 8u
#define RIGHTS (URCCL_RIGHT_READ | URCCL_RIGHT_WRITE)

static struct pair p;
static uint64_t ours, theirs;
static struct urccl_region region, region_b;
static struct urccl_remote remote;
static uint8_t *bytes;
static uint32_t state = 1;

static uint32_t next(uint32_t n)
{
	state = state * 1664525u + 1013904223u;
	return (state >> 8) % n;
}

static void fill(uint64_t addr, int byte)
{
	memset(bytes, byte, LEN);
	device_put(addr, bytes, LEN);
}

static int holds(uint64_t addr, int byte)
{
	uint64_t i;

	device_get(bytes, addr, LEN);
	for (i = 0; i < LEN; i++)
		if (bytes[i] != (uint8_t)byte)
			return 0;
	return 1;
}

/* Every second block. */
static const struct urccl_paged *blocks(void)
{
	static struct urccl_paged d = {
		.size = sizeof(d),
		.ndims = 1,
		.block = BLOCK,
		.dim = {{.count = BLOCKS, .local_stride = APART, .remote_stride = APART}},
	};

	return &d;
}

static void submit(int reads, uint32_t us)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);

	if (reads)
		urccl_prep_read_paged(sqe, remote, region, blocks(), 1);
	else
		urccl_prep_write_paged(sqe, remote, region, blocks(), 1);
	urccl_sqe_set_deadline_us(sqe, us);
	urccl_sqe_set_data64(sqe, 100);
	CHECK_GE(urccl_submit(p.a.ring), 1);
}

static int64_t ended(void)
{
	struct urccl_cqe cqe;

	do
		side_take(&p.a, &p.b, &cqe, NULL);
	while (cqe.user_data != 100 || cqe.flags & URCCL_CQE_MORE);
	return cqe.res;
}

static void one_round(uint32_t round)
{
	static const uint32_t us[] = {0, 50, 200, 1000, 3000};
	struct urccl_sqe *sqe;
	struct urccl_cqe cqe;
	int64_t res;

	submit(1, us[next(5)]);
	if (!next(3)) {
		sqe = side_sqe(&p.a);
		urccl_prep_cancel(sqe, URCCL_CANCEL_BY_USER_DATA, 100);
		urccl_sqe_set_data64(sqe, 1);
		CHECK_EQ(urccl_submit(p.a.ring), 1);
	}
	res = ended();
	CHECK(res == (int64_t)BLOCKS * BLOCK || res == -ETIMEDOUT || res == -ECANCELED);
	fill(ours, (int)round);
	while (side_take_within(&p.a, &p.b, 5000000, &cqe, NULL))
		CHECK(cqe.user_data == 1);
	CHECK(holds(ours, (int)round));
}

static void take_back(void)
{
	struct urccl_sqe *sqe = side_sqe(&p.b);

	urccl_prep_revoke(sqe, region_b);
	urccl_sqe_set_data64(sqe, 9);
	CHECK_EQ(urccl_submit(p.b.ring), 1);
}

static void import(void)
{
	struct urccl_advert advert;

	CHECK_EQ(urccl_advertise(p.b.ctx, region_b, 0, LEN, RIGHTS, 0, &advert), 0);
	CHECK_EQ(urccl_import(p.a.ctx, p.a.peer, &advert, 1, &remote), 0);
}

/* While blocks are on their way. */
static void revoked(uint32_t round)
{
	int64_t res;

	import();
	fill(ours, 1);
	submit(0, 0);
	while (next(500))
		side_turn(&p.a);
	take_back();
	CHECK_EQ(pair_end(&p, &p.b, 9).res, 0);
	fill(theirs, (int)round);
	res = ended();
	CHECK(res == (int64_t)BLOCKS * BLOCK || res == -EACCES);
	CHECK(holds(theirs, (int)round));
}

/* Either may be the faster one. */
static unsigned long moves(void)
{
	return device_calls("urccl", "cuLaunchKernel") +
	       device_calls("urccl", "cuMemcpyBatchAsync");
}

/* CUDA does not return from the call that moves the first bundle. Bundles for which a kernel of an
 * earlier entry is there need no call. */
static void revoked_held(void)
{
	unsigned long before;
	struct urccl_cqe cqe;

	import();
	submit(1, 0);
	CHECK_EQ(ended(), (int64_t)BLOCKS * BLOCK);
	before = moves();
	device_set("hold=all");
	submit(0, 0);
	while (moves() == before)
		if (side_take_within(&p.a, &p.b, 100000, &cqe, NULL))
			submit(0, 0);
	take_back();
	CHECK(!side_take_within(&p.b, &p.a, 50000000, &cqe, NULL));
	device_set("hold=none");
	CHECK_EQ(pair_end(&p, &p.b, 9).res, 0);
	fill(theirs, 3);
	CHECK_EQ(ended(), -EACCES);
	CHECK(holds(theirs, 3));
}

int main(int argc, char **argv)
{
	uint32_t i;

	device_load();
	pair_begin(&p, argc, argv);
	ours = device_alloc(LEN, 0);
	theirs = device_alloc(LEN, 0);
	bytes = malloc(LEN);
	CHECK(bytes);
	region = side_register(&p.a, (void *)(uintptr_t)ours, LEN, 0);
	region_b = side_register(&p.b, (void *)(uintptr_t)theirs, LEN, RIGHTS);
	import();
	device_set("kernel=300,delay=300");
	for (i = 0; i < ROUNDS; i++)
		one_round(i);
	for (i = 0; i < ROUNDS; i++)
		revoked(i);
	device_set("kernel=0,delay=0");
	revoked_held();
	device_set("refuse=cuLaunchKernel:801");
	revoked_held();
	pair_close(&p);
	free(bytes);
	return 0;
}
