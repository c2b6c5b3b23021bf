/* SPDX-License-Identifier: Apache-2.0 */
/* The keys of an exposure go when its time has passed, but a write that began before may land for a
 * while longer: the memory is the owner's again when the importer has said that nothing is on its
 * way, or has lost its way. An exposure that nobody could reach is gone at once. */
#include "rig.h"

#define LEN    4096u
#define SILENT (100 * NSEC_PER_MSEC) /* much less than an importer has for its answer */

/* The owner's device alone is driven. */
static void owner_polls(struct rig *rig, uint64_t until)
{
	while (clock_ns() < until)
		node_poll(&rig->node[1]);
}

static void of_nothing(struct rig *rig, struct pair *pair, struct area *remote)
{
	uint64_t until = clock_ns() + RIG_PATIENCE_NS;
	struct grant g;

	grant_open(&g, &pair->end[1], &pair->end[0], remote, 0, LEN, 0);
	while (rig->backend->unexpose(&g.exposure)) {
		CHECK(!is_late(until));
		node_poll(&rig->node[1]);
	}
	grant_unpin(&g);
	rig->backend->forget(pair->end[0].ep, &g.rkey);
}

void case_fabric_expired(struct rig *rig)
{
	struct area remote;
	struct pair pair;
	struct grant g;
	uint64_t until;
	int err = -EINPROGRESS;

	pair_open(rig, &pair);
	area_open(&rig->node[1], &remote, LEN);
	of_nothing(rig, &pair, &remote);
	grant_open_until(&g, &pair.end[1], &pair.end[0], &remote, 0, LEN, URCCL_RIGHT_WRITE,
			 clock_ns());
	owner_polls(rig, clock_ns() + SILENT);
	until = clock_ns() + SILENT;
	while (err == -EINPROGRESS && clock_ns() < until) {
		err = rig->backend->unexpose(&g.exposure);
		node_poll(&rig->node[1]);
	}
	/* On a machine that is so slow, the importer's time may be over. */
	if (clock_ns() < until + SILENT)
		CHECK_EQ(err, -EINPROGRESS);
	if (err)
		grant_withdraw(rig, &g);
	else
		grant_unpin(&g);
	rig->backend->forget(pair.end[0].ep, &g.rkey);
	CHECK(!pair.end[0].down && !pair.end[1].down);
	pair_close(rig, &pair);
	area_close(&remote);
}
