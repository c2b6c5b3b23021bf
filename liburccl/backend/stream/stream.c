/* SPDX-License-Identifier: Apache-2.0 */
/* Chunks on a stream from post to completion, cancellation or failure; and exposures. */
#include "backend/stream/wire.h"

#define KEY_VERSION 1u

void stream_init(struct stream *s, struct ep *ep, const struct handles *grants,
		 struct stream_cq *cq)
{
	/* The tables from unacked on stay unset: an idle peer should not cost their pages. */
	memset(s, 0, offsetof(struct stream, unacked));
	s->ep = ep;
	s->grants = grants;
	s->cq = cq;
	s->write_window = STREAM_WRITES;
	s->read_window = STREAM_READS;
}

uint32_t frame_sum(struct frame f)
{
	return crc32c(0, &f, FRAME_SUMMED);
}

/* ---- queues ---- */

enum stream_queue_id stream_queue_of(const struct chunk *c)
{
	int first = c->cls != URCCL_CLASS_BULK || c->kind == CHUNK_SEND;

	if (c->kind == CHUNK_READ)
		return first ? STREAM_READ_FIRST : STREAM_READ_BULK;
	return first ? STREAM_WRITE_FIRST : STREAM_WRITE_BULK;
}

static void set_prev(struct chunk *c, struct chunk *prev)
{
	c->scratch[1] = (uintptr_t)prev;
}

static void enqueue(struct stream *s, struct chunk *c)
{
	struct stream_queue *q = &s->tx.queue[stream_queue_of(c)];

	c->state = STATE_QUEUED;
	c->next = NULL;
	set_prev(c, q->tail);
	if (q->tail)
		q->tail->next = c;
	else
		q->head = c;
	q->tail = c;
	s->tx.queued++;
}

void stream_requeue(struct stream *s, struct chunk *c)
{
	struct stream_queue *q = &s->tx.queue[stream_queue_of(c)];

	c->state = STATE_QUEUED;
	c->next = q->head;
	set_prev(c, NULL);
	if (q->head)
		set_prev(q->head, c);
	else
		q->tail = c;
	q->head = c;
	s->tx.queued++;
}

void stream_dequeue(struct stream *s, struct chunk *c)
{
	struct stream_queue *q = &s->tx.queue[stream_queue_of(c)];
	struct chunk *prev = chunk_prev(c);

	if (prev)
		prev->next = c->next;
	else
		q->head = c->next;
	if (c->next)
		set_prev(c->next, prev);
	else
		q->tail = prev;
	s->tx.queued--;
}

void stream_out(struct stream *s, struct chunk *c, int res, uint32_t quiet)
{
	s->tx.bytes -= c->len;
	c->res = res;
	c->flags = (uint8_t)((c->flags & ~CHUNK_QUIET) | quiet);
	c->state = 0;
	chunk_queue_add(&s->cq->done, c);
}

int stream_post(struct stream *s, struct chunk *c)
{
	assert(c->kind != CHUNK_SEND || c->len <= MESSAGE_MAX);
	if (s->tx.queued == STREAM_QUEUE)
		return 0;
	c->scratch[0] = (uintptr_t)s;
	c->flags = 0;
	c->res = 0;
	c->path = 0;
	s->tx.bytes += c->len;
	s->urgent |= c->cls != URCCL_CLASS_BULK;
	/* Every WRITE that came out was placed, so a FLUSH is done at once. */
	if (c->kind == CHUNK_FLUSH || s->failed)
		stream_out(s, c, s->failed, CHUNK_QUIET);
	else
		enqueue(s, c);
	return 1;
}

/* ---- acknowledgements ---- */

uint32_t stream_ackable(const struct stream *s)
{
	if (s->tx_lent)
		return s->tx.lent_from;
	return s->tx.sent - (s->tx.half.kind == FRAME_WRITE || s->tx.half.kind == FRAME_SEND);
}

static void ack_until(struct stream *s, uint32_t number)
{
	while (s->tx.acked != number) {
		struct chunk *c = *stream_unacked(s, s->tx.acked++);

		if (c)
			stream_out(s, c, c->res, CHUNK_QUIET);
	}
}

/* 1: a chunk from the peer's latest acknowledgement up to this number had a checksum, so this
 * acknowledgement must have one. */
__attribute__((noinline)) static int is_checked(struct stream *s, uint32_t number)
{
	uint32_t i;

	for (i = s->tx.ack; i != number && i != s->tx.sent; i++) {
		const struct chunk *c = *stream_unacked(s, i);

		if (c && c->checksum)
			return 1;
	}
	return 0;
}

int stream_acked(struct stream *s, uint32_t number, int check)
{
	uint32_t sure = stream_ackable(s);

	if (number == s->tx.acked)
		return 0;
	if ((int32_t)(s->tx.checked - s->tx.ack) > 0 && !check && is_checked(s, number))
		return -EILSEQ;
	if (number - s->tx.acked <= sure - s->tx.acked) {
		ack_until(s, number);
		s->tx.ack = number;
		return 0;
	}
	/* The kernel has sent it but not yet reported that; a peer that lies does no harm. */
	if (!s->tx_lent || number - s->tx.acked > s->tx.sent - s->tx.acked)
		return -EPROTO;
	ack_until(s, sure);
	s->tx.ack = number;
	return 0;
}

/* ---- cancel ---- */

void stream_drop_later(struct stream *s, uint32_t number)
{
	stream_read(s, number)->drop = DROP_WANTED;
	if (!s->tx.drops++ || (int32_t)(number - s->tx.drop_from) < 0)
		s->tx.drop_from = number;
}

static void cancel_read(struct stream *s, struct chunk *c, enum cancel_how how)
{
	int arriving = s->rx.chunk == c;

	if (stream_read(s, chunk_number(c))->drop == DROP_NOT)
		stream_drop_later(s, chunk_number(c));
	if (arriving && s->rx_lent) {
		if (how == CANCEL_NOW) {
			c->state |= STATE_NOW;
			s->stuck |= STREAM_STUCK_RX;
		}
		return;
	}
	if (arriving)
		s->rx.chunk = NULL;
	if (how == CANCEL_ASK)
		return;
	stream_read(s, chunk_number(c))->chunk = NULL;
	stream_out(s, c, -ECANCELED, CHUNK_QUIET);
}

/* The rest of a half sent WRITE is filler, which still lands at the peer: not QUIET. */
static void cancel_write_now(struct stream *s, struct chunk *c)
{
	if (s->tx_lent && chunk_number(c) - s->tx.lent_from < s->tx.sent - s->tx.lent_from) {
		c->state |= STATE_NOW;
		s->stuck |= STREAM_STUCK_TX;
		return;
	}
	if (s->tx.half.source == c)
		s->tx.half.source = NULL;
	*stream_unacked(s, chunk_number(c)) = NULL;
	stream_out(s, c, -ECANCELED, 0);
}

void stream_cancel(struct chunk *c, enum cancel_how how)
{
	struct stream *s = chunk_stream(c);

	if (!c->state)
		return;
	c->flags |= CHUNK_CANCELLED;
	if (c->state == STATE_QUEUED) {
		stream_dequeue(s, c);
		stream_out(s, c, -ECANCELED, CHUNK_QUIET);
	} else if (c->kind == CHUNK_READ) {
		cancel_read(s, c, how);
	} else if (how == CANCEL_NOW) {
		cancel_write_now(s, c);
	}
}

void stream_settle_tx(struct stream *s)
{
	uint32_t i, ack = s->tx.ack;
	struct chunk *c;

	assert(!s->tx_lent);
	if (s->stuck & STREAM_STUCK_TX) {
		s->stuck &= ~STREAM_STUCK_TX;
		for (i = s->tx.acked; i != s->tx.sent; i++) {
			c = *stream_unacked(s, i);
			if (c && c->state & STATE_NOW)
				cancel_write_now(s, c);
		}
	}
	/* The next header detects an acknowledgement of chunks that were not sent after all. */
	if (ack - s->tx.acked <= stream_ackable(s) - s->tx.acked)
		ack_until(s, ack);
}

void stream_settle_rx(struct stream *s)
{
	struct chunk *c = NULL;

	assert(!s->rx_lent);
	s->stuck &= ~STREAM_STUCK_RX;
	if (s->rx.status)
		s->rx.exposure = NULL; /* revoked meanwhile */
	/* A cancel may have waited for the part that came, even if the answer goes on. */
	if (s->tx.answered != s->tx.asked)
		c = stream_read(s, s->tx.answered)->chunk;
	if (c && c->flags & CHUNK_CANCELLED)
		cancel_read(s, c, c->state & STATE_NOW ? CANCEL_NOW : CANCEL_ASK);
}

int stream_stuck(const struct stream *s)
{
	return s->stuck;
}

void stream_fail(struct stream *s, int res)
{
	struct chunk *c;
	uint32_t i;

	assert(!s->tx_lent && !s->rx_lent && res < 0);
	s->failed = res;
	for (i = 0; i < STREAM_QUEUES; i++) {
		while ((c = s->tx.queue[i].head)) {
			stream_dequeue(s, c);
			stream_out(s, c, res, CHUNK_QUIET);
		}
	}
	for (; s->tx.acked != s->tx.sent; s->tx.acked++) {
		c = *stream_unacked(s, s->tx.acked);
		if (c)
			stream_out(s, c, res, 0);
	}
	for (; s->tx.answered != s->tx.asked; s->tx.answered++) {
		c = stream_read(s, s->tx.answered)->chunk;
		if (c)
			stream_out(s, c, res, CHUNK_QUIET);
	}
	s->tx.half.kind = 0;
	s->tx.drops = 0;
	s->tx.replied = s->rx.requested;
	s->tx.acks = s->rx.placed;
	s->rx.nak_first = s->rx.nak_next;
	s->rx.chunk = NULL;
	s->rx.exposure = NULL;
}

/* ---- exposures ---- */

/* A key: version, grant, length; little-endian. */
int stream_expose(struct handles *grants, struct exposure *e, void *key, uint32_t key_max)
{
	uint32_t words[4];
	uint32_t id;

	if (key_max < STREAM_KEY_BYTES)
		return -ENOSPC;
	id = handles_add(grants, e);
	if (!id)
		return -ENOMEM;
	e->id = id;
	words[0] = htole32(KEY_VERSION);
	words[1] = htole32(id);
	words[2] = htole32((uint32_t)e->len);
	words[3] = htole32((uint32_t)(e->len >> 32));
	memcpy(key, words, sizeof(words));
	return STREAM_KEY_BYTES;
}

int stream_import(const void *key, uint32_t key_len, uint64_t len, struct rkey *rkey)
{
	uint32_t words[4];

	if (key_len != STREAM_KEY_BYTES)
		return -EPROTO;
	memcpy(words, key, sizeof(words));
	if (le32toh(words[0]) != KEY_VERSION)
		return -EPROTONOSUPPORT;
	if ((le32toh(words[2]) | (uint64_t)le32toh(words[3]) << 32) != len)
		return -ERANGE;
	rkey->v[0] = le32toh(words[1]);
	rkey->v[1] = len;
	return 0;
}

void stream_unexpose(struct handles *grants, struct exposure *e)
{
	handles_del(grants, e->id);
}

/* 1: the kernel has some of it. Marks the frames: their unsent rest is never offered again. */
static int lent_to_send(struct stream *s, const struct exposure *e)
{
	uint32_t i;
	int lent = 0;

	for (i = 0; s->tx_lent && i < s->tx_lent->nframes; i++) {
		struct stream_frame *f = &s->tx_lent->frames[i];

		if (f->kind != FRAME_RESP || f->source != e || !f->direct)
			continue;
		f->flags |= FRAME_TAKEN;
		lent = 1;
	}
	return lent;
}

int stream_revoke(struct stream *s, struct exposure *e)
{
	if (lent_to_send(s, e))
		s->stuck |= STREAM_STUCK_TX;
	if (s->tx.half.kind == FRAME_RESP && s->tx.half.source == e)
		stream_take_back(s);
	if (s->rx.exposure == e) {
		s->rx.status = STATUS_ACCESS;
		if (s->rx_lent)
			s->stuck |= STREAM_STUCK_RX;
		else
			s->rx.exposure = NULL;
	}
	return s->stuck ? -EINPROGRESS : 0;
}

uint32_t stream_check(const struct stream *s, uint32_t id, uint64_t off, uint32_t len,
		      uint32_t right, struct exposure **out, uint64_t *at)
{
	struct exposure *e = handles_get(s->grants, id);

	if (!e || e->ep != s->ep || !(e->rights & right))
		return STATUS_ACCESS;
	if (e->expires_ns != NEVER_NS && clock_ns() > e->expires_ns)
		return STATUS_ACCESS;
	if (off > e->len || len > e->len - off)
		return STATUS_RANGE;
	*out = e;
	*at = e->off + off;
	return STATUS_OK;
}
