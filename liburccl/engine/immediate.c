/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Entries that end as they are taken, without a struct op: NOPs, and reads and writes of a few KiB
 * of the peer's memory that is mapped here, which the processor copies at once. An entry for which
 * anything is to be waited, checked or failed is left to sqe_take().
 */
#include "engine/post.h"
#include "engine/stats.h"

#define IMMEDIATE_MOST 8192u /* bytes of an entry */
#define NOP_FLAGS      (URCCL_SQE_SKIP_SUCCESS | URCCL_SQE_NO_WAKE)
/* A copy is placed and proved when it ends: ACKED and NO_REPLAY ask for less. */
#define MOVE_FLAGS (NOP_FLAGS | URCCL_SQE_ACKED | URCCL_SQE_NO_REPLAY | 1u << URCCL_SQE_CLASS_SHIFT)

/* 0: LINK, DRAIN, a TIMEOUT that counts or a CANCEL may wait for the entry, or the ring closes. A
 * device ring has none of those, and is marked as watched for its lanes. */
static inline int ring_is_free(const struct engine_ring *er)
{
	return !(er->chain_open | er->closing) && (!er->watched || er->ring->device);
}

static inline void immediate_end(struct engine_ring *er, const struct urccl_sqe *s, uint64_t moved,
				 uint32_t flags, uint32_t path)
{
	struct ring *r = er->ring;
	struct urccl_cqe *cqe;

	if (s->flags & URCCL_SQE_SKIP_SUCCESS) {
		store_release(&r->engine_line.skipped, r->engine_line.skipped + 1);
		r->own.pending = 1;
	} else {
		cqe = ring_post(r, s->flags & URCCL_SQE_NO_WAKE);
		cqe->user_data = s->user_data;
		cqe->res = (int64_t)moved;
		cqe->flags = URCCL_KIND_OP | flags;
		cqe->path = path;
		cqe->wire = moved;
		er->completions++;
	}
	r->own.done++;
	entry_ended(r, s->user_data, moved);
	if (r->device)
		device_lane_ended(r->device, (uint32_t)(s->user_data >> 32),
				  (uint32_t)s->user_data);
}

static int nop_take(struct engine_ring *er, const struct urccl_sqe *s)
{
	if (s->flags & ~NOP_FLAGS || s->remote | s->region | s->group | s->reserved ||
	    s->addr | s->len | s->off | s->tag)
		return 0;
	immediate_end(er, s, 0, 0, 0);
	return 1;
}

/* The peer's only rail, if it may carry the entry now: no other of its lane waits. */
static struct rail *immediate_rail(const struct engine_peer *p, const struct urccl_sqe *s)
{
	uint32_t lane = s->flags >> URCCL_SQE_CLASS_SHIFT ? LANE_LATENCY : LANE_SMALL;
	struct rail *rail = p->rail;

	if (p->state != PEER_UP || !rail || !rail->up || p->nup != 1 ||
	    !list_empty(&p->lanes[lane].link))
		return NULL;
	return rail->ep->dev->ops->copy ? rail : NULL;
}

/* The key of a remote of one part that the processor reaches, or NULL. */
static const struct rkey *immediate_key(const struct engine_remote *r, const struct rail *rail)
{
	const struct rkey *key;

	if (r->nparts != 1 || !(r->parts[0].rails >> rail->number & 1))
		return NULL;
	key = &r->rail_keys[rail->number][0].key;
	return key->mapped && !(key->gpu | key->relay) ? key : NULL;
}

/* 1: the entry's local memory is known, and the processor reaches it. */
static int has_local(const struct engine *e, const struct rail *rail, const struct urccl_sqe *s)
{
	const struct memory *m = memory_find(e, s->region, s->addr, s->len);

	return m && !(m->staged >> rail->ep->dev->index & 1) && !m->gpus;
}

static void immediate_moved(struct engine *e, struct rail *rail, const struct urccl_sqe *s,
			    enum chunk_kind kind)
{
	struct engine_peer *p = rail->peer;

	p->silent = 0;
	store_relaxed(&p->used, e->iterations);
	rail->came += s->len;
	e->given += s->len;
	e->immediate_left -= (uint32_t)s->len;
	e->served = NULL;
	e->copied_data = s->user_data;
	e->copied_opcode = s->opcode;
	chunk_posted(p->handle, kind, s->len);
	stat_add(&rail->bytes[kind], s->len);
	stat_add(&e->stats->count.chunks, 1);
	stats_moved_of(e, s);
}

static int move_take(struct engine *e, struct engine_ring *er, const struct urccl_sqe *s)
{
	enum chunk_kind kind = s->opcode == URCCL_OP_READ ? CHUNK_READ : CHUNK_WRITE;
	struct engine_remote *r = remote_get(e, s->remote);
	const struct rkey *key;
	struct rail *rail;

	if (!r || !r->mapped || s->len - 1 >= IMMEDIATE_MOST || s->len > e->immediate_left)
		return 0;
	if (s->flags & ~MOVE_FLAGS || s->dtype || s->tag || s->reserved)
		return 0;
	if (s->len > r->len || s->off > r->len - s->len)
		return 0;
	rail = immediate_rail(r->peer, s);
	key = rail ? immediate_key(r, rail) : NULL;
	if (!key || !has_local(e, rail, s))
		return 0;
	if (!rail->ep->dev->ops->copy(rail->ep, kind, key, s->off, (void *)(uintptr_t)s->addr,
				      (uint32_t)s->len))
		return 0;
	immediate_moved(e, rail, s, kind);
	immediate_end(er, s, s->len, URCCL_CQE_REMOTE_QUIET, rail->path);
	return 1;
}

/* Reads each field once, since the program may change its slot, and by itself: a wider load of what
 * the program has just stored would wait until the stores are done. */
static inline struct urccl_sqe sqe_read(const struct urccl_sqe *sqe)
{
	return (struct urccl_sqe){.opcode = load_relaxed(&sqe->opcode),
				  .dtype = load_relaxed(&sqe->dtype),
				  .flags = load_relaxed(&sqe->flags),
				  .user_data = load_relaxed(&sqe->user_data),
				  .remote = load_relaxed(&sqe->remote),
				  .region = load_relaxed(&sqe->region),
				  .addr = load_relaxed(&sqe->addr),
				  .len = load_relaxed(&sqe->len),
				  .off = load_relaxed(&sqe->off),
				  .tag = load_relaxed(&sqe->tag),
				  .group = load_relaxed(&sqe->group),
				  .reserved = load_relaxed(&sqe->reserved)};
}

int immediate_run(struct engine *e, struct engine_ring *er, const struct urccl_sqe *sqe)
{
	const struct urccl_sqe s = sqe_read(sqe);

	if (!ring_is_free(er))
		return 0;
	if (s.opcode == URCCL_OP_NOP)
		return !s.dtype && nop_take(er, &s);
	return (s.opcode == URCCL_OP_READ || s.opcode == URCCL_OP_WRITE) && move_take(e, er, &s);
}
