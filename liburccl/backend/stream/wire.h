/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of the stream: the wire format of frames, and how chunks come out. */
#ifndef BACKEND_STREAM_WIRE_H
#define BACKEND_STREAM_WIRE_H

#include <endian.h>
#include "backend/stream/stream.h"

enum frame_kind {
	FRAME_WRITE = 1,
	FRAME_SEND,
	FRAME_READ,
	FRAME_RESP,
	FRAME_NAK,
	FRAME_DROP,
	FRAME_ACK,
	FRAME_LAST,
	FRAME_DIFFERS = UINT8_MAX	/* a header that does not match its checksum */
};

#define FRAME_MORE   1u			/* RESP: another RESP of this answer follows */
#define FRAME_AGAIN  2u			/* WRITE, SEND: another one follows */
#define FRAME_URGENT 4u			/* WRITE, SEND, READ: not of class bulk */
#define FRAME_CHECK  8u			/* the header carries checksums */

/* The status of RESP and NAK; unlike errno values, these are the same on all machines. */
enum frame_status {
	STATUS_OK, STATUS_ACCESS, STATUS_RANGE, STATUS_DROPPED,
	STATUS_CHECKSUM,
	STATUS_LAST
};

/* A header on the wire; a reserved byte that is not zero breaks the protocol. */
struct frame {
	uint8_t kind;			/*  0 enum frame_kind */
	uint8_t flags;			/*  1 */
	uint8_t status;			/*  2 enum frame_status */
	uint8_t reserved0;		/*  3 */
	uint32_t len;			/*  4 bytes of payload; READ: requested */
	uint32_t acked;			/*  8 */
	uint32_t id;			/* 12 WRITE, READ: grant; RESP, NAK, DROP: number */
	uint64_t off;			/* 16 WRITE, READ */
	uint32_t sum[2];		/* 24 CHECK: CRC32C of the payload, and of the header up
					 *    to here */
};

#define FRAME_SUMMED 28u		/* bytes of a header that its own checksum covers */

_Static_assert(sizeof(struct frame) == STREAM_HEADER, "a header is 32 bytes");

/* Checksum of a header on the wire; by value, so that others can stay in registers. */
__attribute__((cold)) uint32_t frame_sum(struct frame f);

static inline void frame_put(uint8_t *to, const struct frame *f)
{
	struct frame le = {
		.kind = f->kind,
		.flags = f->flags,
		.status = f->status,
		.len = htole32(f->len),
		.acked = htole32(f->acked),
		.id = htole32(f->id),
		.off = htole64(f->off),
	};

	if (f->flags & FRAME_CHECK) {
		le.sum[0] = htole32(f->sum[0]);
		le.sum[1] = htole32(frame_sum(le));
	}
	memcpy(to, &le, sizeof(le));
}

static inline void frame_get(struct frame *f, const uint8_t *from)
{
	memcpy(f, from, sizeof(*f));
	/* The compiler must not read `from` again: the peer may change it. */
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	if (f->flags & FRAME_CHECK) {
		/* Kind 0 is no header at all: -EPROTO. */
		if (le32toh(f->sum[1]) != frame_sum(*f) && f->kind)
			f->kind = FRAME_DIFFERS;
		f->sum[0] = le32toh(f->sum[0]);
	}
	f->len = le32toh(f->len);
	f->acked = le32toh(f->acked);
	f->id = le32toh(f->id);
	f->off = le64toh(f->off);
}

/* chunk->state while a stream has the chunk. */
enum chunk_state {
	STATE_QUEUED = 1,
	STATE_SENT,			/* has a number, in chunk->scratch[1] */
	STATE_MASK = 0x7f,
	STATE_NOW = 0x80,		/* comes out when the kernel returns its memory */
};

/* struct stream_read.drop */
enum read_drop { DROP_NOT, DROP_WANTED, DROP_SENT };

static inline struct stream *chunk_stream(const struct chunk *c)
{
	return (struct stream *)(uintptr_t)c->scratch[0];
}

static inline uint32_t chunk_number(const struct chunk *c)
{
	return (uint32_t)c->scratch[1];
}

/* The chunk before a queued chunk. */
static inline struct chunk *chunk_prev(const struct chunk *c)
{
	return (struct chunk *)(uintptr_t)c->scratch[1];
}

static inline struct chunk **stream_unacked(struct stream *s, uint32_t number)
{
	return &s->unacked[number & (STREAM_WRITES - 1)];
}

static inline struct stream_read *stream_read(struct stream *s, uint32_t number)
{
	return &s->reads[number & (STREAM_READS - 1)];
}

static inline struct stream_request *stream_request(struct stream *s, uint32_t number)
{
	return &s->requests[number & (2 * STREAM_READS - 1)];
}

static inline struct stream_nak *stream_nak(struct stream *s, uint32_t number)
{
	return &s->naks[number & (2 * STREAM_WRITES - 1)];
}

/* struct stream_frame.flags: BEGUN: an answer's payload without its end; END: that end; TAKEN: its
 * memory was revoked while the kernel had it */
#define FRAME_BEGUN 1u
#define FRAME_END   2u
#define FRAME_TAKEN 4u

/* Keeps the rest of a frame whose first k bytes are sent. copied: its copied bytes. */
void stream_leave_half(struct stream *s, const struct stream_frame *f, const uint8_t *copied,
		       uint32_t k);

/* Sends filler for the rest of the half sent answer, and STATUS_ACCESS at its end. */
void stream_take_back(struct stream *s);

/* Completes the chunk: poll returns it to the engine. */
void stream_out(struct stream *s, struct chunk *c, int res, uint32_t quiet);
/* Puts it at the head of its queue, as if it had never been sent. */
void stream_requeue(struct stream *s, struct chunk *c);
void stream_dequeue(struct stream *s, struct chunk *c);
enum stream_queue_id stream_queue_of(const struct chunk *c);
/* Queues a DROP for our READ of this number. */
void stream_drop_later(struct stream *s, uint32_t number);
/* Our WRITEs and SENDs before this number come out when the peer acknowledges them. */
uint32_t stream_ackable(const struct stream *s);
/* The peer acknowledges WRITEs and SENDs before this number; check: its header has a checksum, so
 * the number is known to be intact. 0, -EPROTO or -EILSEQ. */
int stream_acked(struct stream *s, uint32_t number, int check);
/* Finish cancels, acks and revocations that waited for the kernel to return memory. */
void stream_settle_tx(struct stream *s);
void stream_settle_rx(struct stream *s);

/* Checks the peer's access to len bytes at off of grant id: enum frame_status; *at: their place in
 * the exposure's region. */
uint32_t stream_check(const struct stream *s, uint32_t id, uint64_t off, uint32_t len,
		      uint32_t right, struct exposure **e, uint64_t *at);

/* Adds a message of ep for poll. 0: the completion queue is full. */
int stream_cq_add(struct stream_cq *k, struct ep *ep, const void *data, uint32_t len);
int stream_cq_full(const struct stream_cq *k);

#endif
