/* SPDX-License-Identifier: Apache-2.0 */
/* Puts back frames that were gathered and that the socket did not take, from the last to the one
 * half sent. */
#include "backend/stream/wire.h"

void stream_take_back(struct stream *s)
{
	s->tx.half.source = NULL;
	s->tx.reply_status = STATUS_ACCESS;
}

void stream_leave_half(struct stream *s, const struct stream_frame *f, const uint8_t *copied,
		       uint32_t k)
{
	uint32_t done = k < f->copied ? k : f->copied;
	struct stream_frame *h = &s->tx.half;

	*h = *f;
	h->copied -= done;
	h->at += k - done;
	h->total -= k - done;
	h->direct = 0;
	if (f->flags & FRAME_TAKEN)
		stream_take_back(s);
	if (h->copied)
		memcpy(s->tx.hold, copied + done, h->copied);
}

static void put_back(struct stream *s, struct chunk *c)
{
	if (c->flags & CHUNK_CANCELLED)
		stream_out(s, c, -ECANCELED, CHUNK_QUIET);
	else
		stream_requeue(s, c);
}

static void unsend_read(struct stream *s)
{
	struct stream_read *r = stream_read(s, s->tx.asked - 1);
	uint32_t open = s->tx.asked - s->tx.answered;

	int answering = s->rx.got || (s->rx.active && s->rx.kind == FRAME_RESP);

	/* The peer answers a READ that was not sent: stream_rx() returns -EPROTO. */
	if (!open || (open == 1 && answering))
		s->broken = 1;
	if (s->broken)
		return;
	s->tx.asked--;
	if (r->drop == DROP_WANTED)
		s->tx.drops--;
	r->drop = DROP_NOT;
	if (r->chunk)
		put_back(s, r->chunk);
}

static void unsend_drop(struct stream *s, uint32_t number)
{
	if (number - s->tx.answered >= s->tx.asked - s->tx.answered)
		return;
	stream_drop_later(s, number);
}

static void unsend_reply(struct stream *s, const struct stream_frame *f, int more)
{
	if (more) {
		s->tx.reply_begun = 0;
		return;
	}
	s->tx.replied--;
	s->tx.reply_begun = f->flags & FRAME_END;
	s->tx.reply_status = f->status;
}

static void unsend_frame(struct stream *s, const struct stream_frame *f)
{
	switch (f->kind) {
	case FRAME_WRITE:
	case FRAME_SEND:
		s->tx.sent--;
		put_back(s, f->source);
		break;
	case FRAME_READ:
		unsend_read(s);
		break;
	case FRAME_RESP:
		unsend_reply(s, f, f->flags & FRAME_BEGUN);
		break;
	case FRAME_NAK:
		s->rx.nak_first--;
		break;
	case FRAME_DROP:
		unsend_drop(s, (uint32_t)f->at);
		break;
	default:
		break;
	}
}

/* Returns the frame of byte n; *k: offset in the frame; *copied: its offset in scratch. */
static uint32_t frame_at(const struct stream_gather *g, uint32_t n, uint32_t *k, uint32_t *copied)
{
	uint32_t i;

	*copied = 0;
	for (i = 0; n >= g->frames[i].copied + g->frames[i].direct; i++) {
		n -= g->frames[i].copied + g->frames[i].direct;
		*copied += g->frames[i].copied;
	}
	*k = n;
	return i;
}

static void unsend(struct stream *s, struct stream_gather *g, uint32_t n)
{
	uint32_t k, copied, i = frame_at(g, n, &k, &copied);
	const struct stream_frame *f = &g->frames[i];
	uint32_t last = g->nframes - 1;

	/* An earlier header may have said AGAIN; one ACK too many that cancels it does no harm. */
	s->tx.again = 1;
	s->tx.half.kind = 0;
	for (; last > i; last--)
		unsend_frame(s, &g->frames[last]);
	if (k || f->rest) {
		stream_leave_half(s, f, g->scratch + copied, k);
		s->tx.acks = f->acked;
		return;
	}
	unsend_frame(s, f);
	s->tx.acks = i ? g->frames[i - 1].acked : g->acked;
}

void stream_sent(struct stream *s, struct stream_gather *g, uint32_t n)
{
	assert(n <= g->bytes);
	if (n != g->bytes)
		unsend(s, g, n);
	if (!s->tx_lent)
		return;
	s->tx_lent = NULL;
	stream_settle_tx(s);
}
