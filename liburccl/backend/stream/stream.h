/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The protocol of chunks over a reliable byte stream, one state machine for every driver that moves
 * bytes: sockets, io_uring, a ring in shared memory. It does no I/O, allocates nothing and reads
 * the clock only for an exposure's expiry.
 *
 * A stream is one end of one connection; an ep has one or several. Each direction carries frames, a
 * header of 32 bytes and a payload, little-endian:
 *	WRITE	payload is placed straight into the exposure id, at off
 *	SEND	a message, delivered as EVENT_MESSAGE
 *	READ	request for len bytes at off of the exposure id
 *	RESP	answers READs in their order, id is the request's number. With MORE the payload is
 *		(part of) the answer; the one without MORE ends it with a status, so that memory
 *		revoked meanwhile is never reported as read
 *	NAK	WRITE or SEND number id of the other direction failed with status; comes before the
 *		acknowledgement that covers it
 *	DROP	stop answering request number id
 *	ACK	only the acknowledgement that every header carries: how many WRITEs and SENDs of the
 *		other direction were processed, modulo 2^32
 * With CHECK the header carries the CRC32C of its payload, and its own. A payload that differs
 * fails its WRITE or READ, or drops its message; a header that differs breaks the protocol. A READ
 * with CHECK is answered with CHECK. Only a header with CHECK acknowledges a WRITE or SEND that had
 * it, and every NAK and DROP has it: a flipped bit of any could turn a failure into a success.
 * A WRITE or SEND with AGAIN will be followed by another, or by an ACK that cancels this: until
 * then an acknowledgement may wait, so that bulk costs few. URGENT tells the receiver that the
 * sender has more than bulk, so that it may take bulk in smaller slices.
 * Each end grants the other a window of unacknowledged WRITEs and SENDs and of unanswered READs, so
 * the answers it must send are bounded and have room here. Receiving never waits for sending, so
 * two ends cannot deadlock. A peer that breaks any rule gives -EPROTO; a header that was changed on
 * the wire, or lacks a required checksum, -EILSEQ.
 *
 * A driver sends like this, until stream_next_due() returns STREAM_NOTHING or no more is taken:
 *	stream_gather(s, g, max);
 *	n = send(g->iov, g->niov);	it may publish pieces as it copies them
 *	stream_sent(s, g, n);		once, at the end
 * It receives every byte through stream_rx(), or a large payload straight to its place:
 *	niov = stream_into(s, iov, max_iov, max_bytes, &staging);
 *	n = recv(iov and staging bytes behind them);
 *	stream_placed(s, those of the n bytes that went to iov);
 *	stream_rx(s, staging, the others);
 * A driver that lends memory to the kernel between calls sets tx_lent and rx_lent.
 * Completed chunks and messages wait in the device's completion queue until poll returns them.
 */
#ifndef BACKEND_STREAM_H
#define BACKEND_STREAM_H

#include <sys/types.h>
#include <sys/uio.h>
#include "backend/backend.h"

#define STREAM_VERSION	 1u	/* frame format */
#define STREAM_HEADER	 32u	/* bytes of a header */
#define STREAM_WRITES	 512u	/* window of WRITEs and SENDs; power of two */
#define STREAM_READS	 128u	/* window of READs; power of two */
#define STREAM_COPY	 512u	/* payloads up to this are copied next to their header */
#define STREAM_HELD	 (STREAM_HEADER + STREAM_COPY)
#define STREAM_QUEUE	 1024u	/* chunks taken and not yet sent */
#define STREAM_IOV	 128u	/* pieces of one gather */
#define STREAM_FRAMES	 512u	/* frames of one gather */
#define STREAM_SCRATCH	 32768u /* headers and copied payloads of one gather */
#define STREAM_ACK_BYTES 1048576u	/* after so many received bytes the ACK is sent at once */
#define STREAM_INBOX	 65536u	/* bytes of messages that wait for poll */
#define STREAM_MESSAGES	 2048u	/* messages that wait for poll */
#define STREAM_KEY_BYTES 16u	/* length of an exposure's key */

/* Chunks and messages of a device's streams that the engine has not yet got. */
struct stream_cq {
	struct chunk_queue done;
	uint32_t messages, given;	/* in message[]; given to the engine */
	uint32_t used;			/* bytes */
	struct stream_message {
		struct ep *ep;		/* NULL: its ep is gone */
		uint32_t at, len;	/* in bytes[] */
	} message[STREAM_MESSAGES];
	uint8_t bytes[STREAM_INBOX];
};

void stream_cq_init(struct stream_cq *k);
/* Called at the start of a poll: frees messages of earlier polls. */
void stream_cq_recycle(struct stream_cq *k);
/* Bytes that stream_rx() takes in full now, whatever frames they hold. */
uint32_t stream_cq_room(const struct stream_cq *k);
/* Messages, then chunks, at most n. */
uint32_t stream_events(struct stream_cq *k, struct event *events, uint32_t n);
/* Messages are waiting. */
int stream_cq_heard(const struct stream_cq *k);
/* Nothing is waiting. */
int stream_cq_empty(const struct stream_cq *k);
/* ep ends: its messages that wait are dropped. Its chunks still come out. */
void stream_cq_forget(struct stream_cq *k, const struct ep *ep);

/* ---- a stream's state: private to the files of the stream, except where a driver is named ---- */

/* Chunks not yet sent. */
struct stream_queue {
	struct chunk *head, *tail;	/* linked by next, backwards by scratch[1] */
};

enum stream_queue_id {
	STREAM_READ_FIRST, STREAM_WRITE_FIRST,	/* class latency and control, SEND */
	STREAM_READ_BULK, STREAM_WRITE_BULK,
	STREAM_QUEUES
};

/* A READ that we sent, until its answer ends. */
struct stream_read {
	struct chunk *chunk;		/* NULL: it came out early */
	uint32_t len;
	uint32_t drop;			/* enum read_drop */
	uint32_t check;			/* its answer has CHECK */
};

/* A READ of the peer, until its answer is sent. */
struct stream_request {
	uint64_t off;
	uint32_t id, len;
	uint8_t dropped, check;
};

/* A failed WRITE or SEND of the peer, until its NAK is sent. */
struct stream_nak {
	uint32_t number, status;
};

/* A frame being sent: copied bytes lie next to its header, direct bytes in their own memory. */
struct stream_frame {
	void *source;			/* WRITE, SEND, READ: chunk; RESP: exposure; NULL: filler */
	uint64_t at;			/* offset of direct bytes in chunk or region; DROP:
					 * number */
	uint32_t copied;		/* bytes in scratch, or held */
	uint32_t direct;		/* direct bytes offered so far */
	uint32_t total;			/* direct bytes in all */
	uint32_t acked;			/* the acknowledgement in its header */
	uint8_t kind, flags, status;
	uint8_t rest;			/* its first bytes were sent earlier */
};

/* The next bytes to send. The driver's: one per device, or per stream if sends are asynchronous. */
struct stream_gather {
	struct iovec iov[STREAM_IOV];
	uint32_t niov;
	uint32_t bytes;			/* sum of all iov */
	uint32_t nframes;
	uint32_t used;			/* bytes used in scratch */
	uint32_t acked;			/* last acknowledgement sent before */
	struct stream_frame frames[STREAM_FRAMES];
	uint8_t scratch[STREAM_SCRATCH];
};

struct stream {
	struct ep *ep;
	const struct handles *grants;	/* the device's table of struct exposure, by grant id */
	struct stream_cq *cq;		/* the device's */
	/* The peer's windows, at most ours: a driver may lower them before the first post. */
	uint32_t write_window, read_window;

	/* A driver sets these while the kernel has memory that stream_gather() named, until
	 * stream_sent(), or stream_into(), until stream_placed(). Meanwhile its chunks stay in and
	 * stream_revoke() returns -EINPROGRESS; stream_stuck() tells if a cancel or revocation
	 * waits. */
	struct stream_gather *tx_lent;
	int rx_lent;
	int stuck;			/* STREAM_STUCK_* */
	int broken;			/* the peer broke the rules */
	int urgent;			/* a frame not of bulk went or came; the driver clears it */
	int failed;			/* res of stream_fail(); 0: it was not called */

	struct {
		struct stream_queue queue[STREAM_QUEUES];
		uint32_t queued;	/* chunks in them */
		uint32_t sent, acked;	/* WRITEs and SENDs of ours */
		uint32_t checked;	/* number after the last with CHECK */
		uint32_t lent_from;	/* first of them that the kernel has in part */
		uint32_t ack;		/* the peer's latest acknowledgement */
		uint32_t asked, answered;	/* our READs sent and answered */
		uint32_t drops;		/* our READs that need a DROP */
		uint32_t drop_from;	/* none before this number */
		uint32_t turn;		/* 1: an answer is next, 0: a bulk write */
		uint32_t replied;	/* READs of the peer whose answer is sent */
		uint32_t reply_begun;	/* the next one's payload is sent, its end is not */
		uint32_t reply_status;	/* status of that end */
		uint32_t acks;		/* acknowledged in headers sent: the peer's WRITEs, SENDs */
		uint32_t again;		/* the last WRITE or SEND said that another follows */
		uint64_t bytes;		/* sum of all chunks here, for load balancing */
		struct stream_frame half;	/* the frame that is half sent, kind 0: none */
		uint8_t hold[STREAM_HELD];	/* its copied bytes */
	} tx;

	struct {
		uint32_t held;		/* bytes of a header that came in part */
		uint32_t active;	/* 1: inside a frame */
		uint32_t left;		/* payload bytes of it that are missing */
		uint32_t kind, flags, len, status;	/* fields of its header */
		uint32_t bulk;		/* the last payload was large, the next may be too */
		struct exposure *exposure;	/* WRITE's target; NULL: discard */
		struct chunk *chunk;	/* RESP's target; NULL: discard */
		uint64_t at;		/* in the exposure's region, or in the chunk */
		uint32_t sum, expected;	/* CHECK: CRC32C so far, and of the whole payload */
		uint32_t fault;		/* status of our oldest READ if a part is not intact */
		uint32_t placed;	/* the peer's WRITEs and SENDs that are processed */
		uint32_t checked;	/* number after the last with CHECK */
		uint32_t unacked_bytes;	/* received since the last acknowledgement */
		uint32_t again;		/* the peer will send another WRITE or SEND */
		uint32_t requested;	/* READs received from the peer */
		uint32_t got;		/* bytes of the answer to our oldest READ */
		uint32_t nak_first, nak_next;	/* NAKs to send */
		uint8_t hold[STREAM_HEADER + MESSAGE_MAX];
	} rx;

	/* Indexed by number. Answers and NAKs to send may be twice a window: a peer may use its new
	 * credit before the kernel reports that send to us. */
	struct chunk *unacked[STREAM_WRITES];	/* NULL: came out early */
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
/* The connection is closed and no memory is lent: every chunk comes out with res. */
void stream_fail(struct stream *s, int res);

/* Exposures, in a device's table of grants. stream_expose() returns bytes of key, or -errno. */
int stream_expose(struct handles *grants, struct exposure *exposure, void *key, uint32_t key_max);
int stream_import(const void *key, uint32_t key_len, uint64_t len, struct rkey *rkey);
/* Removes it from the table; then call stream_revoke() for each stream of its ep: 0, or
 * -EINPROGRESS: the kernel has memory of it, call again when it is returned. */
void stream_unexpose(struct handles *grants, struct exposure *exposure);
int stream_revoke(struct stream *s, struct exposure *exposure);

/* ---- out ---- */

enum stream_due {
	STREAM_NOTHING,
	STREAM_ACK,		/* only an acknowledgement; best sent when no data is coming */
	STREAM_SEND,		/* frames, now */
};

enum stream_due stream_next_due(const struct stream *s);
/* Fills g with the next bytes, at most max (at least STREAM_HELD). Returns how many. */
uint32_t stream_gather(struct stream *s, struct stream_gather *g, uint32_t max);
/* The first n bytes of g are sent; the next gather repeats the rest. Call it after each gather. */
void stream_sent(struct stream *s, struct stream_gather *g, uint32_t n);

/* ---- in ---- */

/* The destination of the next bytes, if they are of a large payload: up to max_iov pieces,
 * max_bytes in all. Returns how many; 0: they go through stream_rx(). *staging: bytes to receive
 * behind them for stream_rx(); 0: the payload continues. */
uint32_t stream_into(struct stream *s, struct iovec *iov, uint32_t max_iov, uint32_t max_bytes,
		     uint32_t *staging);
/* n bytes were received into these pieces. */
void stream_placed(struct stream *s, uint32_t n);
/* Takes the next bytes, which may lie in memory that the peer can change: each is read once.
 * Returns how many it took, less than len only if the completion queue is full; -EPROTO, -EILSEQ:
 * the peer broke the protocol or a header was changed on the wire, end the connection. */
ssize_t stream_rx(struct stream *s, const void *data, size_t len);

/* The kernel has memory for which a CANCEL_NOW or a revocation waits. */
#define STREAM_STUCK_TX 1
#define STREAM_STUCK_RX 2
int stream_stuck(const struct stream *s);

#endif
