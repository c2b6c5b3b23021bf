/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages: SENDs and control messages of eps, copied into slots of the message endpoint. A SEND
 * comes out when the peer has confirmed it, so the provider need not report delivery. Each message
 * carries the count of received ones; if a poll sent none, an ACK carries it.
 *
 * A provider may complete a message that never arrives, if a connection breaks or the peer lacks
 * buffers. So the first unconfirmed SEND is sent again after a while, then the next. A SEND that
 * arrives twice is counted once, and confirmed again. If it was given up meanwhile, only its number
 * is sent, since all later ones wait for it. MESSAGE_WAY is repeated until the peer has joined, and
 * MESSAGE_SOURCE until it is confirmed. All other messages have a time limit, or their receiver
 * asks again.
 */
#include <endian.h>
#include "backend/fabric_key.h"

#define BATCH 16u /* completions per read */

static struct fabric_head *head_of(struct fabric_slot *s)
{
	return (struct fabric_head *)(void *)s->buf;
}

/* ---- slots ---- */

/* Without the message endpoint no ep can work. */
static void talk_dies(struct fabric_device *d, int err)
{
	if (!d->dead)
		store_release(&d->dead, err);
}

static void receive(struct fabric_device *d, struct fabric_slot *s)
{
	ssize_t err = fi_recv(d->talk.ep, s->buf, FABRIC_BUF, s->desc, FI_ADDR_UNSPEC, &s->context);

	list_del(&s->link);
	if (!err)
		return;
	list_add_tail(&s->link, &d->unposted);
	d->stalled = 1;
	if (err != -FI_EAGAIN)
		talk_dies(d, (int)err);
}

static void receive_all(struct fabric_device *d, struct list *from)
{
	struct list again;

	if (list_empty(from))
		return;
	list_init(&again);
	list_add_tail(&again, from);
	list_del(from);
	while (!list_empty(&again))
		receive(d, list_first(&again, struct fabric_slot, link));
}

void fabric_talk_add(struct fabric_device *d, struct fabric_ep *e)
{
	struct fabric_slab *slab = e->slab;
	uint32_t i;

	if (++d->neps * FABRIC_SLOTS + d->orphans <= d->slots)
		return;
	e->slab = NULL;
	slab->next = d->slabs;
	d->slabs = slab;
	d->slots += FABRIC_SLOTS;
	for (i = 0; i < 2 * FABRIC_SLOTS; i++) {
		int receives = slab->slots[i].receives;

		list_add_tail(&slab->slots[i].link, receives ? &d->unposted : &d->free_slots);
	}
	d->stalled = 1; /* the next poll posts them */
}

/* ---- sending ---- */

/* 0; or -errno, and the slot stays in its list. */
static int slot_send(struct fabric_device *d, struct fabric_slot *s)
{
	ssize_t err = fi_send(d->talk.ep, s->buf, s->len, s->desc, s->ep->known->addr, &s->context);

	if (err) {
		d->stalled = 1;
		return (int)err;
	}
	list_del(&s->link);
	list_add_tail(&s->link, &s->ep->said);
	s->known = s->ep->known;
	s->known->uses++;
	return 0;
}

/* 1: the ep may use one more. A peer that takes nothing must not use the slots of others. One slot
 * is reserved for MESSAGE_BYE. */
static int slot_is_free(const struct fabric_ep *e, enum fabric_message type)
{
	uint32_t max = type == MESSAGE_BYE ? FABRIC_SLOTS : FABRIC_SLOTS - 1;

	return e->slots < max && !list_empty(&fabric_ep_device(e)->free_slots);
}

static struct fabric_slot *slot_take(struct fabric_ep *e, enum fabric_message type, uint32_t len)
{
	struct fabric_device *d = fabric_ep_device(e);
	struct fabric_slot *s;
	struct fabric_head *h;

	if (!slot_is_free(e, type))
		return NULL;
	s = list_first(&d->free_slots, struct fabric_slot, link);
	list_del(&s->link);
	s->ep = e;
	e->slots++;
	s->len = (uint32_t)sizeof(*h) + len;
	h = head_of(s);
	*h = (struct fabric_head){.type = (uint8_t)type,
				  .len = htole16((uint16_t)len),
				  .taken = htole32(e->taken)};
	memcpy(h->cookie, e->theirs, sizeof(h->cookie));
	e->told = e->taken;
	return s;
}

/* Messages leave in order. */
static void slot_go(struct fabric_ep *e, struct fabric_slot *s)
{
	int first = list_empty(&e->saying);

	list_add_tail(&s->link, &e->saying);
	if (first)
		slot_send(fabric_ep_device(e), s);
}

int fabric_say(struct fabric_ep *e, enum fabric_message type, uint32_t number, const void *more,
	       uint32_t len)
{
	struct fabric_word w = {.number = htole32(number), .len = htole32(len)};
	struct fabric_slot *s = slot_take(e, type, (uint32_t)sizeof(w) + len);
	uint8_t *to;

	if (!s)
		return 0;
	to = s->buf + sizeof(struct fabric_head);
	memcpy(to, &w, sizeof(w));
	if (len)
		memcpy(to + sizeof(w), more, len);
	if (type == MESSAGE_BYE) {
		e->bye_out = 1;
		/* The time starts here, since nobody may have polled since the close. */
		e->deadline_ns = clock_ns() + BYE_NS;
	}
	slot_go(e, s);
	return 1;
}

static uint32_t way_number(const struct fabric_ep *e)
{
	return e->number | (e->own ? WAY_OWN : 0);
}

static void say_wants(struct fabric_ep *e)
{
	if (!e->joined)
		return;
	if (e->wants & WANT_HELLO && fabric_say(e, MESSAGE_HELLO, e->heard, NULL, 0))
		e->wants &= ~(uint32_t)WANT_HELLO;
	if (e->wants & WANT_ANSWER && fabric_say(e, MESSAGE_HELLO, 0, NULL, 0))
		e->wants &= ~(uint32_t)WANT_ANSWER;
	/* A data endpoint that is being opened is announced later. */
	if (e->wants & WANT_WAY &&
	    (fabric_ep_remakes(e) ||
	     fabric_say(e, MESSAGE_WAY, way_number(e), e->way.word, e->way.word_len)))
		e->wants &= ~(uint32_t)WANT_WAY;
	if (e->wants & WANT_JOINED &&
	    (e->way_state != WAY_READY || fabric_say(e, MESSAGE_JOINED, e->number, NULL, 0)))
		e->wants &= ~(uint32_t)WANT_JOINED;
	if (e->wants & WANT_LEAVES &&
	    (fabric_ep_remakes(e) || fabric_say(e, MESSAGE_LEAVES, e->number, NULL, 0)))
		e->wants &= ~(uint32_t)WANT_LEAVES;
	if (e->wants & (WANT_SOURCE | WANT_SOURCE_KNOWN))
		fabric_shared_say(e);
	if (e->wants & WANT_REVOKED)
		fabric_keys_answer(e);
	if (e->wants & WANT_REVOKE)
		fabric_grants_ask(e);
	if (e->wants & WANT_BYE && fabric_say(e, MESSAGE_BYE, 0, NULL, 0))
		e->wants &= ~(uint32_t)WANT_BYE;
}

static void send_data(struct fabric_ep *e, struct fabric_slot *s, const struct chunk *c,
		      uint32_t seq)
{
	struct fabric_head *h = head_of(s);

	memcpy(s->buf + sizeof(*h), c->local, c->len);
	h->seq = htole32(seq);
	if (c->checksum) {
		h->checked = 1;
		h->crc = htole32(crc32c(0, c->local, c->len));
	}
	slot_go(e, s);
}

/* Sends the number of a SEND that was given up. */
static void send_number(struct fabric_ep *e, struct fabric_slot *s, uint32_t seq)
{
	head_of(s)->seq = htole32(seq);
	head_of(s)->checked = 1;
	slot_go(e, s);
}

void fabric_talk_push(struct fabric_ep *e)
{
	struct fabric_device *d = fabric_ep_device(e);
	struct fabric_slot *s;

	while (!list_empty(&e->saying)) {
		int err = slot_send(d, list_first(&e->saying, struct fabric_slot, link));

		if (err == -FI_EAGAIN)
			return;
		if (err) {
			fabric_ep_down(e, err);
			return;
		}
	}
	say_wants(e);
	while (e->sends.head && e->seq - e->acked < FABRIC_CREDITS && list_empty(&e->saying)) {
		struct chunk *c = e->sends.head;

		s = slot_take(e, MESSAGE_DATA, c->len);
		if (!s)
			break;
		e->queued--;
		fabric_queue_pop(&e->sends);
		e->unacked[++e->seq % FABRIC_CREDITS] = c;
		send_data(e, s, c, e->seq);
	}
}

/* ---- sending again ---- */

/* Each side repeats MESSAGE_WAY until it knows that the other side has joined. */
static int way_is_awaited(const struct fabric_ep *e)
{
	return e->peer_joined < e->number &&
	       (e->way_state == WAY_WAITS || e->way_state == WAY_READY);
}

int fabric_talk_awaits(const struct fabric_ep *e)
{
	return e->state == EP_UP &&
	       (e->acked != e->seq || way_is_awaited(e) || fabric_shared_awaits(e));
}

static int is_among(const struct list *slots, enum fabric_message type, uint32_t seq)
{
	struct list *pos;

	list_for_each(pos, slots) {
		const struct fabric_head *h = head_of(list_entry(pos, struct fabric_slot, link));

		if (h->type == type && le32toh(h->seq) == seq)
			return 1;
	}
	return 0;
}

/* 1: the provider still has it, so it may arrive. */
static int is_on_its_way(const struct fabric_ep *e, enum fabric_message type, uint32_t seq)
{
	return is_among(&e->saying, type, seq) || is_among(&e->said, type, seq);
}

static void data_again(struct fabric_ep *e)
{
	uint32_t seq = e->acked + 1;
	const struct chunk *c = e->unacked[seq % FABRIC_CREDITS];
	enum fabric_message type = c ? MESSAGE_DATA : MESSAGE_ACK;
	struct fabric_slot *s;

	if (is_on_its_way(e, MESSAGE_DATA, seq) || is_on_its_way(e, type, seq))
		return;
	s = slot_take(e, type, c ? c->len : 0);
	if (s && c)
		send_data(e, s, c, seq);
	else if (s)
		send_number(e, s, seq);
}

void fabric_talk_tick(struct fabric_ep *e)
{
	uint64_t now;

	if (!fabric_talk_awaits(e)) {
		e->resend_ns = 0;
		e->resend_in = RESEND_NS;
		return;
	}
	now = clock_ns();
	if (e->resend_ns && now < e->resend_ns)
		return;
	if (e->resend_ns) {
		if (e->acked != e->seq)
			data_again(e);
		if (way_is_awaited(e) && !is_on_its_way(e, MESSAGE_WAY, 0))
			e->wants |= WANT_WAY;
		if (fabric_shared_awaits(e) && !is_on_its_way(e, MESSAGE_SOURCE, 0))
			e->wants |= WANT_SOURCE;
		e->resend_in = e->resend_in < RESEND_MAX_NS / 2 ? 2 * e->resend_in : RESEND_MAX_NS;
	}
	e->resend_ns = now + e->resend_in;
}

/* Confirms received SENDs, if no message did so. */
static void acknowledge(struct fabric_ep *e)
{
	struct fabric_slot *s;

	if (e->told == e->taken || e->state != EP_UP || !list_empty(&e->saying))
		return;
	s = slot_take(e, MESSAGE_ACK, 0);
	if (s)
		slot_go(e, s);
}

int fabric_talk_waits(const struct fabric_ep *e)
{
	int owes = e->told != e->taken && e->state == EP_UP;

	if (!list_empty(&e->saying) || !slot_is_free(e, MESSAGE_ACK))
		return 0;
	return owes || (e->joined && e->wants) ||
	       (e->sends.head && e->seq - e->acked < FABRIC_CREDITS);
}

/* ---- receiving ---- */

/* The peer has received all up to n. 0 or -EPROTO. */
static int acked(struct fabric_ep *e, uint32_t n)
{
	struct chunk *c;

	if ((int32_t)(n - e->acked) <= 0)
		return 0;
	if ((int32_t)(n - e->seq) > 0)
		return -EPROTO;
	while (e->acked != n) {
		c = e->unacked[++e->acked % FABRIC_CREDITS];
		e->unacked[e->acked % FABRIC_CREDITS] = NULL;
		if (c)
			fabric_out(e, c, 0, CHUNK_QUIET);
	}
	e->resend_ns = 0;
	e->resend_in = RESEND_NS;
	return 0;
}

/* 1: new; 0: it came before, and its sender missed the confirmation; -EPROTO. */
static int number_takes(struct fabric_ep *e, uint32_t seq)
{
	uint32_t ahead = seq - e->taken;

	if ((int32_t)ahead <= 0)
		e->told = e->taken - 1;
	if ((int32_t)ahead <= 0)
		return 0;
	if (ahead > FABRIC_CREDITS)
		return -EPROTO;
	if (e->beyond & 1ull << (ahead - 1))
		return 0;
	e->beyond |= 1ull << (ahead - 1);
	for (; e->beyond & 1; e->beyond >>= 1)
		e->taken++;
	return 1;
}

/* 1: the engine reads the slot until the next poll. */
static int hear_data(struct fabric_device *d, struct fabric_ep *e, struct fabric_slot *s,
		     const struct fabric_head *h)
{
	const uint8_t *data = s->buf + sizeof(*h);
	uint32_t len = le16toh(h->len);
	int fresh;

	if (len > MESSAGE_MAX || (h->checked && le32toh(h->crc) != crc32c(0, data, len))) {
		fabric_ep_down(e, -EIO);
		return 0;
	}
	fresh = number_takes(e, le32toh(h->seq));
	if (fresh < 0)
		fabric_ep_down(e, fresh);
	if (fresh <= 0)
		return 0;
	d->events[d->nevents++] =
		(struct event){.type = EVENT_MESSAGE, .ep = &e->ep, .data = data, .len = len};
	return 1;
}

static void hear_word(struct fabric_ep *e, uint32_t type, const uint8_t *data, uint32_t len)
{
	struct fabric_word w;

	if (len < sizeof(w)) {
		fabric_ep_down(e, -EPROTO);
		return;
	}
	memcpy(&w, data, sizeof(w));
	w.number = le32toh(w.number);
	w.len = le32toh(w.len);
	switch (type) {
	case MESSAGE_HELLO:
		if (!w.number && e->joined)
			e->wants |= WANT_HELLO;
		break;
	case MESSAGE_WAY:
		if (w.len == len - sizeof(w) &&
		    fabric_word_fits(fabric_ep_device(e), data + sizeof(w), w.len))
			fabric_ep_follow(e, w.number, data + sizeof(w), w.len);
		else
			fabric_ep_down(e, -EPROTO);
		break;
	case MESSAGE_JOINED:
		e->peer_joined = w.number > e->peer_joined ? w.number : e->peer_joined;
		break;
	case MESSAGE_ASK:
	case MESSAGE_KEYS:
		data += sizeof(w);
		if (fabric_bound_hear(e, type, w.number, data, len - (uint32_t)sizeof(w)))
			fabric_ep_down(e, -EPROTO);
		break;
	case MESSAGE_REVOKE:
		fabric_key_revoke(e, w.number);
		break;
	case MESSAGE_REVOKED:
		fabric_grant_revoked(e, w.number);
		break;
	case MESSAGE_BYE:
		fabric_ep_down(e, -ECONNRESET);
		break;
	case MESSAGE_SOURCE:
		data += sizeof(w);
		if (w.len != len - sizeof(w) || fabric_shared_hear(e, w.number, data, w.len))
			fabric_ep_down(e, -EPROTO);
		break;
	case MESSAGE_SOURCE_KNOWN:
		if (fabric_shared_knows(e, w.number))
			fabric_ep_down(e, -EPROTO);
		break;
	case MESSAGE_LEAVES:
		if (fabric_shared_leaves(e, w.number))
			fabric_ep_down(e, -EPROTO);
		break;
	default:
		fabric_ep_down(e, -EPROTO);
	}
}

/* Messages from unauthenticated senders, and those to eps that have ended, match no cookie. */
static int hear(struct fabric_device *d, struct fabric_slot *s, size_t len)
{
	const struct fabric_head *h = head_of(s);
	struct fabric_ep *e;

	if (len < sizeof(*h) || len > FABRIC_BUF || sizeof(*h) + le16toh(h->len) != len)
		return 0;
	e = fabric_ep_find(d, h->cookie);
	if (!e || (e->state != EP_CONNECTING && e->state != EP_UP))
		return 0;
	e->answered = 1;
	fabric_ep_up(e);
	if (e->state == EP_UP && acked(e, le32toh(h->taken))) {
		fabric_ep_down(e, -EPROTO);
		return 0;
	}
	if (h->type == MESSAGE_DATA && e->state == EP_UP)
		return hear_data(d, e, s, h);
	if (h->type == MESSAGE_ACK && h->checked && e->state == EP_UP &&
	    number_takes(e, le32toh(h->seq)) < 0)
		fabric_ep_down(e, -EPROTO);
	if (h->type != MESSAGE_ACK && h->type != MESSAGE_DATA)
		hear_word(e, h->type, s->buf + sizeof(*h), le16toh(h->len));
	return 0;
}

static void received(struct fabric_device *d, struct fabric_slot *s, size_t len)
{
	if (hear(d, s, len))
		list_add_tail(&s->link, &d->given);
	else
		receive(d, s);
}

static void sent(struct fabric_device *d, struct fabric_slot *s)
{
	struct fabric_ep *e = s->ep;

	fabric_known_put(d, s->known);
	list_del(&s->link);
	list_add_tail(&s->link, &d->free_slots);
	s->ep = NULL;
	if (!e) {
		d->orphans--;
		return;
	}
	e->slots--;
	if (head_of(s)->type == MESSAGE_BYE)
		e->bye_out = 0;
}

/* ---- completions ---- */

/* 1: send it again. An ep that is ending repeats MESSAGE_BYE only: the peer must learn of the
 * end. */
static int is_said_again(struct fabric_slot *s)
{
	uint32_t state = s->ep ? s->ep->state : EP_CLOSED;
	int last = s->ep && head_of(s)->type == MESSAGE_BYE;

	return last || state == EP_UP || state == EP_CONNECTING;
}

static void failed(struct fabric_device *d, struct fabric_slot *s)
{
	if (s->receives) {
		receive(d, s);
	} else if (is_said_again(s)) {
		/* After any error, including that of a broken connection (FI_ECANCELED). If the
		 * message arrived after all, its number shows that. */
		fabric_known_put(d, s->known);
		list_del(&s->link);
		list_add_tail(&s->link, &s->ep->saying);
		d->stalled = 1;
	} else {
		sent(d, s);
	}
}

static void read_error(struct fabric_device *d)
{
	struct fi_cq_err_entry err = {0};

	ssize_t n = fi_cq_readerr(d->talk.cq, &err, 0);

	if (n < 0 && n != -FI_EAGAIN)
		talk_dies(d, (int)n);
	/* An error without a context has no known message: the missing answer shows which. */
	if (n == 1 && err.op_context)
		failed(d, container_of(err.op_context, struct fabric_slot, context));
}

int fabric_talk_poll(struct fabric_device *d)
{
	struct fi_cq_msg_entry entries[BATCH];
	uint32_t room = (d->max - d->nevents) / 2;
	ssize_t i, n;

	if (!room || d->dead)
		return 1;
	n = fi_cq_read(d->talk.cq, entries, room < BATCH ? room : BATCH);
	if (n == -FI_EAVAIL)
		read_error(d);
	else if (n < 0 && n != -FI_EAGAIN)
		talk_dies(d, (int)n);
	for (i = 0; i < n; i++) {
		struct fabric_slot *s =
			container_of(entries[i].op_context, struct fabric_slot, context);

		if (s->receives)
			received(d, s, entries[i].len);
		else
			sent(d, s);
	}
	return n && n != -FI_EAGAIN;
}

void fabric_talk_begin(struct fabric_device *d)
{
	struct list *pos;

	if (d->dead)
		return;
	receive_all(d, &d->given);
	receive_all(d, &d->unposted);
	list_for_each(pos, &d->eps) {
		struct fabric_ep *e = list_entry(pos, struct fabric_ep, all);

		fabric_talk_push(e);
		acknowledge(e);
	}
}

/* ---- end ---- */

int fabric_talk_cancel(struct fabric_ep *e, struct chunk *c, enum cancel_how how)
{
	uint32_t i;

	if (fabric_queue_remove(&e->sends, c)) {
		e->queued--;
		fabric_out(e, c, -ECANCELED, CHUNK_QUIET);
		return 1;
	}
	for (i = 0; i < FABRIC_CREDITS && how == CANCEL_NOW; i++) {
		if (e->unacked[i] != c)
			continue;
		e->unacked[i] = NULL;
		fabric_out(e, c, -ECANCELED, 0);
		return 1;
	}
	return 0;
}

void fabric_talk_end(struct fabric_ep *e)
{
	struct fabric_device *d = fabric_ep_device(e);
	uint32_t i;

	for (i = 0; i < FABRIC_CREDITS; i++) {
		struct chunk *c = e->unacked[i];

		e->unacked[i] = NULL;
		if (c)
			fabric_undone(e, c, 0);
	}
	while (e->sends.head) {
		e->queued--;
		fabric_undone(e, fabric_queue_pop(&e->sends), CHUNK_QUIET);
	}
	while (!list_empty(&e->saying)) {
		struct fabric_slot *s = list_first(&e->saying, struct fabric_slot, link);

		list_del(&s->link);
		list_add_tail(&s->link, &d->free_slots);
		s->ep = NULL;
		e->slots--;
	}
}

void fabric_talk_leave(struct fabric_ep *e)
{
	struct fabric_device *d = fabric_ep_device(e);

	fabric_talk_end(e);
	while (!list_empty(&e->said)) {
		struct fabric_slot *s = list_first(&e->said, struct fabric_slot, link);

		list_del(&s->link);
		s->ep = NULL;
		e->slots--;
		d->orphans++;
	}
}
