/* SPDX-License-Identifier: Apache-2.0 */
/* Closing a context whose rings wait for a peer that does not answer: each waits a little for its
 * word, all of them at the same time. */
#include "pair.h"

#define RINGS 16u

int main(int argc, char **argv)
{
	struct pair p;
	struct urccl_ring *ring[RINGS];
	uint64_t since;
	uint32_t i;

	/* b does nothing from here on. */
	pair_begin_idle(&p, argc, argv);
	for (i = 0; i < RINGS; i++) {
		struct urccl_sqe *sqe;

		CHECK_EQ(urccl_ring_open(p.a.ctx, NULL, &ring[i]), 0);
		sqe = urccl_get_sqe(ring[i]);
		urccl_prep_notify(sqe, p.a.peer, i, NULL, 0);
		CHECK_EQ(urccl_submit(ring[i]), 1);
	}
	settle_end(&p.a);
	since = now_ns();
	urccl_close(p.a.ctx);
	/* One after the other each of them takes 120 ms. */
	CHECK_LE(now_ns() - since, RINGS * 60000000ull);
	settle_end(&p.b);
	urccl_close(p.b.ctx);
	CHECK_EQ(urccl_sim_close(p.sim), 0);
	return 0;
}
