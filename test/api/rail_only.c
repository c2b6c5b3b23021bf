/* SPDX-License-Identifier: Apache-2.0 */
/* The only rail of a peer dies and returns: entries and WARM wait and succeed, the peer is not
 * lost. Gone for longer than dead_after it is. Where a device knows that it has no link (ib), they
 * fail at once, and so do new ones until it has one. */
#include "pair.h"

#define LEN  (256u << 10)
#define SOON 50000000ull /* ns: no look at a link, and no time to wait for one */

static struct pair p;
static struct target t;
static uint8_t local[LEN];
static int knows;    /* its links */
static int64_t lost; /* what WATCH said of it */

static void put(uint64_t version)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);

	pattern_fill(local, LEN, 0, version);
	urccl_prep_write(sqe, t.remote, local, LEN, 0);
	urccl_sqe_add_flags(sqe, URCCL_SQE_NOTIFY);
	sqe->tag = version;
	sqe->user_data = version;
	CHECK_EQ(urccl_submit(p.a.ring), 1);
}

/* Where the peer is lost its WATCH ends, too. */
static int64_t write_one(void)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);
	struct urccl_cqe cqe;

	urccl_prep_write(sqe, t.remote, local, LEN, 0);
	sqe->user_data = 1;
	CHECK_EQ(urccl_submit(p.a.ring), 1);
	for (;;) {
		side_take(&p.a, &p.b, &cqe, NULL);
		if (urccl_cqe_kind(&cqe) == URCCL_KIND_LOST)
			lost = cqe.res;
		else if (urccl_cqe_kind(&cqe) == URCCL_KIND_OP && cqe.user_data == 1)
			return cqe.res;
	}
}

/* Not where its device knows that it cannot go: neither what waits, nor what is new. */
static void fails(void)
{
	uint64_t start, waited;

	CHECK_EQ(write_one(), -ENETDOWN);
	waited = waited_ns();
	start = now_ns();
	CHECK_EQ(write_one(), -ENETDOWN);
	CHECK_LE(now_ns() - start, SOON + waited_since(waited));
	pair_pull(&p, 0, 0);
	side_rails(&p.a, &p.b, 0);
}

/* Long after that the peer is lost. */
static void is_lost(void)
{
	uint64_t late = now_ns() + PAIR_LATE_NS;
	int64_t res;

	while ((res = write_one()) == -ENETDOWN)
		CHECK(!is_late(late));
	CHECK_EQ(res, -ECONNRESET);
	while (!lost) {
		CHECK(!is_late(late));
		write_one();
	}
	CHECK_EQ(lost, knows ? -ENETDOWN : -ECONNRESET);
}

static void arrives(uint64_t version)
{
	struct urccl_cqe cqe = pair_end(&p, &p.a, version);

	CHECK_EQ(cqe.res, LEN);
	CHECK(pattern_holds(t.bytes, LEN, 0, version));
	side_take(&p.b, &p.a, &cqe, NULL);
	CHECK_EQ(urccl_cqe_kind(&cqe), URCCL_KIND_NOTE);
	CHECK_EQ(cqe.tag, version);
}

/* The keys went with the rail: WARM has new ones when there is one again. What a program was told
 * the control thread may hear a little later. */
static void warms(void)
{
	int64_t res;

	pair_pull(&p, 0, 1);
	side_rails(&p.a, &p.b, 1);
	do {
		side_warm(&p.a, 1000, 1);
		res = pair_end(&p, &p.a, 1).res;
		CHECK(!res || res == -ETIMEDOUT || (knows && res == -ENETDOWN));
	} while (!res);
	if (knows) {
		pair_pull(&p, 0, 0);
		side_rails(&p.a, &p.b, 0);
	}
	side_warm(&p.a, 0, 1);
	pair_pull(&p, 0, 0);
	CHECK_EQ(pair_end(&p, &p.a, 1).res, 0);
	side_rails(&p.a, &p.b, 0);
	side_rails(&p.b, &p.a, 0);
}

int main(int argc, char **argv)
{
	struct urccl_cqe cqe;
	uint32_t patience;
	uint64_t i;

	pair_options(&p, argc, argv);
	/* A command that puts the rail back may be slow. The other one is to wait for longer: its
	 * word that it lost us is not what we look for. */
	patience = p.pull ? 10000 : 2000;
	p.params.dead_after_ms = 2 * patience;
	p.faults = "delay=1us..20us,early=50%";
	knows = p.transport == URCCL_TRANSPORT_IB;
	pair_sim(&p);
	side_open(&p, &p.b);
	p.params.dead_after_ms = patience;
	pair_open(&p);
	target_open(&p, &t, LEN, 0);
	side_register(&p.a, local, LEN, 0);
	for (i = 1; i < 5; i++) {
		pair_pull(&p, 0, 1);
		side_rails(&p.a, &p.b, 1);
		if (knows)
			fails();
		put(2 * i);
		pair_pull(&p, 0, 0);
		arrives(2 * i);
		side_rails(&p.a, &p.b, 0);
		side_rails(&p.b, &p.a, 0);
		warms();
	}
	pair_pull(&p, 0, 1);
	side_rails(&p.a, &p.b, 1);
	put(100);
	cqe = pair_end(&p, &p.a, 100);
	CHECK_EQ(cqe.res, knows ? -ENETDOWN : -ECONNRESET);
	is_lost();
	pair_close(&p);
	return 0;
}
