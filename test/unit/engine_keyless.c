/* SPDX-License-Identifier: Apache-2.0 */
/* A vector ends, since it names a region that is not known, just when a piece of it was to go by
 * the second rail, which is the faster. The entry behind it has keys on both rails: its first piece
 * goes there in its place. */
#include "engine_rig.h"

enum { ENTRIES = 8, UNKNOWN = RIG_REGION + 7, LEN = 192u << 10 };

static struct engine_rig rig;

static void enter(struct urccl_seg *seg)
{
	struct urccl_sqe *sqe = rig_sqe(&rig, 1);

	*seg = (struct urccl_seg){.addr = (uint64_t)(uintptr_t)rig.bytes,
				  .len = LEN,
				  .region = UNKNOWN,
				  .remote = RIG_REMOTE};
	urccl_prep_writev(sqe, (struct urccl_peer){RIG_PEER}, seg, 1);
	sqe->user_data = 1;
	rig_write(&rig, 0, LEN, 2);
	rig_enter(&rig);
}

int case_engine_keyless(void)
{
	struct urccl_seg seg;
	uint32_t i, first = 0;

	rig_engine_open(&rig, ENTRIES, 4);
	rig_peer_open(&rig);
	rig_rail_open(&rig, 1);
	rig_key(&rig, 0, 0);
	rig_key(&rig, 0, 1);
	CHECK(rig.peer->rail == &rig.rail[0]);
	rig.rail[1].rate = 2 * rig.rail[0].rate;
	enter(&seg);
	rig_turns(&rig);
	CHECK_EQ(rig_ended(&rig, 1).res, -ESTALE);
	for (i = 0; i < rig.ntaken; i++)
		if (!rig.taken[i]->off) {
			CHECK(rig.taken[i]->ep == &rig.ep[1]);
			first++;
		}
	CHECK_EQ(first, 1);
	for (i = 0; i < RIG_TURNS && rig.ntaken; i++) {
		while (rig.ntaken)
			rig_out(&rig, 0, 0, CHUNK_QUIET);
		rig_turns(&rig);
	}
	CHECK_EQ(rig_ended(&rig, 2).res, LEN);
	rig_peer_close(&rig);
	rig_engine_close(&rig);
	return 0;
}
