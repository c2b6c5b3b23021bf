/* SPDX-License-Identifier: Apache-2.0 */
/* Vectors of no segments, and of segments of no bytes, end well where bulk goes by several rails.
 */
#include "engine_rig.h"

enum { ENTRIES = 8, SEGS = 3, NONE = 1, EMPTY };

static struct engine_rig rig;

int case_engine_empty_vector(void)
{
	struct urccl_seg segs[SEGS] = {{.remote = RIG_REMOTE},
				       {.remote = RIG_REMOTE},
				       {.remote = RIG_REMOTE}};
	struct urccl_sqe *sqe;

	rig_engine_open(&rig, ENTRIES, 4);
	rig_peer_open(&rig);
	rig_rail_open(&rig, 1);
	sqe = rig_sqe(&rig, NONE);
	urccl_prep_writev(sqe, (struct urccl_peer){RIG_PEER}, NULL, 0);
	sqe->user_data = NONE;
	sqe = rig_sqe(&rig, EMPTY);
	urccl_prep_readv(sqe, (struct urccl_peer){RIG_PEER}, segs, SEGS);
	sqe->user_data = EMPTY;
	rig_enter(&rig);
	rig_turns(&rig);
	CHECK_EQ(rig_ended(&rig, NONE).res, 0);
	CHECK_EQ(rig_ended(&rig, EMPTY).res, 0);
	CHECK_EQ(rig.ntaken, 0);
	rig_peer_close(&rig);
	rig_engine_close(&rig);
	return 0;
}
