/* SPDX-License-Identifier: Apache-2.0 */
/* Eps come and go, and leave no descriptor, no memory and no mapping behind, also where a key was
 * not forgotten. */
#include "fds.h"
#include "rig.h"

/* Each has megabytes with libfabric, all of which sanitizers look at. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define ROUNDS 100u
#else
#define ROUNDS 1000u
#endif
#define WARM 10u
#define LEN  8192u

struct held {
	int64_t allocations;
	uint32_t fds, mappings;
};

static struct held look(void)
{
	struct held h = {.allocations = allocations_held()};

	h.fds = fds_open();
	h.mappings = memfds_mapped(); /* for a peer */
	return h;
}

static void one(struct rig *rig, struct area *local, struct area *remote, uint32_t round)
{
	struct grant g, kept;
	struct pair pair;

	pair_open(rig, &pair);
	grant_open(&g, &pair.end[1], &pair.end[0], remote, 0, LEN, URCCL_RIGHT_WRITE);
	area_fill(local, 0, LEN, round, 0);
	CHECK_EQ(piece_move(rig, CHUNK_WRITE, &pair.end[0], local, 0, &g, 0, LEN), 0);
	CHECK(area_is(remote, 0, LEN, round, 0));
	grant_open(&kept, &pair.end[1], &pair.end[0], remote, 0, LEN, URCCL_RIGHT_WRITE);
	grant_close(rig, &g);
	grant_withdraw(rig, &kept);
	pair_close(rig, &pair);
}

void case_leak(struct rig *rig)
{
	struct area local, remote;
	struct held before, after;
	struct pair other;
	struct end unused;
	uint32_t round;

	area_open(&rig->node[0], &local, LEN);
	area_open(&rig->node[1], &remote, LEN);
	/* Two at a time: the room of the one before may be in use yet when the next one comes. */
	pair_open(rig, &other);
	for (round = 0; round < WARM; round++)
		one(rig, &local, &remote, round);
	pair_close(rig, &other);
	before = look();
	for (; round < WARM + ROUNDS; round++) {
		one(rig, &local, &remote, round);
		end_open(&rig->node[round % 2], &unused);
		rig->backend->ep_free(unused.ep);
	}
	/* A peer's last word may still be on its way when the ep is gone. */
	for (round = 0; round < 100; round++)
		rig_step(rig);
	after = look();
	CHECK_EQ(after.fds, before.fds);
	CHECK_EQ(after.allocations, before.allocations);
	CHECK_EQ(after.mappings, before.mappings);
	area_close(&local);
	area_close(&remote);
}
