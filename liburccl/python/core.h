/* SPDX-License-Identifier: Apache-2.0 */
/* A ring that many threads share, without Python: its producer and its consumer side each have a
 * lock. No function takes or needs the GIL. */
#ifndef CORE_H
#define CORE_H

#include <liburccl.h>
#include <pthread.h>
#include <stdint.h>

/* An event of a multishot entry; a MSG event belongs to the entry that watches all peers. */
struct core_event {
	struct core_event *next;
	struct urccl_cqe cqe;
	uint32_t len;			/* of payload */
	uint8_t payload[];
};

enum core_phase {
	CORE_FLYING = 0,
	CORE_KNOWN,			/* the outcome came with MORE: the buffer is in use */
	CORE_ENDED,
	CORE_EVENT = 1 << 8,		/* core_wait(): for an event, too */
};

/* The object behind user_data. The thread that reaps writes; any thread may read phase. */
struct core_entry {
	uint32_t phase;			/* enum core_phase */
	uint32_t chained;		/* in the chain of a core_reap() */
	struct urccl_cqe cqe;		/* the last one of kind OP */
	struct core_entry *next;	/* chain of core_reap() */
	struct core_event *first, *last;	/* not yet given to the program */
};

struct core {
	struct urccl *ctx;
	struct urccl_ring *ring;
	pthread_mutex_t producer;
	pthread_mutex_t lock;		/* of the next four */
	pthread_cond_t freed;
	uint32_t busy;			/* a thread is the consumer */
	uint32_t waiters;		/* threads in core_wait() */
	uint32_t closing;
	struct core_entry *everything;	/* the entry that MSG events go to, or NULL */
	struct core_event *first, *last;	/* MSG events without such an entry */
};

int core_open(struct core *core, struct urccl *ctx, const struct urccl_ring_params *params);
/* Sends waiters away, then closes the ring: waits at most 2 s. No call beside or after it. */
void core_close(struct core *core);
/* After a fork, in the child: nothing of the parent's is touched. */
void core_forget(struct core *core);

/* The next entry, with the producer lock held until core_end(); NULL: full, lock not held. */
struct urccl_sqe *core_begin(struct core *core);
/* hand_over 0: a later core_end() or core_submit() hands the entry over. */
void core_end(struct core *core, int hand_over);
void core_submit(struct core *core);

/* Takes all CQEs that are there, unless another thread is the consumer. Returns how many;
 * *chain: the entries that something happened to, each once. */
uint32_t core_reap(struct core *core, struct core_entry **chain);
/* The head of a chain, taken off it: the next reap may chain it again. */
struct core_entry *core_unchain(struct core_entry **chain);
/* Asks for one wake-up of the fd. 0: armed; 1: something is there, reap again. */
int core_arm(struct core *core);
/* Waits until a CQE is there, the entry (or NULL) is in a later phase than given or (CORE_EVENT)
 * has an event, or the timeout passed: -ETIME. -EINTR: a signal, or a slice of 20 ms passed behind
 * another thread. -ESTALE: the ring is closing. */
int core_wait(struct core *core, const struct core_entry *entry, uint32_t phase, uint64_t ns);

/* MSG events go to this entry from now on, until it ends. Not beside core_reap(). */
void core_watch_all(struct core *core, struct core_entry *entry);
/* The entry's oldest event, the caller's to free(), or NULL. Not beside core_reap(). */
struct core_event *core_take_event(struct core_entry *entry);

static inline uint32_t core_phase(const struct core_entry *entry)
{
	return __atomic_load_n(&entry->phase, __ATOMIC_ACQUIRE);
}

#endif
