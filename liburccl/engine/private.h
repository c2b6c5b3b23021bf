/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Structures of the engine, used only by its thread. Entries and members called "stats" are in the
 * context's segment, which other threads and processes read.
 *
 * Life of an operation (struct op):
 *
 *   taken -> [WAITING] -> MOVING -> [FLUSHING] -> [NOTING] -> [SIGNALLING] -> ended
 *                |           |                       |              |
 *                +-----------+------ op_fail() ------+--------------+
 *
 * op_fail() decides the outcome. Any file may call it, and none but op.c ends an entry: op_fail()
 * puts the entry into the ready list, from which the loop continues it. The entry ends when its
 * chunks, notifications and requests are back. An atomic is in ATOMIC until the peer has answered,
 * instead of MOVING and FLUSHING. Entries that move no data stay in ASKING (the control thread
 * works) or PARKED (ACCEPT, WATCH, TIMEOUT, CANCEL, MSG_RING).
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

#define CHUNKS_SHARED 4096u /* chunks of an engine that all peers share */
#define CHUNKS_ALONE  1024u /* further chunks, only for peers that have none */
#define CHUNKS_MAX    (CHUNKS_SHARED + CHUNKS_ALONE)
#define RAILS_MAX    16u   /* per peer: at most one for each device of the context */
#define NOTE_WINDOW  32u   /* notifications to one peer sent and not acknowledged */
#define NOTE_STATES  64u   /* numbers that a receiver remembers: two windows */
#define EVENTS_BATCH 128u
#define POST_BATCH   64u
#define HELD_BATCH   8u /* chunks posted again at a time, after a device was full */
#define LOOK_BYTES   (1u << 20) /* bytes posted after which the clock is read: a post may copy */
#define GRACE_NS \
	(20 * NSEC_PER_MSEC) /* time after the deadline for the peer to confirm that no more bytes
			      * land */
#define STOP_GRACE_NS (100 * NSEC_PER_MSEC) /* the same time if a call waits for the entry's end */

struct engine;
struct op;

enum timer_kind { TIMER_OP, TIMER_PEER };

/* ---- data of an entry, piece by piece ---- */

struct piece {
	uint8_t *local;
	const struct memory *memory;
	const struct engine_remote *remote;
	uint32_t part; /* index in the remote */
	uint32_t seg;  /* segment or block in which it begins */
	uint64_t off;  /* offset in the part */
	uint64_t len;
};

__extension__ typedef __int128 int128; /* wide enough for any sum of strides */

/* A contiguous element of the entry (its range, a segment, or a block), and how much of it was cut
 * into pieces. */
struct element {
	const struct memory *memory;
	const struct engine_remote *remote;
	uint64_t local; /* address; for a block: offset in the region */
	uint64_t off;	/* offset in the remote */
	uint64_t len, pos;
};

struct cursor {
	struct piece cur; /* cut and not used yet; len 0: none */
	struct element element;
	uint64_t elements; /* reached so far, including this one */
	uint32_t desc;	   /* paged: index of the descriptor */
	uint32_t fresh;	   /* paged: the first block of the descriptor is next */
	uint64_t index[URCCL_DIMS_MAX];
	int128 local_sum[URCCL_DIMS_MAX],
		remote_sum[URCCL_DIMS_MAX]; /* up to and including each dimension */
};

enum op_state { /* the names that tools know */
	OP_FREE = SEGMENT_FREE,
	OP_WAITING = SEGMENT_WAITING,
	OP_MOVING = SEGMENT_MOVING,
	OP_FLUSHING = SEGMENT_FLUSHING,
	OP_NOTING = SEGMENT_NOTING,
	OP_ATOMIC = SEGMENT_ATOMIC,
	OP_ASKING = SEGMENT_ASKING,
	OP_PARKED = SEGMENT_PARKED,
	OP_SIGNALLING = SEGMENT_SIGNALLING, /* a GPU sets its word: sync.c */
};

enum op_bits {
	OP_DECIDED = SEGMENT_STOPPING, /* res is the outcome: no new step begins */
	OP_REPORTED = 1 << 1,	 /* a CQE with MORE reported the outcome */
	OP_DONE_CURSOR = 1 << 2, /* all pieces were made into chunks */
	OP_UNPROVED = 1 << 3, /* a WRITE was only acknowledged, and may not be placed yet */
	OP_UNKNOWN = 1 << 4, /* it failed, and its notification may have arrived */
	OP_UNQUIET = 1 << 5, /* a chunk came out without proof that nothing more of it lands */
	OP_UNFLUSHED = 1 << 6, /* bytes went to device memory that may not have them yet */
	OP_SMALL = 1 << 7,     /* in the lane for small entries */
	OP_ASKED = 1 << 8,     /* its chunks were asked to return */
	OP_ABORTED = 1 << 9,   /* likewise, without waiting for the peer */
	OP_EXCUSED = 1 << 10,  /* its deadline was extended once, since this thread did not run */
	OP_LATE = 1 << 11,     /* its deadline has passed */
	OP_PROMISED = 1 << 12, /* it has a notification: the peer must also learn of a failure */
	OP_FORGIVEN =
		1 << 13, /* a FENCE that failed because of an earlier entry: not a failure of its
			  * own */
	OP_OUTCOME = 1 << 14, /* later entries were told of the outcome */
	OP_FLUSHED = 1 << 15, /* a flush was tried */
	OP_LOOKUP = 1 << 16,  /* its memory is looked up at its start, not when it is taken */
	OP_IS_DATA = 1 << 18, /* set by its check: it moves bytes */
	OP_IS_ATOMIC = 1 << 19, /* likewise: FETCH_ADD, CMP_SWAP */
	OP_CHAINED = 1 << 20, /* it or the entry before it has LINK, or OP_SIGNALS: another entry
			       * may wait for its end */
	OP_IS_RANGE = 1 << 21,	/* set by its check: data of one range: READ, WRITE */
	OP_IS_VECTOR = 1 << 22, /* set by its check: data of segments: READV, WRITEV */
	OP_REQUEUED = 1 << 23,	/* all of it must be sent again: replay.c */
	OP_PROVED = 1 << 24, /* it requested proof for the entries before its FENCE */
	OP_AWAITS = SEGMENT_AWAITS, /* it waits for a word: sync.c */
	OP_SIGNALS = 1 << 26, /* it sets a word when it succeeds: sync.c */
	OP_MULTISHOT = 1 << 27,
	OP_SIGNALS_GPU = 1 << 28, /* instead of OP_SIGNALS: its word is in GPU memory */
	OP_ORDERED = 1 << 29, /* its start-when orders it after the program's work on GPU memory */
	OP_LISTED = 1 << 30,  /* it is in the ready list: op_ready() */
};

/* Most scopes of a ring with entries that ended acknowledged and are not proved. */
#define ACKED_KEPT(entries) ((entries) / 2)

/* The entries that one FENCE waits for: of one ring and peer, and of one group or (all) every
 * group. */
struct scope {
	struct scope *hash_next;
	struct list idle; /* in the ring's list of idle scopes; scopes in use again may still be in
			   * it */
	struct engine_peer *peer;
	uint32_t group;
	uint32_t all;
	uint32_t unfinished;
	uint32_t counted;    /* of them: before its last waiter */
	uint32_t failed;     /* failures that no FENCE was told of, */
	uint32_t lost;	     /* and whether some of them are lost bytes */
	struct list waiting; /* FENCE entries (op.fence_link) */
	/* For entries that ended acknowledged (flush.c). While some are not proved, the scope is in
	 * its peer's list. unproved: 1 while it is there; the scope of all groups adds 1 for each
	 * group that is there. */
	struct engine_ring *er;
	struct list acked_link;
	uint64_t acked_seq;   /* number of the last of them */
	uint32_t acked_rails; /* rails that carried them, one bit each */
	uint32_t unproved;
	uint32_t lost_at; /* peer.acked_losses when some of them were lost; 0: never */
};

/* Records are in the context's segment, or in own_ops if the segment has no room. Tools read the
 * members up to state (struct segment_entry). */
struct op {
	struct urccl_sqe sqe;
	uint64_t started_ns;
	uint64_t total;	      /* bytes of the whole entry */
	uint64_t placed;      /* bytes that came out without error, perhaps UNPROVED */
	struct engine_peer *peer;
	uint32_t bits; /* enum op_bits */
	uint8_t state; /* enum op_state */
	uint8_t lane;
	uint8_t note_slot;   /* in the peer's window, in NOTING; or enum note_slot_end */
	uint8_t atomic_slot; /* in the peer's window, in ATOMIC; ATOMIC_WINDOW: none yet */
	uint8_t is_fresh;    /* in the list of fresh entries */
	struct engine_ring *er;
	struct timer timer;
	struct list link; /* in a lane, the ready list, a flush list, or the waiters of a remote,
			   * peer or rail */
	struct list drain_link, fence_link;
	uint32_t acked_losses; /* FENCE: its peer's count when it was taken */
	struct op *fresh_next; /* taken in this iteration; the slot may hold a later entry by now */
	uint64_t seq;	       /* number in its ring */
	uint32_t first_bad;    /* first segment that is not known to be placed */

	/* All members from here to blockers are 0 when it is taken. */
	struct engine_remote *remote; /* the entry's own, not that of segments */
	struct memory *memory;	      /* likewise */
	struct scope *scope_all, *scope_group;
	struct op *linked, *linked_to; /* its chain: the entry that waits for it, the entry that it
				        * waits for */
	const struct rkey *flush_key;
	union {
		uint64_t note; /* address of the notification's payload */
		uint64_t until; /* TIMEOUT: the count of completions at which it ends */
	};
	uint64_t handle; /* for the CQE: the new handle, or the old value of an atomic */
	uint64_t deadline_ns;
	uint32_t path;
	uint32_t detail;     /* number of its failure record */
	uint32_t left;	     /* CANCEL: entries that it still waits for; FENCE: those from the
			      * FENCE before it on */
	uint32_t drain_left; /* DRAIN: likewise */
	uint32_t note_len;
	uint32_t hits;	   /* CANCEL: entries that it ended */
	uint8_t flush_rails; /* rails with acknowledged WRITEs of it, one bit each */
	uint8_t fence; /* REQUEUED: rails that must be fenced before, one bit each */
	uint8_t tries; /* the value that chunk.tries starts with, once it was REQUEUED */
	uint8_t worst; /* the greatest chunk.tries */
	uint32_t blockers; /* number of LINK, DRAIN, FENCE and word conditions that it waits for */

	uint32_t inflight; /* chunks that devices or lanes have, and jobs of sync.c that it waits
			    * for; 0 at the end */
	int64_t res;
	struct cursor cursor;
};

/* Rounds of direct.c. */
struct direct {
	uint64_t begun, done; /* number of the last one; one at a time is under way */
	uint32_t gpus;	      /* bits: GPUs that a round is for, */
	uint32_t out;	      /* whose jobs of this round are not done, */
	uint32_t failed;      /* whose last ones failed */
	struct gpu_job jobs[GPUS_MAX];
};

/* Awaited words in the memory of one GPU, or events. One job queries some of them at a time. */
struct sync_look {
	struct gpu_dev *dev;
	struct gpu_job job;
	struct list waiting; /* struct sync */
	struct list asked;   /* queried by the job under way; checked when it is done */
};

/* Start-when and signal-when of an entry with OP_AWAITS, OP_SIGNALS or OP_SIGNALS_GPU. */
struct sync {
	struct list link; /* until its word is reached: in engine.words, or in a list of `look`;
			   * SIGNALLING: in engine.signals */
	struct op *op;
	struct sync_look *look; /* the look that it is in; NULL: none */
	uint32_t place;		/* index in the look's table, */
	uint32_t asked;		/* valid if 1 */
	struct gpu_dev *gpu;	/* OP_SIGNALS_GPU: the GPU of the word */
	struct gpu_job job;	/* SIGNALLING; res -EAGAIN: not submitted yet */
	uint32_t wait_kind;	/* enum urccl_sync */
	const uint64_t *wait;	/* or the address of the event */
	uint64_t wait_value;
	uint64_t *signal;
	uint64_t signal_value;
	struct memory *wait_memory, *signal_memory; /* regions of the two words, while they are
						     * used */
};

/* An entry's request to the control thread. */
struct ask {
	struct control_req req, drop;
	struct op *op;
	uint32_t out; /* requests that have not returned */
	uint32_t dropped;
};

/* Entries of one flow that succeeded in the same iteration: the statistics add them together. */
struct stats_batch {
	struct segment_flow *flow;
	uint32_t what; /* first bytes of their SQEs: opcode, dtype, flags */
	uint32_t ended;
	uint64_t bytes;
	uint64_t started_ns; /* start of the last entry that lived longer than the iteration that
			      * took it */
	uint32_t later;	     /* entries that started at that time and lived as long */
};

struct engine_ring {
	struct ring *ring;
	struct engine *engine;
	struct list link;
	uint32_t index; /* among the engine's rings; RINGS_MAX: not added */
	uint32_t entries;
	struct op *ops;
	struct ask *asks; /* one for each op */
	struct sync *syncs; /* likewise */
	struct op **free; /* a stack */
	uint32_t nfree;
	uint64_t seq;
	uint32_t multishots;   /* taken multishot entries: DRAIN does not wait for them */
	uint32_t watched;      /* drains, timeouts and cancels may not all be empty */
	uint64_t completions;  /* CQEs counted by TIMEOUT */
	struct op *chain_prev; /* the last entry, if it has LINK and is unfinished */
	uint32_t chain_failed, chain_open, closing;
	struct list drains, timeouts, cancels;
	struct list messages;	   /* MSG_RING entries that wait for an event slot of this ring */
	struct list messages_link; /* in the engine's list, while there are some */
	struct list device_link;   /* likewise, of a device ring */
	struct scope *scopes;
	struct scope **scope_hash;
	uint32_t nscopes, scope_mask, failures_kept, acked_kept;
	struct list scopes_idle;
	struct scope *last_scope;
	struct segment_ring *stats, own_stats;
	struct op *own_ops; /* used if the segment has no room */
};

/* ---- peers ---- */

enum lane_number { LANE_CONTROL, LANE_LATENCY, LANE_SMALL, LANE_BULK, LANES };

/* The work of one peer to be posted, by urgency. Each lane gets its share of every iteration. */
struct lane {
	struct list link;		 /* in the engine's list, while there is work */
	struct list ops;		 /* entries with pieces left, in order */
	struct chunk *held, **held_tail; /* chunks that no device has taken */
	uint32_t number;
	struct engine_peer *peer;
};

/* The ring that receives the events of a peer, or of all peers. */
struct watch {
	struct engine_ring *er; /* NULL: none */
	uint64_t user_data;
	struct op *op; /* the WATCH; NULL: a CONNECT or ACCEPT with URCCL_SQE_WATCH asked */
};

/* SUSPENDED: suspended, with its rail or, later, without. Entries wait as in CONNECTING. */
enum peer_state { PEER_CONNECTING, PEER_SUSPENDED, PEER_UP, PEER_LOSING, PEER_LOST };

struct engine_peer {
	uint32_t handle;
	uint32_t state; /* enum peer_state */
	uint64_t incarnation;
	struct engine *engine; /* NULL: not added yet */
	struct list link;
	struct rail *rail; /* the best rail; bulk uses others too. NULL: none is up */
	struct rail *rails[RAILS_MAX]; /* all that were tried and are not closed */
	struct rail *up[RAIL_NUMBERS]; /* rails that are up */
	uint32_t nup;
	uint32_t failover; /* a rail that breaks does not end the peer */
	uint32_t fencing; /* broken rails whose other end may not be closed: bits */
	uint32_t rails_up, rails_said, rails_news; /* rails that are up, that the program was last
						    * told of, and that may have changed since: one
						    * bit each */
	int32_t rail_res[RAIL_NUMBERS];		   /* -errno of rails that are not up */
	struct chunk *requeued_chunks, **requeued_tail; /* failed-over chunks of entries, to be
						    * posted again when possible */
	struct list requeued_ops;		   /* entries likewise */
	struct lane lanes[LANES];
	struct list waiting;  /* entries taken before it was up */
	uint32_t unfinished;  /* its entries, except multishot ones */
	uint32_t chunks;      /* its chunks */
	uint32_t bundles;     /* chunks of them with a bundle */
	uint32_t kept;	      /* entries of those whose outcome was reported before their end */
	uint32_t unflushed;   /* it may write to device memory of ours, but of those: */
	uint32_t flush_gpus;  /* bits: GPUs whose memory it may write to by a device of RDMA */
	uint32_t silent;      /* an entry ended without its answer, and no message came since */
	uint64_t used;	      /* iteration that took its last entry; read by the control thread */
	uint64_t heard;	      /* likewise, in which its last notification or atomic came */
	uint64_t heard_ns;    /* time of its last message, or when it came up */
	struct timer awaited; /* while entries wait for it: when to ping it */
	struct control_req ping;
	uint32_t pinging;
	uint32_t watch_said; /* the control thread knows that a ring watches it */
	struct control_req resume;
	uint32_t resume_asked, resume_out; /* suspended: a resume request was sent; it has not
					    * returned */
	uint32_t give_up_reason;    /* the peer was given up meanwhile: the reason, and its arg */
	uint64_t give_up_arg;
	struct list remotes;	    /* its imported memory */
	uint64_t fence_lost[RINGS_MAX /
			    64]; /* rings whose next FENCE fails, since failures were forgotten */
	/* Entries that ended acknowledged are numbered by acked_seq. acked_scopes: scopes with
	 * unproved ones, ordered by their last number. acked_losses: how often a rail with such
	 * entries broke. */
	uint64_t acked_seq;
	struct list acked_scopes;
	uint32_t acked_losses;

	struct watch watch;
	struct list pending_link; /* in the engine's list of peers with something to deliver */
	int64_t lost_res;
	uint32_t lost_reason;
	uint64_t lost_arg;
	int32_t lost_cause;   /* the result of its entries */
	uint64_t lost_ns;     /* clock at its loss */
	uint32_t handle_given; /* the program has its handle, from a PEER event or its CONNECT */
	uint32_t lost_unposted; /* LOST must be posted, */
	uint32_t lost_due;    /* and its time has come */
	uint32_t closing;     /* LOSING: its rails are closing */
	uint32_t restarted;   /* another incarnation is at its address */
	uint32_t cut;	      /* 1: it has no rail, and no port that reaches it has a link */

	struct list note_waiters; /* entries that wait for a slot of the window */
	struct failed_note_list failed_notes; /* failed notifications: likewise */
	struct note_slot *notes;  /* NOTE_WINDOW */
	uint32_t note_next;
	uint32_t notes_busy;

	uint32_t seen;			      /* highest number received */
	uint64_t delivered, dropped, arrived; /* state of the last NOTE_STATES numbers, one bit
					       * each */
	struct parked_note *parked;	      /* NOTE_WINDOW records */
	struct list parked_free, parked_list;
	uint32_t ack_due, ack_sending;
	struct chunk ack_chunk;
	struct message ack;

	struct atomics *atomics; /* allocated for this peer */
	struct relay *relay;	 /* likewise; NULL: neither side relayed memory of the other yet */
	uint64_t run_public;	 /* engine_peer_run(); any thread reads it */

	struct segment_peer *stats, own_stats;
};

struct remote_part {
	uint64_t start, len;
	uint32_t rails; /* rails that have a key for it, one bit each */
	uint32_t grant; /* its name in atomics, on any rail; 0: unknown */
};

/* One rail's key for a part. */
struct rail_key {
	struct rkey key;
	struct engine_remote *remote;
	struct rail *rail; /* the rail of the key: rails of other transports have the same
			    * numbers */
	uint32_t resolved; /* the device has the key, which must be forgotten later */
};

struct engine_remote {
	uint32_t handle;
	struct engine_peer *peer;
	struct list of_peer;
	uint64_t len;
	uint32_t gpu;	 /* 1: a GPU of this side moves its bytes on some rail */
	uint32_t host;	 /* 1: the bytes of some part are moved without a GPU */
	uint32_t relayed; /* 1: some part is relayed on some rail */
	uint32_t has_address; /* the program has its address: ENGINE_REMOTE_MAP */
	uint32_t importing; /* ENGINE_REMOTE_KEYS commands that wait for the device */
	uint32_t asked;	 /* keys were requested */
	uint32_t keys;	 /* parts with a key; read by any thread, which reads mapped after it */
	uint32_t nkeys[RAIL_NUMBERS]; /* parts with a key of this rail */
	struct rail_key *rail_keys[RAIL_NUMBERS]; /* one for each part; NULL: none yet */
	uint32_t mapped; /* parts that the importer accesses without asking the owner */
	int32_t failed;	 /* -errno: no key will ever come; else 0 */
	uint32_t why;	 /* the owner's errno for the last missing key */
	uint32_t deleting, revoked;
	struct list waiters; /* entries that wait for keys */
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
	struct clock_member member; /* member of a simulated clock */
	uint32_t holds;		    /* it holds that clock, for keys or for the verdict on a broken
				     * rail */
	uint32_t entered;	    /* entries taken, as of the last report to that clock */
	uint64_t now;
	uint64_t iterations;
	uint64_t sleeps; /* number of sleeps */
	uint32_t slow_mask; /* mask: a busy engine checks everything in iterations where these bits
			  * are 0 */
	uint32_t clock_skips; /* idle iterations to come that do not read the clock */
	uint32_t has_mapped;  /* 1: a remote was mapped here, so small entries may be copied */
	uint32_t immediate_left; /* bytes that entries may still move as they are taken, in this
			       * iteration */
	uint64_t given;	 /* bytes posted since the clock was read */
	uint32_t rails; /* rails of all devices: without any, most iterations poll no device */
	uint32_t stopping;
	struct engine_cmd *stop;
	struct engine_cmd leave; /* engine_leave() */
	uint64_t idle_since;
	uint64_t starved_ns; /* time since when an event waits and no program took CQEs; 0:
			      * unknown */
	uint64_t heads;	     /* sum of all rings' heads at that time */
	uint64_t timer_set; /* INLINE: the current setting of timerfd */
	uint32_t coarse;    /* epoll_pwait2() is not available */
	uint32_t worked;    /* INLINE: the last iteration did work, so the next may too */
	uint64_t default_timeout_ns, dead_after_ns, spin_ns;

	struct list rings, peers, commands, exposures;
	struct heap expiring; /* exports that the engine ends, by expiry */
	struct list expired;  /* exports that expired while peers have them mapped */
	uint64_t expired_ns;  /* time of the next try for those; NEVER_NS: there are none */
	struct engine_ring *ring_index[RINGS_MAX];
	struct list lanes[LANES]; /* lanes of peers with work */
	struct list ready; /* entries without blockers left, or that failed before they started */
	struct list flushes;	     /* rails that need a flush */
	uint32_t flush_full;	     /* a device had no room for one */
	struct list pending;	     /* peers with notifications or LOST to post */
	struct list pending_accepts; /* PEER_EVENT commands */
	struct list messages;	     /* rings with MSG_RING entries that wait for a slot */
	struct list words;	     /* awaited words: struct sync */
	struct list signals;	     /* SIGNALLING: likewise */
	struct direct direct;
	struct list device_rings;
	uint32_t device_busy; /* a device ring asks for no sleep, as last read */
	uint64_t pushed_ns;   /* time when the last entry was taken from a lane */
	uint64_t looking;	     /* looks with a list that is not empty, one bit each */
	struct op *fresh;	     /* taken in this iteration, without a timer yet */
	struct op *accept;
	struct watch watch_all;
	uint32_t wants_slots; /* an event waits for the program to take CQEs */
	uint32_t armed;	      /* sleep is announced */
	uint32_t sweep;	      /* chunks of stopped entries must be cancelled */
	uint32_t slow_work;   /* one of flushes, pending, pending_accepts, messages, words and
			       * commands may not be empty (slow_list_add()), or the stage or relays
			       * have work */
	uint32_t lanes_set;   /* one bit for each of lanes[] that may not be empty */
	uint32_t warming;     /* ENGINE_REMOTE_WARM commands: the engine does not sleep before they
			       * are done */

	struct wheel wheel;
	struct chunk *chunks;
	struct chunk *chunk_free;
	uint32_t chunks_used, chunks_max; /* chunks_max: max_inflight_ops; beyond it, only peers
					   * without a chunk get one */
	uint32_t chunk_peers; /* peers that have some */
	struct memory_map *map;
	struct stage stage;
	struct relays relays;
	struct sync_look looks[2 * GPUS_MAX]; /* two per GPU: words, events */
	struct bundles bundles;
	uint32_t gpus; /* 1: GPU memory was registered, given or imported, so each chunk is
			* checked for it */

	struct engine_region_slot {
		uint32_t handle;
		struct memory *memory;
	} * regions;			/* by slot of the handle; commands make it grow */
	struct engine_remote **remotes; /* by slot */
	struct engine_peer **peer_slots;
	uint32_t nregions, nremotes, npeer_slots;
	struct handles grants; /* exports, by their name in atomics */
	struct failed_note_pool failed_notes;

	struct segment_file *segment;
	struct segment_engine *stats;
	uint64_t update_ns;	  /* time of the next update of the statistics */
	uint64_t looked_ns;	  /* time of the last one, or of the end of a sleep after it */
	const struct op *served;  /* entry whose chunk was posted, or came back, last since then */
	uint64_t copied_data;	  /* served NULL: user_data of the entry copied as it was taken */
	uint32_t copied_opcode;	  /* likewise its opcode; 0: none was */
	struct stats_batch stats_batch;
	struct failures failures; /* any thread may read them */
	struct event events[EVENTS_BATCH];
};

/* Adds to a list that is empty in most iterations. */
static inline void slow_list_add(struct engine *e, struct list *l, struct list *to)
{
	list_add_tail(l, to);
	e->slow_work = 1;
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

/* ---- lookups. NULL: the handle is stale ---- */

static inline struct engine_peer *peer_get(const struct engine *e, uint32_t handle)
{
	uint32_t slot = HANDLE_SLOT(handle);
	struct engine_peer *p = slot < e->npeer_slots ? e->peer_slots[slot] : NULL;

	return p && p->handle == handle ? p : NULL;
}

static inline struct engine_remote *remote_get(const struct engine *e, uint32_t handle)
{
	uint32_t slot = HANDLE_SLOT(handle);
	struct engine_remote *r = slot < e->nremotes ? e->remotes[slot] : NULL;

	return r && r->handle == handle && !r->deleting ? r : NULL;
}

static inline struct memory *region_get(const struct engine *e, uint32_t handle)
{
	uint32_t slot = HANDLE_SLOT(handle);

	return slot < e->nregions && e->regions[slot].handle == handle ? e->regions[slot].memory
								       : NULL;
}

/* The memory of len bytes at addr: the region's, or, without one, found by address. NULL: none. */
static inline struct memory *memory_find(const struct engine *e, uint32_t region, uint64_t addr,
					 uint64_t len)
{
	struct memory *m;

	if (!region)
		return e->map ? memory_map_find(e->map, addr, len) : NULL;
	m = region_get(e, region);
	return m && memory_holds(m, addr, len) ? m : NULL;
}

/* For data entries: opcodes that read are odd. */
static inline int op_reads(const struct op *op)
{
	return op->sqe.opcode & 1;
}

static inline struct sync *sync_of(const struct op *op)
{
	return &op->er->syncs[op - op->er->ops];
}

/* The part of chunk_free() that every chunk needs. */
static inline void chunk_release(struct engine *e, struct chunk *c)
{
	struct op *op = c->op;

	e->chunk_peers -= !--op->peer->chunks;
	c->op = NULL;
	c->next = e->chunk_free;
	e->chunk_free = c;
	e->chunks_used--;
}

/* check.c */
struct verdict { /* the result of a check */
	int res;
	uint32_t reason;
	uint64_t a, b;
};
/* Checks op->sqe. Sets the entry's peer and remote if they exist, the bits of its opcode, and
 * OP_PROMISED. sqe: the entry in the ring. 0, or -errno with *v. */
int check_entry(struct engine *e, struct op *op, const struct urccl_sqe *sqe, struct verdict *v);

/* immediate.c */
#define IMMEDIATE_BYTES (256u << 10) /* that entries move as they are taken, in one iteration */
/* Of NOP, READ or WRITE. 1: the entry has ended, and its CQE is posted. 0: nothing was done. */
int immediate_run(struct engine *e, struct engine_ring *er, const struct urccl_sqe *sqe);
static inline int immediate_take(struct engine *e, struct engine_ring *er,
			      const struct urccl_sqe *sqe)
{
	uint32_t opcode = sqe->opcode;

	_Static_assert(URCCL_OP_NOP == 0 && URCCL_OP_READ < URCCL_OP_WRITE &&
			       URCCL_OP_WRITE == 2,
		       "they are the first");
	return opcode <= URCCL_OP_WRITE && (!opcode || e->has_mapped) && immediate_run(e, er, sqe);
}

/* sq_fetch.c */
/* Takes n entries. Returns how many it took: a program may have written a wrong tail. */
uint32_t sq_fetch(struct engine *e, struct engine_ring *er, uint32_t n);

/* device.c */
/* A bit of sqe.reserved that kernels cannot set. It marks an entry that kernels must not push. */
#define PUSHED_WRONG (1u << 31)
/* Passes entries from lanes to the SQs of their rings. Returns their number. */
uint32_t device_rings_pass(struct engine *e);
int device_rings_busy(const struct engine *e);	     /* called after sleep was announced; 1: do not
						      * sleep */
/* The longest time to sleep if nothing else is due before `until`: lanes must be polled. */
uint64_t device_rings_sleep_ns(const struct engine *e, uint64_t until);
int device_rings_are_empty(const struct engine *e); /* 0 if there is no device ring */
/* Called for the outcome of a failed entry. Counts it in the lane if a kernel pushed the entry. 0:
 * the device ring has no room for a CQE. */
int device_failed(const struct op *op);
void device_ended(const struct op *op); /* of a device ring */

/* outcome.c: decides outcomes; op.c ends the entries */
/* Moves the entry from its list, if it is in one, to the ready list: op_run_ready() takes its next
 * step. */
void op_ready(struct op *op);
void op_returned(struct op *op); /* a chunk or job of it came back: ready if it waited for that */
void op_result(struct op *op, int64_t res); /* decides it, without a record */
/* Records the reason of a failure; a later record replaces an earlier one. */
void op_record(struct op *op, uint32_t reason, uint64_t a, uint64_t b, uint64_t c);
/* Decides that the entry fails, unless it is decided, and makes it ready. */
__attribute__((cold)) void op_fail(struct op *op, int res, uint32_t reason, uint64_t a, uint64_t b,
				   uint64_t c);
/* Fails an entry with a stale handle. Returns the error. */
__attribute__((cold)) int op_fail_handle(struct op *op, uint32_t handle, enum handle_kind wanted,
					 uint32_t stale);
/* The record says how much was placed. reason_long: that of a vector too long to sum up. */
__attribute__((cold)) void op_fail_midway(struct op *op, int res, uint32_t reason,
					  uint32_t reason_long, uint64_t figure);
__attribute__((cold)) void op_fail_device(struct op *op, int res, uint64_t code); /* likewise */
/* Fails the entry of a chunk that was freed; its content is as it came out. */
__attribute__((cold, noinline)) void op_fail_chunk(struct op *op, const struct chunk *c);
void op_unblock(struct op *op); /* removes one blocker */
/* An entry that it waits for has failed. */
void op_block_failed(struct op *op, uint32_t reason, uint64_t arg);

/* ask.c: requests to the control thread */
/* The simulated clock that the request holds while it is out, or NULL. */
struct clock *control_held_by(const struct engine *e, const struct control_req *req);
void control_ask(struct engine *e, struct control_req *req); /* posts the request */
void remote_fail(struct op *op, const struct engine_remote *r, int err);
void remote_waiters(struct engine_remote *r, int err); /* continue, or fail */
void remote_need_keys(struct op *op, struct engine_remote *r);
void remote_ask(struct engine_remote *r);
uint32_t key_part(const struct rail_key *k); /* index of the part that the key is for */
uint32_t key_grant(const struct rkey *key); /* the owner's number for the key's grant */
void peer_awaited(struct engine *e, struct engine_peer *p);
void peer_ask_resume(struct engine_peer *p); /* it is suspended, and an entry waits */
/* The control thread must treat the peer as lost; arg: see the REASON. */
void peer_give_up(struct engine *e, struct engine_peer *p, uint32_t reason, uint64_t arg);
void rail_report(struct engine *e, struct rail *rail, int res, uint32_t reason, uint64_t arg);

/* op.c */
/* The probe of that name. */
void entry_ended(const struct ring *r, uint64_t user_data, int64_t res);
uint32_t op_run_listed(struct engine *e);
static inline uint32_t op_run_ready(struct engine *e)
{
	return list_empty(&e->ready) ? 0 : op_run_listed(e);
}
/* As op_fail(), and takes the next step at once. */
void op_stop(struct op *op, int res, uint32_t reason, uint64_t arg);
void op_drop_chunks(struct op *op); /* frees chunks of a stopped entry that no device has */
void op_shorten_deadline(struct op *op); /* stopped while a call waits: shortens its deadline */
void op_abort(struct op *op); /* takes back what is under way, without the peer's answer */
void op_check(struct op *op); /* something came back: takes the next step, or ends it */
void op_end(struct op *op, int64_t res);
void op_end_nop(struct op *op);
void op_expired(struct op *op);
int op_arm_fresh(struct engine *e); /* starts the deadlines of new entries; 1: it read the clock for
				     * them */
/* late.c: the cause of a passed deadline, with two arguments that follow the deadline in the
 * record. For DEADLINE, _RAIL and _ROOM the record has the placed bytes instead. */
struct late {
	uint32_t reason;
	uint64_t a, b;
};
struct late late_of(const struct op *op);
void op_report(struct op *op); /* posts a CQE with MORE: the outcome before the end */

/* order.c */
int order_enter(struct op *op); /* LINK, DRAIN, FENCE: sets blockers; not 0: it has failed */
void order_leave(struct op *op); /* leaves its chain, and updates DRAIN entries */
void order_leave_peer(struct op *op); /* updates FENCE entries */
void order_leave_fence(struct op *op); /* it waits for a FENCE no more, if it did */
uint32_t order_waits_for(const struct op *op); /* entries, of a FENCE that waits */
/* The outcome of a chained or failed entry is known: updates LINK and FENCE entries. */
void order_outcome(struct op *op, int failed);
int order_ring_init(struct engine_ring *er);
void order_ring_fini(struct engine_ring *er);
void order_ring_quiet(struct engine_ring *er); /* all its entries have ended */
/* The scope of all groups that belongs to the scope s, which is in use. */
struct scope *order_scope_all(struct scope *s);
void order_settle(struct scope *s); /* the scope may be idle now */
void order_lost(struct scope *s); /* keeps lost bytes of acknowledged entries as a failure */
void order_forget_peer(struct engine_ring *er, struct engine_peer *p);

/* sync.c */
/* OP_AWAITS, OP_SIGNALS: resolves its words; op_fail() if they are invalid. */
void sync_enter(struct op *op);
/* Ends its wait for a word. If a job queries the word, that counts in inflight. */
void sync_leave(struct op *op);
/* Checks at most this many awaited words, and unblocks entries whose word is reached. Returns their
 * number. */
uint32_t sync_look(struct engine *e, uint32_t most);
/* Likewise for GPU memory and events: submits and completes jobs. Returns the number of unblocked
 * entries. */
uint32_t sync_look_gpus(struct engine *e);
void sync_signal(const struct op *op);			 /* the entry has succeeded */
void sync_signal_gpu(struct op *op);	/* likewise for OP_SIGNALS_GPU: the entry ends after it */
void sync_signal_stop(struct op *op);	/* does not set the word, unless that is under way */
int sync_in(const struct op *op, const struct memory *m); /* 1: a word that it needs lies there */

/* cursor.c */
int cursor_open(struct op *op);	  /* checks the entry's arrays; -errno with op_fail() done */
int cursor_lookup(struct op *op); /* the same for OP_LOOKUP */
/* 1 with *out; 0 at the end; -errno with op_fail() done; -EAGAIN: the rail of this number has no
 * key. */
int cursor_next(struct op *op, uint64_t max, uint32_t rail, struct piece *out);
/* The next piece, not yet joined with its neighbours: 1 and *cur; or as cursor_next(). */
int cursor_peek(struct op *op, const struct piece **cur);
/* Fills a bundle with the first piece and those after it that have the same memory and part.
 * Returns their number; *len: their bytes. */
uint32_t cursor_fill_bundle(struct op *op, const struct piece *first, struct chunk_piece *pieces,
			    uint32_t max, uint64_t *len);
uint64_t cursor_left(const struct op *op); /* bytes left, approximately */
void cursor_rewind(struct op *op);	   /* restarts at the begin */
int cursor_in_remote(struct op *op, const struct engine_remote *r, uint64_t off, uint64_t len);
uint32_t cursor_part(const struct engine_remote *r, uint64_t off); /* index of the part at off */

/* lane.c */
/* The probe of that name: a device took the chunk, or its bytes were copied at once. */
void chunk_posted(uint32_t peer, enum chunk_kind kind, uint64_t len);
void lane_wake(struct lane *l); /* it has work */
void lane_add_op(struct op *op);
void held_add(struct lane *l, struct chunk *c); /* appends to the chunks that no device has */
struct chunk *held_take(struct lane *l);	/* takes all of them */
void lane_add_chunk(struct engine_peer *p, uint32_t lane, struct chunk *c);
/* 1: the peer may use one more chunk. */
int chunk_may(const struct engine *e, const struct engine_peer *p);
uint64_t chunk_bytes(const struct rail *rail); /* largest piece of an entry, */
uint64_t chunk_limit(const struct rail *rail); /* and of bulk while the window is small */
void rail_busy(struct engine *e, struct rail *rail); /* it starts to carry bytes */
uint32_t rail_post(struct engine *e, struct rail *rail, struct chunk **batch, uint32_t n);
/* As rail_post(); chunks that the device does not take wait in the lane. */
uint32_t batch_post(struct engine *e, struct lane *l, struct rail *rail, struct chunk **batch,
		    uint32_t n);

/* schedule.c */
/* The entry's next chunk for a rail. NULL: it has none now, or no chunk is free. */
struct chunk *op_chunk(struct engine *e, struct op *op, struct rail *rail, uint64_t most);
int op_exhausted(const struct op *op); /* 1: it certainly has no more pieces */
uint32_t schedule(struct engine *e);
uint32_t poll_devices(struct engine *e, uint32_t all); /* all: also those without rails */
void sweep_chunks(struct engine *e);
void chunk_out(struct engine *e, struct chunk *c);

/* flush.c: proves that acknowledged writes are placed, by the rail that carried them */
void flush_all(struct engine *e);
int flush_begin(struct op *op); /* 0: no rail can do it */
int flush_may_wait(const struct op *op); /* 1: it may end acknowledged, since its scope has room to
					  * record that */
void flush_defer(struct op *op); /* it ends successfully, but only acknowledged */
void acked_forget(struct scope *s);
int flush_fenced(struct op *op); /* 0: its notification may be sent */
void flush_lost(struct rail *rail); /* it broke */
void flush_out(struct engine *e, struct chunk *c);

/* stripe.c: bulk over several rails */
uint32_t lane_stripe(struct engine *e, struct lane *l);
void rail_carried(const struct engine *e, struct rail *rail, uint32_t len);

/* replay.c: rails come and go */
static inline struct rail_key *key_of(const struct rkey *key)
{
	return container_of(key, struct rail_key, key);
}
void rail_joined(struct engine *e, struct rail *rail);
void rail_broke(struct engine *e, struct rail *rail, int res);
void rail_missed(struct engine *e, struct rail *rail, int res); /* it did not come up */
void rail_fenced(struct engine *e, struct engine_peer *p, uint32_t number);
int rail_leaves(struct rail *rail); /* removes it from the rails that are up; 1: it was one */
/* Removes rails of other transports from the rails that are up: their numbers mean other rails. */
void rails_of(struct engine_peer *p, const struct backend *ops);
void peer_choose(struct engine_peer *p); /* chooses its best rail */
/* The rail for bulk that was under way this often when a rail broke. Needs at least one rail that
 * is up. */
#define TRIES_STEADY 3u
struct rail *peer_steady(const struct engine_peer *p);
/* Binds a chunk that no device has to a rail. 0: it cannot, and waits elsewhere. */
int chunk_bind(struct chunk *c, struct rail *rail);
/* 1: it is posted again later. */
int chunk_fail_over(struct engine *e, struct rail *rail, struct chunk *c);
/* A chunk was acknowledged, and its rail is broken by now. */
void chunk_unproved(struct rail *rail, struct op *op);
int op_requeue(struct op *op); /* sends all of it again, when possible; 0: it cannot */
void replay_run(struct engine_peer *p);
void replay_drop(struct op *op); /* drops its chunks that wait to be posted again */

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
/* 1: failed messages are sent again, since there is a rail or will be one. */
static inline int peer_sends(const struct engine_peer *p)
{
	return p->state == PEER_UP && (p->failover || (p->rail && p->rail->up));
}
static inline struct ep *peer_ep(const struct engine_peer *p)
{
	return p->rail ? p->rail->ep : NULL;
}

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
static inline void relay_kick(struct engine *e, struct relay *r)
{
	if (list_empty(&r->link))
		list_add_tail(&r->link, &e->relays.active);
	e->slow_work = 1;
}

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

/* exposure.c */
/* Bytes of the key, or -errno without any effect. */
int exposure_begin(struct engine *e, struct exposure *x, const struct rail *rail, void *key);
int exposure_end(struct engine *e, struct exposure *x);	  /* 0; -EINPROGRESS: call again */
/* An ep is closed (closed 1) or about to close (0), but its peer is not lost: its exports live on
 * for atomics. Exports that the device cannot end before the ep is closed stay until then. */
void exposures_detach(struct engine *e, struct ep *ep, int closed);
void exposures_end(struct engine *e, struct engine_peer *p); /* ends those without an ep */
void exposure_drop(struct engine *e, struct exposure *x); /* its ep is closed */
/* Ends expired exports: no access outlasts the expiry of its export. */
void exposures_expire(struct engine *e);
uint64_t exposures_next(struct engine *e); /* time of the next call; NEVER_NS */

/* msg_ring.c */
void msg_ring_start(struct op *op);
int msg_rings_pending(struct engine *e); /* posts as event slots allow; 1: some wait for slots */
void msg_ring_gone(struct engine_ring *er); /* the ring closes: entries that wait for it fail */

/* suspend.c: idle eviction */
int peer_idle(const struct engine_peer *p);	       /* 0 or -EBUSY */
int peer_pause(struct engine_peer *p);		       /* likewise */
void peer_go(struct engine_peer *p); /* its entries start (again) */
void peer_resume_back(struct control_req *req);
void peer_forget_keys(struct engine_peer *p);	       /* its rail is about to close */

/* request.c: operations of the control thread; ACCEPT, CANCEL, TIMEOUT */
void request_start(struct op *op);
int request_stop(struct op *op); /* 1: the entry may end; 0: once the control thread has answered */
void request_back(struct engine *e, struct control_req *req);
int accepts_pending(struct engine *e); /* posts PEER events; 1: some wait for slots */
void cancel_target_ended(struct op *op);
void timeouts_count(struct engine_ring *er);

/* watch.c */
void watch_start(struct op *op);
void watch_stop(const struct op *op);
/* A CONNECT or ACCEPT with URCCL_SQE_WATCH succeeded for this peer. */
void watch_given(const struct op *op, struct engine_peer *p);
void watch_drop(struct engine_peer *p);	   /* its watch ends, whatever it was */
void watches_gone(struct engine_ring *er); /* the ring closes */

/* peer.c */
void peer_stop(struct engine *e, struct engine_peer *p);
void peer_stop_watches(struct engine *e, struct engine_peer *p);
void peer_abort(struct engine *e, struct engine_peer *p);
void peer_shorten_deadlines(struct engine *e, struct engine_peer *p);
void peer_cut(struct engine *e, struct engine_peer *p, uint32_t is_cut);
void peer_awaited_expired(struct engine *e, struct engine_peer *p);
void peer_ping_back(struct engine *e, struct control_req *req);
void rail_event(struct engine *e, const struct event *ev);
/* The control thread has answered. */
void rail_qps_added(struct control_req *req);

/* quiesce.c: 1: nothing uses it any more; called again until then */
void ring_stop(struct engine_ring *er);
int ring_is_quiet(struct engine *e, struct engine_ring *er);
int region_is_quiet(struct engine *e, struct memory *m);
int remote_is_quiet(struct engine *e, struct engine_remote *r);
void remote_suspend(struct engine_remote *r); /* its keys ended with the rails */
void remote_forget_keys(struct engine_remote *r, struct rail *rail); /* keys of one rail */
void remote_revoke(struct engine_remote *r);
int remote_is_revoked(struct engine *e, struct engine_remote *r);

/* lost.c */
void peer_lost(struct engine *e, struct engine_cmd *cmd);
void peer_died(struct engine_peer *p); /* its rails no longer wait for an answer */
void peer_losing_expired(struct engine *e, struct engine_peer *p);
/* 0: it is lost, and LOST was posted: nothing of the peer may follow. */
int peer_is_heard(const struct engine_peer *p);
void peer_events_drop(struct engine *e, struct engine_peer *p, int res);
int peer_is_lost(struct engine *e, struct engine_peer *p);
void peer_del(struct engine *e, struct engine_peer *p);
void rail_close(struct engine *e, struct rail *rail);
int rail_is_closed(struct engine *e, struct rail *rail);

/* command.c */
uint32_t run_commands(struct engine *e);
void retry_commands(struct engine *e); /* checks the commands that wait */

#include "engine/stats.h"

void op_begin_other(struct op *op); /* op.c */

/* Nothing blocks the entry any more. */
static inline __attribute__((always_inline)) void op_begin(struct op *op)
{
	if (op->sqe.opcode == URCCL_OP_NOP) {
		op_end_nop(op);
	} else if ((op->bits & (OP_IS_DATA | OP_LOOKUP)) == OP_IS_DATA &&
		   op->peer->state == PEER_UP) {
		op->state = OP_MOVING;
		peer_awaited(op_engine(op), op->peer);
		lane_add_op(op);
	} else {
		op_begin_other(op);
	}
}

#endif
