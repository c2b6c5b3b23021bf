/* SPDX-License-Identifier: Apache-2.0 */
/* Ten thousand tensors of one pool are one registration, as one region and as many; entries name
 * any of them; and addresses that nobody has touched cost nothing, however many. */
#include <sys/mman.h>
#include "pair.h"

#define TENSORS 5000u
#define LEN	4096u
#define POOL	((uint64_t)TENSORS * LEN)
#define HUGE	(64ull << 30)
#define RW	(URCCL_RIGHT_READ | URCCL_RIGHT_WRITE)

static struct pair p;
static struct target t;
static struct urccl_range ranges[TENSORS];
static struct urccl_region each[TENSORS];

static void check_info(struct urccl_region region, uint32_t extents, uint32_t shared)
{
	struct urccl_region_info info = {.size = sizeof(info)};

	CHECK_EQ(urccl_get_region_info(p.a.ctx, region, &info), 0);
	CHECK_EQ(info.extents, extents);
	CHECK_EQ(info.shared, shared);
}

static int64_t writes(const void *from, uint64_t len, struct urccl_region region)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);

	urccl_prep_write(sqe, t.remote, from, len, 0);
	urccl_sqe_set_region(sqe, region);
	return pair_run(&p, &p.a, sqe).res;
}

/* Tensor i of the pool, in an order that is not that of the addresses. */
static uint8_t *tensor(uint8_t *pool, uint32_t i)
{
	return pool + (uint64_t)(i * 7919u % TENSORS) * LEN;
}

static void as_one(uint8_t *pool, uint64_t gap)
{
	struct urccl_region region;
	uint32_t i;

	for (i = 0; i < TENSORS; i++)
		ranges[i] = (struct urccl_range){.addr = (uintptr_t)tensor(pool, i),
						 .len = LEN - gap,
						 .fd = -1};
	CHECK_EQ(urccl_register(p.a.ctx, ranges, TENSORS, 0, &region), 0);
	check_info(region, gap ? TENSORS : 1, 0);
	for (i = 0; i < TENSORS; i += 997) {
		memset(tensor(pool, i), (int)i, LEN - gap);
		CHECK_EQ(writes(tensor(pool, i), LEN - gap, region), (int64_t)(LEN - gap));
		CHECK_EQ(writes(tensor(pool, i) + 5, 50, (struct urccl_region){0}), 50);
		CHECK_EQ(t.bytes[49], (uint8_t)i);
	}
	CHECK_EQ(urccl_unregister(p.a.ctx, region), 0);
}

static void as_many(uint8_t *pool)
{
	struct urccl_region whole = side_register(&p.a, pool, POOL, RW);
	uint32_t i;

	check_info(whole, 1, 0);
	for (i = 0; i < TENSORS; i++)
		each[i] = side_register(&p.a, tensor(pool, i), LEN, i % 2 ? 0 : RW);
	check_info(each[0], 1, 1);
	check_info(each[TENSORS - 1], 1, 1);
	/* What the devices know stays while anybody uses it. */
	CHECK_EQ(urccl_unregister(p.a.ctx, whole), 0);
	memset(tensor(pool, 7), 7, LEN);
	CHECK_EQ(writes(tensor(pool, 7), LEN, each[7]), LEN);
	CHECK_EQ(t.bytes[LEN - 1], 7);
	for (i = 0; i < TENSORS; i++)
		CHECK_EQ(urccl_unregister(p.a.ctx, each[i]), 0);
	CHECK_EQ(writes(tensor(pool, 7), LEN, (struct urccl_region){0}), -EFAULT);
}

/* A region that gives less is no use to one that gives more; nor is one that holds a part. */
static void not_shared(uint8_t *pool)
{
	struct urccl_region small = side_register(&p.a, pool, 2 * LEN, URCCL_RIGHT_READ);
	struct urccl_region more = side_register(&p.a, pool, LEN, RW);
	struct urccl_region wide = side_register(&p.a, pool + LEN, 2 * LEN, 0);

	check_info(more, 1, 0);
	check_info(wide, 1, 0);
	CHECK_EQ(urccl_unregister(p.a.ctx, small), 0);
	CHECK_EQ(urccl_unregister(p.a.ctx, more), 0);
	CHECK_EQ(urccl_unregister(p.a.ctx, wide), 0);
}

static void untouched(void)
{
	uint8_t *m = mmap(NULL, HUGE, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	struct urccl_region region;
	uint64_t start = now_ns();

	if (m == MAP_FAILED)
		return; /* a limit on addresses */
	region = side_register(&p.a, m, HUGE, RW);
	CHECK(!is_late(start + 5000000000));
	CHECK_EQ(writes(m + HUGE - 64, 64, region), 64);
	CHECK_EQ(urccl_unregister(p.a.ctx, region), 0);
	munmap(m, HUGE);
}

int main(int argc, char **argv)
{
	uint8_t *pool;
	void *addr;

	pair_begin(&p, argc, argv);
	target_open(&p, &t, LEN, 0);
	pool = mmap(NULL, POOL, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(pool != MAP_FAILED);
	as_one(pool, 0);
	as_one(pool, 64);
	as_many(pool);
	not_shared(pool);
	CHECK_EQ(urccl_alloc(p.a.ctx, POOL, &addr), 0);
	as_one(addr, 0);
	CHECK_EQ(urccl_free(p.a.ctx, addr), 0);
	untouched();
	pair_close(&p);
	return 0;
}
