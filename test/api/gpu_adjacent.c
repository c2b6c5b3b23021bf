/* SPDX-License-Identifier: Apache-2.0 */
/* A range of this side that goes on from one allocation of a GPU into the next, which touches it:
 * no copy is of both, neither of one range nor of scattered pieces. */
#include "child.h"
#include "cuda/device.h"

#define HALF  (4u << 20)
#define LEN   (2u * HALF)
#define TRIES 64u
#define ROWS  16u

static struct pair p;
static struct child c;
static struct urccl_remote remote;
static uint64_t local;

/* The lower one of two allocations that touch. */
static uint64_t adjacent(void)
{
	uint64_t all[TRIES];
	uint32_t n, i;

	for (n = 0; n < TRIES; n++) {
		all[n] = device_alloc(HALF, 0);
		for (i = 0; i < n; i++) {
			if (all[i] + HALF == all[n])
				return all[i];
			if (all[n] + HALF == all[i])
				return all[n];
		}
	}
	SKIP("no two allocations of the GPU touch");
}

static void move(struct urccl_sqe *sqe, uint64_t len)
{
	struct urccl_cqe cqe = pair_run(&p, &p.a, sqe);

	CHECK_EQ(cqe.res, (int64_t)len);
	CHECK(!(cqe.path & URCCL_PATH_BOUNCE_LOCAL));
}

static void clear(void)
{
	device_fill(local, HALF, 0, 0);
	device_fill(local + HALF, HALF, 0, 0);
}

static int holds(uint64_t seed)
{
	return device_check(local, HALF, 0, seed) && device_check(local + HALF, HALF, HALF, seed);
}

static void range(void)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);

	device_fill(local, HALF, 0, 3);
	device_fill(local + HALF, HALF, HALF, 3);
	urccl_prep_write(sqe, remote, (void *)(uintptr_t)local, LEN, 0);
	move(sqe, LEN);
	clear();
	sqe = side_sqe(&p.a);
	urccl_prep_read(sqe, remote, (void *)(uintptr_t)local, LEN, 0);
	move(sqe, LEN);
	CHECK(holds(3));
}

/* Large ones and small ones, some on both. */
static void pieces(uint32_t len)
{
	struct urccl_seg segs[ROWS];
	struct urccl_sqe *sqe = side_sqe(&p.a);
	uint64_t from = HALF - (ROWS / 2) * (uint64_t)len - len / 2;
	uint32_t i;

	clear();
	for (i = 0; i < ROWS; i++)
		segs[i] = (struct urccl_seg){.addr = local + from + i * (uint64_t)len,
					     .len = len,
					     .off = from + i * (uint64_t)len,
					     .remote = remote.id};
	urccl_prep_readv(sqe, p.a.peer, segs, ROWS);
	move(sqe, ROWS * (uint64_t)len);
	CHECK(device_check(local + from, HALF - from, from, 3));
	CHECK(device_check(local + HALF, ROWS * (uint64_t)len - (HALF - from), HALF, 3));
}

int main(int argc, char **argv)
{
	struct urccl_range ranges[2];
	struct urccl_region r;

	child_memory = device_memory;
	child_main(argc, argv);
	device_load();
	if (device_cuda.set)
		device_set("touch");
	pair_options(&p, argc, argv);
	local = adjacent();
	child_start(&p, &c, LEN, NULL);
	side_open(&p, &p.a);
	ranges[0] = (struct urccl_range)URCCL_RANGE(local, HALF);
	ranges[1] = (struct urccl_range)URCCL_RANGE(local + HALF, HALF);
	CHECK_EQ(urccl_register(p.a.ctx, ranges, 2, 0, &r), 0);
	child_connect(&p, &c);
	CHECK_EQ(urccl_import(p.a.ctx, p.a.peer, &c.advert, 1, &remote), 0);
	range();
	pieces(4096);
	pieces(300001);
	side_close(&p.a);
	child_kill(&c);
	return 0;
}
