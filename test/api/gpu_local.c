/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of a GPU here and ordinary memory at the peer: reads, writes and vectors of every small
 * size and some large ones move through staging memory, and touch nothing else. */
#include <sys/mman.h>
#include <unistd.h>
#include "pair.h"
#include "cuda/device.h"

#define LEN (5u << 20)
#define ROW 1000u

static struct pair p;
static struct target t;
static uint64_t device, other;

static void check_path(const struct urccl_cqe *cqe)
{
	const uint32_t wanted = URCCL_PATH_DEVICE | URCCL_PATH_BOUNCE_LOCAL;

	CHECK_EQ(cqe->path & URCCL_PATH_TRANSPORT, p.transport);
	CHECK_EQ(cqe->path & wanted, wanted);
}

/* 1: len bytes of the pattern are at off, and what was there before is around them. */
static int host_holds(uint64_t off, uint64_t len, uint64_t seed)
{
	uint64_t i;

	for (i = 0; i < len; i++)
		if (t.bytes[off + i] != device_byte(off + i, seed))
			return 0;
	return (!off || t.bytes[off - 1] == 0xee) &&
	       (off + len == LEN || t.bytes[off + len] == 0xee);
}

static void move(struct urccl_sqe *sqe, uint64_t len)
{
	struct urccl_cqe cqe = pair_run(&p, &p.a, sqe);

	CHECK_EQ(cqe.res, (int64_t)len);
	CHECK(cqe.flags & URCCL_CQE_REMOTE_QUIET);
	check_path(&cqe);
}

static void write_one(uint64_t off, uint64_t len, uint64_t seed)
{
	static uint8_t bytes[LEN];
	struct urccl_sqe *sqe = side_sqe(&p.a);
	uint64_t i;

	memset(t.bytes, 0xee, LEN);
	for (i = 0; i < len; i++)
		bytes[i] = device_byte(off + i, seed);
	device_put_early(device + off, bytes, len);
	urccl_prep_write(sqe, t.remote, (void *)(uintptr_t)(device + off), len, off);
	move(sqe, len);
	CHECK(host_holds(off, len, seed));
}

static void read_one(uint64_t off, uint64_t len, uint64_t seed)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);
	uint64_t i;

	device_fill(device, LEN, 0, 7);
	for (i = 0; i < LEN; i++)
		t.bytes[i] = device_byte(i, seed);
	urccl_prep_read(sqe, t.remote, (void *)(uintptr_t)(device + off), len, off);
	move(sqe, len);
	CHECK(device_check(device + off, len, off, seed));
	CHECK(!off || device_check(device, off, 0, 7));
	CHECK(device_check(device + off + len, LEN - off - len, off + len, 7));
}

/* Rows of both allocations in turn. */
static void vectors(uint64_t seed)
{
	static struct urccl_seg segs[200];
	struct urccl_sqe *sqe = side_sqe(&p.a);
	uint64_t i, at;

	memset(t.bytes, 0xee, LEN);
	for (i = 0, at = 0; i < 200; i++, at += ROW) {
		segs[i] = (struct urccl_seg){
			.addr = (i & 1 ? other : device) + at,
			.len = ROW,
			.off = at,
			.remote = t.remote.id,
		};
		device_fill(segs[i].addr, ROW, at, seed);
	}
	urccl_prep_writev(sqe, p.a.peer, segs, 200);
	move(sqe, 200 * ROW);
	CHECK(host_holds(0, 200 * ROW, seed));
	for (i = 0; i < 200; i++)
		device_fill(segs[i].addr, ROW, i * ROW, 3);
	sqe = side_sqe(&p.a);
	urccl_prep_readv(sqe, p.a.peer, segs, 200);
	move(sqe, 200 * ROW);
	for (i = 0; i < 200; i++)
		CHECK(device_check(segs[i].addr, ROW, i * ROW, seed));
}

static void many(void)
{
	struct urccl_cqe cqe;
	uint64_t i;

	memset(t.bytes, 0xee, LEN);
	device_fill(device, LEN, 0, 21);
	for (i = 0; i < 128; i++) {
		struct urccl_sqe *sqe = side_sqe(&p.a);

		urccl_prep_write(sqe, t.remote, (void *)(uintptr_t)(device + i * (LEN / 128)),
				 LEN / 128, i * (LEN / 128));
	}
	CHECK_EQ(urccl_submit(p.a.ring), 128);
	for (i = 0; i < 128; i++) {
		side_take(&p.a, &p.b, &cqe, NULL);
		CHECK_EQ(cqe.res, LEN / 128);
	}
	CHECK(host_holds(0, LEN, 21));
}

/* The engine tells of its slots at its looks: a millisecond later or so, and before it sleeps. */
static void dump_has_slots(void)
{
	char text[16384];
	int fd = memfd_create("dump", MFD_CLOEXEC);
	uint64_t late = now_ns() + PAIR_LATE_NS;
	ssize_t n;

	CHECK_GE(fd, 0);
	text[0] = 0;
	while (!strstr(text, "staging: 0 of 24 slots") && now_ns() < late) {
		side_turn(&p.a);
		CHECK_EQ(ftruncate(fd, 0), 0);
		CHECK_EQ(lseek(fd, 0, SEEK_SET), 0);
		CHECK_EQ(urccl_dump(p.a.ctx, fd), 0);
		n = pread(fd, text, sizeof(text) - 1, 0);
		CHECK_GE(n, 1);
		text[n] = 0;
	}
	CHECK_SAYS(text, "staging: 0 of 24 slots of 1 MiB in use");
	close(fd);
}

int main(int argc, char **argv)
{
	static const uint32_t sizes[] = {1,   2,    3,	  15,	 16,	   17,
					 255, 4095, 4096, 65537, 1u << 20, (1u << 20) + 1,
					 LEN};
	struct urccl_region_info info = URCCL_INIT(urccl_region_info);
	struct urccl_region r;
	char text[4096];
	uint64_t i;

	device_load();
	pair_begin(&p, argc, argv);
	device = device_alloc(LEN, 0);
	other = device_alloc(LEN, device_cuda.gpus > 1);
	r = side_register(&p.a, (void *)(uintptr_t)device, LEN, 0);
	side_register(&p.a, (void *)(uintptr_t)other, LEN, 0);
	CHECK_EQ(urccl_get_region_info(p.a.ctx, r, &info), 0);
	CHECK_EQ(info.device, 1);
	CHECK_EQ(info.staged, 1u << p.transport);
	CHECK_GE(urccl_plan(p.a.ctx, p.a.peer, r, text, sizeof(text)), 1);
	CHECK_SAYS(text, "memory of GPU 0; ");
	CHECK_SAYS(text, "staged");
	CHECK_SAYS(text, "relay");
	target_open(&p, &t, LEN, p.shared);
	for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		write_one(LEN - sizes[i], sizes[i], i);
		read_one(i < 12 ? 77 * i : 0, sizes[i], 100 + i);
	}
	vectors(50);
	many();
	dump_has_slots();
	target_close(&p, &t);
	pair_close(&p);
	return 0;
}
