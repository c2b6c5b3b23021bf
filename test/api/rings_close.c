/* SPDX-License-Identifier: Apache-2.0 */
/* Rings that wait for a peer which does not answer: each waits a little for its word, those of a
 * context that is closed all at the same time, and of those that are closed in turn the first for
 * all. */
#include "pair.h"

#define RINGS 16u

static struct pair p;
static struct urccl_ring *ring[RINGS];

static void open_rings(void)
{
	struct urccl_sqe *sqe;
	uint32_t i;

	for (i = 0; i < RINGS; i++) {
		CHECK_EQ(urccl_ring_open(p.a.ctx, NULL, &ring[i]), 0);
		sqe = urccl_get_sqe(ring[i]);
		urccl_prep_notify(sqe, p.a.peer, i, NULL, 0);
		CHECK_EQ(urccl_submit(ring[i]), 1);
	}
}

int main(int argc, char **argv)
{
	uint64_t since;
	uint32_t i;

	/* b does nothing from here on. */
	pair_begin_idle(&p, argc, argv);
	open_rings();
	settle_end(&p.a);
	/* One after the other each of them takes 120 ms. */
	since = now_ns();
	for (i = 0; i < RINGS; i++)
		urccl_ring_close(ring[i]);
	CHECK(!is_late(since + RINGS * 60000000ull));
	open_rings();
	since = now_ns();
	urccl_close(p.a.ctx);
	CHECK(!is_late(since + RINGS * 60000000ull));
	settle_end(&p.b);
	urccl_close(p.b.ctx);
	CHECK_EQ(urccl_sim_close(p.sim), 0);
	return 0;
}
