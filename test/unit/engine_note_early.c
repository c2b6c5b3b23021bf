/* SPDX-License-Identifier: Apache-2.0 */
/* Notifications that fail before their peer is up, of which the program may know already: once it
 * is up it is told of each, with its tag and the reason, and where it never is nothing is left. */
#include "engine_rig.h"

enum { ENTRIES = 8, SLOTS = 4, MALFORMED = 1, CANCELLED, CANCEL };

static struct engine_rig rig;

static void notify(uint64_t tag, uint32_t len)
{
	struct urccl_sqe *sqe = rig_sqe(&rig, tag);

	urccl_prep_notify(sqe, (struct urccl_peer){RIG_PEER}, tag, rig.bytes, len);
	sqe->user_data = tag;
}

static void fail_two(void)
{
	struct urccl_sqe *sqe;

	notify(MALFORMED, URCCL_NOTE_MAX + 1);
	notify(CANCELLED, 0);
	rig_enter(&rig);
	rig_turns(&rig);
	CHECK_EQ(rig_ended(&rig, MALFORMED).res, -E2BIG);
	sqe = rig_sqe(&rig, CANCEL);
	urccl_prep_cancel(sqe, URCCL_CANCEL_BY_USER_DATA, CANCELLED);
	sqe->user_data = CANCEL;
	rig_enter(&rig);
	rig_turns(&rig);
	CHECK_EQ(rig_ended(&rig, CANCELLED).res, -ECANCELED);
	CHECK_EQ(rig_ended(&rig, CANCEL).res, 1);
	CHECK_EQ(rig.ntaken, 0);
}

/* The oldest that the device has says so. */
static void tells(uint64_t tag, int res)
{
	const struct message *m;

	CHECK(rig.ntaken && rig.taken[0]->kind == CHUNK_SEND);
	m = rig.taken[0]->local;
	CHECK_EQ(m->type, MESSAGE_NOTE);
	CHECK_EQ(m->tag, tag);
	CHECK_EQ((int64_t)m->more, -res);
	rig_out(&rig, 0, 0, CHUNK_QUIET);
	rig_turns(&rig);
}

int case_engine_note_early(void)
{
	uint32_t i;

	rig_engine_open(&rig, ENTRIES, SLOTS);
	rig_peer_add(&rig);
	fail_two();
	rig_peer_up(&rig);
	tells(MALFORMED, -E2BIG);
	tells(CANCELLED, -ECANCELED);
	CHECK_EQ(rig.ntaken, 0);
	rig_peer_close(&rig);
	for (i = 0; i < 2; i++) {
		rig_peer_add(&rig);
		fail_two();
		rig_peer_close(&rig);
	}
	CHECK_EQ(rig.e->failed_notes.used, 2); /* records, each time the same */
	rig_engine_close(&rig);
	return 0;
}
