/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The relay moves bytes from and to memory of a peer's GPU that no device of this side reaches. The
 * owner's engine copies between the GPU and slots of staging memory. The receiver of the bytes
 * always pulls them with a READ, so nobody writes into memory of another side's library.
 *
 * Chunks of entries here:
 *
 *  *	WRITE	[waits] -> its bytes are copied into a slot here -> PULL ... FINAL -> done
 *  *	READ	[waits] -> FETCH ... READY: its bytes are in a slot there -> READ -> done, END
 *
 * Requests of the peer:
 *
 *  *	PULL	[waits for a slot and the key] -> READ -> checked again -> copied in -> FINAL
 *  *	FETCH	[waits for a slot] -> copied out -> READY ... END -> FINAL
 *
 * Requests are numbered. At most RELAY_WINDOW of a peer are open, and the last answer to each is
 * kept, so a request that comes twice is done once, and an entry with NO_REPLAY needs no rule of
 * its own. END under the number of a request takes the request back, or gives its slot back. A
 * number is free again when FINAL has come.
 *
 * Slots. The first half of the staging memory is in runs of RELAY_RUN slots. A peer holds at most
 * one run: the slots for its FETCHes and for our WRITEs to it. The peer alone may read the run,
 * with a key that it asks for by an advert that names the run's number (region/staging.c). If
 * another peer waits, a run is taken back when its peer does not use it, or has used RUN_USES
 * slots. PULLs are read into slots of their own (relays.reads), of which each peer has its share.
 * Such a slot waits for no other slot, and a slot of a run waits only for such slots. Contexts that
 * relay to each other therefore cannot block each other. Part of private.h.
 */
#ifndef RELAY_H
#define RELAY_H

#define RELAY_WINDOW 32u
#define RELAY_RUN    4u
#define RELAY_SMALL  (16u << 10) /* READs up to it do not wait behind bulk */
#define RUN_USES     256u /* slots of a run while others wait for one */
#define RELAY_TRIES  10u  /* of a READ whose rail breaks, and of a request for a key */

/* chunk.seg of the relay's own chunks. No segment of an entry has such a number. */
enum relay_seg {
	RELAY_SEG = UINT32_MAX - 2, /* a request */
	RELAY_SEG_ANSWER,
	RELAY_SEG_READ, /* of a READ; the others are of SENDs */
};

enum relay_kind {
	RELAY_PULL = 1, /* from a slot of the sender into the grant */
	RELAY_FETCH,	/* from the grant into a slot of the receiver */
	RELAY_END,
};

struct relay_request {
	uint8_t type; /* MESSAGE_RELAY */
	uint8_t kind; /* enum relay_kind; of END, all but seq is 0 */
	uint8_t slot; /* PULL: of the run */
	uint8_t checksum; /* PULL: compare it */
	uint32_t seq;
	uint32_t run;	/* PULL: its number, below 1 << 30 */
	uint32_t grant; /* of the exposure, from KEY_REP */
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
	int32_t res;  /* FINAL: 0, or -errno: it is not done and never will be */
};

_Static_assert(sizeof(struct relay_request) == 32, "as on the wire");
_Static_assert(sizeof(struct relay_answer) == 16, "as on the wire");

/* The message of a slot or record. At most one is under way. */
struct relay_message {
	struct chunk chunk;
	uint8_t sending; /* the chunk is not out */
	uint8_t again;	 /* it changed meanwhile: send it again once the chunk is out */
	_Alignas(8) uint8_t bytes[sizeof(struct relay_request)];
};

enum relay_slot_state {
	RELAY_FREE,
	RELAY_FILLING, /* PULL: its bytes are being copied into the slot */
	RELAY_ASKED,
	RELAY_FILLED,  /* FETCH: READY came */
	RELAY_READING, /* FETCH: its chunk is a READ of the peer's slot */
	RELAY_ENDING,  /* END was sent */
};

_Static_assert(RELAY_RUN * SLOT_BYTES == 4u << 20, "RUN_BYTES of region/private.h");

/* A request of ours. Its place is seq % RELAY_WINDOW. */
struct relay_slot {
	struct relay_request request;
	struct relay_message message;
	struct chunk *chunk; /* of the entry; NULL: no entry waits for it any more */
	const struct rkey *key; /* READING: key of the entry's remote; chunk.key is the run's
				 * then */
	struct copy copy;	/* PULL */
	uint32_t run;		/* FETCH: the run and the slot that READY named */
	uint8_t slot;
	uint8_t state;		/* enum relay_slot_state */
};

enum relay_record_state {
	RECORD_WAITS,
	RECORD_READS,
	RECORD_COPIES,
	RECORD_READY,
	RECORD_FINAL,
};

/* A request of the peer. Its place is seq % RELAY_WINDOW. */
struct relay_record {
	struct relay_request request;
	struct relay_answer answer; /* READY, FINAL */
	struct relay_message message;
	struct exposure *exposure; /* COPIES */
	struct copy copy;
	struct chunk read;
	uint8_t *bytes; /* PULL: its slot; NULL: none */
	int8_t slot;	/* FETCH: its slot of the run; -1: none */
	uint8_t used;
	uint8_t state; /* enum relay_record_state */
	uint8_t ended; /* END came */
	uint8_t tries;
};

/* RELAY_RUN slots for one peer. */
struct run {
	struct list link;	  /* of relays.free_runs */
	struct engine_peer *peer; /* NULL: it is free */
	uint32_t number;
	uint32_t uses;	 /* slots taken since the peer has the run */
	uint8_t used;	 /* slots in use, a bit each */
	uint8_t leaving; /* 1: it is being taken back, since leaving_ns */
	uint64_t leaving_ns;
};

/* The relay's state of one peer. */
struct relay {
	struct list link; /* of relays.active, while something must be looked at each iteration */
	struct engine_peer *peer;
	struct run *run;
	struct chunk_queue waiting; /* of entries, without a slot; oldest first */
	struct list ops; /* entries that have a chunk in `waiting` and bytes that are not cut yet */
	uint32_t next;	 /* number of the next request */
	uint32_t nreads; /* slots that its PULLs are read into */
	uint32_t turn;	 /* its lowest bit says which side goes first for slots of the run */
	/* The peer's run, imported. */
	struct engine_remote *source;
	uint32_t source_run; /* its number; 0: none */
	uint32_t source_last; /* the last one that the peer named */
	uint32_t source_tries; /* requests for its key, one after the other without success */
	struct control_req ask, end; /* RUN or RUN_FORGET; RUN_END */
	uint32_t ask_out, end_out;
	struct relay_slot slots[RELAY_WINDOW];
	struct relay_record records[RELAY_WINDOW];
};

/* The relay's state of an engine. */
struct relays {
	struct list active;
	uint8_t *base; /* of the first run */
	struct run *runs;
	uint32_t nruns;
	struct list free_runs;
	uint32_t number;	  /* of the last run */
	uint32_t wanting, wanted; /* peers that found no free run: in this look, and in the last */
	uint8_t **reads;	  /* free slots that PULLs are read into: a stack */
	uint32_t nreads;
	uint32_t readers; /* peers that have some of them */
	struct control_req stage;
	uint32_t stage_out;
};

/* relay.c */
int relay_make(struct engine_peer *p); /* 0 or -ENOMEM */
void relay_message(struct engine *e, struct engine_peer *p, const void *data, uint32_t len);
void relay_chunk_out(struct engine *e, struct engine_peer *p, struct chunk *c); /* a SEND */
void relay_chunk_dropped(struct engine *e, struct chunk *c); /* no device took it */
void relay_requeue(struct engine_peer *p); /* a rail broke */
void relay_answer(struct engine_peer *p, struct relay_record *r);
uint32_t relays_look(struct engine *e); /* how much was done */
int relay_idle(const struct engine_peer *p);
int relay_copies(const struct engine_peer *p); /* 1: a GPU copies for it */
/* For a lost peer: ends requests that wait. 1: no GPU copies for it. */
int relay_is_quiet(struct engine *e, struct engine_peer *p);
void relay_reset(struct engine *e, struct engine_peer *p); /* it is lost, its rails are closed */
static inline int relay_slot_sends(const struct relay_slot *s)
{
	return s->state == RELAY_ASKED || s->state == RELAY_ENDING;
}
void relay_slot_send(struct engine_peer *p, struct relay_slot *s);

/* relay_ask.c */
/* Takes a chunk that was just cut, and whose key says that its memory is relayed. */
void relay_chunk(struct engine *e, struct chunk *c);
/* The entry was stopped: ends its chunks here, but for those that await the peer or a GPU. */
void relay_drop(struct op *op);
/* The chunk is freed: if it read a slot of the peer, that slot is given back. */
void relay_free(struct engine_peer *p, const struct chunk *c);
/* The key of the entry's remote for the chunk. While the chunk reads a slot of the peer, chunk.key
 * is the key of the peer's run instead. */
const struct rkey *relay_entry_key(const struct engine_peer *p, const struct chunk *c);
void relay_answered(struct engine *e, struct engine_peer *p, const struct relay_answer *m);
/* How much was done. */
uint32_t relay_slot_look(struct engine *e, struct engine_peer *p, struct relay_slot *s);
uint32_t relay_waiting_start(struct engine *e, struct engine_peer *p);

void relay_stage_back(struct engine *e, struct control_req *req);

/* relay_serve.c */
void relay_serve(struct engine *e, struct engine_peer *p, const struct relay_request *m);
uint32_t relay_record_look(struct engine *e, struct engine_peer *p, struct relay_record *rec);
/* Its peer is lost. 1: no GPU copies for it. */
int relay_record_stop(struct engine *e, struct engine_peer *p, struct relay_record *rec);
int relay_copies_stop(struct engine *e, struct exposure *x); /* likewise, as the exposure ends */
void relay_read_out(struct engine *e, struct chunk *c);
void relay_read_dropped(struct engine *e, struct chunk *c);
void relay_unbound(struct engine *e, struct chunk *c); /* the rail has no key for it */

/* relay_run.c */
void relays_init(struct relays *all);
/* Takes the slots that peers read, and those that PULLs are read into. 0 or -ENOMEM. */
int relays_open(struct engine *e, uint8_t *half, uint32_t nslots, uint8_t *reads, uint32_t nreads);
void relays_close(struct relays *all);
/* Takes a slot of the peer's run: its number, or -1: none is free now. */
int run_slot_take(struct engine *e, struct engine_peer *p, uint8_t **bytes);
void run_slot_free(struct relay *r, uint32_t slot);
void run_give_back(struct engine *e, struct relay *r);
void runs_take_back(struct engine *e);
/* The key of the best rail for the peer's run of this number. NULL: not yet, or never: *res says
 * why. */
const struct rkey *relay_key(struct engine_peer *p, uint32_t run, int *res);
int relay_lacks_key(const struct relay *r);
int relay_source_busy(const struct engine_remote *remote);
void relay_ask_back(struct engine *e, struct control_req *req);
void relay_end_back(struct engine *e, struct control_req *req);

#endif
