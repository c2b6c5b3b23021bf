/* SPDX-License-Identifier: Apache-2.0 */
/* Writes that ended acknowledged (ACKED) by two rails, of which one breaks: the next FENCE behind
 * what that one had and did not prove fails, one behind what it had proved does not; and each waits
 * for the proof of the rail that is left before its notification goes. */
#include "engine_rig.h"

enum { ENTRIES = 16, LEN = 4096 };
enum { PROVED = 1, LOST, OTHER }; /* groups */

static struct engine_rig rig;
static uint64_t entry; /* the last one */

/* By the rail that is the best, which acknowledges it and no more. */
static void acked(uint32_t number, uint32_t group)
{
	struct urccl_sqe *sqe = rig_write(&rig, 0, LEN, ++entry);

	rig.rail[number].rate = 2;
	rig.rail[1 - number].rate = 1;
	peer_choose(rig.peer);
	urccl_sqe_add_flags(sqe, URCCL_SQE_ACKED);
	urccl_sqe_set_class(sqe, URCCL_CLASS_LATENCY);
	urccl_sqe_set_group(sqe, group);
	rig_enter(&rig);
	rig_turns(&rig);
	CHECK(rig.ntaken && rig.taken[rig.ntaken - 1]->kind == CHUNK_WRITE);
	CHECK(rig.taken[rig.ntaken - 1]->ep == &rig.ep[number]);
	rig_out(&rig, rig.ntaken - 1, 0, 0);
	rig_turns(&rig);
	CHECK_EQ(rig_ended(&rig, entry).res, LEN);
}

static void fence(uint32_t group)
{
	struct urccl_sqe *sqe = rig_sqe(&rig, ++entry);

	urccl_prep_notify(sqe, (struct urccl_peer){RIG_PEER}, entry, NULL, 0);
	urccl_sqe_add_flags(sqe, URCCL_SQE_FENCE);
	urccl_sqe_set_group(sqe, group);
	sqe->user_data = entry;
	rig_enter(&rig);
	rig_turns(&rig);
}

/* The device has this and nothing else. */
static void has(enum chunk_kind kind, uint32_t number)
{
	CHECK_EQ(rig.ntaken, 1);
	CHECK_EQ(rig.taken[0]->kind, kind);
	CHECK(rig.taken[0]->ep == &rig.ep[number]);
}

static void out(void)
{
	rig_out(&rig, 0, 0, CHUNK_QUIET);
	rig_turns(&rig);
}

/* The notification goes, and the peer has it. */
static void goes(void)
{
	struct message ack = {.type = MESSAGE_ACK, .tag = ~0ull};
	const struct message *note;

	has(CHUNK_SEND, 1);
	note = rig.taken[0]->local;
	CHECK_EQ(note->type, MESSAGE_NOTE);
	CHECK_EQ(note->tag, entry);
	ack.seq = note->seq;
	out();
	rig_event(&rig, (struct event){.type = EVENT_MESSAGE,
				       .ep = &rig.ep[1],
				       .data = &ack,
				       .len = sizeof(ack)});
	rig_turns(&rig);
	CHECK_EQ(rig_ended(&rig, entry).res, 0);
}

static void breaks(void)
{
	rig_event(&rig, (struct event){.type = EVENT_DOWN, .ep = &rig.ep[0], .res = -EIO});
	rig_turns(&rig);
	CHECK_EQ(rig.peer->nup, 1);
}

/* Nothing of rail 0 was proved. */
static void begin(void)
{
	rig_peer_open(&rig);
	rig_rail_open(&rig, 1);
	rig_key(&rig, 0, 0);
	rig_key(&rig, 0, 1);
}

static void lost_and_owed(void)
{
	begin();
	acked(0, LOST);
	acked(1, LOST);
	breaks();
	fence(LOST);
	CHECK_EQ(rig_ended(&rig, entry).res, -ECANCELED);
	has(CHUNK_SEND, 1); /* the peer hears of it, too */
	out();
	fence(LOST);
	has(CHUNK_FLUSH, 1);
	out();
	goes();
	rig_peer_close(&rig);
}

static void proved_before(void)
{
	begin();
	acked(1, OTHER);
	acked(0, PROVED);
	fence(PROVED);
	has(CHUNK_FLUSH, 0);
	out();
	has(CHUNK_FLUSH, 1);
	acked(0, LOST);
	breaks();
	has(CHUNK_FLUSH, 1);
	out();
	entry -= 1;
	goes();
	rig_peer_close(&rig);
}

int case_engine_fence_owed(void)
{
	rig_engine_open(&rig, ENTRIES, 4);
	lost_and_owed();
	proved_before();
	rig_engine_close(&rig);
	return 0;
}
