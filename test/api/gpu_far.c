/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of a GPU of another process of this host: it is written and read from memory of a GPU,
 * from pinned and from ordinary memory, by copies of a GPU of this side. */
#include <stdlib.h>
#include "child.h"
#include "cuda/device.h"

#define LEN (40u << 20)
#define ROW 3000u

enum { DEVICE, PINNED, ORDINARY, KINDS };

static struct pair p;
static struct child c;
static struct urccl_remote remote;
static uint64_t local[KINDS], back;

static uint64_t pinned_alloc(uint64_t len)
{
	int (*alloc)(void **memory, size_t n, unsigned flags);
	void *m;

	DEVICE_SYMBOL(alloc, "cuMemHostAlloc", 1);
	device_enter(0);
	CHECK_EQ(alloc(&m, len, 0), 0);
	device_leave();
	return (uintptr_t)m;
}

static void move(struct urccl_sqe *sqe, uint64_t len, int kind)
{
	struct urccl_cqe cqe = pair_run(&p, &p.a, sqe);

	CHECK_EQ(cqe.res, (int64_t)len);
	CHECK(cqe.flags & URCCL_CQE_REMOTE_QUIET);
	CHECK(cqe.path & URCCL_PATH_DEVICE);
	CHECK_EQ(!!(cqe.path & URCCL_PATH_BOUNCE_LOCAL), kind == ORDINARY);
	CHECK(!(cqe.path & URCCL_PATH_BOUNCE_REMOTE));
}

static void fill(int kind, uint64_t off, uint64_t len, uint64_t seed)
{
	uint8_t *m = (uint8_t *)(uintptr_t)local[kind];
	uint64_t i;

	if (kind == DEVICE)
		device_fill(local[kind] + off, len, off, seed);
	for (i = 0; kind != DEVICE && i < len; i++)
		m[off + i] = device_byte(off + i, seed);
}

static int holds(int kind, uint64_t off, uint64_t len, uint64_t seed)
{
	const uint8_t *m = (uint8_t *)(uintptr_t)local[kind];
	uint64_t i;

	if (kind == DEVICE)
		return device_check(local[kind] + off, len, off, seed);
	for (i = 0; i < len; i++)
		if (m[off + i] != device_byte(off + i, seed))
			return 0;
	return 1;
}

/* There from one kind, and back into each. */
static void round_trip(int kind, uint64_t off, uint64_t len, uint64_t seed)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);
	int to;

	fill(kind, off, len, seed);
	urccl_prep_write(sqe, remote, (void *)(uintptr_t)(local[kind] + off), len, off);
	move(sqe, len, kind);
	for (to = 0; to < KINDS; to++) {
		fill(to, off, len, seed + 1);
		sqe = side_sqe(&p.a);
		urccl_prep_read(sqe, remote, (void *)(uintptr_t)(local[to] + off), len, off);
		move(sqe, len, to);
		CHECK(holds(to, off, len, seed));
	}
}

static void vectors(void)
{
	static struct urccl_seg segs[100];
	struct urccl_sqe *sqe = side_sqe(&p.a);
	uint32_t i;

	for (i = 0; i < 100; i++) {
		segs[i] = (struct urccl_seg){
			.addr = local[i & 1] + 2 * i * ROW,
			.len = ROW,
			.off = 3 * i * ROW,
			.remote = remote.id,
		};
		fill((int)(i & 1), 2 * i * ROW, ROW, 9);
	}
	urccl_prep_writev(sqe, p.a.peer, segs, 100);
	move(sqe, 100 * ROW, DEVICE);
	for (i = 0; i < 100; i++) {
		segs[i].addr = back + i * ROW;
		device_fill(segs[i].addr, ROW, 0, 1);
	}
	sqe = side_sqe(&p.a);
	urccl_prep_readv(sqe, p.a.peer, segs, 100);
	move(sqe, 100 * ROW, DEVICE);
	for (i = 0; i < 100; i++)
		CHECK(device_check(segs[i].addr, ROW, 2 * i * ROW, 9));
}

int main(int argc, char **argv)
{
	static const uint32_t sizes[] = {1, 17, 4096, 65537, (1u << 20) + 1, LEN};
	uint32_t i;
	int kind;

	child_memory = device_memory;
	child_main(argc, argv);
	device_load();
	pair_options(&p, argc, argv);
	child_start(&p, &c, LEN, NULL);
	side_open(&p, &p.a);
	local[DEVICE] = device_alloc(LEN, device_cuda.gpus > 1);
	back = device_alloc(LEN, 0);
	local[PINNED] = pinned_alloc(LEN);
	local[ORDINARY] = (uintptr_t)malloc(LEN);
	for (kind = 0; kind < KINDS; kind++)
		side_register(&p.a, (void *)(uintptr_t)local[kind], LEN, 0);
	side_register(&p.a, (void *)(uintptr_t)back, LEN, 0);
	child_connect(&p, &c);
	CHECK_EQ(urccl_import(p.a.ctx, p.a.peer, &c.advert, 1, &remote), 0);
	for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		for (kind = 0; kind < KINDS; kind++)
			round_trip(kind, (LEN - sizes[i]) / 3, sizes[i], 10 * i + (uint32_t)kind);
	vectors();
	side_close(&p.a);
	child_kill(&c);
	free((void *)(uintptr_t)local[ORDINARY]);
	return 0;
}
