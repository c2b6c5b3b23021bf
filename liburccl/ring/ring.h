/* SPDX-License-Identifier: Apache-2.0 */
/* The library's side of a ring: its memory, taking entries, posting completions, waking. Only the
 * engine calls the functions under "engine"; the shared words are in abi.h. */
#ifndef RING_H
#define RING_H

#include "base/base.h"

#define RING_ENTRIES_MAX 32768u

/* struct urccl_ring is the first member, so that the program's pointer is ours. It has its own
 * pages, zeroed in a forked child. Cache lines are grouped by writer. */
struct ring {
	struct urccl_ring pub;
	uint64_t map_len;
	uint32_t event_slots;
	struct mailbox *home;		/* mailbox of the engine: the doorbell of a sleeping
					 * progress thread */
	void (*drive)(void *arg);	/* INLINE: runs the engine once */
	/* INLINE: sleeps on the ring's fd until a device, the mailbox or a deadline needs the
	 * engine, at most ns. 0 or -EINTR; with ns 0 it only arms the fd, and returns 1 if the
	 * engine is needed already. */
	int (*sleep)(void *arg, uint64_t ns);
	void *arg;
	const struct clock *clock;	/* for waits; NULL: the real one */
	uint64_t spin_ns;		/* how long urccl_wait() spins before it sleeps; NEVER_NS:
					 * for ever */
	uint32_t *prepared;		/* export of ring_unsubmitted(); NULL: none */
	const struct log *log;		/* for misuse; NULL: not reported */
	struct device_ring *device;	/* its entries come from lanes; NULL: from the program */
	struct {			/* state of check.c, with URCCL_CHECK */
		uintptr_t producer;	/* the thread that took the last entry; 0: no check yet */
		uint32_t announced;	/* bit per kind of misuse reported */
	} check;

	/* Engine's, read by the producer at each entry, so it must change rarely. */
	struct {
		_Alignas(64) uint32_t sq_flags;
		uint32_t skipped;
		uint32_t wants_slots;	/* announced by a sleeping engine with an event for this
					 * ring: taken by the consumer with an exchange */
	} engine_line;
	struct {			/* producer's */
		_Alignas(64) uint32_t sq_tail;
	} producer_line;
	struct {			/* consumer's */
		_Alignas(64) uint32_t cq_head;
		uint32_t ended;
	} consumer_line;
	struct {			/* consumer's, read by the engine once a burst */
		_Alignas(64) uint32_t cq_arm;
		uint32_t cq_wake_at;
		uint32_t sq_wake_at;
	} arm_line;
	struct {			/* engine's, once a burst */
		_Alignas(64) uint32_t cq_tail;
		uint32_t sq_done;
	} publish_line;

	/* Private to the engine. Away from publish_line, since a CPU that polls a line may fetch
	 * its neighbour in the same 128 bytes, too. */
	struct {
		_Alignas(128) uint32_t sq_head;	/* entries taken */
		uint32_t tail;		/* CQEs posted, published or not */
		uint32_t wake_tail;	/* behind the last of them that wakes */
		uint32_t done;		/* entries ended, published or not */
		uint32_t announced;	/* CQEs posted by the last ring_publish() */
		uint32_t events_unseen;	/* event slots in use */
		uint32_t walked;	/* CQ slots up to here were checked for seen events */
		uint8_t *is_event;	/* byte per CQ slot: its event still holds a credit */
		uint8_t *notes;		/* pub.notes, writable */
		uint32_t pending;	/* something posted and not published */
	} own;
};

/* 0, or -EINVAL with fail() text: a ring cannot have so many. */
int ring_entries_check(uint32_t entries);
/* 0 or -errno with fail() text. flags: enum urccl_ring_flags. */
int ring_open(const struct urccl_ring_params *p, uint32_t flags, uint32_t id, struct ring **ring);
void ring_close(struct ring *r);
/* Entries that the program took and did not submit, from any thread. */
static inline uint32_t ring_unsubmitted(const struct ring *r)
{
	uint32_t submitted = load_relaxed(&r->producer_line.sq_tail);

	return load_relaxed(&r->pub.sqe_tail) - submitted;
}

static inline void ring_export_unsubmitted(const struct ring *r)
{
	if (r->prepared)
		store_relaxed(r->prepared, ring_unsubmitted(r));
}

/* check.c: a program with URCCL_CHECK is about to wait, or to close the ring. */
void ring_check_wait(struct ring *r);
void ring_check_close(struct ring *r);

/* ---- engine ---- */

/* Entries submitted and not taken. */
static inline uint32_t ring_submitted(const struct ring *r)
{
	return __atomic_load_n(&r->producer_line.sq_tail, __ATOMIC_SEQ_CST) - r->own.sq_head;
}

/* The i-th submitted entry. */
static inline const struct urccl_sqe *ring_sqe(const struct ring *r, uint32_t i)
{
	return &r->pub.sqes[(r->own.sq_head + i) & r->pub.sq_mask];
}

/* The entry's second half. */
static inline const struct urccl_ext *ring_ext(const struct ring *r, const struct urccl_sqe *sqe)
{
	return &r->pub.exts[sqe - r->pub.sqes];
}

/* n entries were copied: their slots are the producer's again once they end. */
static inline void ring_taken(struct ring *r, uint32_t n)
{
	store_release(&r->own.sq_head, r->own.sq_head + n);
}

/* A CQE slot, which the caller must fill completely. Every entry has its own two reserved, so there
 * always is one. */
static inline struct urccl_cqe *ring_post(struct ring *r, int no_wake)
{
	uint32_t slot = r->own.tail & r->pub.cq_mask;
	struct urccl_cqe *cqe = &r->pub.cqes[slot];

	/* Signed: a program that takes too many harms only itself. */
	assert((int32_t)(r->own.tail - load_relaxed(&r->consumer_line.cq_head)) <=
	       (int32_t)r->pub.cq_mask);
	/* The slot is free, so its event was seen. */
	if (r->own.events_unseen && r->own.is_event[slot]) {
		r->own.is_event[slot] = 0;
		r->own.events_unseen--;
	}
	r->own.tail++;
	if (!no_wake)
		r->own.wake_tail = r->own.tail;
	r->own.pending = 1;
	return cqe;
}

/* A slot for an event and its note (URCCL_NOTE_MAX bytes), or NULL: no event slot is free, retry
 * later. */
struct urccl_cqe *ring_post_event(struct ring *r, void **note);

/* Before a sleep: asks the consumer to wake the engine when an event slot is freed, if all are in
 * use; 1: some were freed meanwhile, not announced. */
int ring_arm_slots(struct ring *r);

/* Makes posted completions visible (own.pending must be set) and wakes the program if it armed for
 * them. Returns 1 if it did. */
int ring_publish(struct ring *r);

/* Makes completions visible during a long burst, without a wake-up. ring_publish() is still due. */
static inline void ring_show(struct ring *r)
{
	store_release(&r->publish_line.sq_done, r->own.done);
	store_release(&r->publish_line.cq_tail, r->own.tail);
}

/* Announces the progress thread's sleep to the producer; 1: entries are there, not announced. */
static inline int ring_arm_sq(struct ring *r)
{
	sleep_announce(&r->engine_line.sq_flags, URCCL_SQ_NEED_WAKEUP);
	if (!ring_submitted(r))
		return 0;
	sleep_take(&r->engine_line.sq_flags);
	return 1;
}

/* ---- lanes of a device ring: device_ring.c ---- */

struct device_lane {
	uint64_t taken, ended; /* entries */
};

struct device_ring {
	struct urccl_device_lane *words; /* words and slots have their own pages, which a forked
					  * child lacks */
	const uint64_t *slots;		 /* 8 words each */
	uint64_t len;			 /* bytes of these pages */
	uint8_t *done;			 /* per slot: its entry has ended, and an earlier one has
					  * not */
	uint32_t lanes, entries;	 /* entries: slots of a lane, */
	uint32_t share;			 /* and how many are taken at a time */
	uint32_t records;		 /* entries of its ring: a share for each lane */
	uint32_t busy;			 /* the program's: the engine must not sleep */
	struct device_lane lane[];
};

/* entries: a power of two. 0 or -ENOMEM with fail() text. */
int device_ring_open(uint32_t lanes, uint32_t entries, struct device_ring **out);
void device_ring_close(struct device_ring *d);
/* Takes the lane's next entry, without its lap bits, if it is complete. Its index is the old value
 * of taken. 1, or 0: it is not. */
int device_lane_take(struct device_ring *d, uint32_t lane, struct urccl_sqe *sqe);
/* 1: no lane has a next entry, nor its first word. */
int device_ring_is_empty(const struct device_ring *d);
/* A taken entry has failed, or has ended; index: its low half. */
void device_lane_failed(struct device_ring *d, uint32_t lane, uint32_t index, int64_t res);
void device_lane_ended(struct device_ring *d, uint32_t lane, uint32_t index);

/* n entries from lanes are in the SQ: the engine is the producer of such a ring. */
static inline void ring_passed(struct ring *r, uint32_t n)
{
	store_relaxed(&r->producer_line.sq_tail, r->producer_line.sq_tail + n);
	store_relaxed(&r->pub.sqe_tail, r->producer_line.sq_tail);
}

/* 1: a CQE may be posted for an entry from a lane. Event slots stay reserved. */
static inline int ring_has_slot(const struct ring *r)
{
	return r->own.tail - load_relaxed(&r->consumer_line.cq_head) + r->event_slots <=
	       r->pub.cq_mask;
}

#endif
