/* SPDX-License-Identifier: Apache-2.0 */
/* Entries that wait for words in memory, or set one when they succeed. */
#ifndef SYNC_H
#define SYNC_H

#include "engine/engine.h"

struct op;

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

/* ---- sync.c ---- */

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
void sync_signal(const struct op *op); /* the entry has succeeded */
void sync_signal_gpu(struct op *op);   /* likewise for OP_SIGNALS_GPU: the entry ends after it */
void sync_signal_stop(struct op *op);  /* does not set the word, unless that is under way */
int sync_in(const struct op *op, const struct memory *m); /* 1: a word that it needs lies there */

#endif
