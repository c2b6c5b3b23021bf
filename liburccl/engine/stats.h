/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counts of the engine in the context's segment. The data path only stores there, and bases no
 * decision on it. The records of entries are there themselves: struct op.
 */
#ifndef ENGINE_STATS_H
#define ENGINE_STATS_H

#include "engine/op.h"

#define UPDATE_NS \
	(1 * NSEC_PER_MSEC) /* interval at which a busy engine updates the rings' counts */

static inline void stat_set(uint64_t *word, uint64_t value)
{
	if (URCCL_STATISTICS)
		store_relaxed(word, value);
}

static inline void stat_set32(uint32_t *word, uint32_t value)
{
	if (URCCL_STATISTICS)
		store_relaxed(word, value);
}

static inline void stat_add(uint64_t *word, uint64_t n)
{
	if (URCCL_STATISTICS)
		count_add(word, n);
}

/* ---- stats.c ---- */

int stats_open(struct engine *e); /* 0 or -ENOMEM */
void stats_peer(const struct engine_peer *p);
void stats_batch_end(struct engine *e);
void stats_batch_start(const struct op *op);		    /* a batch of another flow begins */
void stats_batch_start_of(struct engine *e, uint32_t what); /* of entries without an op */
void stats_batch_started(const struct op *op); /* a batch begins of entries taken in another
					        * iteration */
void stats_ring_closed(struct engine_ring *er);
void stats_update(struct engine *e); /* exports counts of rings and lists */
void stats_asleep(struct engine *e, uint64_t ns);

/* ---- ended entries ---- */

/* A read, write or notification succeeded; most belong to the same flow as the one before. */
static inline void stats_moved(const struct op *op)
{
	struct stats_batch *b = &op_engine(op)->stats_batch;
	uint32_t what;

	if (!URCCL_STATISTICS)
		return;
	memcpy(&what, &op->sqe, sizeof(what));
	if (b->what != what)
		stats_batch_start(op);
	b->ended++;
	b->bytes += op->placed;
}

/* The same for an entry without an op. */
static inline void stats_moved_of(struct engine *e, const struct urccl_sqe *sqe)
{
	struct stats_batch *b = &e->stats_batch;
	/* As it lies in memory, but from registers. */
	uint32_t what = sqe->opcode | (uint32_t)sqe->dtype << 8 | (uint32_t)sqe->flags << 16;

	if (!URCCL_STATISTICS)
		return;
	if (b->what != what)
		stats_batch_start_of(e, what);
	b->ended++;
	b->bytes += sqe->len;
}

/* As stats_moved(), for an entry that outlived the iteration that took it. Most were taken together
 * with the one before. */
static inline void stats_moved_later(const struct op *op)
{
	struct stats_batch *b = &op_engine(op)->stats_batch;

	if (!URCCL_STATISTICS)
		return;
	if (b->started_ns != op->started_ns)
		stats_batch_started(op);
	b->later++;
}

static inline void stats_taken(const struct engine_ring *er)
{
	stat_set32(&er->stats->taken, er->ring->own.sq_head);
}

/* Called before the program can see the CQEs of the ended entries. */
static inline void stats_ended(const struct engine_ring *er)
{
	stat_set32(&er->stats->ended, er->ring->own.done);
}

/* Called before that too, for entries that succeeded in this iteration. */
static inline void stats_succeeded(struct engine *e)
{
	if (URCCL_STATISTICS && e->stats_batch.ended)
		stats_batch_end(e);
}

static inline void stats_iterated(struct engine *e)
{
	if (URCCL_STATISTICS && e->now >= e->update_ns)
		stats_update(e);
}

static inline void stats_awake(struct engine *e)
{
	if (URCCL_STATISTICS)
		store_relaxed(&e->stats->state, SEGMENT_RUNS);
}

#endif
