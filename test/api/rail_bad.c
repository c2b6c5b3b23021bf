/* SPDX-License-Identifier: Apache-2.0 */
/* The only rail of a peer breaks whenever something long is on its way: that entry is not sent
 * again for ever but fails and says why, before its deadline; what is short goes on. */
#include "pair.h"

#define LEN   (4u << 20)
#define MOVES 3000000ull /* ns that it is on its way each time */
#define MOST  40u	 /* times, a few in vain */

static struct pair p;
static struct target t;
static uint8_t local[LEN];

static void start(uint32_t len)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);

	urccl_prep_write(sqe, t.remote, local, len, 0);
	sqe->user_data = len;
	CHECK_EQ(urccl_submit(p.a.ring), 1);
}

/* The next end, or an event of the rail has come. 1: the end. */
static int next(struct urccl_cqe *cqe)
{
	uint64_t late = now_ns() + PAIR_LATE_NS;
	uint32_t told = p.a.rails_told;

	while (p.a.rails_told == told || p.a.rails_down) {
		CHECK(!is_late(late));
		if (side_take_within(&p.a, &p.b, 1000000, cqe, NULL))
			return 1;
	}
	return 0;
}

int main(int argc, char **argv)
{
	struct urccl_cqe cqe;
	uint32_t i;

	pair_options(&p, argc, argv);
	p.faults = "rate=2m,delay=1us..10us";
	pair_open(&p);
	target_open(&p, &t, LEN, 0);
	side_register(&p.a, local, LEN, 0);
	pattern_fill(local, LEN, 0, 1);
	start(LEN);
	for (i = 0; !side_take_within(&p.a, &p.b, MOVES, &cqe, NULL); i++) {
		CHECK_LE(i, MOST);
		pair_pull(&p, 0, 1);
		pair_pull(&p, 0, 0);
		if (next(&cqe))
			break;
	}
	CHECK_EQ(cqe.user_data, LEN);
	CHECK_EQ(cqe.res, -ECONNRESET);
	check_sentence(&p.a, &cqe, "was on its way when a rail broke");
	CHECK_GE(i, 5);
	start(64);
	cqe = pair_end(&p, &p.a, 64);
	CHECK_EQ(cqe.res, 64);
	CHECK(pattern_holds(t.bytes, 64, 0, 1));
	target_close(&p, &t);
	pair_close(&p);
	return 0;
}
