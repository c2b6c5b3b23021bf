/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes have 64 bits: nothing, one byte, and more than 2^31 and 2^32 bytes in one entry, each way,
 * with every figure of the CQE whole and the bytes at both ends where they should be. */
#include "span.h"

#define RW (URCCL_RIGHT_READ | URCCL_RIGHT_WRITE)

static const uint64_t gib = 1ull << 30;
static struct pair p;
static struct span here, there;
static struct urccl_region region, exposed;
static struct urccl_remote remote;

/* Of this length and a guard. */
static void begin(uint64_t len)
{
	struct urccl_advert advert;

	span_open(&here, len);
	span_open(&there, len);
	region = side_register(&p.a, here.bytes, here.len, 0);
	exposed = side_register(&p.b, there.bytes, there.len, RW);
	CHECK_EQ(urccl_advertise(p.b.ctx, exposed, 0, there.len, RW, 0, &advert), 0);
	CHECK_EQ(urccl_import(p.a.ctx, p.a.peer, &advert, 1, &remote), 0);
}

static void end(void)
{
	CHECK_EQ(urccl_forget(p.a.ctx, remote), 0);
	CHECK_EQ(urccl_unregister(p.b.ctx, exposed), 0);
	CHECK_EQ(urccl_unregister(p.a.ctx, region), 0);
	span_close(&here);
	span_close(&there);
}

static struct urccl_cqe run(uint64_t len, int reads)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);
	struct urccl_cqe cqe;

	if (reads)
		urccl_prep_read(sqe, remote, here.bytes, len, 0);
	else
		urccl_prep_write(sqe, remote, here.bytes, len, 0);
	urccl_sqe_set_region(sqe, region);
	urccl_sqe_set_timeout(sqe, 100000000);
	CHECK_EQ(urccl_submit(p.a.ring), 1);
	CHECK(side_take_within(&p.a, &p.b, 4 * PAIR_LATE_NS, &cqe, NULL));
	return cqe;
}

static void move(uint64_t len, int reads)
{
	const struct span *from, *to;
	struct urccl_cqe cqe;

	begin(len);
	from = reads ? &there : &here;
	to = reads ? &here : &there;
	span_fill_ends(from, len, len);
	to->bytes[len] = 0xee;
	cqe = run(len, reads);
	CHECK_EQ(cqe.res, (int64_t)len);
	CHECK_EQ(cqe.wire, len);
	CHECK(span_ends_hold(to, len, len));
	CHECK_EQ(to->bytes[len], 0xee);
	end();
}

static void small(void)
{
	int reads;

	begin(SPAN_END);
	for (reads = 0; reads < 2; reads++) {
		here.bytes[0] = 0x10;
		there.bytes[0] = 0x20;
		CHECK_EQ(run(0, reads).res, 0);
		CHECK(here.bytes[0] == 0x10 && there.bytes[0] == 0x20);
		CHECK_EQ(run(1, reads).res, 1);
		CHECK_EQ(here.bytes[0], there.bytes[0]);
		CHECK_EQ(here.bytes[0], reads ? 0x20 : 0x10);
	}
	CHECK_EQ(run(there.len + 1, 0).res, -ERANGE);
	end();
}

int main(int argc, char **argv)
{
	struct urccl_stats stats = {.size = sizeof(stats)};

	pair_begin(&p, argc, argv);
	small();
	/* A packet at a time, with delays, takes minutes for more. */
	if (p.transport == URCCL_TRANSPORT_SIM || PAIR_SLOW) {
		move(gib / 16 + 1, 0);
		move(gib / 16 + 1, 1);
	} else {
		move(2 * gib - 1, 0);
		move(2 * gib, 1);
		move(4 * gib + 1, 0);
		CHECK_EQ(urccl_stats(p.a.ctx, &stats), 0);
		CHECK_EQ(stats.bytes_written, 6 * gib + 1);
		CHECK_EQ(stats.bytes_read, 2 * gib + 1);
	}
	pair_close(&p);
	return 0;
}
