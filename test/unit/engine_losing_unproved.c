/* SPDX-License-Identifier: Apache-2.0 */
/* A peer is closed in order while one rail is asked for the proof of an entry that another had a
 * part in, and that one breaks: the proof of the first is none of that part, and the end of the
 * entry does not say that nothing more lands. */
#include "engine_rig.h"

enum { ENTRIES = 8, LEN = 4096, SEGS = 2 };

static struct engine_rig rig;
static struct urccl_seg segs[SEGS];

/* Of each of the remotes the other rail alone has the key. */
static void begin(void)
{
	struct urccl_sqe *sqe;
	uint32_t i;

	rig_engine_open(&rig, ENTRIES, 4);
	rig_peer_open(&rig);
	rig_rail_open(&rig, 1);
	rig_key(&rig, 0, 0);
	rig_key(&rig, 1, 1);
	for (i = 0; i < SEGS; i++)
		segs[i] = (struct urccl_seg){.addr = (uint64_t)(uintptr_t)rig.bytes + 2 * i * LEN,
					     .len = LEN,
					     .region = RIG_REGION,
					     .remote = RIG_REMOTE + i};
	sqe = rig_sqe(&rig, 1);
	urccl_prep_writev(sqe, (struct urccl_peer){RIG_PEER}, segs, SEGS);
	urccl_sqe_set_class(sqe, URCCL_CLASS_LATENCY);
	sqe->user_data = 1;
	rig_enter(&rig);
}

/* It has something of the entry, alone, and acknowledges it. */
static void acknowledged(uint32_t number, enum chunk_kind kind)
{
	rig_turns(&rig);
	CHECK_EQ(rig.ntaken, 1);
	CHECK(rig.taken[0]->ep == &rig.ep[number]);
	CHECK_EQ(rig.taken[0]->kind, kind);
	rig_out(&rig, 0, 0, 0);
}

int case_engine_losing_unproved(void)
{
	struct engine_cmd lost = {.cause = -ECANCELED, .reason = REASON_PEER_CLOSED, .graceful = 1};
	struct urccl_cqe cqe;

	begin();
	acknowledged(0, CHUNK_WRITE);
	rig_turns(&rig);
	rig.rail[1].rate = rig.rail[0].rate + 1;
	peer_choose(rig.peer); /* what waits for its keys goes by it */
	acknowledged(1, CHUNK_WRITE);
	rig_turns(&rig);
	lost.peer = rig.peer;
	rig_send(&rig, &lost, ENGINE_PEER_LOST);
	rig_turns(&rig);
	rig_event(&rig, (struct event){.type = EVENT_DOWN, .ep = &rig.ep[1], .res = -EIO});
	acknowledged(0, CHUNK_FLUSH);
	rig_turns(&rig);
	cqe = rig_ended(&rig, 1);
	CHECK_EQ(cqe.res, -ECANCELED);
	CHECK_EQ(cqe.flags & URCCL_CQE_REMOTE_QUIET, 0);
	CHECK_EQ(rig_returns(&rig, &lost), 0);
	rig_remotes_close(&rig);
	rig_peer_del(&rig);
	rig_engine_close(&rig);
	return 0;
}
