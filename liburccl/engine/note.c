/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Notifications: numbered messages between engines. The sender keeps a window of NOTE_WINDOW
 * numbers. The receiver keeps the state of the last NOTE_STATES numbers, so it recognises a message
 * that comes twice or late. A notification is acknowledged when a ring of the receiver has it.
 * Until then it waits in one of the receiver's NOTE_WINDOW records, and its sender's entry waits
 * under its deadline. An acknowledgement carries the complete state, so a lost or overtaken one
 * does no harm.
 */
#include "engine/post.h"
#include "engine/stats.h"

#define NOTE_SILENT_NS (100 * NSEC_PER_MSEC) /* a peer that answers may be silent for this long */

static struct engine *peer_engine(const struct engine_peer *p)
{
	return p->engine;
}

void pending_add(struct engine_peer *p)
{
	/* The peer may send before PEER_ADD came here: PEER_UP checks again. */
	if (p->engine && list_empty(&p->pending_link))
		slow_list_add(peer_engine(p), &p->pending_link, &peer_engine(p)->pending);
}

/* ---- sender ---- */

static void slot_send(struct engine_peer *p, struct note_slot *s)
{
	if (s->sending) {
		s->again = 1;
		return;
	}
	s->again = 0;
	s->sending = 1;
	lane_send(p, &s->chunk, (uint32_t)(s - p->notes), &s->msg,
		  (uint32_t)sizeof(s->msg) + s->msg.len, s->checksum);
}

static void slot_fill_failed(struct note_slot *s, uint64_t tag, int64_t res)
{
	s->msg = (struct message){.type = MESSAGE_NOTE,
				  .seq = s->seq,
				  .tag = tag,
				  .more = (uint64_t)-res};
}

static void slot_fill(struct note_slot *s, const struct op *op)
{
	if (op->bits & OP_DECIDED) {
		slot_fill_failed(s, op->sqe.tag, op->res);
		return;
	}
	s->msg = (struct message){.type = MESSAGE_NOTE, .seq = s->seq, .tag = op->sqe.tag};
	s->msg.len = (uint16_t)op->note_len;
	if (op->note_len)
		memcpy(s->payload, (const void *)(uintptr_t)op->note, op->note_len);
}

static struct note_slot *slot_next(struct engine_peer *p)
{
	struct note_slot *s = &p->notes[p->note_next % NOTE_WINDOW];

	return s->busy || s->sending ? NULL : s;
}

static void note_slot_take(struct engine_peer *p, struct note_slot *s)
{
	s->seq = p->note_next++;
	s->busy = SLOT_SENT;
	p->notes_busy++;
	stat_add(&p->engine->stats->count.notes_sent, 1);
}

static void slot_take_op(struct op *op, struct note_slot *s)
{
	note_slot_take(op->peer, s);
	s->op = op;
	s->checksum = !!(op->sqe.flags & URCCL_SQE_CHECKSUM);
	op->note_slot = (uint8_t)(s - op->peer->notes);
	slot_fill(s, op);
	slot_send(op->peer, s);
}

/* Sends the failure of a notification. No entry waits for it. */
static void slot_take_failed(struct engine_peer *p, struct note_slot *s,
			     const struct failed_note *o)
{
	note_slot_take(p, s);
	s->op = NULL;
	s->checksum = 1; /* the failure may concern checksums */
	slot_fill_failed(s, o->tag, o->res);
	slot_send(p, s);
}

void note_start(struct op *op)
{
	struct note_slot *s = slot_next(op->peer);

	op->state = OP_NOTING;
	op->note_slot = NOTE_WINDOW;
	if (s && list_empty(&op->peer->note_waiters) && !op->peer->failed_notes.n)
		slot_take_op(op, s);
	else
		list_add_tail(&op->link, &op->peer->note_waiters);
}

/* Entries and failures take free slots in turn: neither kind delays the other. */
static void waiters_run(struct engine_peer *p)
{
	struct note_slot *s;
	struct failed_note failed;
	struct op *op;

	while (p->state == PEER_UP && (s = slot_next(p))) {
		p->failed_notes.turn = !p->failed_notes.turn;
		if ((p->failed_notes.turn || list_empty(&p->note_waiters)) &&
		    failed_note_pop(p, &failed)) {
			slot_take_failed(p, s, &failed);
		} else if (!list_empty(&p->note_waiters)) {
			op = list_first(&p->note_waiters, struct op, link);
			list_del(&op->link);
			slot_take_op(op, s);
		} else {
			return;
		}
	}
}

void note_fail(struct op *op)
{
	struct engine_peer *p = op->peer;

	op->bits &= ~(uint32_t)OP_PROMISED;
	if (p->state <= PEER_UP)
		failed_note_add(p, op->sqe.tag, op->res);
	if (p->state == PEER_SUSPENDED)
		peer_ask_resume(p);
	waiters_run(p);
}

/* If the notification of the stopped entry has not been sent, the failure waits for a slot. If it
 * has, the failure replaces it where that is still possible; the acknowledgement says which of the
 * two the receiver has. */
int note_stop(struct op *op)
{
	struct engine_peer *p = op->peer;
	struct note_slot *s;

	if (op->note_slot == NOTE_WINDOW) {
		note_fail(op);
		return 1;
	}
	s = &p->notes[op->note_slot];
	if (!s->sending)
		slot_fill(s, op);
	slot_send(p, s);
	return 0;
}

/* 1: the notification is held by the receiver. An entry without a slot counts as held if a slot
 * that it waits for is. */
static int is_held(const struct op *op)
{
	const struct engine_peer *p = op->peer;
	uint32_t i;

	if (op->note_slot < NOTE_WINDOW)
		return p->notes[op->note_slot].busy == SLOT_HELD;
	for (i = 0; i < NOTE_WINDOW; i++)
		if (p->notes[i].busy == SLOT_HELD)
			return 1;
	return 0;
}

int note_expired(struct op *op)
{
	uint64_t silent_ns = op_engine(op)->now - op->peer->heard_ns;

	if (!is_held(op) && silent_ns < NOTE_SILENT_NS)
		return 0;
	if (is_held(op))
		op_fail(op, -ETIMEDOUT, REASON_NOTE_HELD, 0, 0, 0);
	else
		op_fail(op, -ETIMEDOUT, REASON_NOTE_SILENT, silent_ns / NSEC_PER_MSEC, 0, 0);
	return 1;
}

/* Ends the wait for the peer's acknowledgement. */
void note_abort(struct op *op)
{
	assert(op->note_slot != NOTE_WINDOW);
	op->peer->notes[op->note_slot].op = NULL;
	op->bits |= OP_UNKNOWN;
}

/* The receiver has the notification, or (failed) knows that it will not come. */
static void slot_settled(struct note_slot *s, int failed)
{
	struct op *op = s->op;

	if (!op)
		return;
	s->op = NULL;
	op->note_slot = failed ? NOTE_LOST : NOTE_ARRIVED;
	op_ready(op);
}

/* The receiver can know only of a failure that it was sent. */
static int slot_may_be(const struct note_slot *s, int failed)
{
	return !failed || !s->op || s->op->bits & OP_DECIDED;
}

static void ack_received(struct engine_peer *p, const struct message *m)
{
	uint32_t i, behind;
	uint64_t bit;

	for (i = 0; i < NOTE_WINDOW; i++) {
		struct note_slot *s = &p->notes[i];

		if (!s->busy)
			continue;
		behind = m->seq - s->seq;
		if (behind >= NOTE_STATES)
			continue;
		bit = 1ull << (s->seq % NOTE_STATES);
		if (!slot_may_be(s, !!(m->more & bit)))
			continue;
		if ((m->tag | m->more) & bit)
			slot_settled(s, !!(m->more & bit));
		else
			s->busy = SLOT_HELD;
		if (m->tag & bit) {
			s->busy = 0;
			p->notes_busy--;
		}
	}
	waiters_run(p);
}

void note_chunk_out(struct engine *e, struct chunk *c)
{
	struct engine_peer *p = c->op;
	struct note_slot *s;
	int up = peer_sends(p);

	(void)e;
	if (c == &p->ack_chunk) {
		p->ack_sending = 0;
		if (c->res && up)
			p->ack_due = 1;
		if (p->ack_due)
			pending_add(p);
		return;
	}
	s = &p->notes[c->seg];
	s->sending = 0;
	if (s->again && s->op)
		slot_fill(s, s->op);
	if ((s->again || c->res) && s->busy && up)
		slot_send(p, s);
	else if (up)
		waiters_run(p);
}

void notes_requeue(struct engine_peer *p)
{
	uint32_t i;

	p->ack_due |= p->seen != 0;
	if (p->state != PEER_UP) /* otherwise notes_resume() does the rest */
		return;
	for (i = 0; i < NOTE_WINDOW; i++)
		if (p->notes[i].busy)
			slot_send(p, &p->notes[i]);
	if (p->ack_due)
		pending_add(p);
}

/* ---- receiver ---- */

static void note_advance_seen(struct engine_peer *p, uint32_t seq)
{
	uint32_t ahead = seq - p->seen, i;

	if ((int32_t)ahead <= 0)
		return;
	if (ahead >= NOTE_STATES)
		p->delivered = p->dropped = p->arrived = 0;
	for (i = 1; i <= ahead && ahead < NOTE_STATES; i++) {
		uint64_t bit = 1ull << ((p->seen + i) % NOTE_STATES);

		p->delivered &= ~bit;
		p->dropped &= ~bit;
		p->arrived &= ~bit;
	}
	p->seen = seq;
}

static struct parked_note *parked_find(struct engine_peer *p, uint32_t seq)
{
	struct parked_note *n;

	list_for_each_entry(n, &p->parked_list, link) {
		if (n->seq == seq)
			return n;
	}
	return NULL;
}

static void note_park(struct engine_peer *p, const struct message *m)
{
	uint64_t bit = 1ull << (m->seq % NOTE_STATES);
	struct parked_note *n = p->arrived & bit ? parked_find(p, m->seq) : NULL;

	if (!n) {
		if (list_empty(&p->parked_free))
			return; /* more than the window: the sender is faulty */
		n = list_first(&p->parked_free, struct parked_note, link);
		list_del(&n->link);
		list_add_tail(&n->link, &p->parked_list);
	}
	p->arrived |= bit;
	n->seq = m->seq;
	n->round = 0;
	n->tag = m->tag;
	n->len = m->len;
	n->res = m->more ? -(int64_t)m->more : m->len;
	memcpy(n->payload, m + 1, m->len);
	if (m->more)
		p->dropped |= bit;
}

static void note_received(struct engine_peer *p, const struct message *m)
{
	uint64_t bit = 1ull << (m->seq % NOTE_STATES);

	note_advance_seen(p, m->seq);
	if (p->seen - m->seq < NOTE_STATES && !((p->delivered | p->dropped) & bit) &&
	    (m->more || !(p->arrived & bit)))
		note_park(p, m);
	p->ack_due = 1;
	pending_add(p);
}

static int message_valid(const struct message *m, uint32_t len)
{
	if (len < sizeof(*m) || m->reserved)
		return 0;
	if (m->type == MESSAGE_ACK)
		return len == sizeof(*m) && !m->len;
	return m->type == MESSAGE_NOTE && m->len <= URCCL_NOTE_MAX && len == sizeof(*m) + m->len &&
	       m->more <= 4095 && !(m->more && m->len);
}

void note_message(struct engine *e, struct engine_peer *p, const void *data, uint32_t len)
{
	_Alignas(struct message) uint8_t copy[MESSAGE_MAX];
	const struct message *m = (const struct message *)copy;

	if (len > sizeof(copy))
		return;
	memcpy(copy, data, len);
	if (!message_valid(m, len))
		return;
	if (m->type == MESSAGE_ACK) {
		ack_received(p, m);
		return;
	}
	store_relaxed(&p->heard, e->iterations);
	note_received(p, m);
}

void note_ack_send(struct engine_peer *p)
{
	if (!p->ack_due || p->ack_sending || p->state != PEER_UP)
		return;
	p->ack_due = 0;
	p->ack_sending = 1;
	p->ack = (struct message){.type = MESSAGE_ACK,
				  .seq = p->seen,
				  .tag = p->delivered,
				  .more = p->dropped};
	/* It covers all notifications, also those of entries with checksums. */
	lane_send(p, &p->ack_chunk, 0, &p->ack, sizeof(p->ack), 1);
}

void notes_resume(struct engine_peer *p)
{
	waiters_run(p);
	if (p->ack_due || p->rails_news || !list_empty(&p->parked_list))
		pending_add(p);
}

/* ---- life ---- */

/* Drops notifications of a peer that no program learned of. */
void notes_drop(struct engine_peer *p)
{
	while (!list_empty(&p->parked_list)) {
		struct list *first = p->parked_list.next;

		list_del(first);
		list_add_tail(first, &p->parked_free);
	}
}

void notes_init(struct engine_peer *p)
{
	uint32_t i;

	list_init(&p->note_waiters);
	list_init(&p->parked_list);
	list_init(&p->parked_free);
	list_init(&p->pending_link);
	for (i = 0; i < NOTE_WINDOW; i++)
		list_add_tail(&p->parked[i].link, &p->parked_free);
	p->note_next = 1; /* `seen` can start at 0, a number that is never sent */
}
