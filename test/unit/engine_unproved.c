/* SPDX-License-Identifier: Apache-2.0 */
/* What a device acknowledged and nobody proved is not known to be placed: of a write that fails,
 * fail.segment and the sentence count none of it. Once it is proved, what failed alone is named;
 * and while something is under way, that may be anything. */
#include "engine_rig.h"

enum { ENTRIES = 8, LEN = 4096, SEGS = 3, TRIES = 3 /* of a flush */ };

static struct engine_rig rig;
static struct urccl_seg segs[SEGS];

/* A chunk a segment; the last n of them go to the other remote. */
static void enter(uint32_t n, uint32_t flags)
{
	struct urccl_sqe *sqe = rig_sqe(&rig, 1);
	uint32_t i;

	for (i = 0; i < SEGS; i++)
		segs[i] = (struct urccl_seg){.addr = (uint64_t)(uintptr_t)rig.bytes + 2 * i * LEN,
					     .len = LEN,
					     .off = 2 * i * LEN,
					     .region = RIG_REGION,
					     .remote = RIG_REMOTE + (i >= SEGS - n)};
	urccl_prep_writev(sqe, (struct urccl_peer){RIG_PEER}, segs, SEGS);
	urccl_sqe_set_class(sqe, URCCL_CLASS_LATENCY);
	urccl_sqe_add_flags(sqe, flags);
	sqe->user_data = 1;
	rig_enter(&rig);
	rig_turns(&rig);
	CHECK_EQ(rig.ntaken, SEGS - n);
}

static void acknowledged(uint32_t n)
{
	while (n--)
		rig_out(&rig, 0, 0, 0);
	rig_turns(&rig);
}

static void flushed(uint32_t number, int res)
{
	CHECK_EQ(rig.ntaken, 1);
	CHECK_EQ(rig.taken[0]->kind, CHUNK_FLUSH);
	CHECK(rig.taken[0]->ep == &rig.ep[number]);
	rig_out(&rig, 0, res, CHUNK_QUIET);
	rig_turns(&rig);
}

static void names(uint32_t segment, uint32_t reason)
{
	struct urccl_cqe cqe = rig_ended(&rig, 1);
	struct failure why;

	CHECK(cqe.res < 0);
	CHECK_EQ(cqe.fail.segment, segment);
	CHECK_EQ(failures_get(&rig.e->failures, cqe.fail.detail, &why), 0);
	CHECK_EQ(why.reason, reason);
	if (reason == REASON_DEVICE)
		CHECK_EQ(why.arg[1], 0); /* bytes that were known to be placed when it failed */
}

/* The last segment fails at the device, the others wait for their proof. */
static void last_fails(int flush_res, uint32_t segment)
{
	uint32_t tries;

	enter(0, 0);
	acknowledged(SEGS - 1);
	rig_out(&rig, 0, -EIO, CHUNK_QUIET);
	rig_turns(&rig);
	for (tries = flush_res ? TRIES : 1; tries; tries--)
		flushed(0, flush_res);
	names(segment, REASON_DEVICE);
}

static void proof_fails(void)
{
	uint32_t tries;

	enter(0, 0);
	acknowledged(SEGS);
	for (tries = TRIES; tries; tries--)
		flushed(0, -EIO);
	names(0, REASON_DEVICE);
}

/* One rail breaks, and the other proves what that one had. */
static void rail_breaks(void)
{
	struct engine_cmd cmd = {.peer = rig.peer, .rail = &rig.rail[0]};

	rig_rail_open(&rig, 1);
	rig_key(&rig, 1, 1);
	enter(1, URCCL_SQE_NO_REPLAY);
	acknowledged(SEGS - 1);
	rig.rail[1].rate = rig.rail[0].rate + 1;
	peer_choose(rig.peer); /* what waits for its keys goes by it */
	rig_turns(&rig);
	CHECK_EQ(rig.ntaken, 1);
	CHECK(rig.taken[0]->ep == &rig.ep[1]);
	acknowledged(1);
	rig_event(&rig, (struct event){.type = EVENT_DOWN, .ep = &rig.ep[0], .res = -EIO});
	rig_turns(&rig);
	rig_command(&rig, &cmd, ENGINE_RAIL_CLOSE);
	cmd = (struct engine_cmd){.peer = rig.peer, .part = 0};
	rig_command(&rig, &cmd, ENGINE_RAIL_FENCED);
	flushed(1, 0);
	names(0, REASON_NO_REPLAY);
}

/* The outcome is told before the device has let go of the last one. */
static void told_before(void)
{
	struct urccl_cqe cqe;
	struct op *op;

	enter(0, 0);
	op = rig.taken[0]->op;
	rig_out(&rig, 0, 0, CHUNK_QUIET);
	rig_out(&rig, 0, 0, CHUNK_QUIET);
	rig_turns(&rig);
	op_fail(op, -ETIMEDOUT, REASON_DEADLINE_LONG, 0, 0, 0);
	op_report(op);
	rig_turns(&rig);
	cqe = rig_ended(&rig, 1);
	CHECK(cqe.flags & URCCL_CQE_MORE);
	CHECK_EQ(cqe.fail.segment, 0);
	names(SEGS - 1, REASON_DEADLINE_LONG);
}

int case_engine_unproved(void)
{
	rig_engine_open(&rig, ENTRIES, 4);
	rig_peer_open(&rig);
	rig_key(&rig, 0, 0);
	last_fails(0, SEGS - 1);
	last_fails(-EIO, 0);
	proof_fails();
	told_before();
	rail_breaks();
	rig_peer_close(&rig);
	rig_engine_close(&rig);
	return 0;
}
