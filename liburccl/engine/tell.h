/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the engine tells of itself, into its context's segment: on the data path single stores, and
 * nothing that it reads again to decide anything. Part of private.h.
 */
#ifndef ENGINE_TELL_H
#define ENGINE_TELL_H

#define LOOK_NS (1 * NSEC_PER_MSEC) /* a busy engine tells of its rings so often */

static inline void tell(uint64_t *word, uint64_t value)
{
	if (URCCL_TELLS)
		store_relaxed(word, value);
}

static inline void tell_add(uint64_t *word, uint64_t n)
{
	if (URCCL_TELLS)
		count_add(word, n);
}

/* ---- entries ---- */

/* While an entry is in the turn that took it, the rest of its record is of an earlier one: 0 as the
 * time says so. */
static inline void tell_state(const struct op *op)
{
	uint64_t peer = op->peer ? op->peer->handle : 0;

	tell(&op->told->started_ns, op->started_ns);
	tell(&op->told->word,
	     peer << SEGMENT_PEER_SHIFT | (uint64_t)op->sqe.opcode << SEGMENT_OPCODE_SHIFT |
		     (uint64_t)op->state << SEGMENT_STATE_SHIFT | (op->bits & SEGMENT_BITS));
}

/* All of it, once it outlives the turn that took it. */
static inline void tell_entry(const struct op *op)
{
	tell(&op->told->user_data, op->sqe.user_data);
	tell(&op->told->total, op->total);
	tell(&op->told->placed, op->placed);
	tell_state(op);
}

static inline void tell_free(const struct op *op)
{
	tell(&op->told->word, 0);
}

/* A chunk of it came out well. */
static inline void tell_placed(const struct op *op, uint32_t len)
{
	struct segment_peer *p = op->peer->told;

	tell_add(op_reads(op) ? &p->bytes_in : &p->bytes_out, len);
	if (op->inflight || !(op->bits & OP_DONE_CURSOR))
		tell(&op->told->placed, op->placed);
}

/* ---- tell.c ---- */

int tell_open(struct engine *e); /* 0 or -ENOMEM */
void tell_success(const struct op *op);
void tell_peer(const struct engine_peer *p);
void tell_look(struct engine *e); /* what only the rings know */
void tell_asleep(struct engine *e, uint64_t ns);
struct segment_entry *tell_record(const struct engine_ring *er, uint32_t i);

static inline void tell_turned(struct engine *e)
{
	tell(&e->told->turned_ns, e->now);
	if (URCCL_TELLS && e->now >= e->look_ns)
		tell_look(e);
}

static inline void tell_awake(struct engine *e)
{
	if (URCCL_TELLS)
		store_relaxed(&e->told->state, SEGMENT_RUNS);
}

#endif
