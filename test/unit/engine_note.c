/* SPDX-License-Identifier: Apache-2.0 */
/* What a peer says of notifications is looked at before it is believed: a message that is none
 * changes nothing, nor does an acknowledgement of what was not sent or of a failure that nobody
 * told it of; more than the window is not kept; and what comes twice is told once. */
#include "engine_rig.h"

enum { ENTRIES = 8, SLOTS = 64, WATCHER = 1, ENTRY = 2 };

static struct engine_rig rig;

static struct message note_of(uint32_t seq)
{
	return (struct message){.type = MESSAGE_NOTE, .seq = seq, .tag = 100 + seq};
}

static void hear(const struct message *m, uint32_t len)
{
	uint8_t bytes[MESSAGE_MAX + 1] = {0};

	memcpy(bytes, m, sizeof(*m));
	rig_event(&rig, (struct event){.type = EVENT_MESSAGE,
				       .ep = &rig.ep[0],
				       .data = bytes,
				       .len = len});
	rig_turns(&rig);
}

/* Nobody hears of it: not the program, and not the peer, which gets no acknowledgement. */
static void is_refused(struct message m, uint32_t len)
{
	struct urccl_cqe cqe;

	hear(&m, len);
	CHECK(!rig_cqe(&rig, &cqe));
	CHECK_EQ(rig.ntaken, 0);
	CHECK_EQ(rig.peer->seen, 0);
}

static void malformed(void)
{
	struct message m = note_of(1);
	uint32_t len;

	for (len = 0; len < sizeof(m); len++)
		is_refused(m, len);
	is_refused(m, sizeof(m) + 1);
	m.len = 1;
	is_refused(m, sizeof(m));
	m.len = URCCL_NOTE_MAX + 1;
	is_refused(m, sizeof(m) + URCCL_NOTE_MAX + 1);
	is_refused(m, MESSAGE_MAX + 1);
	m = note_of(1);
	m.reserved = 1;
	is_refused(m, sizeof(m));
	m = note_of(1);
	m.more = 4096;
	is_refused(m, sizeof(m));
	m.more = 5;
	m.len = 1;
	is_refused(m, sizeof(m) + 1);
	m = note_of(1);
	m.type = 0;
	is_refused(m, sizeof(m));
	m.type = MESSAGE_ACK;
	m.len = 1;
	is_refused(m, sizeof(m) + 1);
	is_refused(m, sizeof(m));
}

static void watch(void)
{
	struct urccl_sqe *sqe = rig_sqe(&rig, WATCHER);

	urccl_prep_watch(sqe, (struct urccl_peer){RIG_PEER});
	sqe->user_data = WATCHER;
	rig_enter(&rig);
	rig_turns(&rig);
}

/* Their acknowledgements, and whatever else the engine says. */
static void let_out(void)
{
	while (rig.ntaken) {
		rig_out(&rig, 0, 0, CHUNK_QUIET);
		rig_turns(&rig);
	}
}

/* As many as the window has wait for who takes them; the others are those of no honest peer, and
 * come again if they are. */
static void beyond(void)
{
	struct message m;
	uint32_t i;

	for (i = 1; i <= NOTE_WINDOW + 8; i++) {
		m = note_of(i);
		hear(&m, sizeof(m));
	}
	let_out();
	watch();
	for (i = 1; i <= NOTE_WINDOW; i++)
		CHECK_EQ(rig_ended(&rig, WATCHER).tag, 100 + i);
	for (i = NOTE_WINDOW + 8; i >= NOTE_WINDOW - 8; i--) {
		m = note_of(i);
		hear(&m, sizeof(m));
	}
	for (i = NOTE_WINDOW + 8; i > NOTE_WINDOW; i--)
		CHECK_EQ(rig_ended(&rig, WATCHER).tag, 100 + i);
	/* So far behind that nobody remembers them. */
	m = note_of(1000);
	hear(&m, sizeof(m));
	CHECK_EQ(rig_ended(&rig, WATCHER).tag, 1100);
	m = note_of(1000 - NOTE_STATES);
	hear(&m, sizeof(m));
	let_out();
	CHECK(!rig_cqe(&rig, &(struct urccl_cqe){0}));
}

static void acknowledged(uint32_t seq, uint64_t tag, uint64_t more)
{
	struct message m = {.type = MESSAGE_ACK, .seq = seq, .tag = tag, .more = more};

	hear(&m, sizeof(m));
}

static void liar(void)
{
	struct urccl_sqe *sqe = rig_sqe(&rig, ENTRY);
	struct urccl_cqe cqe;
	uint32_t seq;

	urccl_prep_notify(sqe, (struct urccl_peer){RIG_PEER}, 7, NULL, 0);
	sqe->user_data = ENTRY;
	rig_enter(&rig);
	rig_turns(&rig);
	CHECK_EQ(rig.ntaken, 1);
	seq = ((const struct message *)rig.taken[0]->local)->seq;
	let_out();
	/* Numbers before and behind it, and that it failed, which it did not. */
	acknowledged(seq - 1, ~0ull, ~0ull);
	acknowledged(seq + NOTE_STATES, ~0ull, ~0ull);
	acknowledged(seq, ~(1ull << seq % NOTE_STATES), 0);
	acknowledged(seq, 0, ~0ull);
	CHECK(!rig_cqe(&rig, &cqe));
	acknowledged(seq, ~0ull, 0);
	CHECK_EQ(rig_ended(&rig, ENTRY).res, 0);
	acknowledged(seq, ~0ull, 0);
	CHECK(!rig_cqe(&rig, &cqe));
}

int case_engine_note(void)
{
	rig_engine_open(&rig, ENTRIES, SLOTS);
	rig_peer_open(&rig);
	malformed();
	beyond();
	liar();
	rig_peer_close(&rig);
	CHECK_EQ(urccl_cqe_kind(&(struct urccl_cqe){.flags = rig_ended(&rig, WATCHER).flags}),
		 URCCL_KIND_LOST);
	rig_engine_close(&rig);
	return 0;
}
