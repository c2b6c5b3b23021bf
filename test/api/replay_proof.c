/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An entry that goes again for a broken rail is not at its end before what a rail that lives has
 * acknowledged of the first time is placed. Three rails acknowledge before they place, the first
 * long before; it has a chunk of a write when another breaks whose chunks were acknowledged and
 * not proved. All goes again by the third; when that ends, the place is the other side's own.
 */
#include <stdlib.h>
#include "pair.h"

#define LEN    (16u << 20)
#define ROUNDS 8u
#define FAULTS                                                                             \
	"clock=simulated,rails=3,early=100%,delay=1us..20us,rate=100m,delay@0=1us..300ms," \
	"resend=2s"

static struct pair p;
static struct target t;
static uint8_t *local;
static uint32_t replayed;

static void ends(int64_t res)
{
	struct urccl_cqe cqe;

	side_take(&p.a, &p.b, &cqe, NULL);
	CHECK_EQ(cqe.res, res);
	replayed += !!(cqe.path & URCCL_PATH_REPLAYED);
}

static void pass(uint64_t ns)
{
	urccl_prep_timeout(side_sqe(&p.a), ns, 0, 0);
	CHECK_EQ(urccl_submit(p.a.ring), 1);
	ends(-ETIME);
}

/* Until these are down, as a was told; with keys when none is. */
static void wait_down(uint32_t bits)
{
	uint64_t late = now_ns() + PAIR_LATE_NS;
	struct urccl_cqe cqe;

	while (p.a.rails_down != bits || p.a.rails_told < 2) {
		CHECK(!is_late(late));
		CHECK(!side_take_within(&p.b, &p.a, 0, &cqe, NULL));
		CHECK(!side_take_within(&p.a, &p.b, 0, &cqe, NULL));
	}
	if (bits)
		return;
	urccl_prep_warm(side_sqe(&p.a), p.a.peer);
	CHECK_EQ(urccl_submit(p.a.ring), 1);
	ends(0);
}

static void one(uint64_t round)
{
	/* What a new rail carries is not known: it has a chunk of what is long. */
	pair_pull(&p, 0, 1);
	wait_down(1);
	pair_pull(&p, 0, 0);
	wait_down(0);
	pattern_fill(local, LEN, 0, 2 * round);
	urccl_prep_write(side_sqe(&p.a), t.remote, local, LEN, 0);
	CHECK_EQ(urccl_submit(p.a.ring), 1);
	pass(100000000);
	pair_pull(&p, 1, 1);
	ends(LEN);
	CHECK(pattern_holds(t.bytes, LEN, 0, 2 * round));
	pattern_fill(t.bytes, LEN, 0, 2 * round + 1);
	pass(3000000000);
	CHECK(pattern_holds(t.bytes, LEN, 0, 2 * round + 1));
	pair_pull(&p, 1, 0);
	wait_down(0);
}

int main(int argc, char **argv)
{
	uint64_t round;

	pair_options(&p, argc, argv);
	p.params.flags |= URCCL_OPEN_INLINE;
	p.faults = FAULTS;
	pair_open(&p);
	target_open(&p, &t, LEN, 0);
	local = malloc(LEN);
	CHECK(local);
	side_register(&p.a, local, LEN, 0);
	wait_down(0);
	for (round = 1; round <= ROUNDS; round++)
		one(round);
	printf("%u of %u entries went again\n", replayed, ROUNDS);
	CHECK_GE(replayed, ROUNDS / 2);
	target_close(&p, &t);
	pair_close(&p);
	free(local);
	return 0;
}
