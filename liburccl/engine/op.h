/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Entries, used only by the engine's thread. Records of entries are in the context's segment, which
 * other threads and processes read.
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
#ifndef OP_H
#define OP_H

#include "engine/private.h"
#include "engine/cursor.h"
#include "engine/order.h"

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
	OP_REPORTED = 1 << 1,	       /* a CQE with MORE reported the outcome */
	OP_DONE_CURSOR = 1 << 2,       /* all pieces were made into chunks */
	OP_UNPROVED = 1 << 3,  /* a WRITE was only acknowledged, and may not be placed yet */
	OP_UNKNOWN = 1 << 4,   /* it failed, and its notification may have arrived */
	OP_UNQUIET = 1 << 5,   /* a chunk came out without proof that nothing more of it lands */
	OP_UNFLUSHED = 1 << 6, /* bytes went to device memory that may not have them yet */
	OP_ABORTED = 1 << 9,   /* its chunks are taken back, without waiting for the peer */
	OP_EXCUSED = 1 << 10,  /* its deadline was extended once, since this thread did not run */
	OP_LATE = 1 << 11,     /* its deadline has passed */
	OP_PROMISED = 1 << 12, /* it has a notification: the peer must also learn of a failure */
	OP_FORGIVEN =
		1 << 13, /* a FENCE that failed because of an earlier entry: not a failure of its
			  * own */
	OP_OUTCOME = 1 << 14,	/* later entries were told of the outcome */
	OP_FLUSHED = 1 << 15,	/* a flush was tried */
	OP_LOOKUP = 1 << 16,	/* its memory is looked up at its start, not when it is taken */
	OP_IS_DATA = 1 << 18,	/* set by its check: it moves bytes */
	OP_IS_ATOMIC = 1 << 19, /* likewise: FETCH_ADD, CMP_SWAP */
	OP_CHAINED = 1 << 20,	/* it or the entry before it has LINK, or OP_SIGNALS: another entry
			       * may wait for its end */
	OP_IS_RANGE = 1 << 21,	/* set by its check: data of one range: READ, WRITE */
	OP_IS_VECTOR = 1 << 22, /* set by its check: data of segments: READV, WRITEV */
	OP_REQUEUED = 1 << 23,	/* all of it must be sent again: replay.c */
	OP_PROVED = 1 << 24,	/* it requested proof for the entries before its FENCE */
	OP_AWAITS = SEGMENT_AWAITS, /* it waits for a word: sync.c */
	OP_SIGNALS = 1 << 26,	    /* it sets a word when it succeeds: sync.c */
	OP_MULTISHOT = 1 << 27,
	OP_SIGNALS_GPU = 1 << 28, /* instead of OP_SIGNALS: its word is in GPU memory */
	OP_ORDERED = 1 << 29, /* its start-when orders it after the program's work on GPU memory */
	OP_LISTED = 1 << 30,  /* it is in the ready list: op_ready() */
};

/* Records are in the context's segment, or in own_ops if the segment has no room. Tools read the
 * members up to state (struct segment_entry). */
struct op {
	struct urccl_sqe sqe;
	uint64_t started_ns;
	uint64_t total;	 /* bytes of the whole entry */
	uint64_t placed; /* bytes that came out without error, perhaps UNPROVED */
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
		uint64_t note;	/* address of the notification's payload */
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
	uint32_t hits;	     /* CANCEL: entries that it ended */
	uint8_t flush_rails; /* rails with acknowledged WRITEs of it, one bit each */
	uint8_t fence;	     /* REQUEUED: rails that must be fenced before, one bit each */
	uint8_t tries;	     /* the value that chunk.tries starts with, once it was REQUEUED */
	uint8_t worst;	     /* the greatest chunk.tries */
	uint32_t blockers; /* number of LINK, DRAIN, FENCE and word conditions that it waits for */

	uint32_t inflight; /* chunks that devices or lanes have, and jobs of sync.c that it waits
			    * for; 0 at the end */
	int64_t res;
	struct cursor cursor;
};

/* An entry's request to the control thread. */
struct ask {
	struct control_req req, drop;
	struct op *op;
	uint32_t out; /* requests that have not returned */
	uint32_t dropped;
};

static inline struct engine *op_engine(const struct op *op)
{
	return op->er->engine;
}

/* The scope that a FENCE, or the proof of an entry, is about. */
static inline struct scope *op_scope(const struct op *op)
{
	return op->scope_group ? op->scope_group : op->scope_all;
}

static inline int op_is_data(const struct op *op)
{
	return (op->bits & OP_IS_DATA) != 0;
}

static inline int op_is_atomic(const struct op *op)
{
	return (op->bits & OP_IS_ATOMIC) != 0;
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

	_Static_assert(URCCL_OP_NOP == 0 && URCCL_OP_READ < URCCL_OP_WRITE && URCCL_OP_WRITE == 2,
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
int device_rings_busy(const struct engine *e); /* called after sleep was announced; 1: do not
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
void op_drop_chunks(struct op *op);	 /* frees chunks of a stopped entry that no device has */
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

/* msg_ring.c */
void msg_ring_start(struct op *op);
int msg_rings_pending(struct engine *e);    /* posts as event slots allow; 1: some wait for slots */
void msg_ring_gone(struct engine_ring *er); /* the ring closes: entries that wait for it fail */

#endif
