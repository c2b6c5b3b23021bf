/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The relay: memory of a peer's GPU that no device of this side reaches. The peer's engine copies
 * between it and pinned memory of its own. The receiver of the bytes always pulls them, by a READ,
 * so that nobody writes into memory of another side's library.
 *
 *	WRITE	[waits] -> filled: the bytes are in a slot here -> PULL ... FINAL -> out
 *	READ	[waits] -> FETCH ... READY: they are in a slot there -> read as any READ -> END
 *
 *	PULL	[waits for a slot, the key] -> READ -> checked again, copied in -> FINAL
 *	FETCH	[waits for a slot] -> copied out -> READY ... END -> FINAL
 *
 * Requests are numbered, RELAY_WINDOW of a peer at most, and answers kept, as those of atomics are:
 * one that comes twice is done once. END under the number of a request says that nobody wants it
 * any more; a number is free when FINAL came. So an entry with NO_REPLAY is not done twice either.
 *
 * Memory. The peers' half of the staging memory is in runs of RELAY_RUN slots. A peer with which
 * bytes are relayed has one run, for its FETCHes and for our WRITEs to it, and it alone may read
 * it: it fetches the key by an advert that the run's number is in (control/staging.c). A run goes
 * to another peer that waits once its own is lost, cold or idle, or has used RUN_USES slots. PULLs
 * are read into slots for that alone, of which each peer has its share. Such a slot waits for no
 * other, and slots of runs for none but those: so contexts that relay to each other go on.
 * Part of private.h.
 */
#ifndef RELAY_H
#define RELAY_H

#define RELAY_WINDOW 32u
#define RELAY_RUN    4u
#define RELAY_SMALL  (16u << 10) /* READs up to it do not wait behind bulk */
#define RUN_USES     256u /* slots of a run while others wait for one */
#define RELAY_TRIES  10u  /* of a READ whose rail breaks, and of asking for a key */

/* chunk.seg of the relay's own: no segment of an entry has such a number. */
enum relay_seg {
	RELAY_SEG = UINT32_MAX - 2, /* a request */
	RELAY_SEG_ANSWER,
	RELAY_SEG_READ, /* and this alone is not of a SEND */
};

enum relay_kind {
	RELAY_PULL = 1, /* from a slot of the sender's into the grant */
	RELAY_FETCH,	/* from the grant into a slot of the receiver's */
	RELAY_END,
};

struct relay_request {
	uint8_t type; /* MESSAGE_RELAY */
	uint8_t kind; /* enum relay_kind; END: all but seq is 0 */
	uint8_t slot; /* PULL: of the run */
	uint8_t checksum; /* PULL: compare it */
	uint32_t seq;
	uint32_t run;	/* PULL: its number, below 1 << 30 */
	uint32_t grant; /* what KEY_REP named the exposure */
	uint64_t off;	/* in it */
	uint32_t len;	/* 1 to SLOT_BYTES */
	uint32_t reserved;
};

enum relay_word { RELAY_READY = 1, RELAY_FINAL };

struct relay_answer {
	uint8_t type; /* MESSAGE_RELAYED */
	uint8_t word; /* enum relay_word */
	uint8_t slot; /* READY: of the run */
	uint8_t reserved;
	uint32_t seq;
	uint32_t run; /* READY */
	int32_t res;  /* FINAL: 0, or -errno: not done, and it never will be */
};

_Static_assert(sizeof(struct relay_request) == 32, "as on the wire");
_Static_assert(sizeof(struct relay_answer) == 16, "as on the wire");

/* The one message of a slot or record that is under way. */
struct relay_message {
	struct chunk chunk;
	uint8_t sending; /* the chunk is not out */
	uint8_t again;	 /* it changed, or was not taken: send it once the chunk is out */
	_Alignas(8) uint8_t bytes[sizeof(struct relay_request)];
};

enum relay_slot_state {
	RELAY_FREE,
	RELAY_FILLING, /* PULL: copied out */
	RELAY_ASKED,
	RELAY_FILLED,  /* FETCH: READY came */
	RELAY_READING, /* it is read */
	RELAY_ENDING,  /* END was sent */
};

_Static_assert(RELAY_RUN * SLOT_BYTES == 4u << 20, "as the control thread knows it: RUN_BYTES");

/* A request of ours. Numbers of the window have one each: seq % RELAY_WINDOW. */
struct relay_slot {
	struct relay_request request;
	struct relay_message message;
	struct chunk *chunk; /* of the entry; NULL: nobody waits */
	const struct rkey *key; /* READING: the chunk's, as the entry named it */
	struct copy copy;	/* PULL */
	uint32_t run;		/* FETCH: where READY says that the bytes are */
	uint8_t slot;		/* likewise */
	uint8_t state;		/* enum relay_slot_state */
};

enum relay_record_state {
	RECORD_WAITS,
	RECORD_READS,
	RECORD_COPIES,
	RECORD_READY,
	RECORD_FINAL,
};

/* A request of the peer. */
struct relay_record {
	struct relay_request request;
	struct relay_answer answer; /* READY, FINAL */
	struct relay_message message;
	struct exposure *exposure; /* COPIES */
	struct copy copy;
	struct chunk read;
	uint8_t *bytes; /* PULL: its slot; NULL: none */
	int8_t slot;	/* FETCH: of the run; -1: none */
	uint8_t used;
	uint8_t state; /* enum relay_record_state */
	uint8_t ended; /* END came */
	uint8_t tries;
};

/* Four slots of the peers' half. */
struct run {
	struct list link;	  /* of those that are free */
	struct engine_peer *peer; /* NULL: it is free */
	uint32_t number;
	uint32_t uses;
	uint8_t used;	 /* slots, a bit each */
	uint8_t leaving; /* it is being taken back */
};

/* Of a peer. */
struct relay {
	struct list link; /* of relays.active, while there is something to look at */
	struct engine_peer *peer;
	struct run *run;
	struct chunk *waiting, **waiting_tail; /* of entries: they have no slot */
	struct list ops; /* entries with a chunk among them that are not cut to their end */
	uint32_t next;	 /* number */
	uint32_t nreads; /* slots that it has to be read into */
	uint32_t turn;
	/* The peer's run, as a remote of ours. */
	struct engine_remote *source;
	uint32_t source_run; /* its number; 0: none */
	uint32_t source_tries;
	struct control_req ask, end; /* RUN or RUN_FORGET; RUN_END */
	uint32_t ask_out, end_out;
	struct relay_slot slots[RELAY_WINDOW];
	struct relay_record records[RELAY_WINDOW];
};

/* Of an engine. */
struct relays {
	struct list active;
	uint8_t *base; /* of the runs */
	struct run *runs;
	uint32_t nruns;
	struct list free_runs;
	uint32_t number;	  /* of the last run */
	uint32_t wanting, wanted; /* peers that found no run: in this look, and in the last */
	uint8_t **reads;	  /* slots that PULLs are read into: a stack */
	uint32_t nreads;
	uint32_t readers; /* peers that have some */
	struct control_req stage;
	uint32_t stage_out;
};

#endif
