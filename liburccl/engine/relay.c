/* SPDX-License-Identifier: Apache-2.0 */
/* The relay: its messages, and what the engine does for it in each iteration. */
#include <stdlib.h>
#include "engine/post.h"

/* ---- messages ---- */

static void message_send(struct engine_peer *p, struct relay_message *m, uint32_t seg,
			 const void *bytes, uint32_t len)
{
	m->again = m->sending;
	if (m->sending)
		return;
	m->sending = 1;
	memcpy(m->bytes, bytes, len);
	lane_send(p, &m->chunk, seg, m->bytes, len, 0);
}

void relay_slot_send(struct engine_peer *p, struct relay_slot *s)
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

static int record_sends(const struct relay_record *r)
{
	return r->used && r->state >= RECORD_READY;
}

/* ---- what comes in ---- */

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
			relay_answered(e, p, &m.answer);
	}
}

/* ---- messages that come out, and that are sent again ---- */

/* Sends the message if its slot or record still has something to send. */
static void message_due(struct engine_peer *p, uint32_t seg, struct relay_message *m)
{
	struct relay_record *r = container_of(m, struct relay_record, message);
	struct relay_slot *s = container_of(m, struct relay_slot, message);

	if (seg == RELAY_SEG && relay_slot_sends(s))
		relay_slot_send(p, s);
	else if (seg == RELAY_SEG_ANSWER && record_sends(r))
		relay_answer(p, r);
}

void relay_chunk_out(struct engine *e, struct engine_peer *p, struct chunk *c)
{
	struct relay_message *m = container_of(c, struct relay_message, chunk);

	m->sending = 0;
	if ((m->again || c->res) && peer_sends(p))
		message_due(p, c->seg, m);
	relay_kick(e, p->relay);
}

void relay_chunk_dropped(struct engine *e, struct chunk *c)
{
	if (c->seg == RELAY_SEG_READ)
		relay_read_dropped(e, c);
	else
		container_of(c, struct relay_message, chunk)->sending = 0;
}

void relay_requeue(struct engine_peer *p)
{
	uint32_t i;

	if (!p->relay || p->state != PEER_UP)
		return;
	for (i = 0; i < RELAY_WINDOW; i++) {
		message_due(p, RELAY_SEG, &p->relay->slots[i].message);
		message_due(p, RELAY_SEG_ANSWER, &p->relay->records[i].message);
	}
	relay_kick(p->engine, p->relay);
}

/* ---- each iteration ---- */

static int is_active(const struct relay *r)
{
	uint32_t i;

	if (r->waiting.head)
		return 1;
	for (i = 0; i < RELAY_WINDOW; i++)
		if (r->slots[i].state == RELAY_FILLING || r->slots[i].state == RELAY_FILLED ||
		    (r->records[i].used && r->records[i].state <= RECORD_COPIES))
			return 1;
	return 0;
}

/* Our WRITEs and the peer's FETCHes take slots of the run in turn. */
static uint32_t relay_look(struct engine *e, struct relay *r)
{
	struct engine_peer *p = r->peer;
	uint32_t i, n = 0, first = r->turn++;

	for (i = 0; i < RELAY_WINDOW; i++)
		n += relay_slot_look(e, p, &r->slots[i]);
	if (first & 1)
		n += relay_waiting_start(e, p);
	for (i = 0; i < RELAY_WINDOW; i++)
		n += relay_record_look(e, p, &r->records[(first + i) % RELAY_WINDOW]);
	if (!(first & 1))
		n += relay_waiting_start(e, p);
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
		n += relay_look(e, r);
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
	if (r->waiting.head || r->ask_out || r->end_out)
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

int relay_copies(const struct engine_peer *p)
{
	uint32_t i;

	for (i = 0; p->relay && i < RELAY_WINDOW; i++)
		if (p->relay->records[i].used && p->relay->records[i].state == RECORD_COPIES)
			return 1;
	return 0;
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

/* Called when the peer is lost and all its chunks are back: drops requests without an answer. */
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
	chunk_queue_init(&r->waiting);
	list_init(&r->link);
	list_init(&r->ops);
	for (i = 0; i < RELAY_WINDOW; i++)
		r->records[i].slot = -1;
	p->relay = r;
	return 0;
}
