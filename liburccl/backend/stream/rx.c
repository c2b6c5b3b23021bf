/* SPDX-License-Identifier: Apache-2.0 */
/* The receive side of a stream. The peer controls every byte: a header is copied before it is
 * checked, and checked before it is used. */
#include "backend/stream/wire.h"

#define DIRECT_MIN 4096u  /* a shorter rest of a payload goes through staging */
#define BULK_MIN   32768u /* a payload after which staging is kept small */
#define STAGING	   65536u
/* After a large payload: the end of an answer and a header, so the next is received in place. */
#define STAGING_BULK (2 * STREAM_HEADER)

static const int status_errno[STATUS_LAST] = {
	[STATUS_OK] = 0,
	[STATUS_ACCESS] = -EACCES,
	[STATUS_RANGE] = -ERANGE,
	[STATUS_DROPPED] = -ECANCELED,
	[STATUS_CHECKSUM] = -EBADMSG,
};

/* ---- headers ---- */

static int begin_numbered(struct stream *s, const struct frame *f)
{
	if (s->rx.placed - s->tx.acks >= (s->tx_lent ? 2 : 1) * STREAM_WRITES)
		return -EPROTO;
	s->rx.left = f->len;
	return 0;
}

/* Records the iteration of the peer's last access; the engine suspends idle peers. */
static void peer_used(struct stream *s)
{
	const uint64_t *iteration = s->ep->dev->iteration;

	if (iteration)
		store_relaxed(&s->ep->used, *iteration);
}

static int begin_write(struct stream *s, const struct frame *f)
{
	peer_used(s);
	s->rx.exposure = NULL;
	s->rx.status = stream_check(s, f->id, f->off, f->len, URCCL_RIGHT_WRITE, &s->rx.exposure,
				    &s->rx.at);
	s->rx.bulk = f->len >= BULK_MIN;
	return begin_numbered(s, f);
}

static int begin_send(struct stream *s, const struct frame *f)
{
	if (f->len > MESSAGE_MAX || f->id || f->off)
		return -EPROTO;
	s->rx.bulk = 0;
	return begin_numbered(s, f);
}

static int begin_read(struct stream *s, const struct frame *f)
{
	struct stream_request *r = stream_request(s, s->rx.requested);

	if (s->rx.requested - s->tx.replied >= (s->tx_lent ? 2 : 1) * STREAM_READS)
		return -EPROTO;
	peer_used(s);
	r->off = f->off;
	r->id = f->id;
	r->len = f->len;
	r->dropped = 0;
	r->check = !!(f->flags & FRAME_CHECK);
	s->rx.requested++;
	s->rx.left = 0;
	return 0;
}

/* The parts of an answer are at most as long as the READ, and exactly so if it succeeds. */
static int begin_resp(struct stream *s, const struct frame *f)
{
	const struct stream_read *r = stream_read(s, s->tx.answered);
	int more = f->flags & FRAME_MORE;

	if (s->tx.answered == s->tx.asked || f->id != s->tx.answered || f->off)
		return -EPROTO;
	if (r->check != !!(f->flags & FRAME_CHECK))
		return -EPROTO;
	if (f->len > r->len - s->rx.got || (f->status && (more || f->len)))
		return -EPROTO;
	if (!more && !f->status && f->len != r->len - s->rx.got)
		return -EPROTO;
	s->rx.chunk = r->chunk;
	if (r->chunk && r->chunk->flags & CHUNK_CANCELLED)
		s->rx.chunk = NULL;
	s->rx.at = s->rx.got;
	s->rx.left = f->len;
	s->rx.status = f->status;
	if (f->len)
		s->rx.bulk = f->len >= BULK_MIN;
	return 0;
}

/* A header with CHECK and no payload: 0, -EPROTO or -EILSEQ. */
static int check_of(const struct frame *f)
{
	if (f->flags & FRAME_CHECK)
		return f->sum[0] ? -EPROTO : 0;
	return -EILSEQ;
}

static int begin_nak(struct stream *s, const struct frame *f)
{
	struct chunk *c;
	int rc = check_of(f);

	if (rc)
		return rc;
	if (f->id - s->tx.acked >= s->tx.sent - s->tx.acked || !f->status || f->len || f->off)
		return -EPROTO;
	c = *stream_unacked(s, f->id);
	if (c && c->kind != CHUNK_WRITE && f->status != STATUS_CHECKSUM)
		return -EPROTO;
	if (c)
		c->res = status_errno[f->status];
	s->rx.left = 0;
	return 0;
}

static int begin_drop(struct stream *s, const struct frame *f)
{
	int rc = check_of(f);

	if (rc)
		return rc;
	if ((int32_t)(s->rx.requested - f->id) <= 0 || f->len || f->off)
		return -EPROTO;
	/* A READ that is already answered is ignored. */
	if (f->id - s->tx.replied < s->rx.requested - s->tx.replied)
		stream_request(s, f->id)->dropped = 1;
	s->rx.left = 0;
	return 0;
}

static int begin_ack(struct stream *s, const struct frame *f)
{
	s->rx.left = 0;
	s->rx.again = 0;
	/* Without a checksum it acknowledges frames without one. */
	if (f->flags & FRAME_CHECK && check_of(f))
		return -EPROTO;
	return f->len || f->id || f->off ? -EPROTO : 0;
}

static int frame_begin(struct stream *s, const struct frame *f)
{
	static int (*const kinds[FRAME_LAST])(struct stream *, const struct frame *) = {
		[FRAME_WRITE] = begin_write, [FRAME_SEND] = begin_send, [FRAME_READ] = begin_read,
		[FRAME_RESP] = begin_resp,   [FRAME_NAK] = begin_nak,	[FRAME_DROP] = begin_drop,
		[FRAME_ACK] = begin_ack,
	};
	static const uint32_t flags[FRAME_LAST] = {
		[FRAME_WRITE] = FRAME_AGAIN | FRAME_URGENT | FRAME_CHECK,
		[FRAME_SEND] = FRAME_AGAIN | FRAME_URGENT | FRAME_CHECK,
		[FRAME_READ] = FRAME_URGENT | FRAME_CHECK,
		[FRAME_RESP] = FRAME_MORE | FRAME_CHECK,
		[FRAME_NAK] = FRAME_CHECK,
		[FRAME_DROP] = FRAME_CHECK,
		[FRAME_ACK] = FRAME_CHECK,
	};
	int rc, check = f->flags & FRAME_CHECK;

	if (f->kind >= FRAME_LAST || !kinds[f->kind] || f->reserved0)
		return f->kind == FRAME_DIFFERS && check ? -EILSEQ : -EPROTO;
	if ((!check && f->sum[0] | f->sum[1]) || f->flags & ~flags[f->kind])
		return -EPROTO;
	if (f->status >= STATUS_LAST ||
	    (f->status && f->kind != FRAME_RESP && f->kind != FRAME_NAK))
		return -EPROTO;
	rc = stream_acked(s, f->acked, check);
	if (rc)
		return rc;
	s->rx.kind = f->kind;
	s->rx.flags = f->flags;
	s->urgent |= f->flags & FRAME_URGENT;
	s->rx.len = f->len;
	s->rx.sum = 0;
	s->rx.expected = check ? f->sum[0] : 0;
	rc = kinds[f->kind](s, f);
	s->rx.active = !rc;
	return rc;
}

/* ---- payloads ---- */

static void *target_at(const struct stream *s, uint64_t *run)
{
	if (s->rx.kind == FRAME_WRITE && s->rx.exposure)
		return memory_at(s->rx.exposure->memory, s->rx.at, run);
	*run = s->rx.left;
	if (s->rx.kind == FRAME_RESP && s->rx.chunk)
		return (uint8_t *)s->rx.chunk->local + s->rx.at;
	return NULL;
}

static void advance(struct stream *s, uint32_t n)
{
	s->rx.at += n;
	s->rx.left -= n;
}

/* n bytes are in place. They are summed there: a peer that shares memory may still change the
 * source. */
__attribute__((noinline)) static void arrived_checked(struct stream *s, uint32_t n)
{
	while (n) {
		uint64_t run;
		const void *at = target_at(s, &run);
		uint32_t part = run < n ? (uint32_t)run : n;

		if (at)
			s->rx.sum = crc32c(s->rx.sum, at, part);
		advance(s, part);
		n -= part;
	}
}

static void arrived(struct stream *s, uint32_t n)
{
	if (s->rx.flags & FRAME_CHECK)
		arrived_checked(s, n);
	else
		advance(s, n);
}

/* The whole payload has come: does it match its checksum? */
static int is_intact(const struct stream *s)
{
	return !(s->rx.flags & FRAME_CHECK) || s->rx.sum == s->rx.expected;
}

static void payload_place(struct stream *s, const uint8_t *data, uint32_t len)
{
	while (len) {
		uint64_t run;
		void *to = target_at(s, &run);
		uint32_t n = run < len ? (uint32_t)run : len;

		if (to)
			memcpy(to, data, n);
		arrived(s, n);
		data += n;
		len -= n;
	}
}

/* Collects a message, which enters the completion queue whole. Returns the bytes taken; 0: the
 * queue is full, the last bytes stay with the caller. */
static uint32_t collect(struct stream *s, const uint8_t *data, uint32_t len)
{
	if (len == s->rx.left && stream_cq_full(s->cq))
		return 0;
	memcpy(s->rx.hold + (s->rx.len - s->rx.left), data, len);
	advance(s, len);
	return len;
}

static void finish_numbered(struct stream *s)
{
	struct stream_nak *nak = stream_nak(s, s->rx.nak_next);

	if (s->rx.status) {
		nak->number = s->rx.placed;
		nak->status = s->rx.status;
		s->rx.nak_next++;
	}
	s->rx.placed++;
	if (s->rx.flags & FRAME_CHECK)
		s->rx.checked = s->rx.placed;
	s->rx.again = s->rx.flags & FRAME_AGAIN;
	s->rx.unacked_bytes += s->rx.len;
	s->rx.exposure = NULL;
}

static void finish_resp(struct stream *s)
{
	struct stream_read *r = stream_read(s, s->tx.answered);
	struct chunk *c = r->chunk;
	int cancelled = c && c->flags & CHUNK_CANCELLED;
	uint32_t status;

	s->rx.got += s->rx.len;
	if (!is_intact(s))
		s->rx.fault = STATUS_CHECKSUM;
	s->rx.chunk = NULL;
	if (s->rx.flags & FRAME_MORE)
		return;
	if (r->drop == DROP_WANTED)
		s->tx.drops--;
	r->drop = DROP_NOT;
	status = s->rx.status ? s->rx.status : s->rx.fault;
	s->rx.got = s->rx.fault = 0;
	s->tx.answered++;
	if (c)
		stream_out(s, c, cancelled ? -ECANCELED : status_errno[status], CHUNK_QUIET);
}

/* A message that fails its checksum is dropped: a NAK makes the peer send it again. */
static int finish_send(struct stream *s)
{
	if (s->rx.flags & FRAME_CHECK)
		s->rx.sum = crc32c(0, s->rx.hold, s->rx.len);
	s->rx.status = is_intact(s) ? STATUS_OK : STATUS_CHECKSUM;
	if (!s->rx.status && !stream_cq_add(s->cq, s->ep, s->rx.hold, s->rx.len))
		return 0;
	finish_numbered(s);
	return 1;
}

/* The frame is complete. 0: the completion queue is full, try again. */
static int frame_finish(struct stream *s)
{
	switch (s->rx.kind) {
	case FRAME_SEND:
		if (!finish_send(s))
			return 0;
		break;
	case FRAME_WRITE:
		if (!s->rx.status && !is_intact(s))
			s->rx.status = STATUS_CHECKSUM;
		finish_numbered(s);
		break;
	case FRAME_RESP:
		finish_resp(s);
		break;
	default:
		break;
	}
	s->rx.active = 0;
	return 1;
}

uint32_t stream_into(struct stream *s, struct iovec *iov, uint32_t max_iov, uint32_t max_bytes,
		     uint32_t *staging)
{
	uint32_t n = 0, got = 0;

	*staging = s->rx.bulk ? STAGING_BULK : STAGING;
	if (!s->rx.active || s->rx.kind == FRAME_SEND || s->rx.left < DIRECT_MIN)
		return 0;
	if (s->rx.kind == FRAME_WRITE ? !s->rx.exposure : !s->rx.chunk) {
		*staging = STAGING;
		return 0;
	}
	while (n < max_iov && got < max_bytes && got < s->rx.left) {
		uint32_t room = s->rx.left - got;
		uint64_t run, at = s->rx.at;

		s->rx.at += got;
		iov[n].iov_base = target_at(s, &run);
		s->rx.at = at;
		if (room > max_bytes - got)
			room = max_bytes - got;
		if (run < room)
			room = (uint32_t)run;
		iov[n++].iov_len = room;
		got += room;
	}
	if (got < s->rx.left)
		*staging = 0;
	return n;
}

void stream_placed(struct stream *s, uint32_t n)
{
	assert(n <= s->rx.left);
	arrived(s, n);
	if (!s->rx.left)
		frame_finish(s);
	if (!s->rx_lent)
		return;
	s->rx_lent = 0;
	stream_settle_rx(s);
}

/* Returns the bytes of the header that it took from data; *have: the header is complete. */
static uint32_t take_header(struct stream *s, struct frame *f, const uint8_t *data, size_t len,
			    int *have)
{
	uint32_t n = STREAM_HEADER - s->rx.held;

	*have = len >= n;
	if (*have && !s->rx.held) {
		frame_get(f, data);
		return STREAM_HEADER;
	}
	if (!*have)
		n = (uint32_t)len;
	memcpy(s->rx.hold + s->rx.held, data, n);
	s->rx.held += n;
	if (*have) {
		frame_get(f, s->rx.hold);
		s->rx.held = 0;
	}
	return n;
}

static uint32_t take_payload(struct stream *s, const uint8_t *data, size_t len)
{
	uint32_t n = len < s->rx.left ? (uint32_t)len : s->rx.left;

	if (s->rx.kind == FRAME_SEND)
		return collect(s, data, n);
	payload_place(s, data, n);
	return n;
}

ssize_t stream_rx(struct stream *s, const void *data, size_t len)
{
	const uint8_t *p = data, *end = p + len;
	struct frame f;
	uint32_t n;
	int rc, have;

	if (s->broken)
		return -EPROTO;
	for (;;) {
		if (!s->rx.active) {
			if (p == end)
				break;
			p += take_header(s, &f, p, (size_t)(end - p), &have);
			if (!have)
				break;
			rc = frame_begin(s, &f);
			if (rc) {
				s->broken = 1;
				return rc;
			}
		}
		while (s->rx.left && p != end) {
			n = take_payload(s, p, (size_t)(end - p));
			if (!n)
				return p - (const uint8_t *)data;
			p += n;
		}
		if (s->rx.left || !frame_finish(s))
			break;
	}
	return p - (const uint8_t *)data;
}
