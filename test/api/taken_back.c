/* SPDX-License-Identifier: Apache-2.0 */
/* A region, a remote, a ring and a context are given back while their entries wait for a peer that
 * does nothing (an INLINE context that nobody drives): soon, and not only when the deadlines of
 * those entries have passed. */
#include "pair.h"

#define N	    250u /* more notifications and atomics than are under way at a time */
#define LEN	    (4u << 20)
#define DEADLINE_US 60000000u
#define SOON_NS	    2000000000ull

static struct pair p;
static struct target t;
static struct urccl_region region;
static uint8_t *local;

static void begin(int argc, char **argv)
{
	struct urccl_sqe *sqe;

	pair_begin_idle(&p, argc, argv);
	region = side_register(&p.a, local, LEN, 0);
	target_open(&p, &t, LEN, 0);
	/* The keys come while b still works. */
	sqe = side_sqe(&p.a);
	urccl_prep_write(sqe, t.remote, local, 1, 0);
	CHECK_EQ(pair_run(&p, &p.a, sqe).res, 1);
}

static void submit_all(void)
{
	struct urccl_sqe *sqe;
	uint32_t i;

	for (i = 0; i < N; i++) {
		sqe = side_sqe(&p.a);
		if (i >= 7 && i % 3 == 0)
			urccl_prep_fetch_add(sqe, t.remote, 0, 1);
		else if (i >= 7)
			urccl_prep_notify(sqe, p.a.peer, i, NULL, 0);
		else if (i % 2)
			urccl_prep_read(sqe, t.remote, local, LEN, 0);
		else
			urccl_prep_write(sqe, t.remote, local, LEN, 0);
		urccl_sqe_set_deadline_us(sqe, DEADLINE_US);
	}
	CHECK_EQ(urccl_submit(p.a.ring), N);
}

static void give_back(uint32_t what)
{
	uint64_t start;

	settle_end(&p.a); /* it may go with its context here */
	start = now_ns();
	if (what == 0) {
		CHECK_EQ(urccl_unregister(p.a.ctx, region), 0);
	} else if (what == 1) {
		CHECK_EQ(urccl_unimport(p.a.ctx, t.remote), 0);
	} else if (what == 2) {
		urccl_ring_close(p.a.ring);
		p.a.ring = NULL;
	} else {
		urccl_close(p.a.ctx);
		p.a.ctx = NULL;
	}
	CHECK(!is_late(start + SOON_NS));
}

static void end(void)
{
	if (p.a.ctx)
		urccl_close(p.a.ctx);
	side_close(&p.b);
	if (p.sim)
		CHECK_EQ(urccl_sim_close(p.sim), 0);
}

int main(int argc, char **argv)
{
	uint32_t what;

	local = malloc(LEN);
	CHECK(local);
	memset(local, 1, LEN);
	for (what = 0; what < 4; what++) {
		begin(argc, argv);
		submit_all();
		give_back(what);
		end();
	}
	return 0;
}
