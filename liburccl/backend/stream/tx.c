/* SPDX-License-Identifier: Apache-2.0 */
/* The send side of a stream. Gathering takes chunks off their queues and counts them as sent. */
#include "backend/stream/wire.h"

static const uint8_t filler[4096];

static uint32_t min_u32(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

static int may_read(const struct stream *s)
{
	return s->tx.asked - s->tx.answered < s->read_window;
}

static int may_write(const struct stream *s)
{
	return s->tx.sent - s->tx.acked < s->write_window;
}

static int has_write(const struct stream *s)
{
	const struct stream_queue *q = s->tx.queue;

	return (q[STREAM_WRITE_FIRST].head || q[STREAM_WRITE_BULK].head) && may_write(s);
}

static int naks_owed(const struct stream *s)
{
	return s->rx.nak_first != s->rx.nak_next;
}

static int replies_owed(const struct stream *s)
{
	return s->rx.requested != s->tx.replied;
}

/* The acknowledgement for the next header: a failed WRITE or SEND is covered only after its NAK. */
static uint32_t ack_now(struct stream *s)
{
	if (naks_owed(s))
		return stream_nak(s, s->rx.nak_first)->number;
	s->rx.unacked_bytes = 0;
	return s->rx.placed;
}

enum stream_due stream_next_due(const struct stream *s)
{
	const struct stream_queue *q = s->tx.queue;
	uint32_t unacked = s->rx.placed - s->tx.acks;

	if (s->tx_lent)
		return STREAM_NOTHING;
	if (s->tx.half.kind || naks_owed(s) || replies_owed(s) || s->tx.drops)
		return STREAM_SEND;
	if (has_write(s) || s->tx.again)
		return STREAM_SEND;
	if ((q[STREAM_READ_FIRST].head || q[STREAM_READ_BULK].head) && may_read(s))
		return STREAM_SEND;
	if (!unacked)
		return STREAM_NOTHING;
	if (unacked >= STREAM_WRITES / 2 || s->rx.unacked_bytes >= STREAM_ACK_BYTES)
		return STREAM_SEND;
	return s->rx.again ? STREAM_NOTHING : STREAM_ACK;
}

/* ---- pieces ---- */

static void add_iov(struct stream_gather *g, const void *base, uint32_t len)
{
	struct iovec *v = g->iov + g->niov;

	g->bytes += len;
	if (g->niov && (const uint8_t *)v[-1].iov_base + v[-1].iov_len == base) {
		v[-1].iov_len += len;
		return;
	}
	v->iov_base = (void *)(uintptr_t)base;
	v->iov_len = len;
	g->niov++;
}

static uint8_t *add_scratch(struct stream_gather *g, uint32_t len)
{
	uint8_t *p = g->scratch + g->used;

	g->used += len;
	add_iov(g, p, len);
	return p;
}

static const void *source_at(const struct stream_frame *f, uint64_t *run)
{
	const struct exposure *e = f->source;
	const struct chunk *c = f->source;

	if (!f->source) {
		*run = sizeof(filler);
		return filler;
	}
	if (f->kind == FRAME_RESP)
		return memory_at(e->memory, f->at + f->direct, run);
	*run = f->total - f->direct;
	return (const uint8_t *)c->local + f->at + f->direct;
}

static void add_direct(struct stream_gather *g, struct stream_frame *f, uint32_t max)
{
	while (f->direct < f->total && g->niov < STREAM_IOV && g->bytes < max) {
		uint32_t n = min_u32(f->total - f->direct, max - g->bytes);
		const void *base;
		uint64_t run;

		base = source_at(f, &run);
		if (run < n)
			n = (uint32_t)run;
		add_iov(g, base, n);
		f->direct += n;
	}
}

static int gather_has_room(const struct stream_gather *g, uint32_t max)
{
	return g->nframes < STREAM_FRAMES && g->niov + 2 <= STREAM_IOV &&
	       g->used + STREAM_HELD <= STREAM_SCRATCH && g->bytes + STREAM_HELD <= max;
}

/* ---- frames ---- */

/* Adds a header and `copied` bytes behind it; returns the place of these bytes. */
static uint8_t *add_frame(struct stream *s, struct stream_gather *g, struct frame *header,
			  void *source, uint32_t copied)
{
	struct stream_frame *f = &g->frames[g->nframes++];
	uint8_t *p = add_scratch(g, STREAM_HEADER + copied);

	header->acked = s->tx.acks = ack_now(s);
	frame_put(p, header);
	f->source = source;
	f->at = 0;
	f->copied = STREAM_HEADER + copied;
	f->direct = 0;
	f->total = 0;
	f->acked = header->acked;
	f->kind = header->kind;
	f->flags = 0;
	f->status = header->status;
	f->rest = 0;
	return p + STREAM_HEADER;
}

/* Adds direct bytes to the last frame, as many as fit. */
static void frame_direct(struct stream_gather *g, uint64_t at, uint32_t total, uint32_t max)
{
	struct stream_frame *f = &g->frames[g->nframes - 1];

	f->at = at;
	f->total = total;
	add_direct(g, f, max);
}

static void gather_rest(struct stream *s, struct stream_gather *g, uint32_t max)
{
	struct stream_frame *f = &g->frames[g->nframes++];

	*f = s->tx.half;
	f->rest = 1;
	f->acked = s->tx.acks;
	s->tx.half.kind = 0;
	if (f->copied)
		memcpy(add_scratch(g, f->copied), s->tx.hold, f->copied);
	add_direct(g, f, max);
}

/* 1: a frame that is not yet acknowledged had a checksum. */
static int checks_owed(const struct stream *s)
{
	return s->rx.placed - s->rx.checked < s->rx.placed - s->tx.acks;
}

static void gather_ack(struct stream *s, struct stream_gather *g, uint8_t flags)
{
	struct frame header = {.kind = FRAME_ACK, .flags = flags};

	add_frame(s, g, &header, NULL, 0);
	s->tx.again = 0;
}

static void gather_nak(struct stream *s, struct stream_gather *g)
{
	const struct stream_nak *nak = stream_nak(s, s->rx.nak_first);
	struct frame header = {.kind = FRAME_NAK,
			       .flags = FRAME_CHECK,
			       .status = (uint8_t)nak->status};

	header.id = nak->number;
	add_frame(s, g, &header, NULL, 0);
	s->rx.nak_first++;
}

static void gather_drop(struct stream *s, struct stream_gather *g)
{
	struct frame header = {.kind = FRAME_DROP, .flags = FRAME_CHECK};
	uint32_t number = s->tx.drop_from;

	if (number - s->tx.answered >= s->tx.asked - s->tx.answered)
		number = s->tx.answered;
	while (stream_read(s, number)->drop != DROP_WANTED)
		number++;
	stream_read(s, number)->drop = DROP_SENT;
	s->tx.drop_from = number + 1;
	s->tx.drops--;
	header.id = number;
	add_frame(s, g, &header, NULL, 0);
	g->frames[g->nframes - 1].at = number;
}

static void gather_read(struct stream *s, struct stream_gather *g, struct chunk *c)
{
	struct frame header = {.kind = FRAME_READ, .len = c->len, .off = c->off};
	struct stream_read *r = stream_read(s, s->tx.asked);

	stream_dequeue(s, c);
	if (c->cls != URCCL_CLASS_BULK)
		header.flags = FRAME_URGENT;
	if (c->checksum)
		header.flags |= FRAME_CHECK;
	header.id = (uint32_t)c->key->v[0];
	add_frame(s, g, &header, c, 0);
	c->state = STATE_SENT;
	c->scratch[1] = s->tx.asked++;
	r->chunk = c;
	r->len = c->len;
	r->check = c->checksum;
	r->drop = DROP_NOT;
}

static void gather_write(struct stream *s, struct stream_gather *g, struct chunk *c, uint32_t max)
{
	uint32_t copied = c->len <= STREAM_COPY ? c->len : 0;
	struct frame header = {.kind = FRAME_SEND, .len = c->len};
	uint8_t *p;

	stream_dequeue(s, c);
	s->tx.sent++;
	s->tx.again = has_write(s);
	if (s->tx.again)
		header.flags = FRAME_AGAIN;
	if (c->cls != URCCL_CLASS_BULK)
		header.flags |= FRAME_URGENT;
	if (c->kind == CHUNK_WRITE) {
		header.kind = FRAME_WRITE;
		header.id = (uint32_t)c->key->v[0];
		header.off = c->off;
	}
	if (c->checksum) {
		header.flags |= FRAME_CHECK;
		header.sum[0] = crc32c(0, c->local, c->len);
		s->tx.checked = s->tx.sent;
	}
	p = add_frame(s, g, &header, c, copied);
	if (copied)
		memcpy(p, c->local, copied);
	c->state = STATE_SENT;
	c->res = 0;
	*stream_unacked(s, s->tx.sent - 1) = c;
	c->scratch[1] = s->tx.sent - 1;
	if (copied != c->len)
		frame_direct(g, 0, c->len, max);
}

static void copy_out(uint8_t *to, const struct exposure *e, uint64_t at, uint32_t len)
{
	while (len) {
		uint64_t run;
		const void *from = memory_at(e->memory, at, &run);
		uint32_t n = run < len ? (uint32_t)run : len;

		memcpy(to, from, n);
		to += n;
		at += n;
		len -= n;
	}
}

static uint32_t sum_of(const struct exposure *e, uint64_t at, uint32_t len)
{
	uint32_t sum = 0;

	while (len) {
		uint64_t run;
		const void *from = memory_at(e->memory, at, &run);
		uint32_t n = run < len ? (uint32_t)run : len;

		sum = crc32c(sum, from, n);
		at += n;
		len -= n;
	}
	return sum;
}

/* Adds the checksum to an answer to the peer's next READ; e NULL: it has no payload. */
static void add_sum(struct stream *s, struct frame *header, const struct exposure *e, uint64_t at)
{
	if (!stream_request(s, s->tx.replied)->check)
		return;
	header->flags |= FRAME_CHECK;
	header->sum[0] = e ? sum_of(e, at, header->len) : 0;
}

/* The end of an answer, or a whole answer that is short or failed. */
static void gather_reply_end(struct stream *s, struct stream_gather *g, uint32_t status,
			     const struct exposure *e, uint64_t at, uint32_t len)
{
	struct frame header = {.kind = FRAME_RESP, .status = (uint8_t)status, .len = len};
	uint8_t *p;

	header.id = s->tx.replied;
	add_sum(s, &header, len ? e : NULL, at);
	p = add_frame(s, g, &header, NULL, len);
	copy_out(p, e, at, len);
	if (s->tx.reply_begun)
		g->frames[g->nframes - 1].flags = FRAME_END;
	s->tx.reply_begun = 0;
	s->tx.replied++;
}

static void gather_reply(struct stream *s, struct stream_gather *g, uint32_t max)
{
	const struct stream_request *r = stream_request(s, s->tx.replied);
	struct frame header = {.kind = FRAME_RESP, .flags = FRAME_MORE, .len = r->len};
	struct exposure *e = NULL;
	uint32_t status = STATUS_DROPPED;
	uint64_t at = 0;

	if (s->tx.reply_begun) {
		gather_reply_end(s, g, s->tx.reply_status, NULL, 0, 0);
		return;
	}
	if (!r->dropped)
		status = stream_check(s, r->id, r->off, r->len, URCCL_RIGHT_READ, &e, &at);
	if (status || r->len <= STREAM_COPY) {
		gather_reply_end(s, g, status, e, at, status ? 0 : r->len);
		return;
	}
	header.id = s->tx.replied;
	add_sum(s, &header, e, at);
	add_frame(s, g, &header, e, 0);
	g->frames[g->nframes - 1].flags = FRAME_BEGUN;
	frame_direct(g, at, r->len, max);
	s->tx.reply_begun = 1;
	s->tx.reply_status = STATUS_OK;
}

/* NAKs, DROPs and urgent chunks come first; answers and bulk WRITEs alternate. */
static int gather_next(struct stream *s, struct stream_gather *g, uint32_t max)
{
	struct stream_queue *q = s->tx.queue;
	int reply = replies_owed(s);
	int bulk;

	if (naks_owed(s)) {
		gather_nak(s, g);
		return 1;
	}
	/* In a frame of its own: the next header may have no checksum. */
	if (checks_owed(s)) {
		gather_ack(s, g, FRAME_CHECK);
		return 1;
	}
	if (s->tx.drops) {
		gather_drop(s, g);
		return 1;
	}
	if (q[STREAM_READ_FIRST].head && may_read(s)) {
		gather_read(s, g, q[STREAM_READ_FIRST].head);
		return 1;
	}
	if (q[STREAM_WRITE_FIRST].head && may_write(s)) {
		gather_write(s, g, q[STREAM_WRITE_FIRST].head, max);
		return 1;
	}
	if (q[STREAM_READ_BULK].head && may_read(s)) {
		gather_read(s, g, q[STREAM_READ_BULK].head);
		return 1;
	}
	bulk = q[STREAM_WRITE_BULK].head && may_write(s);
	if (reply && (!bulk || s->tx.turn)) {
		s->tx.turn = 0;
		gather_reply(s, g, max);
		return 1;
	}
	if (bulk) {
		s->tx.turn = 1;
		gather_write(s, g, q[STREAM_WRITE_BULK].head, max);
		return 1;
	}
	if (!g->nframes && (s->rx.placed != s->tx.acks || s->tx.again))
		gather_ack(s, g, 0);
	return 0;
}

uint32_t stream_gather(struct stream *s, struct stream_gather *g, uint32_t max)
{
	struct stream_frame *last;

	assert(!s->tx_lent && max >= STREAM_HELD);
	g->niov = g->bytes = g->nframes = g->used = 0;
	g->acked = s->tx.acks;
	s->tx.lent_from = stream_ackable(s);
	if (s->tx.half.kind)
		gather_rest(s, g, max);
	do {
		last = g->nframes ? &g->frames[g->nframes - 1] : NULL;
		if (last && last->direct < last->total) {
			stream_leave_half(s, last, NULL, last->copied + last->direct);
			break;
		}
	} while (gather_has_room(g, max) && gather_next(s, g, max));
	return g->bytes;
}
