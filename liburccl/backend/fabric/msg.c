/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages: SENDs and control messages of eps, copied into slots of the message endpoint. A SEND
 * comes out when the peer has confirmed it, so the provider need not report delivery. Each message
 * carries the count of received ones; if a poll sent none, an ACK carries it.
 *
 * A provider may complete a message that never arrives, if a connection breaks or the peer lacks
 * buffers. So the first unconfirmed SEND is sent again after a while, then the next. A SEND that
 * arrives twice is counted once, and confirmed again. If it was given up meanwhile, only its number
 * is sent, since all later ones wait for it. MESSAGE_ENDPOINT is repeated until the peer has
 * joined, and MESSAGE_SOURCE until it is confirmed. All other messages have a time limit, or their
 * receiver asks again.
 */
#include <endian.h>
#include "backend/fabric/key.h"

#define BATCH 16u /* completions per read */

static struct fabric_head *head_of(struct fabric_slot *s)
{
	return (struct fabric_head *)(void *)s->buf;
}

/* ---- slots ---- */

/* Without the message endpoint no ep can work. */
static void msg_died(struct fabric_device *d, int err)
{
	if (!d->dead)
		store_release(&d->dead, err);
}

static void receive(struct fabric_device *d, struct fabric_slot *s)
{
	ssize_t err = fi_recv(d->msg.ep, s->buf, FABRIC_BUF, s->desc, FI_ADDR_UNSPEC, &s->context);

	list_del(&s->link);
	if (!err)
		return;
	list_add_tail(&s->link, &d->unposted);
	d->stalled = 1;
	if (err != -FI_EAGAIN)
		msg_died(d, (int)err);
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

void fabric_msg_add(struct fabric_device *d, struct fabric_ep *e)
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
	ssize_t err =
		fi_send(d->msg.ep, s->buf, s->len, s->desc, s->ep->av_entry->addr, &s->context);

	if (err) {
		d->stalled = 1;
		return (int)err;
	}
	list_del(&s->link);
	list_add_tail(&s->link, &s->ep->sent_list);
	s->av_entry = s->ep->av_entry;
	s->av_entry->uses++;
	return 0;
}

/* 1: the ep may use one more. A peer that takes nothing must not use the slots of others. One slot
 * is reserved for MESSAGE_BYE. */
static int slot_is_free(const struct fabric_ep *e, enum fabric_message type)
{
	uint32_t max = type == MESSAGE_BYE ? FABRIC_SLOTS : FABRIC_SLOTS - 1;

	return e->slots < max && !list_empty(&fabric_ep_device(e)->free_slots);
}

static struct fabric_slot *msg_slot_take(struct fabric_ep *e, enum fabric_message type,
					 uint32_t len)
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
	e->acked_to = e->taken;
	return s;
}

/* Messages leave in order. */
static void slot_go(struct fabric_ep *e, struct fabric_slot *s)
{
	int first = list_empty(&e->send_queue);

	list_add_tail(&s->link, &e->send_queue);
	if (first)
		slot_send(fabric_ep_device(e), s);
}

int fabric_send(struct fabric_ep *e, enum fabric_message type, uint32_t number, const void *more,
		uint32_t len)
{
	struct fabric_control w = {.number = htole32(number), .len = htole32(len)};
	struct fabric_slot *s = msg_slot_take(e, type, (uint32_t)sizeof(w) + len);
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

static uint32_t endpoint_number(const struct fabric_ep *e)
{
	return e->number | (e->own ? NUMBER_LEFT : 0);
}

static void say_wants(struct fabric_ep *e)
{
	if (!e->joined)
		return;
	if (e->due & DUE_HELLO && fabric_send(e, MESSAGE_HELLO, e->heard, NULL, 0))
		e->due &= ~(uint32_t)DUE_HELLO;
	if (e->due & DUE_ANSWER && fabric_send(e, MESSAGE_HELLO, 0, NULL, 0))
		e->due &= ~(uint32_t)DUE_ANSWER;
	/* A data endpoint that is being opened is announced later. */
	if (e->due & DUE_ENDPOINT &&
	    (fabric_ep_remakes(e) || fabric_send(e, MESSAGE_ENDPOINT, endpoint_number(e),
						 e->endpoint.address, e->endpoint.address_len)))
		e->due &= ~(uint32_t)DUE_ENDPOINT;
	if (e->due & DUE_JOINED && (e->endpoint_state != ENDPOINT_READY ||
				    fabric_send(e, MESSAGE_JOINED, e->number, NULL, 0)))
		e->due &= ~(uint32_t)DUE_JOINED;
	if (e->due & DUE_LEAVES &&
	    (fabric_ep_remakes(e) || fabric_send(e, MESSAGE_LEAVES, e->number, NULL, 0)))
		e->due &= ~(uint32_t)DUE_LEAVES;
	if (e->due & (DUE_SOURCE | DUE_SOURCE_KNOWN))
		fabric_shared_send(e);
	if (e->due & DUE_REVOKED)
		fabric_keys_answer(e);
	if (e->due & DUE_REVOKE)
		fabric_grants_ask(e);
	if (e->due & DUE_BYE && fabric_send(e, MESSAGE_BYE, 0, NULL, 0))
		e->due &= ~(uint32_t)DUE_BYE;
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

void fabric_msg_push(struct fabric_ep *e)
{
	struct fabric_device *d = fabric_ep_device(e);
	struct fabric_slot *s;

	while (!list_empty(&e->send_queue)) {
		int err = slot_send(d, list_first(&e->send_queue, struct fabric_slot, link));

		if (err == -FI_EAGAIN)
			return;
		if (err) {
			fabric_ep_down(e, err);
			return;
		}
	}
	say_wants(e);
	while (e->sends.head && e->seq - e->acked < FABRIC_CREDITS && list_empty(&e->send_queue)) {
		struct chunk *c = e->sends.head;

		s = msg_slot_take(e, MESSAGE_DATA, c->len);
		if (!s)
			break;
		e->queued--;
		chunk_queue_pop(&e->sends);
		e->unacked[++e->seq % FABRIC_CREDITS] = c;
		send_data(e, s, c, e->seq);
	}
}

/* ---- sending again ---- */

/* Each side repeats MESSAGE_ENDPOINT until it knows that the other side has joined. */
static int endpoint_is_awaited(const struct fabric_ep *e)
{
	return e->peer_joined < e->number &&
	       (e->endpoint_state == ENDPOINT_WAITS || e->endpoint_state == ENDPOINT_READY);
}

int fabric_msg_awaits(const struct fabric_ep *e)
{
	return e->state == EP_UP &&
	       (e->acked != e->seq || endpoint_is_awaited(e) || fabric_shared_awaits(e));
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
static int is_in_flight(const struct fabric_ep *e, enum fabric_message type, uint32_t seq)
{
	return is_among(&e->send_queue, type, seq) || is_among(&e->sent_list, type, seq);
}

static void data_again(struct fabric_ep *e)
{
	uint32_t seq = e->acked + 1;
	const struct chunk *c = e->unacked[seq % FABRIC_CREDITS];
	enum fabric_message type = c ? MESSAGE_DATA : MESSAGE_ACK;
	struct fabric_slot *s;

	if (is_in_flight(e, MESSAGE_DATA, seq) || is_in_flight(e, type, seq))
		return;
	s = msg_slot_take(e, type, c ? c->len : 0);
	if (s && c)
		send_data(e, s, c, seq);
	else if (s)
		send_number(e, s, seq);
}

void fabric_msg_tick(struct fabric_ep *e)
{
	uint64_t now;

	if (!fabric_msg_awaits(e)) {
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
		if (endpoint_is_awaited(e) && !is_in_flight(e, MESSAGE_ENDPOINT, 0))
			e->due |= DUE_ENDPOINT;
		if (fabric_shared_awaits(e) && !is_in_flight(e, MESSAGE_SOURCE, 0))
			e->due |= DUE_SOURCE;
		e->resend_in = e->resend_in < RESEND_MAX_NS / 2 ? 2 * e->resend_in : RESEND_MAX_NS;
	}
	e->resend_ns = now + e->resend_in;
}

/* Confirms received SENDs, if no message did so. */
static void acknowledge(struct fabric_ep *e)
{
	struct fabric_slot *s;

	if (e->acked_to == e->taken || e->state != EP_UP || !list_empty(&e->send_queue))
		return;
	s = msg_slot_take(e, MESSAGE_ACK, 0);
	if (s)
		slot_go(e, s);
}

int fabric_msg_waits(const struct fabric_ep *e)
{
	int ack_due = e->acked_to != e->taken && e->state == EP_UP;

	if (!list_empty(&e->send_queue) || !slot_is_free(e, MESSAGE_ACK))
		return 0;
	return ack_due || (e->joined && e->due) ||
	       (e->sends.head && e->seq - e->acked < FABRIC_CREDITS);
}

/* ---- receiving ---- */

/* The peer has received all up to n. 0 or -EPROTO. */
static int peer_acked(struct fabric_ep *e, uint32_t n)
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
		e->acked_to = e->taken - 1;
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
static int data_received(struct fabric_device *d, struct fabric_ep *e, struct fabric_slot *s,
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

static void control_received(struct fabric_ep *e, uint32_t type, const uint8_t *data, uint32_t len)
{
	struct fabric_control w;

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
			e->due |= DUE_HELLO;
		break;
	case MESSAGE_ENDPOINT:
		if (w.len == len - sizeof(w) &&
		    fabric_address_fits(fabric_ep_device(e), data + sizeof(w), w.len))
			fabric_ep_peer_endpoint(e, w.number, data + sizeof(w), w.len);
		else
			fabric_ep_down(e, -EPROTO);
		break;
	case MESSAGE_JOINED:
		e->peer_joined = w.number > e->peer_joined ? w.number : e->peer_joined;
		break;
	case MESSAGE_ASK:
	case MESSAGE_KEYS:
		data += sizeof(w);
		if (fabric_bound_received(e, type, w.number, data, len - (uint32_t)sizeof(w)))
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
		if (w.len != len - sizeof(w) || fabric_shared_source_came(e, w.number, data, w.len))
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
static int message_received(struct fabric_device *d, struct fabric_slot *s, size_t len)
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
	if (e->state == EP_UP && peer_acked(e, le32toh(h->taken))) {
		fabric_ep_down(e, -EPROTO);
		return 0;
	}
	if (h->type == MESSAGE_DATA && e->state == EP_UP)
		return data_received(d, e, s, h);
	if (h->type == MESSAGE_ACK && h->checked && e->state == EP_UP &&
	    number_takes(e, le32toh(h->seq)) < 0)
		fabric_ep_down(e, -EPROTO);
	if (h->type != MESSAGE_ACK && h->type != MESSAGE_DATA)
		control_received(e, h->type, s->buf + sizeof(*h), le16toh(h->len));
	return 0;
}

static void received(struct fabric_device *d, struct fabric_slot *s, size_t len)
{
	if (message_received(d, s, len))
		list_add_tail(&s->link, &d->given);
	else
		receive(d, s);
}

static void slot_sent(struct fabric_device *d, struct fabric_slot *s)
{
	struct fabric_ep *e = s->ep;

	fabric_av_put(d, s->av_entry);
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
		/* Send it again after any error, also FI_ECANCELED of a broken connection. If it
		 * had arrived all the same, the peer recognises its number. */
		fabric_av_put(d, s->av_entry);
		list_del(&s->link);
		list_add_tail(&s->link, &s->ep->send_queue);
		d->stalled = 1;
	} else {
		slot_sent(d, s);
	}
}

static void read_error(struct fabric_device *d)
{
	struct fi_cq_err_entry err = {0};

	ssize_t n = fi_cq_readerr(d->msg.cq, &err, 0);

	if (n < 0 && n != -FI_EAGAIN)
		msg_died(d, (int)n);
	/* An error without a context has no known message: the missing answer shows which. */
	if (n == 1 && err.op_context)
		failed(d, container_of(err.op_context, struct fabric_slot, context));
}

int fabric_msg_poll(struct fabric_device *d)
{
	struct fi_cq_msg_entry entries[BATCH];
	uint32_t room = (d->max - d->nevents) / 2;
	ssize_t i, n;

	if (!room || d->dead)
		return 1;
	n = fi_cq_read(d->msg.cq, entries, room < BATCH ? room : BATCH);
	if (n == -FI_EAVAIL)
		read_error(d);
	else if (n < 0 && n != -FI_EAGAIN)
		msg_died(d, (int)n);
	if (n > 0)
		d->dev.served = 1;
	for (i = 0; i < n; i++) {
		struct fabric_slot *s =
			container_of(entries[i].op_context, struct fabric_slot, context);

		if (s->receives)
			received(d, s, entries[i].len);
		else
			slot_sent(d, s);
	}
	return n && n != -FI_EAGAIN;
}

void fabric_msg_begin(struct fabric_device *d)
{
	struct fabric_ep *e;

	if (d->dead)
		return;
	receive_all(d, &d->given);
	receive_all(d, &d->unposted);
	list_for_each_entry(e, &d->eps, all) {
		fabric_msg_push(e);
		acknowledge(e);
	}
}

/* ---- end ---- */

int fabric_msg_cancel(struct fabric_ep *e, struct chunk *c, enum cancel_how how)
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

void fabric_msg_end(struct fabric_ep *e)
{
	struct fabric_device *d = fabric_ep_device(e);
	uint32_t i;

	for (i = 0; i < FABRIC_CREDITS; i++) {
		struct chunk *c = e->unacked[i];

		e->unacked[i] = NULL;
		if (c)
			fabric_out_failover(e, c, 0);
	}
	while (e->sends.head) {
		e->queued--;
		fabric_out_failover(e, chunk_queue_pop(&e->sends), CHUNK_QUIET);
	}
	while (!list_empty(&e->send_queue)) {
		struct fabric_slot *s = list_first(&e->send_queue, struct fabric_slot, link);

		list_del(&s->link);
		list_add_tail(&s->link, &d->free_slots);
		s->ep = NULL;
		e->slots--;
	}
}

void fabric_msg_leave(struct fabric_ep *e)
{
	struct fabric_device *d = fabric_ep_device(e);

	fabric_msg_end(e);
	while (!list_empty(&e->sent_list)) {
		struct fabric_slot *s = list_first(&e->sent_list, struct fabric_slot, link);

		list_del(&s->link);
		s->ep = NULL;
		e->slots--;
		d->orphans++;
	}
}
