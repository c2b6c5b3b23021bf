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

/* All of it, once it outlives the turn that took it: started_ns says so. */
static inline void tell_entry(const struct op *op)
{
	struct segment_entry *t = op->told;

	if (!URCCL_TELLS)
		return;
	store_relaxed(&t->started_ns, op->started_ns);
	store_relaxed(&t->user_data, op->sqe.user_data);
	store_relaxed(&t->total, op->total);
	store_relaxed(&t->placed, 0);
	store_relaxed(&t->peer, op->peer ? op->peer->handle : 0);
	store_relaxed(&t->opcode, op->sqe.opcode);
	store_relaxed(&t->stopping, (uint8_t)(op->bits & OP_DECIDED));
	store_relaxed(&t->state, op->state);
}

static inline void tell_state(const struct op *op)
{
	if (!URCCL_TELLS || !op->started_ns)
		return;
	store_relaxed(&op->told->stopping, (uint8_t)(op->bits & OP_DECIDED));
	store_relaxed(&op->told->state, op->state);
}

static inline void tell_free(const struct op *op)
{
	if (URCCL_TELLS)
		store_relaxed(&op->told->state, SEGMENT_FREE);
}

/* A chunk of it came out well. */
static inline void tell_placed(const struct op *op, uint32_t len)
{
	tell_add(&op->peer->told->bytes[op_reads(op)], len);
	if (op->inflight || !(op->bits & OP_DONE_CURSOR))
		tell(&op->told->placed, op->placed);
}

/* It succeeded. */
static inline void tell_success(const struct engine *e, const struct op *op)
{
	struct segment_engine *t = e->told;
	uint32_t flow;

	if (!URCCL_TELLS)
		return;
	if (op->sqe.opcode - 1u >= URCCL_OP_NOTIFY) {
		tell_add(&t->count.ended, 1);
		return;
	}
	/* Those that read are odd. Classes that there are not were refused. */
	flow = op->sqe.opcode == URCCL_OP_NOTIFY ? SEGMENT_NOTIFY : !op_reads(op);
	flow += (op->sqe.flags >> URCCL_SQE_CLASS_SHIFT) * SEGMENT_FLOWS;
	assert(flow < SEGMENT_ALL_FLOWS);
	tell_add(&t->bytes[flow], op->placed);
	tell_add(op->started_ns ? &t->cells[flow][segment_cell(e->now - op->started_ns)]
				: &t->at_once[flow],
		 1);
}

/* ---- tell.c ---- */

int tell_open(struct engine *e); /* 0 or -ENOMEM */
void tell_peer(const struct engine_peer *p);
void tell_look(struct engine *e); /* what only the rings know */
void tell_asleep(struct engine *e, uint64_t ns);
struct segment_entry *tell_record(const struct engine_ring *er, uint32_t i);

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
