/* SPDX-License-Identifier: Apache-2.0 */
/* In the middle of a turn a segment names a region that is not known, so that the engine looks at
 * its mailbox: there a rail is to close for which a chunk lies gathered. That one goes by the rail
 * that is left, and nothing is posted to the other. */
#include "engine_rig.h"

enum { ENTRIES = 8, UNKNOWN = RIG_REGION + 7, LEN = 64u << 10 };

static struct engine_rig rig;

/* Bulk, to both rails: gathered for the best, which is not known yet, and the others go on. */
static void enter(struct urccl_seg *seg)
{
	struct urccl_sqe *sqe;

	rig_write(&rig, 0, LEN, 1);
	sqe = rig_sqe(&rig, 2);
	*seg = (struct urccl_seg){.addr = (uint64_t)(uintptr_t)rig.bytes,
				  .len = LEN,
				  .region = UNKNOWN,
				  .remote = RIG_REMOTE};
	urccl_prep_writev(sqe, (struct urccl_peer){RIG_PEER}, seg, 1);
	sqe->user_data = 2;
	rig_enter(&rig);
	CHECK_EQ(sq_fetch_ring(rig.e, rig.er), 2);
}

int case_engine_gathered(void)
{
	struct engine_cmd cmd;
	struct urccl_seg seg;

	rig_engine_open(&rig, ENTRIES, 4);
	rig_peer_open(&rig);
	rig_rail_open(&rig, 1);
	rig_key(&rig, 0, 0);
	rig_key(&rig, 0, 1);
	CHECK_EQ(rig.peer->nup, 2);
	CHECK(rig.peer->rail == &rig.rail[0]);
	enter(&seg);
	cmd = (struct engine_cmd){.peer = rig.peer, .rail = &rig.rail[0]};
	rig_send(&rig, &cmd, ENGINE_RAIL_CLOSE);
	schedule(rig.e);
	CHECK(rig.closed[0]);
	CHECK_EQ(rig_returns(&rig, &cmd), 0);
	CHECK_EQ(rig_ended(&rig, 2).res, -ESTALE);
	CHECK_EQ(rig.ntaken, 1);
	CHECK(rig.taken[0]->ep == &rig.ep[1]);
	rig_out(&rig, 0, 0, CHUNK_QUIET);
	rig_turns(&rig);
	CHECK_EQ(rig_ended(&rig, 1).res, LEN);
	rig_peer_close(&rig);
	rig_engine_close(&rig);
	return 0;
}
