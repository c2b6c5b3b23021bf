/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The engine's own structures. All of it belongs to the engine's thread; what is called "told" is
 * in the context's segment, where other threads and processes read it, and is only ever stored.
 *
 * Life of an operation (struct op):
 *
 *	taken -> [WAITING] -> MOVING -> [FLUSHING] -> [NOTING] -> [SIGNALLING] -> ended
 *	             |           |                       |              |
 *	             +-----------+------ op_stop() ------+--------------+
 *
 * op_stop() decides the outcome; chunks, notes and requests that are out come back, then it ends.
 * An atomic is in ATOMIC until the peer has answered, in place of MOVING and FLUSHING. Entries that
 * move no data stay in ASKING (the control thread works) or PARKED (ACCEPT, WATCH, TIMEOUT, CANCEL,
 * MSG_RING).
 */
#ifndef ENGINE_PRIVATE_H
#define ENGINE_PRIVATE_H

#include <pthread.h>
#include "engine/engine.h"
#include "engine/probe.h"
#include "engine/message.h"
#include "segment/segment.h"
#include "engine/timer.h"
#include "engine/stage.h"
#include "engine/bundle.h"
#include "engine/relay.h"

#define CHUNKS_SHARED 4096u /* of an engine, taken by devices at a time, */
#define CHUNKS_ALONE  1024u /* and more of them for peers that have none */
#define CHUNKS_MAX    (CHUNKS_SHARED + CHUNKS_ALONE)
#define RAILS_MAX    16u   /* of a peer: one a device of this context at most */
#define NOTE_WINDOW  32u   /* notifications of one peer sent and not acknowledged */
#define NOTE_STATES  64u   /* sequence numbers a receiver remembers: two windows */
#define EVENTS_BATCH 128u
#define POST_BATCH   64u
#define HELD_BATCH   8u /* of those that a device had no room for */
#define LOOK_BYTES   (1u << 20) /* to devices, and the clock is looked at: a post may copy */
#define GRACE_NS \
	(20 * NSEC_PER_MSEC) /* after the deadline, for the peer's word that nothing more lands */
#define HURRY_NS (100 * NSEC_PER_MSEC) /* likewise where a call waits for the end, not a deadline */

struct engine;
struct op;

enum timer_kind { TIMER_OP, TIMER_PEER };

/* ---- data of an entry, piece by piece ---- */

struct piece {
	uint8_t *local;
	const struct memory *memory;
	const struct engine_remote *remote;
	uint32_t part; /* of the remote */
	uint32_t seg;  /* segment or block it begins in */
	uint64_t off;  /* in the part */
	uint64_t len;
};

__extension__ typedef __int128 int128; /* sums of strides never overflow it */

/* A contiguous element of the entry (its one range, a segment, a block) and how far it was cut into
 * pieces. */
struct element {
	const struct memory *memory;
	const struct engine_remote *remote;
	uint64_t local; /* address; of a block: offset in the region */
	uint64_t off;	/* in the remote */
	uint64_t len, pos;
};

struct cursor {
	struct piece cur; /* cut and not given out; len 0: none */
	struct element element;
	uint64_t elements; /* reached so far, this one included */
	uint32_t desc;	   /* paged: descriptor */
	uint32_t fresh;	   /* paged: its first block is next */
	uint64_t index[URCCL_DIMS_MAX];
	int128 local_sum[URCCL_DIMS_MAX],
		remote_sum[URCCL_DIMS_MAX]; /* up to and with a dimension */
};

enum op_state {
	OP_FREE = 0,
	OP_WAITING,
	OP_MOVING,
	OP_FLUSHING,
	OP_NOTING,
	OP_ATOMIC,
	OP_ASKING,
	OP_PARKED,
	OP_SIGNALLING, /* a GPU sets its word: sync.c */
	OP_STATES
};

enum op_bits {
	OP_DECIDED = 1 << 0,	 /* res is the outcome: nothing new is started for it */
	OP_TOLD = 1 << 1,	 /* a CQE with MORE gave the outcome */
	OP_DONE_CURSOR = 1 << 2, /* every piece was made into a chunk */
	OP_UNPROVED = 1 << 3, /* a WRITE of it was acknowledged, and may not be placed yet */
	OP_UNKNOWN = 1 << 4, /* it failed, and its notification may have arrived */
	OP_UNQUIET = 1 << 5, /* a chunk came out without proof that nothing of it lands any more */
	OP_UNFLUSHED = 1 << 6, /* bytes went to memory of a device, which may not have them yet */
	OP_SMALL = 1 << 7,     /* in the lane of small entries */
	OP_ASKED = 1 << 8,     /* chunks on the way were asked to come back */
	OP_FORCED = 1 << 9,    /* ... without waiting for the peer */
	OP_EXCUSED = 1 << 10,  /* its time was longer once, since nobody looked at it */
	OP_LATE = 1 << 11,     /* its deadline has passed */
	OP_PROMISED = 1 << 12, /* it has a notification: the peer is to hear of a failure too */
	OP_FORGIVEN =
		1 << 13, /* a FENCE that failed for an earlier entry: not a failure of its own */
	OP_OUTCOME = 1 << 14, /* followers were told */
	OP_FLUSHED = 1 << 15, /* a flush was tried */
	OP_LOOKUP = 1 << 16,  /* its memory is looked up when it starts, not when it is taken */
	OP_SHOWN = 1 << 17,   /* it has a record in the segment: tell.h */
	OP_IS_DATA = 1 << 18, /* from its check on: it moves bytes */
	OP_IS_ATOMIC = 1 << 19, /* likewise: FETCH_ADD, CMP_SWAP */
	OP_CHAINED = 1 << 20, /* it has LINK, or the entry before it has; or OP_SIGNALS: somebody
				 may wait for its end */
	OP_IS_RANGE = 1 << 21,	/* likewise: data of one range: READ, WRITE */
	OP_IS_VECTOR = 1 << 22, /* likewise: data of segments: READV, WRITEV */
	OP_AGAIN = 1 << 23,	/* all of it is to go again: replay.c */
	OP_PROVED = 1 << 24, /* it asked for proof of what its FENCE follows */
	OP_AWAITS = 1 << 25,  /* it has a word to wait for: sync.c */
	OP_SIGNALS = 1 << 26, /* likewise, to set when it succeeds */
	OP_MULTISHOT = 1 << 27,
	OP_SIGNALS_GPU = 1 << 28, /* in place of OP_SIGNALS: its word is in memory of a GPU */
	OP_ORDERED = 1 << 29, /* the program said when memory of GPUs is ready for it */
};

/* So many scopes of a ring may have entries that ended acknowledged only and are not proved. */
#define ACKED_KEPT(entries) ((entries) / 2)

/* What one FENCE looks at: entries of one ring and peer, of one group or (all) of every group. */
struct scope {
	struct scope *hash_next;
	struct list idle; /* those that count and remember nothing, and some that do again */
	struct engine_peer *peer;
	uint32_t group;
	uint32_t all;
	uint32_t unfinished;
	uint32_t failed;     /* failures that no FENCE was told of, */
	uint32_t lost;	     /* and some of them are lost bytes */
	struct list waiting; /* FENCE entries (op.fence_link) */
	/* Entries of it ended acknowledged only (flush.c): in the list of its peer while they are
	 * not proved. unproved: itself and, of all, each group that is in the list. */
	struct engine_ring *er;
	struct list acked_link;
	uint64_t acked_seq;   /* of the last of them */
	uint32_t acked_rails; /* by which they went: a bit each */
	uint32_t unproved;
	uint32_t lost_at; /* peer.acked_losses when some of them were lost; 0: never */
};

struct op {
	struct urccl_sqe sqe;
	struct engine_ring *er;
	struct segment_entry *told;
	struct timer timer;
	struct list link; /* lane, remote's or peer's or rail's waiters, ready list, flush list */
	struct list drain_link, fence_link;
	uint32_t acked_losses; /* FENCE: those of its peer when it was taken */
	struct op *fresh_next; /* taken in this turn; the slot may meanwhile hold a later entry */
	struct op *young_next; /* taken since the last look; likewise */
	uint64_t seq;	       /* in its ring */
	uint32_t first_bad;    /* segment: the first not known to be placed */
	uint8_t state;	       /* enum op_state */
	uint8_t lane;
	uint8_t note_slot;   /* in the peer's window, while NOTING; NOTE_WINDOW: none yet */
	uint8_t atomic_slot; /* in the peer's window, while ATOMIC; ATOMIC_WINDOW: none yet */
	uint8_t is_fresh;    /* in the list of those */
	uint8_t is_young;    /* in the list of those */

	/* From here to blockers all is 0 when it is taken. */
	struct engine_peer *peer;
	struct engine_remote *remote; /* of the entry, not of its segments */
	struct memory *memory;	      /* likewise */
	struct scope *scope_all, *scope_group;
	struct op *linked, *linked_to; /* of its chain: who waits for it, whom it waits for */
	const struct rkey *flush_key;
	union {
		uint64_t note; /* payload of the notification */
		uint64_t until; /* TIMEOUT: completions at which it ends */
	};
	uint64_t total;	 /* bytes the entry describes */
	uint64_t placed; /* bytes that came out well, some of them UNPROVED */
	uint64_t handle; /* for the CQE: of what was made, or an atomic's old value */
	uint64_t started_ns;
	uint64_t deadline_ns;
	uint32_t path;
	uint32_t detail;     /* of its failure record */
	uint32_t left;	     /* FENCE, CANCEL: entries still waited for */
	uint32_t drain_left; /* DRAIN: likewise */
	uint32_t note_len;
	uint32_t hits;	   /* CANCEL: ended by it */
	uint8_t flush_rails; /* on which it has WRITEs that were acknowledged only: a bit each */
	uint8_t fence; /* AGAIN: rails that are to be fenced before, likewise */
	uint8_t tries; /* begun AGAIN: what chunk.tries begins with, as much as any had before */
	uint8_t worst; /* the greatest chunk.tries */
	uint32_t blockers; /* LINK, DRAIN, FENCE, keys: what it waits for */

	uint32_t bits;	   /* enum op_bits */
	uint32_t inflight; /* chunks taken and not out, and held ones, and jobs of sync.c that it
			      waits for; 0 when it ends */
	int64_t res;
	struct cursor cursor;
};

/* Words in memory of a GPU that are awaited, or events: one job asks for some of them at a time. */
struct sync_look {
	struct gpu_dev *dev;
	struct gpu_job job;
	struct list waiting; /* struct sync */
	struct list asked;   /* those that the job is for; when it has ended they are looked at */
};

/* Start-when and signal-when of an entry with OP_AWAITS, OP_SIGNALS, OP_SIGNALS_GPU. */
struct sync {
	struct list link; /* in the engine's words or a look's lists, while its word is not there;
			     SIGNALLING: in the engine's signals */
	struct op *op;
	struct sync_look *look; /* that it is in; NULL: none */
	uint32_t place;		/* in the look's table, */
	uint32_t asked;		/* 1: where it was entered */
	struct gpu_dev *gpu;	/* OP_SIGNALS_GPU: that has the word */
	struct gpu_job job;	/* SIGNALLING; res -EAGAIN: not submitted yet */
	uint32_t wait_kind;	/* enum urccl_sync */
	const uint64_t *wait;	/* or the event */
	uint64_t wait_value;
	uint64_t *signal;
	uint64_t signal_value;
	struct memory *wait_memory, *signal_memory; /* regions that they lie in, while looked at */
};

/* What an entry asked the control thread for. */
struct ask {
	struct control_req req, drop;
	struct op *op;
	uint32_t out; /* requests that are not back */
	uint32_t dropped;
};

/* Entries of one flow that succeeded in the same turn: they are told together. */
struct burst {
	struct segment_flow *flow;
	uint32_t what; /* the first bytes of their SQEs: opcode, dtype, flags */
	uint32_t ended;
	uint64_t bytes;
	uint64_t started_ns; /* of the last of them that outlived the turn that took it, */
	uint32_t later;	     /* and how many were taken with it */
};

struct engine_ring {
	struct ring *ring;
	struct engine *engine;
	struct list link;
	uint32_t index; /* among the engine's rings; RINGS_MAX: not added */
	uint32_t entries;
	struct op *ops;
	struct ask *asks; /* one beside each op */
	struct sync *syncs; /* likewise */
	struct op **free; /* a stack */
	uint32_t nfree;
	uint64_t seq;
	uint32_t multishots;   /* of those that are taken: DRAIN does not wait for them */
	uint32_t watched;      /* drains, timeouts and cancels may not all be empty */
	uint64_t completions;  /* CQEs that TIMEOUT counts */
	struct op *chain_prev; /* the entry before has LINK and is unfinished */
	uint32_t chain_failed, chain_open, closing;
	struct list drains, timeouts, cancels;
	struct list messages;	   /* MSG_RING entries that wait for an event slot of this ring */
	struct list messages_link; /* in the engine's, while there are some */
	struct list device_link;   /* likewise, of a device ring */
	struct scope *scopes;
	struct scope **scope_hash;
	uint32_t nscopes, scope_mask, failures_kept, acked_kept;
	struct list scopes_idle;
	struct scope *last_scope;
	struct segment_ring *told, untold;
	struct segment_entry *untold_entries; /* where the segment has no room for them */
};

/* ---- peers ---- */

enum lane_number { LANE_CONTROL, LANE_LATENCY, LANE_SMALL, LANE_BULK, LANES };

/* What of one peer wants to be posted, by urgency; each lane has its share of every turn. */
struct lane {
	struct list link;		 /* in the engine's lane, while there is something */
	struct list ops;		 /* entries with pieces left, in turn */
	struct chunk *held, **held_tail; /* chunks made and not taken */
	uint32_t number;
	struct engine_peer *peer;
};

/* COLD: paused, with its rail or, in time, without; entries wait as in CONNECTING. */
/* The ring that gets the events of a peer, or of all. */
struct watch {
	struct engine_ring *er; /* NULL: nowhere */
	uint64_t user_data;
	struct op *op; /* the WATCH; NULL: a CONNECT or an ACCEPT asked, and has no entry for it */
};

enum peer_state { PEER_CONNECTING, PEER_COLD, PEER_UP, PEER_LOSING, PEER_LOST };

struct engine_peer {
	uint32_t handle;
	uint32_t state; /* enum peer_state */
	uint64_t incarnation;
	struct engine *engine; /* NULL: not added yet */
	struct list link;
	struct rail *rail; /* the best: bulk goes by others too. NULL: none is up */
	struct rail *rails[RAILS_MAX]; /* every one that was tried and is not closed */
	struct rail *up[RAIL_NUMBERS]; /* those that carry */
	uint32_t nup;
	uint32_t replays; /* one that breaks does not end the peer */
	uint32_t fencing; /* those that broke and whose other end may not be closed: bits */
	uint32_t rails_up, rails_said, rails_news; /* bits: those that are up, as it was last told,
						    * and those to look at */
	int32_t rail_res[RAIL_NUMBERS];		   /* why they are not up */
	struct chunk *undone, **undone_tail;	   /* of entries: to go again once they may */
	struct list again;			   /* entries likewise */
	struct lane lanes[LANES];
	struct list waiting;  /* entries taken before it was up */
	uint32_t unfinished;  /* entries that have this peer, but multishot ones */
	uint32_t chunks;      /* of them */
	uint32_t bundles;     /* and those of these that have one */
	uint32_t kept;	      /* of the entries, those whose outcome was told before their end */
	uint32_t unflushed;   /* it was given memory of a device to write to */
	uint32_t silent;      /* an entry was given up without its word, and none came since */
	uint64_t used;	      /* turn that took the last of them; the control thread reads it */
	uint64_t heard;	      /* likewise, in which its last notification or atomic came */
	uint64_t heard_ns;    /* when its last message came, or it came up */
	struct timer awaited; /* while some are: when to have the peer pinged */
	struct control_req ping;
	uint32_t pinging;
	struct control_req want;
	uint32_t wanted, want_out;  /* COLD: the control thread was told so; that is not back */
	uint32_t unwanted;	    /* it was given up meanwhile: reason, and its arg */
	uint64_t unwanted_arg;
	struct list remotes;	    /* of it */
	uint64_t fence_lost[RINGS_MAX /
			    64]; /* rings whose next FENCE fails: failures were forgotten */
	/* Entries that ended acknowledged only are numbered; scopes with some that are not proved,
	 * in the order of their last; and how often a rail broke that had some. */
	uint64_t acked_seq;
	struct list acked_scopes;
	uint32_t acked_losses;

	struct watch watch;
	struct list pending_link; /* in the engine's list of peers with something to tell */
	int64_t lost_res;
	uint32_t lost_reason;
	uint64_t lost_arg;
	int32_t lost_cause;   /* what its entries end with */
	uint64_t lost_ns;     /* since when */
	uint32_t handle_told; /* the program has its handle, by a PEER event or its CONNECT */
	uint32_t lost_untold; /* LOST is to be posted */
	uint32_t lost_due;    /* and its time has come */
	uint32_t closing;     /* LOSING: its rails close */
	uint32_t restarted;   /* another incarnation is where it was */
	uint32_t cut;	      /* 1: it has no rail, and no port to it has a link */

	struct list note_waiters; /* entries that wait for a slot of the window */
	struct owed_list owed;	  /* of notifications: likewise */
	struct note_slot *notes;  /* NOTE_WINDOW */
	uint32_t note_next;
	uint32_t notes_busy;

	uint32_t seen;			      /* highest number received */
	uint64_t delivered, dropped, arrived; /* of the last NOTE_STATES numbers: a bit each */
	struct parked_note *parked;	      /* NOTE_WINDOW records */
	struct list parked_free, parked_list;
	uint32_t ack_due, ack_sending;
	struct chunk ack_chunk;
	struct message ack;

	struct atomics *atomics; /* its own */
	struct relay *relay;	 /* likewise; NULL: no memory was given by it, or taken */
	uint64_t run_public;	 /* engine_peer_run(); any thread reads it */

	struct list moved_link; /* in the engine's, until what came out is told */
	struct segment_peer *told, untold;
};

struct remote_part {
	uint64_t start, len;
	uint32_t rails; /* that have a key for it, a bit each */
	uint32_t grant; /* what atomics name it by, by whatever rail; 0: not known */
};

/* What a rail knows a part by. */
struct rail_key {
	struct rkey key;
	struct engine_remote *remote;
	struct rail *rail; /* whose it is: rails of other transports have the same numbers */
	uint32_t resolved; /* the key is the device's: to be forgotten */
};

struct engine_remote {
	uint32_t handle;
	struct engine_peer *peer;
	struct list of_peer;
	uint64_t len;
	uint32_t gpu;	 /* a GPU of this side moves its bytes, by some rail */
	uint32_t host;	 /* and none those of a part of it */
	uint32_t relayed; /* the peer's engine helps, by some rail */
	uint32_t has_address; /* the program has its address: ENGINE_REMOTE_MAP */
	uint32_t importing; /* ENGINE_REMOTE_KEYS commands that wait for the device */
	uint32_t asked;	 /* keys were asked for */
	uint32_t keys;	 /* parts that have one; any thread reads it, and mapped before it */
	uint32_t nkeys[RAIL_NUMBERS]; /* parts that have one of this rail */
	struct rail_key *rail_keys[RAIL_NUMBERS]; /* of each part; NULL: none ever */
	uint32_t mapped; /* of them, those whose owner is not asked */
	int32_t failed;	 /* why there never will be, else 0 */
	uint32_t why;	 /* errno of the last that was not to be had, as its owner said it */
	uint32_t deleting, revoked;
	struct list waiters; /* entries that wait for the keys */
	struct control_req req;
	uint32_t req_out;
	void *owner;
	uint32_t nparts;
	struct remote_part parts[];
};

/* ---- the engine ---- */

struct engine {
	struct engine_config config;
	struct mailbox mailbox;
	pthread_t thread;
	uint32_t started;
	int epfd;
	int timerfd; /* INLINE: wakes the program's epoll at the next deadline */
	struct clock_member member; /* of a simulated clock */
	uint32_t holds;		    /* that clock, for keys, or the word that a peer is lost */
	uint32_t entered;	    /* entries taken, when that clock was last looked at */
	uint64_t now;
	uint64_t turns;
	uint64_t sleeps; /* begun */
	uint32_t seldom; /* a busy one looks at everything where these bits of turns are 0 */
	uint64_t given;	 /* bytes to devices, since the last look at the clock */
	uint32_t rails; /* of all devices: while there is none, most turns look at no device */
	uint32_t stopping;
	struct engine_cmd *stop;
	struct engine_cmd leave; /* engine_leave() */
	uint64_t idle_since;
	uint64_t starved_ns; /* an event waits, and no program took CQEs since; 0: not known */
	uint64_t heads;	     /* of all rings, then */
	uint64_t timer_set; /* INLINE: what timerfd is set to */
	uint32_t coarse;    /* epoll_pwait2() is not to be had */
	uint32_t worked;    /* INLINE: the last turn did something: the next may too */
	uint64_t default_timeout_ns, dead_after_ns, spin_ns;

	struct list rings, peers, commands, exposures;
	struct heap expiring; /* of exposures, those that the engine ends, by their time */
	struct list expired;  /* those whose peers have them mapped even then */
	uint64_t expired_ns;  /* when they are asked again; NEVER_NS: there are none */
	struct engine_ring *ring_index[RINGS_MAX];
	struct list lanes[LANES]; /* peers' lanes with something to post */
	struct list ready; /* entries whose last blocker went, or that failed before they started */
	struct list flushes;	     /* rails that want a flush */
	uint32_t flush_full;	     /* a device had no room for one */
	struct list pending;	     /* peers with notes or LOST to post */
	struct list pending_accepts; /* PEER_EVENT commands */
	struct list messages;	     /* rings with MSG_RING entries that wait for a slot */
	struct list moved;	     /* peers whose bytes are to be told */
	struct list words;	     /* awaited: struct sync */
	struct list signals;	     /* SIGNALLING: likewise */
	struct list device_rings;
	uint32_t device_busy;	     /* the program of one asks for no sleep: as last seen */
	uint64_t pushed_ns;	     /* when the last entry was taken from one */
	uint64_t looking;	     /* looks with something in a list: a bit each */
	struct op *fresh;	     /* taken in this turn, no timer yet */
	struct op *young, **young_tail; /* taken since the last look, oldest first */
	struct op *accept;
	struct watch watch_all;
	uint32_t wants_slots; /* an event waits for the program to take CQEs */
	uint32_t armed;	      /* sleep was announced */
	uint32_t sweep;	      /* chunks of stopped entries are to be cancelled */
	uint32_t rare;	      /* flushes, pending, pending_accepts, messages, words or commands may
				 not be empty: rare_add(); or stage or relays have something to
				 do */
	uint32_t lanes_set;   /* of lanes a bit each: it may not be empty */
	uint32_t warming;     /* ENGINE_REMOTE_WARM commands: no sleep until they are done */

	struct wheel wheel;
	struct chunk *chunks;
	struct chunk *chunk_free;
	uint32_t chunks_used, chunks_max; /* max_inflight_ops, and one for each peer without any */
	uint32_t chunk_peers; /* that have some of them */
	struct memory_map *map;
	struct stage stage;
	struct relays relays;
	struct sync_look looks[2 * GPUS_MAX]; /* by the GPU's number: at words, at events */
	struct bundles bundles;
	uint32_t gpus; /* 1: memory of a GPU was registered, given or imported, and each chunk is
			* asked */

	struct engine_region_slot {
		uint32_t handle;
		struct memory *memory;
	} * regions;			/* by handle's slot, grown by the commands that add to it */
	struct engine_remote **remotes; /* by slot */
	struct engine_peer **peer_slots;
	uint32_t nregions, nremotes, npeer_slots;
	struct handles grants; /* exposures, as peers' atomics name them */
	struct owed_pool owed;

	struct segment_file *segment;
	struct segment_engine *told;
	uint64_t look_ns;	  /* when to tell of the rings again */
	uint32_t told_ahead;	  /* some were told since, before a device had their chunks */
	struct burst burst;
	struct failures failures; /* read by any thread */
	struct event events[EVENTS_BATCH];
};

/* To one of those lists that most turns find empty. */
static inline void rare_add(struct engine *e, struct list *l, struct list *to)
{
	list_add_tail(l, to);
	e->rare = 1;
}

static inline struct engine *op_engine(const struct op *op)
{
	return op->er->engine;
}

static inline int op_is_data(const struct op *op)
{
	return (op->bits & OP_IS_DATA) != 0;
}

static inline int op_is_atomic(const struct op *op)
{
	return (op->bits & OP_IS_ATOMIC) != 0;
}

/* Of a data entry: the numbers of those that read are odd. */
static inline int op_reads(const struct op *op)
{
	return op->sqe.opcode & 1;
}

static inline struct sync *sync_of(const struct op *op)
{
	return &op->er->syncs[op - op->er->ops];
}

/* check.c */
struct verdict { /* what is wrong with an entry */
	int res;
	uint32_t reason;
	uint64_t a, b;
};
/* Also sets the entry's peer and remote, where they are there, and of its bits what it is and
 * whether it has promised a notification. sqe: where it is in its ring. 0, or -errno: v says why.
 */
int check_entry(struct engine *e, struct op *op, const struct urccl_sqe *sqe, struct verdict *v);

/* take.c */
uint32_t take_ring(struct engine *e, struct engine_ring *er);

/* device.c */
/* Of reserved, where no kernel can have a bit: an entry that kernels must not push. */
#define PUSHED_WRONG (1u << 31)
/* Passes entries from lanes to the SQs of their rings. How many. */
uint32_t device_rings_pass(struct engine *e);
int device_rings_busy(const struct engine *e);	     /* once sleep was announced */
uint64_t device_rings_ns(const struct engine *e);    /* how long to sleep at most */
/* An entry has failed, or its outcome comes before its end: its lane is told, if it is from one. 0:
 * its ring has no room for a CQE. */
int device_failed(const struct op *op);
void device_ended(const struct op *op); /* of a device ring */

/* op.c */
void op_begin(struct op *op);			      /* nothing blocks it (any more) */
void op_unblock(struct op *op);			      /* one blocker less */
/* What it waited for failed. */
void op_block_failed(struct op *op, uint32_t reason, uint64_t arg);
uint32_t op_run_listed(struct engine *e);
static inline uint32_t op_run_ready(struct engine *e)
{
	return list_empty(&e->ready) ? 0 : op_run_listed(e);
}
/* Notes why it failed; a later note takes the place of an earlier one. */
void op_record(struct op *op, uint32_t reason, uint64_t a, uint64_t b, uint64_t c);
__attribute__((cold)) void op_fail(struct op *op, int res, uint32_t reason, uint64_t a, uint64_t b,
				   uint64_t c);
/* Its handle names nothing: returns the error that it fails with. */
__attribute__((cold)) int op_fail_handle(struct op *op, uint32_t handle, enum handle_kind wanted,
					 uint32_t stale);
__attribute__((cold)) void op_fail_device(struct op *op, int res,
					   uint64_t code); /* says what was placed */
void op_stop(struct op *op, int res, uint32_t reason,
	     uint64_t arg);   /* from outside; nothing if decided */
void op_hurry(struct op *op); /* stopped, and a call waits: its deadline is soon */
void op_force(struct op *op); /* what is still out comes back without the peer's word */
void op_check(struct op *op); /* something came back: the next step, or the end */
void op_end(struct op *op, int64_t res);
void op_end_moved(struct op *op); /* data or a notification, and well */
void op_moved(struct op *op); /* likewise, but for a word in memory of a GPU that it sets first */
void op_expired(struct op *op);
void op_set_state(struct op *op, enum op_state state);
int op_arm_fresh(struct engine *e); /* 0: they have all ended, and the clock is as it was */
/* late.c: why it is late, with two figures that go behind its deadline. Those of DEADLINE, _RAIL
 * and _ROOM are how much was placed. */
struct late {
	uint32_t reason;
	uint64_t a, b;
};
struct late late_of(const struct op *op);
void op_tell(struct op *op); /* the outcome before the end: a CQE with MORE */

/* order.c */
int order_enter(struct op *op); /* LINK, DRAIN, FENCE: sets blockers; not 0: it has failed */
void order_leave(struct op *op); /* of its chain; DRAIN hears of it */
void order_leave_peer(struct op *op); /* FENCE does */
/* Its outcome is known, and it is chained or failed: followers of LINK and FENCE hear of it. */
void order_outcome(struct op *op, int failed);
int order_ring_init(struct engine_ring *er);
void order_ring_fini(struct engine_ring *er);
void order_ring_quiet(struct engine_ring *er); /* its entries have ended */
struct scope *order_scope_all(struct scope *s); /* that of all groups, of one that is in use */
void order_settle(struct scope *s); /* it may be of no more use */
void order_lost(struct scope *s); /* bytes of it that were acknowledged only: as a failure */
void order_forget_peer(struct engine_ring *er, struct engine_peer *p);

/* sync.c */
void sync_enter(struct op *op); /* OP_AWAITS, OP_SIGNALS: looks its words up; op_fail() if wrong */
/* Its word is not waited for any more. Counts a job that it is part of as in flight. */
void sync_leave(struct op *op);
/* Of the words that are awaited, this many at most: entries whose word is there go on. How many. */
uint32_t sync_look(struct engine *e, uint32_t most);
/* The same for memory of GPUs and events: submits and ends jobs. How many entries went on. */
uint32_t sync_look_gpus(struct engine *e);
void sync_signal(const struct op *op);			 /* it has succeeded */
void sync_signal_gpu(struct op *op);	/* likewise, of OP_SIGNALS_GPU: it ends then */
void sync_signal_stop(struct op *op);	/* it is not to, unless that is under way */
int sync_in(const struct op *op, const struct memory *m); /* a word that it needs is in there */

/* cursor.c */
/* What a look for local memory did not find, or not of that size, once news of it is heard. NULL
 * with op_fail() done. */
struct memory *cursor_missing(struct op *op, uint32_t region, uint64_t addr, uint64_t len);
int cursor_open(struct op *op);	  /* checks the entry's arrays; -errno with op_fail() done */
int cursor_lookup(struct op *op); /* of OP_LOOKUP; likewise */
/* 1, 0 at the end, or -errno likewise; -EAGAIN: the rail of this number has no key for it. */
int cursor_next(struct op *op, uint64_t max, uint32_t rail, struct piece *out);
/* The next piece, before neighbours are joined to it: 1 and *cur; or as cursor_next(). */
int cursor_peek(struct op *op, const struct piece **cur);
/* The first piece and those behind it that have its memory and its part of the remote, as many as
 * the bundle holds. How many; *len: their bytes. */
uint32_t cursor_fill_bundle(struct op *op, const struct piece *first, struct chunk_piece *pieces,
			    uint32_t max, uint64_t *len);
uint64_t cursor_left(const struct op *op); /* about so many bytes */
void cursor_again(struct op *op);	   /* from its beginning */
int cursor_in_remote(struct op *op, const struct engine_remote *r, uint64_t off, uint64_t len);
uint32_t cursor_part(const struct engine_remote *r, uint64_t off); /* that holds off */

/* schedule.c */
void lane_add_op(struct op *op);
void lane_remove_op(struct op *op);
void held_add(struct lane *l, struct chunk *c); /* last of those that no device has */
struct chunk *held_take(struct lane *l);	/* all of them */
void lane_add_chunk(struct engine_peer *p, uint32_t lane, struct chunk *c);
void lane_drop_held(struct op *op); /* chunks of a stopped entry that no device has */
int chunk_may(const struct engine *e, const struct engine_peer *p); /* it may have one more */
void chunk_free(struct engine *e, struct chunk *c);
uint64_t chunk_bytes(const struct rail *rail); /* the largest piece of an entry */
uint64_t chunk_limit(const struct rail *rail); /* and of bulk while its window is small */
/* The entry's next chunk, for a rail; NULL: it has none now, or no chunk is free. */
struct chunk *op_chunk(struct engine *e, struct op *op, struct rail *rail, uint64_t most);
int op_exhausted(const struct op *op); /* it is known to have no more */
uint32_t rail_post(struct engine *e, struct rail *rail, struct chunk **batch, uint32_t n);
/* The same; what was not taken is held. */
uint32_t batch_post(struct engine *e, struct lane *l, struct rail *rail, struct chunk **batch,
		    uint32_t n);
uint32_t schedule(struct engine *e);
uint32_t poll_devices(struct engine *e, uint32_t all); /* also those that are not in use */
void sweep_chunks(struct engine *e);
void chunk_done(struct engine *e, struct chunk *c); /* its bytes are where they belong, or res */
void chunk_out(struct engine *e, struct chunk *c);

/* flush.c: acknowledged writes are proved placed, by the rail that carried them */
void flush_all(struct engine *e);
int flush_begin(struct op *op); /* 0: there is no rail to do it by */
int flush_may_wait(const struct op *op); /* it may end acknowledged only: that is remembered */
void flush_owed(struct op *op); /* it ends well, and is acknowledged only */
void acked_forget(struct scope *s);
int flush_fenced(struct op *op); /* 0: its notification may go */
void flush_lost(struct rail *rail); /* it broke */
void flush_out(struct engine *e, struct chunk *c);

/* stripe.c: bulk by several rails */
uint32_t lane_stripe(struct engine *e, struct lane *l);
void rail_busy(struct engine *e, struct rail *rail); /* it begins to carry something */
void rail_carried(const struct engine *e, struct rail *rail, uint32_t len);

/* replay.c: rails come and go */
static inline struct rail_key *key_of(const struct rkey *key)
{
	return container_of(key, struct rail_key, key);
}
void rail_joined(struct engine *e, struct rail *rail);
void rail_broke(struct engine *e, struct rail *rail, int res);
void rail_missed(struct engine *e, struct rail *rail, int res); /* it never came up */
void rail_fenced(struct engine *e, struct engine_peer *p, uint32_t number);
int rail_leaves(struct rail *rail); /* it is none of those that are up: 1, it was */
/* Those that are up are of this transport alone: others have numbers of their own. */
void rails_of(struct engine_peer *p, const struct backend *ops);
void peer_choose(struct engine_peer *p); /* its best rail */
/* Of its rails, of which one is up, for bulk that was on its way so often when one broke. */
#define TRIES_STEADY 3u
struct rail *peer_steady(const struct engine_peer *p);
/* For chunks that nobody has: where they go now. 0: they wait for that elsewhere. */
int chunk_aim(struct chunk *c, struct rail *rail);
int chunk_undone(struct engine *e, struct rail *rail, struct chunk *c); /* 1: it goes again */
/* It was acknowledged, and the rail is broken by now. */
void chunk_unproved(struct rail *rail, struct op *op);
int op_again(struct op *op); /* all of it goes again, in time; 0: it cannot */
void replay_run(struct engine_peer *p);
void replay_drop(struct op *op); /* those of its chunks that wait to go again */
uint32_t key_grant(const struct rkey *key); /* what the owner calls what it is for */

/* note.c */
void note_start(struct op *op); /* the entry's notification is due: sent, or waits for a slot */
void note_owe(struct op *op);	/* it failed: the peer hears of it, and the entry ends */
void note_stop(struct op *op);
void note_force(struct op *op);
/* Its deadline passed in NOTING. 0: why the peer does not have it is not known. */
int note_expired(struct op *op);
void note_chunk_out(struct engine *e, struct chunk *c);
void note_message(struct engine *e, struct engine_peer *p, const void *data, uint32_t len);
void notes_init(struct engine_peer *p);
void notes_drop(struct engine_peer *p);
void lost_cqe(const struct engine_peer *p, struct urccl_cqe *cqe, const struct op *w);
void notes_resume(struct engine_peer *p);
void notes_again(struct engine_peer *p); /* a rail broke, with what it had taken */
int notes_pending(struct engine *e); /* posts what event slots allow; 1: some wait for slots */
void pending_add(struct engine_peer *p);
/* What came out badly goes again: there is a rail, or there will be one. */
static inline int peer_sends(const struct engine_peer *p)
{
	return p->state == PEER_UP && (p->replays || (p->rail && p->rail->up));
}
static inline struct ep *peer_ep(const struct engine_peer *p)
{
	return p->rail ? p->rail->ep : NULL;
}

/* owe.c */
void owe(struct engine_peer *p, uint64_t tag, int64_t res);
int owed_take(struct engine_peer *p, struct owed *out); /* the oldest; 0: there is none */
void owed_drop(struct engine_peer *p);

/* atomic.c */
void atomic_open(struct op *op); /* checks its range; op_fail() if it is none */
void atomic_start(struct op *op);
void atomic_stop(struct op *op);
void atomic_force(struct op *op);
void atomic_chunk_out(struct engine_peer *p, struct chunk *c);
void atomic_chunk_dropped(struct chunk *c); /* no device had it */
void atomic_message(struct engine *e, struct engine_peer *p, const void *data, uint32_t len);
void atomics_init(struct atomics *a);
int atomics_idle(const struct atomics *a);
void atomics_resume(struct engine_peer *p);
void atomics_again(struct engine_peer *p); /* likewise */
/* Room for one more item of a message of this type to the peer; NULL: all are under way. */
void *atomic_room(struct engine_peer *p, enum message_type type);

/* serve.c: atomics of peers on memory of ours */
void serve_request(struct engine *e, struct engine_peer *p, const struct atomic_request *m);
void serve_again(struct engine_peer *p, const struct atomic_answer *m); /* it came out badly */
void serve_all_again(struct engine_peer *p);				/* a rail broke */
void serve_due(struct engine_peer *p);					/* a message has come out */

/* relay.c */
int relay_make(struct engine_peer *p); /* 0 or -ENOMEM */
void relay_message(struct engine *e, struct engine_peer *p, const void *data, uint32_t len);
void relay_chunk_out(struct engine *e, struct engine_peer *p, struct chunk *c); /* a SEND */
void relay_chunk_dropped(struct engine *e, struct chunk *c); /* no device had it */
void relay_again(struct engine_peer *p);   /* a rail broke */
void relay_answer(struct engine_peer *p, struct relay_record *r);
uint32_t relays_look(struct engine *e); /* how much was done */
int relay_idle(const struct engine_peer *p);
int relay_copies(const struct engine_peer *p); /* 1: a GPU copies for it */
/* Of a peer that is lost: ends what waits. 1: no GPU copies for it. */
int relay_is_quiet(struct engine *e, struct engine_peer *p);
void relay_reset(struct engine *e, struct engine_peer *p);   /* its rails are closed */
static inline void relay_kick(struct engine *e, struct relay *r)
{
	if (list_empty(&r->link))
		list_add_tail(&r->link, &e->relays.active);
	e->rare = 1;
}

static inline int relay_slot_sends(const struct relay_slot *s)
{
	return s->state == RELAY_ASKED || s->state == RELAY_ENDING;
}
void relay_slot_send(struct engine_peer *p, struct relay_slot *s);

/* relay_ask.c */
/* It was just cut, and its key is of memory that is relayed: the relay has it from now on. */
void relay_chunk(struct engine *e, struct chunk *c);
/* The entry was stopped: ends its chunks that are here, as far as nobody is waited for. */
void relay_drop(struct op *op);
/* It was freed: one that was read from a slot of the peer's gives that back. */
void relay_free(struct engine_peer *p, const struct chunk *c);
/* The key of its entry's remote, of any chunk. */
const struct rkey *relay_entry_key(const struct engine_peer *p, const struct chunk *c);
void relay_refuse(struct engine *e, struct engine_peer *p, int res, uint64_t bytes);
void relay_answered(struct engine *e, struct engine_peer *p, const struct relay_answer *m);
/* How much was done. */
uint32_t relay_slot_look(struct engine *e, struct engine_peer *p, struct relay_slot *s);
uint32_t relay_waiting_start(struct engine *e, struct engine_peer *p);

/* relay_serve.c */
void relay_serve(struct engine *e, struct engine_peer *p, const struct relay_request *m);
uint32_t relay_record_look(struct engine *e, struct engine_peer *p, struct relay_record *rec);
/* Its peer is lost: 1: no GPU copies for it. */
int relay_record_stop(struct engine *e, struct engine_peer *p, struct relay_record *rec);
int relay_copies_stop(struct engine *e, struct exposure *x); /* likewise, as it ends */
void relay_read_out(struct engine *e, struct rail *rail, struct chunk *c);
void relay_read_dropped(struct engine *e, struct chunk *c);
void relay_unaimed(struct engine *e, struct chunk *c); /* the rail has no key for it */

/* relay_run.c */
void relays_init(struct relays *all);
/* Slots: for peers to read, and to read into. 0 or -ENOMEM. */
int relays_open(struct engine *e, uint8_t *half, uint32_t nslots, uint8_t *reads, uint32_t nreads);
void relays_close(struct relays *all);
/* A slot of the peer's run: its number, or -1: none now. */
int run_slot_take(struct engine *e, struct engine_peer *p, uint8_t **bytes);
void run_slot_free(struct relay *r, uint32_t slot);
void run_give_back(struct engine *e, struct relay *r);
void runs_take_back(struct engine *e);
/* Of the best rail, for the peer's run of this number. NULL: not yet, or *res says why never. */
const struct rkey *relay_key(struct engine_peer *p, uint32_t run, int *res);
int relay_lacks_key(const struct relay *r);
int relay_source_busy(const struct engine_remote *remote);
void relay_ask_back(struct engine *e, struct control_req *req);
void relay_end_back(struct engine *e, struct control_req *req);
void relay_stage_back(struct engine *e, struct control_req *req);

/* exposure.c */
/* Bytes of key, or -errno: it is as if it had never been. */
int exposure_begin(struct engine *e, struct exposure *x, const struct rail *rail, void *key);
int exposure_end(struct engine *e, struct exposure *x);	  /* 0; -EINPROGRESS: call again */
/* An ep is closed, and its peer is not lost: they live on, known to atomics alone. closed 0: it is
 * about to be, and what its device is not done with stays until it is. */
void exposures_rest(struct engine *e, struct ep *ep, int closed);
void exposures_end(struct engine *e, struct engine_peer *p); /* until then */
void exposure_drop(struct engine *e, struct exposure *x); /* its ep is closed */
/* Nothing that is under way outlasts the time of the exposure that it is by. */
void exposures_expire(struct engine *e);
uint64_t exposures_next(struct engine *e); /* when it is to be called; NEVER_NS */

/* msg_ring.c */
void msg_ring_start(struct op *op);
int msg_rings_pending(struct engine *e); /* posts what event slots allow; 1: some wait for slots */
void msg_ring_gone(struct engine_ring *er); /* the ring closes: those that wait for it fail */

/* cold.c */
int peer_idle(const struct engine_peer *p);	       /* 0 or -EBUSY */
int peer_pause(struct engine_peer *p);		       /* likewise */
void peer_go(struct engine *e, struct engine_peer *p); /* its entries move (again) */
void peer_want(struct engine_peer *p);		       /* it is paused, and something waits */
/* It has no rail, and is to be taken for lost. */
void peer_unwanted(struct engine_peer *p, uint32_t reason, uint64_t arg);
void peer_want_back(struct control_req *req);
void peer_forget_keys(struct engine_peer *p);	       /* its rail is about to close */

/* request.c: what the control thread carries out; ACCEPT, CANCEL, TIMEOUT */
void request_start(struct op *op);
void request_stop(struct op *op);
void request_back(struct engine *e, struct control_req *req);
int accepts_pending(struct engine *e); /* posts PEER events; 1: some wait for slots */
void cancel_target_ended(struct op *op);
void timeouts_count(struct engine_ring *er);

/* watch.c */
void watch_start(struct op *op);
void watch_stop(const struct op *op);
/* A CONNECT or an ACCEPT with URCCL_SQE_WATCH gives the program this peer. */
void watch_given(const struct op *op, struct engine_peer *p);
/* As op_end(), but the CQE is the peer's LOST event. */
void watch_end(struct op *op, struct engine_peer *p);
void watches_gone(struct engine_ring *er); /* the ring closes */

/* peer.c */
struct engine_peer *peer_get(struct engine *e, uint32_t handle);
/* Without a look for news of it. */
struct engine_peer *peer_lookup(const struct engine *e, uint32_t handle);
void peer_handle_told(struct engine *e, uint32_t handle);
struct engine_remote *remote_get(struct engine *e, uint32_t handle);
struct memory *region_get(struct engine *e, uint32_t handle);
/* Without a look for news of it. */
static inline struct memory *region_find(const struct engine *e, uint32_t handle)
{
	uint32_t slot = HANDLE_SLOT(handle);

	return slot < e->nregions && e->regions[slot].handle == handle ? e->regions[slot].memory
								       : NULL;
}
void remote_fail(struct op *op, const struct engine_remote *r, int err);
void remote_waiters(struct engine_remote *r, int err); /* go on, or fail */
void remote_need_keys(struct op *op, struct engine_remote *r);
void remote_ask(struct engine_remote *r);
void peer_stop(struct engine *e, struct engine_peer *p);
void peer_stop_watches(struct engine *e, struct engine_peer *p);
void peer_force(struct engine *e, struct engine_peer *p);
void peer_hurry(struct engine *e, struct engine_peer *p);
void peer_cut(struct engine *e, struct engine_peer *p, uint32_t is_cut);
void peer_awaited(struct engine *e, struct engine_peer *p);
void peer_awaited_expired(struct engine *e, struct engine_peer *p);
/* The control thread is to take it for lost: see REASON for arg. */
void peer_give_up(struct engine *e, struct engine_peer *p, uint32_t reason, uint64_t arg);
void peer_ping_back(struct engine *e, struct control_req *req);
void rail_event(struct engine *e, const struct event *ev);
/* The control thread answers. */
void rail_grown(struct control_req *req);

/* quiet.c: 1 once nothing touches it any more; called again until then */
void ring_stop(struct engine_ring *er);
int ring_is_quiet(struct engine *e, struct engine_ring *er);
int region_is_quiet(struct engine *e, struct memory *m);
int remote_is_quiet(struct engine *e, struct engine_remote *r);
void remote_cool(struct engine_remote *r); /* its keys went with the rails */
void remote_forget_keys(struct engine_remote *r, struct rail *rail); /* those of a rail */
void remote_revoke(struct engine_remote *r);
int remote_is_revoked(struct engine *e, struct engine_remote *r);

/* lost.c */
void peer_lost(struct engine *e, struct engine_cmd *cmd);
void peer_died(struct engine_peer *p); /* nothing of its rails waits for its word */
void peer_losing_expired(struct engine *e, struct engine_peer *p);
/* 0: it is lost, and LOST was told: nothing of it comes after that. */
int peer_is_heard(const struct engine_peer *p);
void peer_events_drop(struct engine *e, struct engine_peer *p, int res);
int peer_is_lost(struct engine *e, struct engine_peer *p);
void peer_del(struct engine *e, struct engine_peer *p);
void rail_close(struct engine *e, struct rail *rail);
int rail_is_closed(struct engine *e, struct rail *rail);

/* command.c */
void control_ask(struct engine *e, struct control_req *req); /* posts it */
uint32_t run_commands(struct engine *e);
void retry_commands(struct engine *e); /* those that wait for something */
__attribute__((cold)) void engine_lookup_missed(struct engine *e);

#include "engine/tell.h"
#endif
