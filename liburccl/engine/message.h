/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What engines say to each other by SEND, and what each end keeps of it until it is settled. A SEND
 * may come twice, late and in any order, so everything has a number of its peer's. Little-endian;
 * the first byte of a message is its enum message_type.
 */
#ifndef ENGINE_MESSAGE_H
#define ENGINE_MESSAGE_H

#include "engine/engine.h"

#define NOTE_WINDOW   32u /* notifications of one peer sent and not acknowledged */
#define NOTE_STATES   64u /* sequence numbers a receiver remembers: two windows */
#define ATOMIC_WINDOW 64u /* atomics of one peer sent and not answered */

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

/* A NOTE has its payload behind it. A NOTE with a res takes the place of the one of the same number
 * that has none, unless that was delivered already: so it both tells the receiver that the
 * notification will not come and makes sure of it. */
struct message {
	uint8_t type; /* enum message_type */
	uint8_t reserved;
	uint16_t len;  /* NOTE: of the payload */
	uint32_t seq;  /* NOTE: its number; ACK: highest number seen */
	uint64_t tag;  /* ACK: numbers delivered to a ring, a bit each: seq & 63 */
	uint64_t more; /* NOTE: 0, or -res of the failed entry; ACK: numbers failed, a bit each */
};

enum slot_state {
	SLOT_FREE,
	SLOT_SENT, /* the receiver has not acknowledged it */
	SLOT_HELD, /* nor has a ring of the receiver, which answers */
};

/* A notification on its way: the sender's record. Numbers of the window have a record each: seq %
 * NOTE_WINDOW. */
struct note_slot {
	struct op *op;	 /* NULL: nobody waits for it any more */
	uint8_t busy;	 /* enum slot_state */
	uint8_t sending; /* its chunk is not out */
	uint8_t again;	 /* it changed, or was not taken: send it once the chunk is out */
	uint8_t checksum; /* of its entry: it has one itself */
	uint32_t seq;
	struct chunk chunk;
	struct message msg;
	uint8_t payload[URCCL_NOTE_MAX]; /* behind msg */
};

/* A notification that waits for a watcher or an event slot: the receiver's record. */
struct parked_note {
	struct list link;
	uint32_t seq;
	uint32_t len;
	int64_t res;
	uint64_t tag;
	uint8_t payload[URCCL_NOTE_MAX];
};

#define OWED_MAX 65536u /* of an engine */

/* A notification that will not come, while there is no slot to say so. */
struct owed {
	uint64_t tag;
	int32_t res;
	uint32_t next; /* number of the next record of its list; 0: none */
};

struct owed_pool {
	struct owed *records;
	uint32_t used; /* ever */
	uint32_t free; /* head of the list of those that are free again; 0: none */
};

/* Of one peer, oldest first. */
struct owed_list {
	uint32_t first, last, n;
	uint32_t given_up; /* its LOST is on the way, and stands for all */
	uint32_t turn;	   /* the next slot of the window is for one of these */
};

/* ---- atomics (atomic.c: who asks; serve.c: whose memory it is) ---- */

/* Several travel in one message: this, then n requests (ATOMIC) or answers (ANSWER). */
struct atomic_head {
	uint8_t type; /* enum message_type */
	uint8_t n;    /* not 0 */
	uint8_t reserved[6];
};

enum atomic_kind {
	ATOMIC_ADD = 1,
	ATOMIC_SWAP,
	ATOMIC_DROP, /* the one of this number is not to be done any more, if it was not yet */
};

struct atomic_request {
	uint32_t seq;	  /* its number */
	uint32_t grant;	  /* what KEY_REP named the exposure; DROP: 0, as all that follows */
	uint64_t off;	  /* of the word in the exposure */
	uint64_t operand; /* ADD: addend; SWAP: expected */
	uint64_t swap;	  /* SWAP: new value */
	uint8_t kind;	  /* enum atomic_kind */
	uint8_t reserved[7];
};

struct atomic_answer {
	uint32_t seq;
	int32_t res;  /* 0: it was done; else -errno: it was not and never will be */
	uint64_t old; /* done: the word before */
};

_Static_assert(sizeof(struct atomic_head) == 8, "as on the wire");
_Static_assert(sizeof(struct atomic_request) == 40, "as on the wire");
_Static_assert(sizeof(struct atomic_answer) == 16, "as on the wire");

#define REQUESTS_EACH ((MESSAGE_MAX - sizeof(struct atomic_head)) / sizeof(struct atomic_request))
#define ANSWERS_EACH  ((MESSAGE_MAX - sizeof(struct atomic_head)) / sizeof(struct atomic_answer))
/* Messages of a kind on their way to a peer: enough for a window of full ones. */
#define REQUEST_BATCHES (ATOMIC_WINDOW / REQUESTS_EACH + 1)
#define ANSWER_BATCHES	(ATOMIC_WINDOW / ANSWERS_EACH + 1)
#define BATCHES		(REQUEST_BATCHES + ANSWER_BATCHES)
#define BATCH_SEG	NOTE_WINDOW /* chunk.seg of a batch: its index above those of notes */

/* A message under way. Until a device has taken it more may be added, so that what is asked in one
 * turn, or while the path is full, shares one. */
struct atomic_batch {
	struct chunk chunk;
	uint32_t busy; /* the chunk is not out */
	_Alignas(8) uint8_t bytes[MESSAGE_MAX];
};

/* A request of ours. Numbers of the window have a record each: seq % ATOMIC_WINDOW. */
struct atomic_slot {
	struct op *op; /* NULL: nobody waits for the answer any more */
	uint32_t seq;
	uint8_t busy;  /* not answered */
	uint8_t due;   /* to be put into a message once there is one */
	uint8_t again; /* a message with it came out badly: the peer may have it all the same */
	uint8_t drop;  /* what is sent now is that it is not to be done */
};

/* A request of the peer that was judged: what it is answered, however often it comes. The next one
 * of the record comes only when the peer has this answer, or never sent the request. */
struct atomic_record {
	struct atomic_answer answer;
	uint8_t used;
	uint8_t due; /* the answer is to be put into a message once there is one */
};

struct atomics {
	struct list waiters; /* entries that wait for a slot */
	uint32_t next;	     /* number */
	uint32_t slots_due, records_due;
	uint32_t open[2]; /* the newest batch of requests, and of answers */
	struct atomic_slot slots[ATOMIC_WINDOW];
	struct atomic_record records[ATOMIC_WINDOW];
	struct atomic_batch batches[BATCHES]; /* those of requests first */
};

#endif
