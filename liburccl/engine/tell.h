/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Exports the engine's state to the context's segment. The data path only stores there, and bases
 * no decision on it. Part of private.h.
 */
#ifndef ENGINE_TELL_H
#define ENGINE_TELL_H

#define LOOK_NS (1 * NSEC_PER_MSEC) /* interval at which a busy engine updates the rings' counts */

static inline void tell(uint64_t *word, uint64_t value)
{
	if (URCCL_TELLS)
		store_relaxed(word, value);
}

static inline void tell32(uint32_t *word, uint32_t value)
{
	if (URCCL_TELLS)
		store_relaxed(word, value);
}

static inline void tell_add(uint64_t *word, uint64_t n)
{
	if (URCCL_TELLS)
		count_add(word, n);
}

/* ---- entries are exported at the first update after their iteration. Entries of the first chunks
 * after an update are exported before a device gets those: if its call hangs, they are known
 * ---- */

static inline void tell_young(struct engine *e, struct op *op)
{
	if (!URCCL_TELLS || op->is_young)
		return;
	op->is_young = 1;
	op->young_next = NULL;
	*e->young_tail = op;
	e->young_tail = &op->young_next;
}

void tell_look_ahead(struct engine *e, struct chunk *const *batch, uint32_t n);

static inline void tell_ahead(struct engine *e, struct chunk *const *batch, uint32_t n)
{
	if (URCCL_TELLS && !e->told_ahead)
		tell_look_ahead(e, batch, n);
}

void tell_lasting(struct op *op); /* at once, since it has no deadline */

static inline void tell_state(const struct op *op)
{
	if (!URCCL_TELLS || !(op->bits & OP_SHOWN))
		return;
	store_relaxed(&op->told->stopping, (uint8_t)(op->bits & OP_DECIDED));
	store_relaxed(&op->told->state, op->state);
}

/* The word that it waits for is reached. */
static inline void tell_word(const struct op *op)
{
	if (URCCL_TELLS && (op->bits & OP_SHOWN))
		store_relaxed(&op->told->awaits, 0);
}

/* Part of its bytes came out. */
static inline void tell_placed(const struct op *op)
{
	if (URCCL_TELLS && (op->bits & OP_SHOWN))
		store_relaxed(&op->told->placed, op->placed);
}

/* ---- tell.c ---- */

int tell_open(struct engine *e); /* 0 or -ENOMEM */
void tell_peer(const struct engine_peer *p);
void tell_rail(struct rail *rail); /* adds the bytes that came out */
void tell_burst(struct engine *e);
void tell_another(const struct op *op); /* a batch of another flow begins */
void tell_turn(const struct op *op);	/* likewise, of another iteration */
void tell_ring_gone(struct engine_ring *er);
void tell_look(struct engine *e); /* exports counts of rings and lists */
void tell_look_closely(struct engine *e);
void tell_asleep(struct engine *e, uint64_t ns);
struct segment_entry *tell_record(const struct engine_ring *er, uint32_t i);

/* ---- ended entries ---- */

/* A read, write or notification succeeded; most belong to the same flow as the one before. */
static inline void tell_moved(const struct op *op)
{
	struct burst *b = &op_engine(op)->burst;
	uint32_t what;

	if (!URCCL_TELLS)
		return;
	memcpy(&what, &op->sqe, sizeof(what));
	if (b->what != what)
		tell_another(op);
	b->ended++;
	b->bytes += op->placed;
}

/* Likewise after the iteration that took it; most were taken together with the one before. */
static inline void tell_later(const struct op *op)
{
	struct burst *b = &op_engine(op)->burst;

	if (!URCCL_TELLS)
		return;
	if (b->started_ns != op->started_ns)
		tell_turn(op);
	b->later++;
}

static inline void tell_taken(const struct engine_ring *er)
{
	tell32(&er->told->taken, er->ring->own.sq_head);
}

/* Before the program can see their CQEs. */
static inline void tell_ended(const struct engine_ring *er)
{
	tell32(&er->told->ended, er->ring->own.done);
}

/* Likewise, for entries that succeeded in this iteration. */
static inline void tell_succeeded(struct engine *e)
{
	if (URCCL_TELLS && e->burst.ended)
		tell_burst(e);
}

static inline void tell_turned(struct engine *e)
{
	if (URCCL_TELLS && e->now >= e->look_ns)
		tell_look(e);
}

static inline void tell_awake(struct engine *e)
{
	if (URCCL_TELLS)
		store_relaxed(&e->told->state, SEGMENT_RUNS);
}

#endif
