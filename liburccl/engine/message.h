/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages between engines (SENDs), and the state that each side keeps until they are settled. A
 * SEND may come twice, late and in any order, so all content is numbered per peer. Little-endian.
 * The first byte of a message is its enum message_type.
 */
#ifndef ENGINE_MESSAGE_H
#define ENGINE_MESSAGE_H

#include "engine/engine.h"

#define NOTE_WINDOW   32u /* notifications to one peer sent and not acknowledged */
#define NOTE_STATES   64u /* numbers that a receiver remembers: two windows */
#define ATOMIC_WINDOW 64u /* atomics to one peer sent and not answered */

struct op;

enum message_type {
	MESSAGE_NOTE = 1,
	MESSAGE_ACK,
	MESSAGE_ATOMIC,
	MESSAGE_ANSWER,
	MESSAGE_RELAY, /* these two are relay.h's */
	MESSAGE_RELAYED,
};

/* ---- notifications (note.c) ---- */

/* A NOTE is followed by its payload. A NOTE with a res reports that the notification of that number
 * will not come. The receiver then drops an earlier NOTE of the number, unless it was delivered
 * already. */
struct message {
	uint8_t type; /* enum message_type */
	uint8_t reserved;
	uint16_t len;  /* NOTE: bytes of the payload */
	uint32_t seq;  /* NOTE: its number; ACK: highest number seen */
	uint64_t tag;  /* ACK: numbers delivered to a ring, one bit each: seq & 63 */
	uint64_t more; /* NOTE: 0, or -res of the failed entry; ACK: numbers that failed, one bit
		        * each */
};

enum slot_state {
	SLOT_FREE,
	SLOT_SENT, /* not acknowledged by the receiver */
	SLOT_HELD, /* acknowledged, but no ring of the receiver has it */
};

/* In place of the number of a slot in op.note_slot: the slot is settled. */
enum note_slot_end {
	NOTE_ARRIVED = NOTE_WINDOW + 1, /* the receiver has the notification, */
	NOTE_LOST, /* or knows that it will not come */
};

/* The sender's record of a notification under way. Each number of the window has one: seq %
 * NOTE_WINDOW. */
struct note_slot {
	struct op *op;	 /* NULL: no entry waits for it any more */
	uint8_t busy;	 /* enum slot_state */
	uint8_t sending; /* the device has its chunk */
	uint8_t again;	 /* send it once more when the chunk is out: it changed, or the device
			  * refused it */
	uint8_t checksum; /* taken over from its entry */
	uint32_t seq;
	struct chunk chunk;
	struct message msg;
	uint8_t payload[URCCL_NOTE_MAX]; /* follows msg */
};

/* The receiver's record of a notification that waits for a watcher or an event slot. */
struct parked_note {
	struct list link;
	uint32_t seq;
	uint32_t len;
	int64_t res;
	uint64_t tag;
	uint64_t round; /* of direct.c, which it waits for; 0: none yet */
	uint8_t payload[URCCL_NOTE_MAX];
};

#define FAILED_NOTES_MAX 65536u /* per engine */

/* A notification that will not come, while no slot of the window is free to tell the peer. */
struct failed_note {
	uint64_t tag;
	int32_t res;
	uint32_t next; /* number of the next record in its list; 0: none */
};

struct failed_note_pool {
	struct failed_note *records;
	uint32_t used; /* number of records ever used */
	uint32_t free; /* first of the unused ones; 0: none */
};

/* The records of one peer, oldest first. */
struct failed_note_list {
	uint32_t first, last, n;
	uint32_t given_up; /* the peer is given up: its LOST stands for all of them */
	uint32_t turn;	   /* the next free slot of the window is for one of these */
};

/* ---- atomics (atomic.c: requests; remote_request.c: execution) ---- */

/* A message has this header, then n requests (ATOMIC) or answers (ANSWER). */
struct atomic_head {
	uint8_t type; /* enum message_type */
	uint8_t n;    /* not 0 */
	uint8_t reserved[6];
};

enum atomic_kind {
	ATOMIC_ADD = 1,
	ATOMIC_SWAP,
	ATOMIC_DROP, /* do not execute the request of this number, unless that is done */
};

struct atomic_request {
	uint32_t seq;	  /* its number */
	uint32_t grant;	  /* names the export, from KEY_REP; DROP: this and all after it are 0 */
	uint64_t off;	  /* offset of the word in the export */
	uint64_t operand; /* ADD: addend; SWAP: expected */
	uint64_t swap;	  /* SWAP: new value */
	uint8_t kind;	  /* enum atomic_kind */
	uint8_t reserved[7];
};

struct atomic_answer {
	uint32_t seq;
	int32_t res;  /* 0: executed; -errno: it was not executed, and will not be */
	uint64_t old; /* value before the execution */
};

_Static_assert(sizeof(struct atomic_head) == 8, "as on the wire");
_Static_assert(sizeof(struct atomic_request) == 40, "as on the wire");
_Static_assert(sizeof(struct atomic_answer) == 16, "as on the wire");

#define REQUESTS_EACH ((MESSAGE_MAX - sizeof(struct atomic_head)) / sizeof(struct atomic_request))
#define ANSWERS_EACH  ((MESSAGE_MAX - sizeof(struct atomic_head)) / sizeof(struct atomic_answer))
/* Messages of one kind under way to a peer: enough for a full window. */
#define REQUEST_BATCHES (ATOMIC_WINDOW / REQUESTS_EACH + 1)
#define ANSWER_BATCHES	(ATOMIC_WINDOW / ANSWERS_EACH + 1)
#define BATCHES		(REQUEST_BATCHES + ANSWER_BATCHES)
#define BATCH_SEG	NOTE_WINDOW /* chunk.seg of a batch is this plus its index: above those of
				     * notifications */

/* A message under way. Until a device has taken it, more may be added: the requests of one
 * iteration share a message. */
struct atomic_batch {
	struct chunk chunk;
	uint32_t busy; /* the chunk is not back */
	_Alignas(8) uint8_t bytes[MESSAGE_MAX];
};

/* Our record of a request. Each number of the window has one: seq % ATOMIC_WINDOW. */
struct atomic_slot {
	struct op *op; /* NULL: no entry waits for the answer any more */
	uint32_t seq;
	uint8_t busy;  /* not answered */
	uint8_t due;   /* to be put into the next free message */
	uint8_t again; /* a message with it failed: the peer may still have received it */
	uint8_t drop;  /* send DROP in its place */
};

/* The answer to a request of the peer, kept in case the request arrives again. The record is reused
 * once the peer has the answer, or if it never sent the request. */
struct atomic_record {
	struct atomic_answer answer;
	uint8_t used;
	uint8_t due; /* the answer is to be put into the next free message */
};

struct atomics {
	struct list waiters; /* entries that wait for a slot */
	uint32_t next;	     /* next number */
	uint32_t slots_due, records_due;
	uint32_t open[2]; /* index of the newest batch of requests, and of answers */
	struct atomic_slot slots[ATOMIC_WINDOW];
	struct atomic_record records[ATOMIC_WINDOW];
	struct atomic_batch batches[BATCHES]; /* first those of requests */
};

/* note.c */
void note_start(struct op *op); /* the entry's notification is due: sends it, or waits for a slot */
void note_fail(struct op *op); /* the entry failed: queues that for the peer */
int note_stop(struct op *op);  /* 1: the entry may end; 0: once the peer has answered */
void note_abort(struct op *op);
/* Its deadline passed in NOTING. 0: it is unknown why the peer has not acknowledged. */
int note_expired(struct op *op);
void note_chunk_out(struct engine *e, struct chunk *c);
void note_message(struct engine *e, struct engine_peer *p, const void *data, uint32_t len);
void notes_init(struct engine_peer *p);
void notes_drop(struct engine_peer *p);
void note_ack_send(struct engine_peer *p); /* if one is due */
void notes_resume(struct engine_peer *p);
void notes_requeue(struct engine_peer *p); /* a rail broke, with messages that it had taken */
void pending_add(struct engine_peer *p);

/* direct.c */

/* A peer may write to that memory of GPUs, by a device of RDMA. */
void direct_exposed(struct engine *e, const struct exposure *x);
/* 1: GPUs see what devices had written to their memory when the notification came. 0: not yet. */
int direct_flushed(struct engine *e, struct parked_note *n);

/* deliver.c */
int notes_pending(struct engine *e); /* posts as event slots allow; 1: some wait for slots */
/* As op_end() of a WATCH, but its CQE is the peer's LOST event. */
void watch_end(struct op *op, struct engine_peer *p);

/* failed_note.c */
void failed_note_add(struct engine_peer *p, uint64_t tag, int64_t res);
/* The oldest; 0: there is none. */
int failed_note_pop(struct engine_peer *p, struct failed_note *out);
void failed_notes_drop(struct engine_peer *p);

/* atomic.c */
void atomic_open(struct op *op); /* checks its range; op_fail() if it is invalid */
void atomic_start(struct op *op);
int atomic_stop(struct op *op); /* 1: the entry may end; 0: once the peer has answered */
void atomic_abort(struct op *op);
void atomic_chunk_out(struct engine_peer *p, struct chunk *c);
void atomic_chunk_dropped(struct chunk *c); /* no device had it */
void atomic_message(struct engine *e, struct engine_peer *p, const void *data, uint32_t len);
void atomics_init(struct atomics *a);
int atomics_idle(const struct atomics *a);
void atomics_resume(struct engine_peer *p);
void atomics_requeue(struct engine_peer *p); /* a rail broke: sends unanswered requests again */
/* Room for one more item in a message of this type to the peer. NULL: all messages are under
 * way. */
void *atomic_room(struct engine_peer *p, enum message_type type);

/* remote_request.c: executes atomics of peers on memory of ours */
void remote_request(struct engine *e, struct engine_peer *p, const struct atomic_request *m);
/* The message with it failed. */
void remote_request_requeue(struct engine_peer *p, const struct atomic_answer *m);
void remote_requests_requeue(struct engine_peer *p);			/* a rail broke */
void remote_request_due(struct engine_peer *p);				/* a message has come out */

#endif
