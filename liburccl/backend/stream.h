/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The protocol of chunks over a reliable byte stream, one state machine for every driver that moves bytes: sockets,
 * io_uring, a ring in shared memory. It does no I/O, allocates nothing and knows no time but an exposure's expiry.
 *
 * A stream is one end of one connection; an ep has one or several. In each direction go frames, a header of 32 bytes
 * and a payload, little-endian:
 *	WRITE	payload goes straight into the exposure that id names, at off
 *	SEND	a message, handed out as EVENT_MESSAGE
 *	READ	request for len bytes at off of the exposure id
 *	RESP	answers READs in their order, id is the request's number. With MORE the payload is (part of) the answer;
 *		the one without MORE ends it with a status, so that memory revoked on the way is never reported as read
 *	NAK	WRITE number id of the other direction failed with status; comes before the acknowledgement that covers it
 *	DROP	answer request number id no further
 *	ACK	nothing but the acknowledgement that every header carries: how many WRITEs and SENDs of the other
 *		direction were dealt with, modulo 2^32
 * Each end allows the other a window of unacknowledged WRITEs and SENDs and of unanswered READs, so all that it can
 * come to owe is bounded and has its place here; receiving never waits for sending, so two ends cannot block each
 * other. A peer that breaks any rule gives -EPROTO.
 *
 * How a driver moves bytes. Out:
 *	while (stream_wants(s) != STREAM_NOTHING && stream_gather(s, g, max)) { n = send(g->iov, g->niov); stream_sent(s, g, n); }
 * It may publish pieces of what was gathered as it copies them; stream_sent() once at the end. In: either all bytes
 * through stream_rx(), or those of a large payload straight to their place:
 *	niov = stream_into(s, iov, max_iov, max_bytes); n = recv(iov + staging); stream_placed(s, n or less); stream_rx(s, staging, rest);
 * A driver that hands memory to the kernel and comes back later says so by tx_lent and rx_lent (see there).
 * What comes out waits in the device's sink until its poll gives it to the engine by stream_events().
 */
#ifndef BACKEND_STREAM_H
#define BACKEND_STREAM_H

#include <sys/types.h>
#include <sys/uio.h>
#include "backend/backend.h"

#define STREAM_VERSION	  1u		/* of the frames; ends of different versions do not talk */
#define STREAM_HEADER	  32u		/* bytes of a header */
#define STREAM_WRITES	  512u		/* window of WRITEs and SENDs; power of two */
#define STREAM_READS	  128u		/* window of READs; power of two */
#define STREAM_COPY	  512u		/* payloads up to this are copied next to their header */
#define STREAM_HELD	  (STREAM_HEADER + STREAM_COPY)
#define STREAM_QUEUE	  1024u		/* chunks taken and not yet sent */
#define STREAM_IOV	  128u		/* pieces of one gather */
#define STREAM_FRAMES	  512u		/* frames of one gather */
#define STREAM_SCRATCH	  32768u	/* headers and copied payloads of one gather */
#define STREAM_ACK_BYTES  (512u * 1024)	/* received and not acknowledged: no longer delay the acknowledgement */
#define STREAM_INBOX	  65536u	/* bytes of messages that wait for poll */
#define STREAM_MESSAGES	  2048u		/* messages that wait for poll */
#define STREAM_KEY_BYTES  16u		/* of an exposure's key */

/* What came out of a device's streams and was not yet given to the engine. */
struct stream_sink {
	struct chunk *done;		/* chunks, oldest first */
	struct chunk **done_end;
	uint32_t messages, given;	/* how many are there, how many of them went to the engine */
	uint32_t used;			/* bytes */
	struct stream_message {
		struct ep *ep;		/* NULL: its ep is gone */
		uint32_t at, len;	/* in bytes[] */
	} message[STREAM_MESSAGES];
	uint8_t bytes[STREAM_INBOX];
};

void stream_sink_init(struct stream_sink *k);
/* At the start of a poll: messages of earlier polls lose their place. */
void stream_sink_recycle(struct stream_sink *k);
/* Bytes that stream_rx() takes in full at this moment, whatever they say; more may be taken in part. */
uint32_t stream_sink_room(const struct stream_sink *k);
/* Messages, then chunks, at most n. */
uint32_t stream_events(struct stream_sink *k, struct event *events, uint32_t n);
/* Nothing is waiting. */
int stream_sink_empty(const struct stream_sink *k);
/* ep ends: its messages that wait are dropped. Its chunks still come out. */
void stream_sink_forget(struct stream_sink *k, const struct ep *ep);

enum stream_want {
	STREAM_NOTHING,
	STREAM_ACK,			/* an acknowledgement, best sent when nothing more is coming in at the moment */
	STREAM_SEND,			/* frames, now */
};

/* Chunks not yet sent, by prev (scratch[1]) and next. */
struct stream_queue {
	struct chunk *head, *tail;
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
	uint32_t flags;
};

/* A READ of the peer, until its answer is sent. */
struct stream_request {
	uint64_t off;
	uint32_t id, len;
	uint32_t dropped;
};

/* A WRITE of the peer that failed, until the peer is told. */
struct stream_nak {
	uint32_t number;
	uint32_t status;
};

struct stream {
	struct ep *ep;
	const struct handles *grants;	/* of struct exposure, by grant id: the device's */
	struct stream_sink *sink;	/* the device's */
	uint32_t write_window, read_window;	/* what the peer allows us, at most ours */

	/* A driver sets these while the kernel has memory that stream_gather() or stream_into() named. Meanwhile
	 * nothing of it comes out and stream_revoke() gives -EINPROGRESS; stream_stuck() tells what to cancel. */
	int tx_lent, rx_lent;

	struct {
		struct stream_queue queue[STREAM_QUEUES];
		uint32_t queued;		/* chunks in them */
		uint32_t sent, acked;		/* WRITEs and SENDs of ours, counted */
		uint32_t asked, answered;	/* READs of ours, counted */
		uint32_t drops;			/* READs of ours whose DROP is to be sent */
		uint32_t turn;			/* whose turn it is: answers or bulk writes */
		uint64_t queued_bytes;		/* of WRITEs, for who spreads chunks over streams */

		/* The frame that is half sent: what is held, then `left` bytes from its source. */
		uint32_t held, held_at;
		uint32_t left;
		struct chunk *chunk;		/* WRITE's source; or NULL: */
		struct exposure *exposure;	/* RESP's; or NULL: filler */
		uint64_t at;			/* in the chunk, or in the exposure's region */
		uint32_t whole;			/* 0: the frame that is half sent is also counted in sent */
		uint32_t header_acked;		/* acknowledged by headers that are sent */

		/* The answer under way, to request number `answered_peer`. */
		uint32_t resp_begun;		/* its payload is sent or half sent: its end is owed */
		uint32_t resp_status;
		uint8_t hold[STREAM_HELD];
	} tx;

	struct {
		uint32_t held;			/* bytes of a header or message that came in part */
		uint32_t left;			/* payload bytes of the current frame to come */
		uint32_t kind, flags, len, id, status;	/* the current frame's */
		uint32_t bulk;			/* the frame before was a large one: the next may be too */
		struct exposure *exposure;	/* WRITE's target; NULL: discard */
		struct chunk *chunk;		/* RESP's target; NULL: discard */
		uint64_t at;			/* in the exposure's region, or in the chunk */
		uint32_t placed;		/* WRITEs and SENDs of the peer, dealt with */
		uint32_t unacked_bytes;		/* came since the last acknowledgement */
		uint32_t requested, answered;	/* READs of the peer, counted */
		uint32_t got;			/* bytes of the answer to our oldest READ */
		uint32_t nak_first, nak_next;	/* NAKs owed */
		uint8_t hold[STREAM_HEADER + MESSAGE_MAX];
	} rx;

	struct chunk *unacked[STREAM_WRITES];		/* by number; NULL: came out before its time */
	struct stream_read reads[STREAM_READS];		/* by number */
	struct stream_request requests[STREAM_READS];	/* by number */
	struct stream_nak naks[STREAM_WRITES];
};

void stream_init(struct stream *s, struct ep *ep, const struct handles *grants, struct stream_sink *sink);

/* 1: taken; 0: full. Fails nothing at once. */
int stream_post(struct stream *s, struct chunk *chunk);
/* backend.h's cancel, for a chunk that stream_post() took. */
void stream_cancel(struct chunk *chunk, enum cancel_how how);
/* The connection is no more: every chunk comes out with res. Nothing is lent. Also the end of a stream in good order. */
void stream_fail(struct stream *s, int res);

/* Exposures, for a device's table of grants. stream_expose: bytes of key, or -errno. */
int stream_expose(struct handles *grants, struct exposure *exposure, void *key, uint32_t key_max);
int stream_import(const void *key, uint32_t key_len, uint64_t len, struct rkey *rkey);
/* Takes it out of the table; then stream_revoke() for each stream of its ep: 0, or -EINPROGRESS: the kernel has
 * memory of it, call again when that came back. */
void stream_unexpose(struct handles *grants, struct exposure *exposure);
int stream_revoke(struct stream *s, struct exposure *exposure);

/* ---- out ---- */

struct stream_frame {
	struct chunk *chunk;		/* READ, WRITE, SEND */
	uint32_t copied;		/* bytes in scratch */
	uint32_t direct;		/* bytes offered from where they lie */
	uint32_t total;			/* of the frame's payload that is not copied */
	uint32_t acked;			/* what its header says */
	uint8_t kind, queue, flags;
	uint8_t status;
	uint32_t number;
};

/* What to send now. The driver's: one a device, or one a stream where sends are asynchronous. */
struct stream_gather {
	struct iovec iov[STREAM_IOV];
	uint32_t niov;
	uint32_t bytes;			/* of all iov */
	uint32_t nframes;
	uint32_t used;			/* of scratch */
	struct stream_frame frames[STREAM_FRAMES];
	uint8_t scratch[STREAM_SCRATCH];
};

enum stream_want stream_wants(const struct stream *s);
/* Fills g with at most max (at least STREAM_HELD) bytes that come next, and returns how many: 0, nothing to send. */
uint32_t stream_gather(struct stream *s, struct stream_gather *g, uint32_t max);
/* The first n bytes of g are sent; the rest is gathered again next time. Must follow each gather, n may be 0. */
void stream_sent(struct stream *s, struct stream_gather *g, uint32_t n);

/* ---- in ---- */

/* Where the next bytes belong, if they are of a large payload: fills up to max_iov pieces, of max_bytes at most.
 * Returns how many; 0: they go through stream_rx(). *staging: bytes worth receiving behind them through stream_rx(),
 * 0 while the payload goes on. */
uint32_t stream_into(struct stream *s, struct iovec *iov, uint32_t max_iov, uint32_t max_bytes, uint32_t *staging);
/* n bytes were received there. */
void stream_placed(struct stream *s, uint32_t n);
/* Takes the next bytes, which may lie in memory that the peer can change: nothing is looked at twice. Returns how
 * many it took, less than len only if the sink is full; -EPROTO: the peer broke the rules, call stream_fail(). */
ssize_t stream_rx(struct stream *s, const void *data, size_t len);

/* What keeps memory that somebody waits for (cancelled NOW, revoked, failed) in the kernel's hands. */
#define STREAM_STUCK_TX 1
#define STREAM_STUCK_RX 2
int stream_stuck(const struct stream *s);

#endif
