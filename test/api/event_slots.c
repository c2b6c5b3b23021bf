/* SPDX-License-Identifier: Apache-2.0 */
/* Peers that dial a ring whose event slots are used up wait in their CONNECTs; each slot that is
 * given back lets one through, and none is lost. How many slots there are the ring says, or, if it
 * says nothing, its context. */
#include "meet.h"

#define N     6u
#define SLOTS 2u

static struct pair p;
static struct side guests[N];
static uint32_t connected;

static void look(uint64_t ns)
{
	struct urccl_cqe cqe;
	uint32_t i;

	for (i = 0; i < N; i++) {
		if (!side_take_within(&guests[i], &p.b, ns, &cqe, NULL))
			continue;
		CHECK_EQ(cqe.res, 0);
		CHECK(!guests[i].peer.id);
		guests[i].peer.id = (uint32_t)cqe.handle;
		connected++;
	}
}

static void until(uint32_t n)
{
	uint64_t late = now_ns() + PAIR_LATE_NS;

	while (connected < n) {
		CHECK(!is_late(late));
		look(100000);
	}
}

/* b has SLOTS by the ring's word, or by the context's. */
static void b_open(int by_ring)
{
	struct pair few = p;

	few.ring_params.event_slots = by_ring ? SLOTS : 0;
	few.params.event_slots = by_ring ? 2 * SLOTS : SLOTS;
	side_open(&few, &p.b);
	side_accept(&p.b, 1);
}

static void fills(int by_ring)
{
	uint8_t blob[URCCL_METADATA_MAX];
	uint32_t i, seen[N] = {0};
	struct urccl_cqe cqe;
	int len;

	for (i = 0; i < N; i++)
		side_open(&p, &guests[i]);
	b_open(by_ring);
	connected = 0;
	len = urccl_metadata(p.b.ctx, blob, sizeof(blob));
	CHECK_GE(len, 1);
	for (i = 0; i < N; i++)
		side_dial(&guests[i], blob, (uint32_t)len, 20000000, i);
	until(SLOTS);
	for (i = 0; i < 20; i++)
		look(1000000);
	CHECK_EQ(connected, SLOTS);
	for (i = 0; i < N; i++) {
		cqe = side_event(&p.b, NULL, URCCL_KIND_PEER, NULL);
		CHECK(cqe.peer);
		seen[i] = cqe.peer;
		until(i + SLOTS + 1 < N ? i + SLOTS + 1 : N);
	}
	for (i = 1; i < N; i++)
		CHECK_NE(seen[i], seen[i - 1]);
	for (i = 0; i < N; i++)
		side_close(&guests[i]);
	side_close(&p.b);
}

int main(int argc, char **argv)
{
	pair_options(&p, argc, argv);
	pair_sim(&p);
	fills(1);
	fills(0);
	if (p.sim)
		CHECK_EQ(urccl_sim_close(p.sim), 0);
	return 0;
}
