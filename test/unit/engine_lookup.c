/* SPDX-License-Identifier: Apache-2.0 */
/* A lookup runs no command. In the middle of an iteration a segment names an unknown region while
 * the mailbox has the close of the rail: the entry fails, its neighbours are posted, and the rail
 * closes in the next iteration. */
#include "engine_rig.h"

enum { ENTRIES = 8, UNKNOWN = RIG_REGION + 7, LEN = 4096 };

static struct engine_rig rig;

static void submit(struct urccl_seg *seg)
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
	rig_write(&rig, 0, LEN, 3);
	rig_enter(&rig);
	CHECK_EQ(sq_fetch(rig.e, rig.er, 3), 3);
}

int case_engine_lookup(void)
{
	struct engine_cmd cmd;
	struct urccl_seg seg;

	rig_engine_open(&rig, ENTRIES, 4);
	rig_peer_open(&rig);
	rig_rail_open(&rig, 1);
	rig_key(&rig, 0, 0);
	rig_key(&rig, 0, 1);
	submit(&seg);
	cmd = (struct engine_cmd){.peer = rig.peer, .rail = &rig.rail[0]};
	rig_send(&rig, &cmd, ENGINE_RAIL_CLOSE);
	schedule(rig.e);
	CHECK(!rig.closed[0]);
	CHECK_EQ(rig.ntaken, 2);
	CHECK_EQ(rig_returns(&rig, &cmd), 0);
	CHECK(rig.closed[0]);
	CHECK_EQ(rig_ended(&rig, 2).res, -ESTALE);
	cmd = (struct engine_cmd){.peer = rig.peer, .part = 0};
	rig_command(&rig, &cmd, ENGINE_RAIL_FENCED);
	CHECK_EQ(rig.ntaken, 2); /* they were posted again, to the other rail */
	CHECK(rig.taken[0]->ep == &rig.ep[1] && rig.taken[1]->ep == &rig.ep[1]);
	rig_out(&rig, 0, 0, CHUNK_QUIET);
	rig_out(&rig, 0, 0, CHUNK_QUIET);
	rig_turns(&rig);
	CHECK_EQ(rig_ended(&rig, 3).res, LEN);
	CHECK_EQ(rig_ended(&rig, 1).res, LEN);
	rig_peer_close(&rig);
	rig_engine_close(&rig);
	return 0;
}
