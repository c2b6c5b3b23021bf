/* SPDX-License-Identifier: Apache-2.0 */
/* As long as none of those above max_warm can go, being busy, they are asked more and more seldom;
 * but when they can, all go soon after the first, though not all are asked at once. */
#include "meet.h"

#define PEERS	21u /* more than are asked at once */
#define NOTES	2u
#define HOLD_NS 3400000000ull /* the next time is 2 s later then */
#define SOON_NS 1500000000ull
#define TRIES	4u
#define LONG_US 100000000u

static struct pair p;
static struct side *hub = &p.a, friends[PEERS];
static struct urccl_peer peers[PEERS]; /* as the hub calls them */

static uint32_t count_warm(void)
{
	uint32_t i, n = 0;

	for (i = 0; i < PEERS; i++) {
		side_turn(&friends[i]);
		n += (uint32_t)side_is_warm(hub, peers[i]);
	}
	return n;
}

/* A friend takes nothing and has one slot for it: the second notification waits at the hub. */
static void occupy(void)
{
	uint64_t until = now_ns() + PAIR_LATE_NS;
	struct urccl_sqe *sqe;
	uint32_t i;

	for (i = 0; i < NOTES * PEERS; i++) {
		sqe = side_sqe(hub);
		urccl_prep_notify(sqe, peers[i % PEERS], 5, NULL, 0);
		urccl_sqe_set_deadline_us(sqe, LONG_US);
		urccl_sqe_set_data64(sqe, 6);
	}
	CHECK_EQ(urccl_submit(hub->ring), NOTES * PEERS);
	while (count_warm() < PEERS)
		CHECK(!is_late(until));
	until = now_ns() + HOLD_NS;
	while (now_ns() < until)
		CHECK_EQ(count_warm(), PEERS);
}

static void release(void)
{
	uint32_t i, k;

	for (i = 0; i < PEERS; i++)
		for (k = 0; k < NOTES; k++)
			CHECK_EQ(side_event(&friends[i], hub, URCCL_KIND_NOTE, NULL).tag, 5);
	for (i = 0; i < NOTES * PEERS;) {
		struct urccl_cqe cqe;

		count_warm();
		while (side_take_within(hub, NULL, 0, &cqe, NULL)) {
			CHECK_EQ(cqe.res, 0);
			i++;
		}
	}
}

/* From the first to the last. */
static uint64_t all_go(void)
{
	uint64_t until = now_ns() + PAIR_LATE_NS, first;

	while (count_warm() == PEERS)
		CHECK(!is_late(until));
	first = now_ns();
	while (count_warm() > 1)
		CHECK(!is_late(until));
	return now_ns() - first;
}

int main(int argc, char **argv)
{
	uint64_t took;
	uint32_t i, tries = 0;

	pair_options(&p, argc, argv);
	pair_sim(&p);
	p.params.max_warm = 1;
	side_open(&p, hub);
	p.params.max_warm = 0;
	p.params.flags |= URCCL_OPEN_INLINE;
	p.ring_params.event_slots = 1;
	for (i = 0; i < PEERS; i++)
		peers[i] = pair_meet(&p, hub, &friends[i]);
	/* Who has no processor for a while is slow by itself. */
	do {
		CHECK(tries++ < TRIES);
		occupy();
		release();
		took = all_go();
		printf("all went within %llu us\n", (unsigned long long)took / 1000);
	} while (took > SOON_NS);
	for (i = 0; i < PEERS; i++)
		side_close(&friends[i]);
	side_close(hub);
	CHECK_EQ(urccl_sim_close(p.sim), 0);
	return 0;
}
