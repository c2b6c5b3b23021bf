/* SPDX-License-Identifier: Apache-2.0 */
/* In the middle of a turn a segment names a region that is not known, so that the engine looks at
 * its mailbox: there the rail is to close that the lane is being posted to. What was cut for it and
 * what follows goes by the other rail, also to a remote of which only that one has a key, and
 * nothing is posted to the one that closes. */
#include <unistd.h>

#include "engine_rig.h"

enum { ENTRIES = 8, UNKNOWN = RIG_REGION + 7, LEN = 4096 };

static struct engine_rig rig;

static void enter(struct urccl_seg *seg)
{
	struct urccl_sqe *sqe;

	urccl_sqe_set_class(rig_write(&rig, 0, LEN, 1), URCCL_CLASS_LATENCY);
	sqe = rig_sqe(&rig, 2);
	*seg = (struct urccl_seg){.addr = (uint64_t)(uintptr_t)rig.bytes,
				  .len = LEN,
				  .region = UNKNOWN,
				  .remote = RIG_REMOTE};
	urccl_prep_writev(sqe, (struct urccl_peer){RIG_PEER}, seg, 1);
	urccl_sqe_set_class(sqe, URCCL_CLASS_LATENCY);
	sqe->user_data = 2;
	urccl_sqe_set_class(rig_write(&rig, 1, LEN, 3), URCCL_CLASS_LATENCY);
	rig_enter(&rig);
	CHECK_EQ(sq_fetch_ring(rig.e, rig.er), 3);
}

int case_engine_lane_broke(void)
{
	struct engine_cmd cmd;
	struct urccl_seg seg;
	uint32_t i, ended = 0;

	alarm(60); /* a turn that never ends */
	rig_engine_open(&rig, ENTRIES, 4);
	rig_peer_open(&rig);
	rig_rail_open(&rig, 1);
	rig_key(&rig, 0, 0);
	rig_key(&rig, 0, 1);
	rig_key(&rig, 1, 1);
	enter(&seg);
	cmd = (struct engine_cmd){.peer = rig.peer, .rail = &rig.rail[0]};
	rig_send(&rig, &cmd, ENGINE_RAIL_CLOSE);
	schedule(rig.e);
	CHECK(rig.closed[0]);
	CHECK_EQ(rig_returns(&rig, &cmd), 0);
	CHECK_EQ(rig_ended(&rig, 2).res, -ESTALE);
	CHECK_EQ(rig.ntaken, 2);
	while (rig.ntaken) {
		CHECK(rig.taken[0]->ep == &rig.ep[1]);
		rig_out(&rig, 0, 0, CHUNK_QUIET);
	}
	rig_turns(&rig);
	for (i = 0; i < 2; i++) {
		struct urccl_cqe cqe;

		CHECK(rig_cqe(&rig, &cqe));
		CHECK_EQ(cqe.res, LEN);
		ended |= 1u << cqe.user_data;
	}
	CHECK_EQ(ended, 1u << 1 | 1u << 3);
	rig_peer_close(&rig);
	rig_engine_close(&rig);
	return 0;
}
