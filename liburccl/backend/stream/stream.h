/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The protocol of chunks over a reliable byte stream, one state machine for every driver that moves
 * bytes: sockets, io_uring, a ring in shared memory. It does no I/O, allocates nothing and knows no
 * time but an exposure's expiry.
 *
 * A stream is one end of one connection; an ep has one or several. In each direction go frames, a
 * header of 32 bytes and a payload, little-endian:
 *	WRITE	payload goes straight into the exposure that id names, at off
 *	SEND	a message, handed out as EVENT_MESSAGE
 *	READ	request for len bytes at off of the exposure id
 *	RESP	answers READs in their order, id is the request's number. With MORE the payload is
 *		(part of) the answer; the one without MORE ends it with a status, so that memory
 *		revoked on the way is never reported as read
 *	NAK	WRITE number id of the other direction failed with status; comes before the
 *		acknowledgement that covers it
 *	DROP	answer request number id no further
 *	ACK	nothing but the acknowledgement that every header carries: how many WRITEs and
 *		SENDs of the other direction were dealt with, modulo 2^32
 * With CHECK the header carries the CRC32C of its payload, and its own: a payload that differs
 * fails its WRITE or READ, or is no message, and a header that does breaks the rules. A READ with
 * CHECK is answered with CHECK. Only a header with CHECK acknowledges a WRITE or SEND that had it,
 * and every NAK and DROP has it, as a bit of any may decide whether something succeeded.
 * A WRITE or SEND with AGAIN will be followed by another, or by an ACK that takes this back: until
 * then an acknowledgement may wait, so that bulk costs few. URGENT tells the receiver that what is
 * not bulk is about, so that it may take bulk in smaller slices.
 * Each end allows the other a window of unacknowledged WRITEs and SENDs and of unanswered READs, so
 * all that it can come to owe is bounded and has its place here; receiving never waits for sending,
 * so two ends cannot block each other. A peer that breaks any rule gives -EPROTO, and a header that
 * is not the one that was sent, or has no checksum where one is due, -EILSEQ.
 *
 * How a driver moves bytes out, until stream_next_due() says STREAM_NOTHING or the way is full:
 *	stream_gather(s, g, max);
 *	n = send(g->iov, g->niov);	it may publish pieces as it copies them
 *	stream_sent(s, g, n);		once, at the end
 * In: every byte through stream_rx(), or those of a large payload straight to their place:
 *	niov = stream_into(s, iov, max_iov, max_bytes, &staging);
 *	n = recv(iov and staging bytes behind them);
 *	stream_placed(s, those of the n bytes that went to iov);
 *	stream_rx(s, staging, the others);
 * A driver that hands memory to the kernel and comes back later says so by tx_lent and rx_lent.
 * What comes out waits in the device's completion queue until its poll gives it to the engine.
 */
#ifndef BACKEND_STREAM_H
#define BACKEND_STREAM_H

#include <sys/types.h>
#include <sys/uio.h>
#include "backend/backend.h"

#define STREAM_VERSION	 1u	/* of the frames */
#define STREAM_HEADER	 32u	/* bytes of a header */
#define STREAM_WRITES	 512u	/* window of WRITEs and SENDs; power of two */
#define STREAM_READS	 128u	/* window of READs; power of two */
#define STREAM_COPY	 512u	/* payloads up to this are copied next to their header */
#define STREAM_HELD	 (STREAM_HEADER + STREAM_COPY)
#define STREAM_QUEUE	 1024u	/* chunks taken and not yet sent */
#define STREAM_IOV	 128u	/* pieces of one gather */
#define STREAM_FRAMES	 512u	/* frames of one gather */
#define STREAM_SCRATCH	 32768u /* headers and copied payloads of one gather */
#define STREAM_ACK_BYTES 1048576u	/* received and not acknowledged: delay it no longer */
#define STREAM_INBOX	 65536u	/* bytes of messages that wait for poll */
#define STREAM_MESSAGES	 2048u	/* messages that wait for poll */
#define STREAM_KEY_BYTES 16u	/* of an exposure's key */

/* What came out of a device's streams and was not yet given to the engine. */
struct stream_cq {
	struct chunk *done;		/* chunks, oldest first */
	struct chunk **done_end;
	uint32_t messages, given;	/* there, and of them given to the engine */
	uint32_t used;			/* bytes */
	struct stream_message {
		struct ep *ep;		/* NULL: its ep is gone */
		uint32_t at, len;	/* in bytes[] */
	} message[STREAM_MESSAGES];
	uint8_t bytes[STREAM_INBOX];
};

void stream_cq_init(struct stream_cq *k);
/* At the start of a poll: messages of earlier polls lose their place. */
void stream_cq_recycle(struct stream_cq *k);
/* Bytes that stream_rx() takes in full at this moment, whatever they say. */
uint32_t stream_cq_room(const struct stream_cq *k);
/* Messages, then chunks, at most n. */
uint32_t stream_events(struct stream_cq *k, struct event *events, uint32_t n);
/* Messages are waiting. */
int stream_cq_heard(const struct stream_cq *k);
/* Nothing is waiting. */
int stream_cq_empty(const struct stream_cq *k);
/* ep ends: its messages that wait are dropped. Its chunks still come out. */
void stream_cq_forget(struct stream_cq *k, const struct ep *ep);

/* ---- a stream's state: private to the files of the stream, but where a driver is named ---- */

/* Chunks not yet sent. */
struct stream_queue {
	struct chunk *head, *tail;	/* by next, and back by scratch[1] */
};

enum stream_queue_id {
	STREAM_READ_FIRST, STREAM_WRITE_FIRST,	/* class latency and control, SEND */
	STREAM_READ_BULK, STREAM_WRITE_BULK,
	STREAM_QUEUES
};

/* A READ of ours, from its sending to the end of its answer. */
struct stream_read {
	struct chunk *chunk;		/* NULL: it came out before its time */
	uint32_t len;
	uint32_t drop;			/* enum read_drop */
	uint32_t check;			/* it is answered with CHECK */
};

/* A READ of the peer, until its answer is sent. */
struct stream_request {
	uint64_t off;
	uint32_t id, len;
	uint8_t dropped, check;
};

/* A WRITE of the peer that failed, until the peer is told. */
struct stream_nak {
	uint32_t number, status;
};

/* A frame on its way out: bytes copied next to its header, direct ones sent from their place. */
struct stream_frame {
	void *source;			/* WRITE, SEND, READ: chunk; RESP: exposure; NULL: filler */
	uint64_t at;			/* of the direct bytes, in chunk or region; DROP: number */
	uint32_t copied;		/* bytes in scratch, or held */
	uint32_t direct;		/* bytes offered */
	uint32_t total;			/* direct bytes there are */
	uint32_t acked;			/* what its header acknowledges */
	uint8_t kind, flags, status;
	uint8_t rest;			/* its first bytes went earlier */
};

/* What to send now. The driver's: one a device, or one a stream where sends are asynchronous. */
struct stream_gather {
	struct iovec iov[STREAM_IOV];
	uint32_t niov;
	uint32_t bytes;			/* of all iov */
	uint32_t nframes;
	uint32_t used;			/* of scratch */
	uint32_t acked;			/* what was acknowledged before */
	struct stream_frame frames[STREAM_FRAMES];
	uint8_t scratch[STREAM_SCRATCH];
};

struct stream {
	struct ep *ep;
	const struct handles *grants;	/* of struct exposure, by grant id: the device's */
	struct stream_cq *cq;		/* the device's */
	/* What the peer allows us, at most ours: a driver may lower them before the first post. */
	uint32_t write_window, read_window;

	/* A driver sets these while the kernel has memory that stream_gather() named, until
	 * stream_sent(), or stream_into(), until stream_placed(). Meanwhile nothing of it comes out
	 * and stream_revoke() gives -EINPROGRESS; stream_stuck() tells when somebody waits. */
	struct stream_gather *tx_lent;
	int rx_lent;
	int stuck;			/* STREAM_STUCK_* */
	int broken;			/* the peer broke the rules */
	int urgent;			/* something not bulk went or came; the driver clears it */
	int failed;			/* what stream_fail() was told */

	struct {
		struct stream_queue queue[STREAM_QUEUES];
		uint32_t queued;	/* chunks in them */
		uint32_t sent, acked;	/* WRITEs and SENDs of ours */
		uint32_t checked;	/* behind the last with CHECK */
		uint32_t lent_from;	/* first of them of which the kernel has a part */
		uint32_t ack;		/* the peer's latest word */
		uint32_t asked, answered;	/* READs of ours */
		uint32_t drops;		/* READs of ours whose DROP is wanted */
		uint32_t drop_from;	/* none before this number */
		uint32_t turn;		/* whose it is: answers or bulk writes */
		uint32_t replied;	/* READs of the peer whose answer is sent */
		uint32_t reply_begun;	/* the next one's payload is sent, its end is owed */
		uint32_t reply_status;	/* with this */
		uint32_t acks;		/* of the peer's WRITEs and SENDs, in headers sent */
		uint32_t again;		/* the last WRITE or SEND said that another follows */
		uint64_t bytes;		/* of all chunks here: for who spreads them */
		struct stream_frame half;	/* the frame that is half sent, kind 0: none */
		uint8_t hold[STREAM_HELD];	/* its copied bytes */
	} tx;

	struct {
		uint32_t held;		/* bytes of a header that came in part */
		uint32_t active;	/* in a frame */
		uint32_t left;		/* payload bytes of it to come */
		uint32_t kind, flags, len, status;	/* its */
		uint32_t bulk;		/* the last was a large one, the next may be too */
		struct exposure *exposure;	/* WRITE's target; NULL: discard */
		struct chunk *chunk;	/* RESP's target; NULL: discard */
		uint64_t at;		/* in the exposure's region, or in the chunk */
		uint32_t sum, expected;	/* CHECK: CRC32C of what came, and of all of it */
		uint32_t fault;		/* status of our oldest READ's answer: not all of it came */
		uint32_t placed;	/* WRITEs and SENDs of the peer, dealt with */
		uint32_t checked;	/* behind the last with CHECK */
		uint32_t unacked_bytes;	/* came since the last acknowledgement */
		uint32_t again;		/* the peer will send another WRITE or SEND */
		uint32_t requested;	/* READs of the peer */
		uint32_t got;		/* bytes of the answer to our oldest READ */
		uint32_t nak_first, nak_next;	/* NAKs owed */
		uint8_t hold[STREAM_HEADER + MESSAGE_MAX];
	} rx;

	/* By number. What is owed may be twice a window: a peer may use its credit before the
	 * kernel tells us that it was sent. */
	struct chunk *unacked[STREAM_WRITES];	/* NULL: came out before its time */
	struct stream_read reads[STREAM_READS];
	struct stream_request requests[2 * STREAM_READS];
	struct stream_nak naks[2 * STREAM_WRITES];
};

/* ---- life ---- */

void stream_init(struct stream *s, struct ep *ep, const struct handles *grants,
		 struct stream_cq *cq);

/* 1: taken; 0: full. */
int stream_post(struct stream *s, struct chunk *chunk);
/* backend.h's cancel, for a chunk that stream_post() took. */
void stream_cancel(struct chunk *chunk, enum cancel_how how);
/* The connection is no more: every chunk comes out with res. Nothing is lent any more. */
void stream_fail(struct stream *s, int res);

/* Exposures, in a device's table of grants. stream_expose: bytes of key, or -errno. */
int stream_expose(struct handles *grants, struct exposure *exposure, void *key, uint32_t key_max);
int stream_import(const void *key, uint32_t key_len, uint64_t len, struct rkey *rkey);
/* Takes it out of the table; then stream_revoke() for each stream of its ep: 0, or -EINPROGRESS:
 * the kernel has memory of it, call again when that came back. */
void stream_unexpose(struct handles *grants, struct exposure *exposure);
int stream_revoke(struct stream *s, struct exposure *exposure);

/* ---- out ---- */

enum stream_due {
	STREAM_NOTHING,
	STREAM_ACK,		/* an acknowledgement, best sent when nothing more is coming in */
	STREAM_SEND,		/* frames, now */
};

enum stream_due stream_next_due(const struct stream *s);
/* Fills g with the bytes that come next, at most max, which is at least STREAM_HELD; how many. */
uint32_t stream_gather(struct stream *s, struct stream_gather *g, uint32_t max);
/* The first n bytes of g are sent, the rest is gathered again next time. Follows each gather. */
void stream_sent(struct stream *s, struct stream_gather *g, uint32_t n);

/* ---- in ---- */

/* Where the next bytes belong, if they are of a large payload: up to max_iov pieces of max_bytes at
 * most. Returns how many; 0: they go through stream_rx(). *staging: bytes worth receiving behind
 * them for stream_rx(); 0: the payload goes on. */
uint32_t stream_into(struct stream *s, struct iovec *iov, uint32_t max_iov, uint32_t max_bytes,
		     uint32_t *staging);
/* n bytes were received there. */
void stream_placed(struct stream *s, uint32_t n);
/* Takes the next bytes, which may lie in memory that the peer can change: each is read once.
 * Returns how many it took, less than len only if the completion queue is full; -EPROTO, -EILSEQ:
 * the peer broke the rules or is misheard, end the connection. */
ssize_t stream_rx(struct stream *s, const void *data, size_t len);

/* Memory that the kernel has and somebody waits for: cancelled NOW, or revoked. */
#define STREAM_STUCK_TX 1
#define STREAM_STUCK_RX 2
int stream_stuck(const struct stream *s);

#endif
