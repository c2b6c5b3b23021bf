/* SPDX-License-Identifier: Apache-2.0 */
/* The relay: requests of ours, and what both sides do at each turn. */
#include <stdlib.h>
#include "engine/private.h"

/* ---- messages ---- */

static void message_send(struct engine_peer *p, struct relay_message *m, uint32_t seg,
			 const void *bytes, uint32_t len)
{
	m->again = m->sending;
	if (m->sending)
		return;
	m->sending = 1;
	memcpy(m->bytes, bytes, len);
	m->chunk = (struct chunk){.ep = peer_ep(p),
				  .kind = CHUNK_SEND,
				  .cls = URCCL_CLASS_CONTROL,
				  .len = len,
				  .local = m->bytes,
				  .op = p,
				  .seg = seg};
	lane_add_chunk(p, LANE_CONTROL, &m->chunk);
}

static void slot_send(struct engine_peer *p, struct relay_slot *s)
{
	struct relay_request end = {.type = MESSAGE_RELAY,
				    .kind = RELAY_END,
				    .seq = s->request.seq};

	message_send(p, &s->message, RELAY_SEG, s->state == RELAY_ENDING ? &end : &s->request,
		     sizeof(end));
}

void relay_answer(struct engine_peer *p, struct relay_record *r)
{
	message_send(p, &r->message, RELAY_SEG_ANSWER, &r->answer, sizeof(r->answer));
}

static int slot_speaks(const struct relay_slot *s)
{
	return s->state == RELAY_ASKED || s->state == RELAY_ENDING;
}

static int record_speaks(const struct relay_record *r)
{
	return r->used && r->state >= RECORD_READY;
}

/* ---- slots ---- */

static void slot_free(struct engine *e, struct engine_peer *p, struct relay_slot *s)
{
	if (s->request.kind == RELAY_PULL)
		run_slot_free(p->relay, s->request.slot);
	s->state = RELAY_FREE;
	relay_kick(e, p->relay);
}

static void slot_end(struct engine_peer *p, struct relay_slot *s)
{
	s->chunk = NULL;
	s->state = RELAY_ENDING;
	slot_send(p, s);
}

/* Nobody can say why but the peer. */
static void chunk_fail(struct engine *e, struct chunk *c, int res)
{
	struct op *op = c->op;
	uint32_t len = c->len;

	switch (res) {
	case -EACCES:
	case -ERANGE:
	case -EBADMSG:
		c->res = res;
		chunk_done(e, c);
		return;
	case -EOPNOTSUPP:
		if (!c->checksum)
			break;
		c->res = res;
		chunk_done(e, c);
		return;
	default:
		break;
	}
	chunk_drop(e, c);
	op_fail(op, -EREMOTEIO, REASON_RELAY, len, (uint64_t)-res, 0);
	op_check(op);
}

static void slot_fail(struct engine *e, struct engine_peer *p, struct relay_slot *s, int res)
{
	struct chunk *c = s->chunk;

	s->chunk = NULL;
	if (s->state == RELAY_FILLED)
		slot_end(p, s);
	else
		slot_free(e, p, s);
	if (c)
		chunk_fail(e, c, res);
}

static void slot_ask(struct engine_peer *p, struct relay_slot *s)
{
	s->state = RELAY_ASKED;
	slot_send(p, s);
}

/* Its bytes are in the slot. */
static void slot_filled(struct engine *e, struct engine_peer *p, struct relay_slot *s)
{
	struct chunk *c = s->chunk;
	struct op *op = c->op;

	if (!s->copy.job.res && !(op->bits & OP_DECIDED)) {
		slot_ask(p, s);
		return;
	}
	s->chunk = NULL;
	slot_free(e, p, s);
	chunk_drop(e, c);
	op_fail(op, -EIO, REASON_GPU_COPY, s->copy.job.len, (uint64_t)s->copy.job.code, 0);
	op_check(op);
}

static void slot_take(struct engine *e, struct engine_peer *p, struct relay_slot *s,
		      struct chunk *c, uint8_t *bytes, int run_slot)
{
	struct relay *r = p->relay;

	s->chunk = c;
	s->request = (struct relay_request){
		.type = MESSAGE_RELAY,
		.kind = bytes ? RELAY_PULL : RELAY_FETCH,
		.slot = bytes ? (uint8_t)run_slot : 0,
		.checksum = bytes ? c->checksum : 0,
		.seq = r->next++,
		.run = bytes ? r->run->number : 0,
		.grant = key_grant(c->key),
		.off = c->off,
		.len = c->len,
	};
	if (!bytes) {
		slot_ask(p, s);
		return;
	}
	s->state = RELAY_FILLING;
	s->copy = (struct copy){.memory = c->memory,
				.local = c->local,
				.bytes = bytes,
				.len = c->len};
	if (copy_run(&s->copy))
		slot_filled(e, p, s);
	else
		relay_kick(e, r);
}

/* 0: there is none, or no number. */
static int slot_start(struct engine *e, struct engine_peer *p, struct chunk *c)
{
	struct relay_slot *s = &p->relay->slots[p->relay->next % RELAY_WINDOW];
	uint8_t *bytes = NULL;
	int slot = 0;

	if (s->state || s->message.sending)
		return 0;
	if (c->kind == CHUNK_WRITE) {
		slot = run_slot_take(e, p, &bytes);
		if (slot < 0)
			return 0;
	}
	slot_take(e, p, s, c, bytes, slot);
	return 1;
}

/* As the READ that its bytes come by: the chunk goes on as any of its entry's. */
static void slot_read(struct engine *e, struct engine_peer *p, struct relay_slot *s)
{
	struct chunk *c = s->chunk;
	int res = 0;
	const struct rkey *key = relay_key(p, s->run, &res);

	if (!key) {
		if (res)
			slot_fail(e, p, s, res);
		else
			relay_kick(e, p->relay);
		return;
	}
	s->key = c->key;
	s->state = RELAY_READING;
	c->key = key;
	c->off = s->slot * SLOT_BYTES;
	c->ep = p->rail->ep;
	if (stage_chunk(e, c))
		lane_add_chunk(p, ((struct op *)c->op)->lane, c);
}

/* ---- chunks of entries ---- */

static void chunk_wait(struct engine *e, struct relay *r, struct chunk *c)
{
	struct op *op = c->op;

	c->next = NULL;
	*r->waiting_tail = c;
	r->waiting_tail = &c->next;
	relay_kick(e, r);
	if (op->bits & OP_DONE_CURSOR)
		return;
	list_del(&op->link);
	list_add_tail(&op->link, &r->ops);
}

static struct chunk *waiting_pop(struct relay *r)
{
	struct chunk *c = r->waiting;

	r->waiting = c->next;
	if (!r->waiting)
		r->waiting_tail = &r->waiting;
	return c;
}

void relay_chunk(struct engine *e, struct chunk *c)
{
	struct op *op = c->op;
	struct engine_peer *p = op->peer;

	op->path |= URCCL_PATH_BOUNCE_REMOTE | URCCL_PATH_DEVICE;
	if (c->kind == CHUNK_WRITE)
		op->path |= URCCL_PATH_BOUNCE_LOCAL;
	c->ep = NULL;
	if (p->relay->waiting || !slot_start(e, p, c))
		chunk_wait(e, p->relay, c);
}

/* Oldest first. Entries go back to their lanes with the first. */
static uint32_t waiting_start(struct engine *e, struct engine_peer *p)
{
	struct relay *r = p->relay;
	struct chunk *c;
	struct op *op;
	uint32_t n = 0;

	while (r->waiting) {
		c = waiting_pop(r);
		if (!slot_start(e, p, c)) {
			c->next = r->waiting;
			if (!r->waiting)
				r->waiting_tail = &c->next;
			r->waiting = c;
			break;
		}
		n++;
	}
	while (n && !list_empty(&r->ops)) {
		op = list_first(&r->ops, struct op, link);
		list_del(&op->link);
		lane_add_op(op);
	}
	return n;
}

static void drop_waiting(struct engine *e, struct relay *r, const struct op *op)
{
	struct chunk **at = &r->waiting, *c;

	r->waiting_tail = &r->waiting;
	while ((c = *at)) {
		if (c->op == op) {
			*at = c->next;
			chunk_drop(e, c);
			continue;
		}
		r->waiting_tail = &c->next;
		at = &c->next;
	}
}

/* A slot keeps a WRITE until the peer has said what became of it, unless that is not waited for; of
 * a READ nothing is on its way here. */
static void slot_drop(struct engine *e, struct engine_peer *p, struct relay_slot *s, struct op *op)
{
	struct chunk *c = s->chunk;
	int writes = s->request.kind == RELAY_PULL;

	switch (s->state) {
	case RELAY_FILLING:
		if (!copy_cancel(&s->copy))
			return;
		s->chunk = NULL;
		slot_free(e, p, s);
		break;
	case RELAY_ASKED:
	case RELAY_ENDING:
		if (s->state == RELAY_ASKED)
			slot_end(p, s);
		s->chunk = writes && !(op->bits & OP_FORCED) ? c : NULL;
		if (s->chunk)
			return;
		op->bits |= writes ? OP_UNQUIET : 0;
		break;
	case RELAY_FILLED:
		slot_end(p, s);
		break;
	default:
		return; /* READING: a device has it, or its lane, or the stage */
	}
	chunk_drop(e, c);
}

void relay_drop(struct op *op)
{
	struct engine_peer *p = op->peer;
	struct engine *e = op_engine(op);
	uint32_t i;

	drop_waiting(e, p->relay, op);
	for (i = 0; i < RELAY_WINDOW; i++)
		if (p->relay->slots[i].chunk && p->relay->slots[i].chunk->op == op)
			slot_drop(e, p, &p->relay->slots[i], op);
}

static struct relay_slot *slot_reading(const struct engine_peer *p, const struct chunk *c)
{
	uint32_t i;

	for (i = 0; i < RELAY_WINDOW; i++)
		if (p->relay->slots[i].chunk == c && p->relay->slots[i].state == RELAY_READING)
			return &p->relay->slots[i];
	return NULL;
}

void relay_free(struct engine_peer *p, const struct chunk *c)
{
	struct relay_slot *s = slot_reading(p, c);

	if (s)
		slot_end(p, s);
}

const struct rkey *relay_entry_key(const struct engine_peer *p, const struct chunk *c)
{
	const struct relay_slot *s = p->relay ? slot_reading(p, c) : NULL;

	return s ? s->key : c->key;
}

/* ---- answers ---- */

static void final_received(struct engine *e, struct engine_peer *p, struct relay_slot *s, int res)
{
	struct chunk *c = s->chunk;

	if (!slot_speaks(s))
		return;
	if (!c || (s->request.kind == RELAY_PULL && !res)) {
		s->chunk = NULL;
		slot_free(e, p, s);
		if (!c)
			return;
		c->res = 0;
		chunk_done(e, c);
		return;
	}
	slot_fail(e, p, s, res ? res : -EREMOTEIO);
}

static void answer_received(struct engine *e, struct engine_peer *p, const struct relay_answer *m)
{
	struct relay_slot *s = &p->relay->slots[m->seq % RELAY_WINDOW];

	if (!s->state || s->request.seq != m->seq)
		return;
	if (m->word == RELAY_FINAL) {
		final_received(e, p, s, m->res);
		return;
	}
	if (s->state != RELAY_ASKED || s->request.kind != RELAY_FETCH)
		return;
	s->run = m->run;
	s->slot = m->slot;
	s->state = RELAY_FILLED;
	slot_read(e, p, s);
}

static int answer_valid(const struct relay_answer *m)
{
	if (m->reserved || m->run >> 30)
		return 0;
	if (m->word == RELAY_READY)
		return m->slot < RELAY_RUN && m->run && !m->res;
	return m->word == RELAY_FINAL && !m->slot && !m->run && m->res <= 0 && m->res >= -4095;
}

static int request_valid(const struct relay_request *m)
{
	if (m->reserved || m->slot >= RELAY_RUN || m->checksum > 1 || m->run >> 30)
		return 0;
	if (m->kind == RELAY_PULL)
		return m->run && m->len && m->len <= SLOT_BYTES;
	if (m->slot || m->checksum || m->run)
		return 0;
	if (m->kind == RELAY_FETCH)
		return m->len && m->len <= SLOT_BYTES;
	return m->kind == RELAY_END && !m->grant && !m->off && !m->len;
}

void relay_message(struct engine *e, struct engine_peer *p, const void *data, uint32_t len)
{
	union {
		struct relay_request request;
		struct relay_answer answer;
	} m;

	if (!p->relay || len < sizeof(m.answer) || len > sizeof(m))
		return;
	memcpy(&m, data, len);
	if (m.answer.type == MESSAGE_RELAY) {
		if (len == sizeof(m.request) && request_valid(&m.request))
			relay_serve(e, p, &m.request);
	} else if (m.answer.type == MESSAGE_RELAYED && len == sizeof(m.answer)) {
		if (answer_valid(&m.answer))
			answer_received(e, p, &m.answer);
	}
}

/* ---- what comes back, and goes again ---- */

static void speak(struct engine_peer *p, uint32_t seg, struct relay_message *m)
{
	struct relay_record *r = container_of(m, struct relay_record, message);
	struct relay_slot *s = container_of(m, struct relay_slot, message);

	if (seg == RELAY_SEG && slot_speaks(s))
		slot_send(p, s);
	else if (seg == RELAY_SEG_ANSWER && record_speaks(r))
		relay_answer(p, r);
}

void relay_chunk_out(struct engine *e, struct engine_peer *p, struct chunk *c)
{
	struct relay_message *m = container_of(c, struct relay_message, chunk);

	m->sending = 0;
	if ((m->again || c->res) && peer_sends(p))
		speak(p, c->seg, m);
	relay_kick(e, p->relay);
}

void relay_chunk_dropped(struct chunk *c)
{
	if (c->seg != RELAY_SEG_READ)
		container_of(c, struct relay_message, chunk)->sending = 0;
}

void relay_again(struct engine_peer *p)
{
	uint32_t i;

	if (!p->relay || p->state != PEER_UP)
		return;
	for (i = 0; i < RELAY_WINDOW; i++) {
		speak(p, RELAY_SEG, &p->relay->slots[i].message);
		speak(p, RELAY_SEG_ANSWER, &p->relay->records[i].message);
	}
	relay_kick(p->engine, p->relay);
}

/* ---- each turn ---- */

static uint32_t slot_look(struct engine *e, struct engine_peer *p, struct relay_slot *s)
{
	if (s->state == RELAY_FILLED) {
		slot_read(e, p, s);
		return s->state != RELAY_FILLED;
	}
	if (s->state != RELAY_FILLING || !copy_done(&s->copy))
		return 0;
	if (((struct op *)s->chunk->op)->bits & OP_DECIDED || copy_step(&s->copy))
		slot_filled(e, p, s);
	return 1;
}

static int is_active(const struct relay *r)
{
	uint32_t i;

	if (r->waiting)
		return 1;
	for (i = 0; i < RELAY_WINDOW; i++)
		if (r->slots[i].state == RELAY_FILLING || r->slots[i].state == RELAY_FILLED ||
		    (r->records[i].used && r->records[i].state <= RECORD_COPIES))
			return 1;
	return 0;
}

/* Those of this side and of the peer have slots of the run in turn. */
static uint32_t look(struct engine *e, struct relay *r)
{
	struct engine_peer *p = r->peer;
	uint32_t i, n = 0, first = r->turn++;

	for (i = 0; i < RELAY_WINDOW; i++)
		n += slot_look(e, p, &r->slots[i]);
	if (first & 1)
		n += waiting_start(e, p);
	for (i = 0; i < RELAY_WINDOW; i++)
		n += relay_record_look(e, p, &r->records[(first + i) % RELAY_WINDOW]);
	if (!(first & 1))
		n += waiting_start(e, p);
	return n;
}

uint32_t relays_look(struct engine *e)
{
	struct list round;
	uint32_t n = 0;

	list_init(&round);
	e->relays.wanting = 0;
	while (!list_empty(&e->relays.active)) {
		struct list *first = e->relays.active.next;

		list_del(first);
		list_add_tail(first, &round);
	}
	while (!list_empty(&round)) {
		struct relay *r = list_first(&round, struct relay, link);

		list_del(&r->link);
		n += look(e, r);
		if (is_active(r))
			relay_kick(e, r);
		else
			list_del(&r->link);
	}
	e->relays.wanted = e->relays.wanting;
	if (e->relays.wanted)
		runs_take_back(e);
	return n;
}

/* ---- life ---- */

int relay_idle(const struct engine_peer *p)
{
	const struct relay *r = p->relay;
	uint32_t i;

	if (!r)
		return 1;
	if (r->waiting || r->ask_out || r->end_out)
		return 0;
	for (i = 0; i < RELAY_WINDOW; i++) {
		if (r->slots[i].state || r->slots[i].message.sending)
			return 0;
		if (r->records[i].message.sending ||
		    (r->records[i].used && r->records[i].state != RECORD_FINAL))
			return 0;
	}
	return 1;
}

int relay_is_quiet(struct engine *e, struct engine_peer *p)
{
	struct relay *r = p->relay;
	uint32_t i;
	int busy = 0;

	for (i = 0; r && i < RELAY_WINDOW; i++) {
		struct relay_slot *s = &r->slots[i];

		if (s->state == RELAY_FILLING)
			busy = 1;
		busy |= !relay_record_stop(e, p, &r->records[i]);
	}
	return !busy;
}

/* Nothing of it is under way: what was not settled never will be. */
void relay_reset(struct engine *e, struct engine_peer *p)
{
	struct relay *r = p->relay;
	uint32_t i;

	if (!r)
		return;
	for (i = 0; i < RELAY_WINDOW; i++) {
		r->slots[i].state = RELAY_FREE;
		r->slots[i].message.sending = 0;
		r->records[i].message.sending = 0;
	}
	list_del(&r->link);
	run_give_back(e, r);
	r->source = NULL;
	r->source_run = 0;
}

int relay_make(struct engine_peer *p)
{
	struct relay *r;
	uint32_t i;

	if (p->relay)
		return 0;
	r = calloc(1, sizeof(*r));
	if (!r)
		return -ENOMEM;
	r->peer = p;
	r->next = 1;
	r->waiting_tail = &r->waiting;
	list_init(&r->link);
	list_init(&r->ops);
	for (i = 0; i < RELAY_WINDOW; i++)
		r->records[i].slot = -1;
	p->relay = r;
	return 0;
}

/* There is no memory to fill. */
void relay_refuse(struct engine *e, struct engine_peer *p, int res, uint64_t bytes)
{
	struct relay *r = p->relay;
	struct chunk *c, *next, *all = r->waiting;

	r->waiting = NULL;
	r->waiting_tail = &r->waiting;
	for (c = all; c; c = next) {
		struct op *op = c->op;

		next = c->next;
		if (c->kind == CHUNK_READ) {
			chunk_wait(e, r, c);
			continue;
		}
		chunk_drop(e, c);
		op_fail(op, res, REASON_STAGING, bytes, (uint64_t)-res, 0);
		op_check(op);
	}
}
