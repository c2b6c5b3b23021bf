/* SPDX-License-Identifier: Apache-2.0 */
/*
 * FETCH_ADD and CMP_SWAP. The engine that owns the memory executes them (remote_request.c).
 * Requests to a peer are numbered. The peer keeps its last ATOMIC_WINDOW answers, so a request that
 * arrives twice is answered twice and executed once. A number is used only after the number one
 * window before it is settled. To stop an entry, DROP is sent under the same number: the answer
 * says which of the two the peer received first.
 */
#include "engine/post.h"

#define WORD sizeof(uint64_t)

/* ---- messages ---- */

static struct atomic_batch *batch_begin(struct engine_peer *p, enum message_type type)
{
	uint32_t answers = type == MESSAGE_ANSWER, i = answers ? REQUEST_BATCHES : 0;
	uint32_t end = answers ? BATCHES : REQUEST_BATCHES;
	struct atomic_batch *b;

	while (i < end && p->atomics->batches[i].busy)
		i++;
	if (i == end)
		return NULL;
	b = &p->atomics->batches[i];
	*(struct atomic_head *)(void *)b->bytes = (struct atomic_head){.type = (uint8_t)type};
	b->busy = 1;
	p->atomics->open[answers] = i;
	lane_send(p, &b->chunk, BATCH_SEG + i, b->bytes, sizeof(struct atomic_head), 0);
	return b;
}

void *atomic_room(struct engine_peer *p, enum message_type type)
{
	uint32_t answers = type == MESSAGE_ANSWER;
	uint32_t size = answers ? sizeof(struct atomic_answer) : sizeof(struct atomic_request);
	struct atomic_batch *b = &p->atomics->batches[p->atomics->open[answers]];
	uint32_t at;

	if (!p->rail && !peer_sends(p))
		return NULL;
	if (!b->busy || b->chunk.taken || b->chunk.len + size > MESSAGE_MAX)
		b = batch_begin(p, type);
	if (!b)
		return NULL;
	at = b->chunk.len;
	b->chunk.len += size;
	((struct atomic_head *)(void *)b->bytes)->n++;
	return b->bytes + at;
}

static struct atomic_request *batch_requests(struct atomic_batch *b)
{
	return (struct atomic_request *)(void *)(b->bytes + sizeof(struct atomic_head));
}

static uint32_t batch_count(const struct atomic_batch *b)
{
	return ((const struct atomic_head *)(const void *)b->bytes)->n;
}

/* ---- requests ---- */

static void slot_due(struct atomics *a, struct atomic_slot *s, int due)
{
	a->slots_due += (uint32_t)due - s->due;
	s->due = (uint8_t)due;
}

static struct atomic_request request_of(const struct atomic_slot *s)
{
	const struct op *op = s->op;
	const struct remote_part *part;

	if (s->drop)
		return (struct atomic_request){.seq = s->seq, .kind = ATOMIC_DROP};
	part = &op->remote->parts[cursor_part(op->remote, op->sqe.off)];
	return (struct atomic_request){
		.seq = s->seq,
		.grant = part->grant,
		.off = op->sqe.off - part->start,
		.operand = op->sqe.operand,
		.swap = op->sqe.swap,
		.kind = op->sqe.opcode == URCCL_OP_FETCH_ADD ? ATOMIC_ADD : ATOMIC_SWAP,
	};
}

static void slot_send(struct engine_peer *p, struct atomic_slot *s)
{
	struct atomic_request *room = atomic_room(p, MESSAGE_ATOMIC);

	if (room)
		*room = request_of(s);
	slot_due(p->atomics, s, !room);
}

static struct atomic_slot *slot_next(struct atomics *a)
{
	struct atomic_slot *s = &a->slots[a->next % ATOMIC_WINDOW];

	return s->busy ? NULL : s;
}

static void atomic_slot_take(struct op *op, struct atomic_slot *s)
{
	struct atomics *a = op->peer->atomics;

	*s = (struct atomic_slot){.op = op, .seq = a->next++, .busy = 1};
	op->atomic_slot = (uint8_t)(s - a->slots);
	slot_send(op->peer, s);
}

static void slot_free(struct atomics *a, struct atomic_slot *s)
{
	slot_due(a, s, 0);
	s->op = NULL;
	s->busy = 0;
}

static void waiters_run(struct engine_peer *p)
{
	struct atomic_slot *s;
	struct op *op;

	while (p->state == PEER_UP && !list_empty(&p->atomics->waiters) &&
	       (s = slot_next(p->atomics))) {
		op = list_first(&p->atomics->waiters, struct op, link);
		list_del(&op->link);
		atomic_slot_take(op, s);
	}
}

/* Sends requests that found no free message. */
static void requests_due(struct engine_peer *p)
{
	struct atomics *a = p->atomics;
	uint32_t i;

	for (i = 0; i < ATOMIC_WINDOW && a->slots_due; i++)
		if (a->slots[i].due)
			slot_send(p, &a->slots[i]);
}

/* ---- the entry ---- */

void atomic_open(struct op *op)
{
	const struct engine_remote *r = op->remote;
	const struct remote_part *part;
	uint64_t off = op->sqe.off;

	if (cursor_in_remote(op, r, off, WORD))
		return;
	op->total = WORD;
	part = &r->parts[cursor_part(r, off)];
	if (part->len - (off - part->start) < WORD)
		op_fail(op, -EINVAL, REASON_ATOMIC_SPLIT, off, 0, 0);
}

/* The entry must be in no list. */
void atomic_start(struct op *op)
{
	struct engine_remote *r = op->remote;
	struct atomics *a = op->peer->atomics;
	struct atomic_slot *s = slot_next(a);

	op->state = OP_ATOMIC;
	op->atomic_slot = ATOMIC_WINDOW;
	if (!r->parts[cursor_part(r, op->sqe.off)].grant)
		remote_need_keys(op, r);
	else if (s && list_empty(&a->waiters))
		atomic_slot_take(op, s);
	else
		list_add_tail(&op->link, &a->waiters);
}

/* The request in a message that no device has taken yet, or NULL. */
static struct atomic_request *request_held(struct atomics *a, uint32_t seq)
{
	struct atomic_request *m;
	uint32_t i, k;

	for (i = 0; i < REQUEST_BATCHES; i++) {
		if (!a->batches[i].busy || a->batches[i].chunk.taken)
			continue;
		m = batch_requests(&a->batches[i]);
		for (k = 0; k < batch_count(&a->batches[i]); k++)
			if (m[k].seq == seq)
				return &m[k];
	}
	return NULL;
}

/* Stops the entry. A request that no device has taken was certainly not executed. Otherwise the
 * peer is asked to drop it, and its answer says whether it was executed. */
int atomic_stop(struct op *op)
{
	struct engine_peer *p = op->peer;
	struct atomics *a = p->atomics;
	struct atomic_request *held;
	struct atomic_slot *s;

	if (op->atomic_slot == ATOMIC_WINDOW)
		return 1;
	s = &a->slots[op->atomic_slot];
	s->drop = 1;
	held = request_held(a, s->seq);
	if (held)
		*held = request_of(s);
	else if (!s->due)
		slot_send(p, s);
	else if (!s->again)
		slot_free(a, s);
	if (s->again || (!held && s->busy))
		return 0;
	s->op = NULL;
	waiters_run(p);
	return 1;
}

/* Ends the wait for the peer's answer. */
void atomic_abort(struct op *op)
{
	list_del(&op->link);
	if (op->atomic_slot == ATOMIC_WINDOW)
		return;
	op->peer->atomics->slots[op->atomic_slot].op = NULL;
	op->bits |= OP_UNKNOWN;
}

/* ---- answers ---- */

static void atomic_refused(struct op *op, int res)
{
	if (res == -EINVAL)
		op_fail(op, res, REASON_ATOMIC_ALIGN, op->sqe.off, 0, 0);
	else
		op_fail(op, res, REASON_PEER_REFUSED, sizeof(uint64_t), (uint64_t)-res, 0);
}

static void answered(struct op *op, const struct atomic_answer *m)
{
	op->atomic_slot = ATOMIC_WINDOW;
	op->state = OP_MOVING; /* it goes on as a data entry does */
	if (m->res && !(op->bits & OP_DECIDED)) {
		atomic_refused(op, m->res);
		return;
	}
	if (!m->res) {
		op->handle = m->old;
		op->placed = WORD;
		op->bits |= OP_DONE_CURSOR;
		/* An executed atomic succeeds even if it was stopped too late. With a notification
		 * it still fails, since the notification will not come. */
		if (!(op->bits & OP_PROMISED))
			op->bits &= ~(uint32_t)OP_DECIDED;
	}
	op_ready(op);
}

static void answer_received(struct engine_peer *p, const struct atomic_answer *m)
{
	struct atomics *a = p->atomics;
	struct atomic_slot *s = &a->slots[m->seq % ATOMIC_WINDOW];
	struct op *op = s->op;

	if (!s->busy || s->seq != m->seq)
		return;
	slot_free(a, s);
	if (op)
		answered(op, m);
}

/* ---- what comes in, and what comes back ---- */

static int request_valid(const struct atomic_request *m)
{
	static const uint8_t zero[sizeof(m->reserved)];

	if (memcmp(m->reserved, zero, sizeof(zero)))
		return 0;
	if (m->kind == ATOMIC_DROP)
		return !m->grant && !m->off && !m->operand && !m->swap;
	return m->kind == ATOMIC_SWAP || (m->kind == ATOMIC_ADD && !m->swap);
}

static int answer_valid(const struct atomic_answer *m)
{
	return m->res <= 0 && m->res >= -4095 && !(m->res && m->old);
}

/* Accepts only a completely valid message: half of one must not be executed. */
static int message_valid(const uint8_t *bytes, uint32_t len)
{
	const struct atomic_head *h = (const void *)bytes;
	const struct atomic_request *requests = (const void *)(h + 1);
	const struct atomic_answer *answers = (const void *)(h + 1);
	static const uint8_t zero[sizeof(h->reserved)];
	uint32_t i, each = h->type == MESSAGE_ATOMIC ? sizeof(*requests) : sizeof(*answers);

	if (!h->n || memcmp(h->reserved, zero, sizeof(zero)) || h->type > MESSAGE_ANSWER ||
	    len != sizeof(*h) + h->n * each)
		return 0;
	for (i = 0; i < h->n; i++)
		if (h->type == MESSAGE_ATOMIC ? !request_valid(&requests[i])
					      : !answer_valid(&answers[i]))
			return 0;
	return 1;
}

void atomic_message(struct engine *e, struct engine_peer *p, const void *data, uint32_t len)
{
	_Alignas(8) uint8_t copy[MESSAGE_MAX];
	const struct atomic_head *h = (const void *)copy;
	const struct atomic_request *requests = (const void *)(h + 1);
	const struct atomic_answer *answers = (const void *)(h + 1);
	uint32_t i;

	if (len < sizeof(*h) || len > sizeof(copy))
		return;
	memcpy(copy, data, len);
	if (!message_valid(copy, len))
		return;
	for (i = 0; i < h->n; i++) {
		if (h->type == MESSAGE_ATOMIC)
			remote_request(e, p, &requests[i]);
		else
			answer_received(p, &answers[i]);
	}
	if (h->type == MESSAGE_ANSWER)
		waiters_run(p);
}

/* Messages that came out with an error may have arrived: unsettled requests are sent again. */
static void requests_again(struct engine_peer *p, struct atomic_batch *b)
{
	const struct atomic_request *m = batch_requests(b);
	struct atomic_slot *s;
	uint32_t i;

	for (i = 0; i < batch_count(b); i++) {
		s = &p->atomics->slots[m[i].seq % ATOMIC_WINDOW];
		if (!s->busy || s->seq != m[i].seq)
			continue;
		s->again = 1;
		slot_due(p->atomics, s, 1);
	}
}

void atomics_requeue(struct engine_peer *p)
{
	struct atomics *a = p->atomics;
	uint32_t i;

	for (i = 0; i < ATOMIC_WINDOW; i++) {
		struct atomic_slot *s = &a->slots[i];

		/* A request that no device has taken was certainly not executed, if it is
		 * stopped. */
		if (!s->busy || s->due || request_held(a, s->seq))
			continue;
		s->again = 1;
		slot_due(a, s, 1);
	}
	remote_requests_requeue(p);
	if (p->state != PEER_UP) /* otherwise atomics_resume() does the rest */
		return;
	requests_due(p);
	remote_request_due(p);
}

static void answers_again(struct engine_peer *p, const struct atomic_batch *b)
{
	const struct atomic_answer *m = (const void *)(b->bytes + sizeof(struct atomic_head));
	uint32_t i;

	for (i = 0; i < batch_count(b); i++)
		remote_request_requeue(p, &m[i]);
}

void atomic_chunk_out(struct engine_peer *p, struct chunk *c)
{
	struct atomic_batch *b = container_of(c, struct atomic_batch, chunk);
	int answers = c->seg >= BATCH_SEG + REQUEST_BATCHES;

	b->busy = 0;
	if (c->res && answers)
		answers_again(p, b);
	else if (c->res)
		requests_again(p, b);
	if (!peer_sends(p))
		return;
	if (answers)
		remote_request_due(p);
	else
		requests_due(p);
}

void atomic_chunk_dropped(struct chunk *c)
{
	container_of(c, struct atomic_batch, chunk)->busy = 0;
}

/* 1: no request is unanswered or under way. Answers stay recorded. */
int atomics_idle(const struct atomics *a)
{
	uint32_t i;

	if (a->slots_due || a->records_due || !list_empty(&a->waiters))
		return 0;
	for (i = 0; i < ATOMIC_WINDOW; i++)
		if (a->slots[i].busy)
			return 0;
	for (i = 0; i < BATCHES; i++)
		if (a->batches[i].busy)
			return 0;
	return 1;
}

void atomics_resume(struct engine_peer *p)
{
	requests_due(p);
	remote_request_due(p);
	waiters_run(p);
}

void atomics_init(struct atomics *a)
{
	list_init(&a->waiters);
	a->next = 1;
	a->open[1] = REQUEST_BATCHES;
}
