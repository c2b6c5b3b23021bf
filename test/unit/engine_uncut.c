/* SPDX-License-Identifier: Apache-2.0 */
/* In the middle of a turn a segment names a region that is not known, so that the engine looks
 * at its mailbox: there another remote is revoked. The chunk that the segment was to be is none of
 * that remote's, though the one that it was before was: its entry fails for what is wrong with it.
 * */
#include "engine_rig.h"

enum { ENTRIES = 8, UNKNOWN = RIG_REGION + 7, LEN = 4096 };

static struct engine_rig rig;

int case_engine_uncut(void)
{
	struct engine_cmd cmd;
	struct urccl_seg seg;
	struct urccl_sqe *sqe;

	rig_engine_open(&rig, ENTRIES, 4);
	rig_peer_open(&rig);
	rig_key(&rig, 0, 0);
	rig_key(&rig, 1, 0);
	rig_write(&rig, 1, LEN, 1);
	rig_enter(&rig);
	rig_turns(&rig);
	CHECK_EQ(rig.ntaken, 1);
	rig_out(&rig, 0, 0, CHUNK_QUIET);
	rig_turns(&rig);
	CHECK_EQ(rig_ended(&rig, 1).res, LEN);

	sqe = rig_sqe(&rig, 2);
	seg = (struct urccl_seg){.addr = (uint64_t)(uintptr_t)rig.bytes,
				 .len = LEN,
				 .region = UNKNOWN,
				 .remote = RIG_REMOTE};
	urccl_prep_writev(sqe, (struct urccl_peer){RIG_PEER}, &seg, 1);
	sqe->user_data = 2;
	rig_enter(&rig);
	CHECK_EQ(sq_fetch_ring(rig.e, rig.er), 1);
	cmd = (struct engine_cmd){.remote = rig.remote[1]};
	rig_send(&rig, &cmd, ENGINE_REMOTE_REVOKE);
	schedule(rig.e);
	CHECK(rig.remote[1]->revoked);
	CHECK_EQ(rig_returns(&rig, &cmd), 0);
	CHECK_EQ(rig_ended(&rig, 2).res, -ESTALE);
	rig_peer_close(&rig);
	rig_engine_close(&rig);
	return 0;
}
