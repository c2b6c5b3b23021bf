/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of a GPU at the peer that no device of this side reaches: writes, reads, vectors and pages
 * of every small size and some large ones move from and to memory of a GPU and of the host, and
 * touch nothing else. */
#include <stdlib.h>
#include "relay.h"

#define LEN (5u << 19)
#define ROW 3000u

static struct pair p;
static struct device_target t;
static struct relay_local local[2]; /* of a GPU, and ordinary */
static struct urccl_region regions[2];

static void move(struct urccl_sqe *sqe, uint64_t len)
{
	const uint32_t wanted = URCCL_PATH_DEVICE | URCCL_PATH_BOUNCE_REMOTE;
	struct urccl_cqe cqe = pair_run(&p, &p.a, sqe);

	CHECK_EQ(cqe.res, (int64_t)len);
	CHECK(cqe.flags & URCCL_CQE_REMOTE_QUIET);
	CHECK(!(cqe.flags & URCCL_CQE_NOT_FLUSHED));
	CHECK_EQ(cqe.path & URCCL_PATH_TRANSPORT, p.transport);
	CHECK_EQ(cqe.path & wanted, wanted);
}

/* There, with what was around it left as it is, and back. */
static void round_trip(const struct relay_local *m, uint64_t off, uint64_t len, uint64_t seed)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);

	device_fill(t.device, LEN, 0, 7);
	relay_fill(m, off, len, seed);
	urccl_prep_write(sqe, t.remote, relay_at(m, off), len, off);
	move(sqe, len);
	CHECK(device_check(t.device, off, 0, 7));
	CHECK(device_check(t.device + off, len, off, seed));
	CHECK(device_check(t.device + off + len, LEN - off - len, off + len, 7));
	relay_fill(m, 0, LEN, seed + 1);
	sqe = side_sqe(&p.a);
	urccl_prep_read(sqe, t.remote, relay_at(m, off), len, off);
	move(sqe, len);
	CHECK(relay_holds(m, 0, off, seed + 1));
	CHECK(relay_holds(m, off, len, seed));
	CHECK(relay_holds(m, off + len, LEN - off - len, seed + 1));
}

/* Rows of both kinds in turn. */
static void vectors(void)
{
	static struct urccl_seg segs[200];
	struct urccl_sqe *sqe = side_sqe(&p.a);
	uint32_t i;

	for (i = 0; i < 200; i++) {
		segs[i] = (struct urccl_seg){
			.addr = (uintptr_t)relay_at(&local[i & 1], i * ROW),
			.len = ROW,
			.off = (199 - i) * (ROW + 8),
			.remote = t.remote.id,
		};
		relay_fill(&local[i & 1], i * ROW, ROW, 9);
	}
	urccl_prep_writev(sqe, p.a.peer, segs, 200);
	move(sqe, 200 * ROW);
	for (i = 0; i < 200; i++) {
		CHECK(device_check(t.device + segs[i].off, ROW, i * ROW, 9));
		relay_fill(&local[i & 1], i * ROW, ROW, 10);
	}
	sqe = side_sqe(&p.a);
	urccl_prep_readv(sqe, p.a.peer, segs, 200);
	move(sqe, 200 * ROW);
	for (i = 0; i < 200; i++)
		CHECK(relay_holds(&local[i & 1], i * ROW, ROW, 9));
}

/* Every second block of 4 KiB here is one after the other there. */
static void pages(int kind)
{
	const struct urccl_paged d = {
		.size = sizeof(d),
		.ndims = 1,
		.block = 4096,
		.dim = {{.count = 300, .local_stride = 8192, .remote_stride = 4096}},
	};
	struct urccl_sqe *sqe = side_sqe(&p.a);
	uint32_t i;

	relay_fill(&local[kind], 0, LEN, 20);
	urccl_prep_write_paged(sqe, t.remote, regions[kind], &d, 1);
	move(sqe, 300 * 4096);
	for (i = 0; i < 300; i++)
		CHECK(device_check(t.device + i * 4096, 4096, i * 8192, 20));
	relay_fill(&local[kind], 0, LEN, 21);
	sqe = side_sqe(&p.a);
	urccl_prep_read_paged(sqe, t.remote, regions[kind], &d, 1);
	move(sqe, 300 * 4096);
	for (i = 0; i < 600; i++)
		CHECK(relay_holds(&local[kind], i * 4096, 4096, 20 + (i & 1)));
}

static void many(void)
{
	struct urccl_cqe cqe;
	uint64_t i;

	relay_fill(&local[1], 0, LEN, 30);
	for (i = 0; i < 128; i++) {
		struct urccl_sqe *sqe = side_sqe(&p.a);

		urccl_prep_write(sqe, t.remote, relay_at(&local[1], i * (LEN / 128)), LEN / 128,
				 i * (LEN / 128));
	}
	CHECK_EQ(urccl_submit(p.a.ring), 128);
	for (i = 0; i < 128; i++) {
		side_take(&p.a, &p.b, &cqe, NULL);
		CHECK_EQ(cqe.res, LEN / 128);
	}
	CHECK(device_check(t.device, LEN, 0, 30));
}

int main(int argc, char **argv)
{
	static const uint32_t sizes[] = {1, 17, 4095, 65537, 1u << 20, (1u << 20) + 1, LEN};
	uint32_t i, k;

	relay_begin(&p, argc, argv);
	device_target_open(&p, &t, LEN);
	for (k = 0; k < 2; k++) {
		local[k] = k ? relay_ordinary(LEN) : relay_device(LEN);
		regions[k] = side_register(&p.a, relay_at(&local[k], 0), LEN, 0);
	}
	for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		for (k = 0; k < 2; k++)
			round_trip(&local[k], (LEN - sizes[i]) / 3, sizes[i], 10 * i + k);
	vectors();
	pages(0);
	pages(1);
	many();
	pair_close(&p);
	free(relay_at(&local[1], 0));
	return 0;
}
