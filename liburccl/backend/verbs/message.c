/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages: SENDs on the first queue pair, into receives that are always posted.
 *
 * A sender has VERBS_CREDITS credits. It gets one back when the receive is posted again, with the
 * next message, or in a CREDIT when half of them are due. A CREDIT itself needs no credit: each
 * carries at least half of all credits, so at most two are unread, and these and a BYE have
 * receives of their own. A receive is thus posted for every message. (A WRITE of the count into the
 * sender's memory would need no receive, but no completion would wake a sender that sleeps for lack
 * of credit.)
 *
 * WRITE_WITH_IMM into a slot of the receiver has no advantage over SEND. It uses a posted receive
 * too, so it needs the same credits, and the same numbers and checks. Peers would write by a key to
 * memory that the engine reads meanwhile. The place of a receive belongs to the device until its
 * completion, is chosen by the receiver, and limits the length.
 *
 * A message: type u8, flags u8, length u16, credits u16, 0 u16, CRC32C of its bytes u32, 0 u32;
 * then its bytes. Little-endian.
 */
#include <endian.h>
#include "backend/verbs/verbs.h"

enum message_type {
	MESSAGE_HELLO = 1,
	MESSAGE_DATA,
	MESSAGE_CREDIT,
	MESSAGE_BYE,
	MESSAGE_QP, /* with READY: grow.c */
	MESSAGE_READY
};
#define MESSAGE_SUMMED 1u

struct message {
	uint8_t type, flags;
	uint16_t len, credits, zero;
	uint32_t sum, zeros;
};

_Static_assert(sizeof(struct message) == VERBS_HEADER, "no gaps");

/* ---- send ---- */

/* 1: there is room for a control message. One slot is reserved for a READ that proves, and one for
 * a SLOT_PUSH that is due. */
static int has_place(const struct verbs_ep *e)
{
	const struct verbs_qp *w = &e->qps[QP_FIRST];

	uint32_t used = w->head - w->tail + 2 + w->pushes;

	return e->sending < VERBS_SLOTS && used < w->depth && !w->failing;
}

static void message_put(struct verbs_ep *e, struct chunk *c, uint8_t type, const void *data,
			uint32_t len)
{
	uint8_t *to = e->pages + (VERBS_SLOTS + e->place) * VERBS_SLOT;
	struct message m = {.type = type,
			    .len = htole16((uint16_t)len),
			    .credits = htole16((uint16_t)e->credits_due)};

	e->credits_due = 0;
	if (c && c->checksum) {
		m.flags = MESSAGE_SUMMED;
		m.sum = htole32(crc32c(0, data, len));
	}
	memcpy(to, &m, sizeof(m));
	if (len)
		memcpy(to + sizeof(m), data, len);
	verbs_ring_send(e, c, type, VERBS_HEADER + len);
}

/* 1: a message with credit may be queued. The last places are for control messages without
 * credit. */
static int has_credit(const struct verbs_ep *e)
{
	return e->credits && e->sending < VERBS_CREDITS && verbs_ring_room(&e->qps[QP_FIRST]);
}

int verbs_message_send(struct verbs_ep *e, struct chunk *c)
{
	assert(c->len <= MESSAGE_MAX);
	if (!has_credit(e))
		return 0;
	e->credits--;
	message_put(e, c, MESSAGE_DATA, c->local, c->len);
	return 1;
}

/* Computes from an ep's cookie a value that only the two sides of the peer's handshake can
 * compute. */
static void proof_of(const struct verbs_ep *e, const uint8_t *cookie, uint8_t out[VERBS_COOKIE])
{
	if (e->ep.bonded)
		siphash128(e->ep.bond, cookie, VERBS_COOKIE, out);
	else
		memcpy(out, cookie, VERBS_COOKIE);
}

void verbs_message_hello(struct verbs_ep *e)
{
	uint8_t proof[VERBS_COOKIE];

	proof_of(e, e->peer, proof);
	e->credits--;
	message_put(e, NULL, MESSAGE_HELLO, proof, sizeof(proof));
	verbs_ring_doorbell(e);
}

void verbs_message_bye(struct verbs_ep *e)
{
	if (!has_place(e))
		return;
	message_put(e, NULL, MESSAGE_BYE, NULL, 0);
	verbs_ring_doorbell(e);
}

/* QP is sent before READY, whose body is the begin of QP's. */
static void grow_kick(struct verbs_qp *w)
{
	uint8_t word[MESSAGE_MAX];
	uint32_t len = verbs_grow_say(w, word);

	while (w->grow.due && has_credit(w->ep)) {
		int is_qp = w->grow.due & DUE_QP;

		w->grow.due &= (uint8_t) ~(is_qp ? DUE_QP : DUE_READY);
		w->ep->credits--;
		message_put(w->ep, NULL, is_qp ? MESSAGE_QP : MESSAGE_READY, word,
			    is_qp ? len : sizeof(uint32_t));
	}
}

void verbs_message_kick(struct verbs_ep *e)
{
	uint32_t i;

	if (e->state != EP_UP)
		return;
	if (e->credits_due >= VERBS_CREDITS / 2 && has_place(e))
		message_put(e, NULL, MESSAGE_CREDIT, NULL, 0);
	for (i = QP_FIRST + 1; i < QPS; i++)
		if (e->qps[i].grow.due && !e->qps[QP_FIRST].failing)
			grow_kick(&e->qps[i]);
}

void verbs_message_gone(struct verbs_ep *e, uint32_t type)
{
	if (type == MESSAGE_HELLO)
		e->spoke = 1;
	else if (type == MESSAGE_BYE)
		e->left = 1;
}

/* ---- receives ---- */

static int receive(struct verbs_qp *w, struct verbs_ep *e, uint32_t i)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)e->pages + i * VERBS_SLOT,
		.length = VERBS_SLOT,
		.lkey = e->mr->lkey,
	};
	struct ibv_recv_wr *bad, wr = {
					 .wr_id = (uint64_t)w->handle << 32 | VERBS_IS_RECEIVE | i,
					 .sg_list = &sge,
					 .num_sge = w == &e->qps[QP_FIRST],
				 };

	if (ibv_post_recv(w->qp, &wr, &bad))
		return -EIO;
	w->receives++;
	return 0;
}

int verbs_message_start(struct verbs_qp *w)
{
	struct verbs_ep *e = w->ep;
	uint32_t i;
	int rc = 0;

	/* No peer sends to the other queue pairs: this receive comes back when the queue pair
	 * breaks. */
	if (w != &e->qps[QP_FIRST])
		return receive(w, e, 0);
	e->credits = VERBS_CREDITS;
	for (i = 0; i < VERBS_SLOTS && !rc; i++) {
		e->receive[i].ep = e;
		rc = receive(w, e, i);
	}
	return rc;
}

/* Posts the receive again; credit: the peer may send one more message. */
static void receive_again(struct verbs_ep *e, uint32_t i, uint32_t credit)
{
	if (e->state != EP_UP && e->state != EP_CONNECTING)
		return;
	if (receive(&e->qps[QP_FIRST], e, i)) {
		verbs_ep_down(e, -EIO);
		return;
	}
	e->credits_due += credit;
	if (e->credits_due >= VERBS_CREDITS / 2)
		verbs_ep_kick(e);
}

void verbs_message_recycle(struct verbs_device *d)
{
	while (!list_empty(&d->given)) {
		struct verbs_receive *r = list_first(&d->given, struct verbs_receive, link);

		list_del(&r->link);
		receive_again(r->ep, (uint32_t)(r - r->ep->receive), 1);
	}
}

/* ---- receive ---- */

static int hello_came(struct verbs_ep *e, const uint8_t *data, uint32_t len)
{
	uint8_t proof[VERBS_COOKIE];

	proof_of(e, e->cookie, proof);
	if (e->heard || len != sizeof(proof) || !equal_const_time(proof, data, len))
		return -EPROTO;
	e->heard = 1;
	if (!e->active)
		verbs_message_hello(e);
	verbs_ep_up(e);
	return 0;
}

static int data_came(struct verbs_ep *e, uint32_t i, const struct message *m, const uint8_t *bytes)
{
	struct verbs_device *d = verbs_ep_device(e);
	uint32_t len = le16toh(m->len);

	if (len > MESSAGE_MAX)
		return -EPROTO;
	if (m->flags & MESSAGE_SUMMED && crc32c(0, bytes, len) != le32toh(m->sum)) {
		receive_again(e, i, 1);
		return 0;
	}
	e->receive[i].len = len;
	list_add_tail(&e->receive[i].link, &d->messages);
	return 0;
}

int verbs_message_came(struct verbs_ep *e, uint32_t i, uint32_t bytes)
{
	const uint8_t *at = e->pages + i * VERBS_SLOT;
	struct message m;
	int rc = 0;

	if (bytes < VERBS_HEADER)
		return -EPROTO;
	memcpy(&m, at, sizeof(m));
	if (bytes != VERBS_HEADER + le16toh(m.len) || (!e->heard && m.type != MESSAGE_HELLO))
		return -EPROTO;
	if (m.credits)
		verbs_ep_kick(e);
	e->credits += le16toh(m.credits);
	if (e->credits > VERBS_CREDITS)
		return -EPROTO;
	switch (m.type) {
	case MESSAGE_HELLO:
		rc = hello_came(e, at + VERBS_HEADER, le16toh(m.len));
		receive_again(e, i, 1);
		return rc;
	case MESSAGE_QP:
		rc = verbs_grow_qp(e, at + VERBS_HEADER, le16toh(m.len));
		receive_again(e, i, 1);
		return rc;
	case MESSAGE_READY:
		rc = verbs_grow_ready(e, at + VERBS_HEADER, le16toh(m.len));
		receive_again(e, i, 1);
		return rc;
	case MESSAGE_DATA:
		return data_came(e, i, &m, at + VERBS_HEADER);
	case MESSAGE_CREDIT:
		receive_again(e, i, 0);
		return 0;
	case MESSAGE_BYE:
		e->left = 1;
		return -ECONNRESET;
	default:
		return -EPROTO;
	}
}
