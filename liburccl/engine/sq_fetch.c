/* SPDX-License-Identifier: Apache-2.0 */
/* Takes entries from a ring: copies them, checks them, resolves handles, and starts them or lets
 * them wait. */
#include "engine/post.h"
#include "engine/stats.h"

#define SMALL_BYTES 16384u /* entries of class bulk up to this size have a lane of their own */
/* Entries of the classes latency and control up to this size use the lane of their class. */
#define URGENT_BYTES 65536u
#define URGENT_SEGS  1024u
#define SHOW	     8u /* entries taken before the program sees the results so far */

/* 1: a vector of URGENT_BYTES or less. The size of a long vector is known only when its segments
 * have been reached; a short one is quickly summed up. */
static int is_short_vector(const struct op *op)
{
	const struct urccl_seg *s = (const struct urccl_seg *)(uintptr_t)op->sqe.addr;
	uint64_t left = URGENT_BYTES, i;

	if (op->sqe.len > URGENT_SEGS)
		return 0;
	for (i = 0; i < op->sqe.len && s[i].len <= left; i++)
		left -= s[i].len;
	return i == op->sqe.len;
}

/* A long entry is bulk whatever its class, or urgent entries would wait behind it. */
__attribute__((noinline, cold)) static void choose_by_class(struct op *op)
{
	static const uint8_t lanes[] = {LANE_BULK, LANE_LATENCY, LANE_CONTROL}; /* by class */

	int is_short = op->bits & OP_IS_VECTOR ? is_short_vector(op) : op->total <= URGENT_BYTES;

	op->lane = is_short ? lanes[op->sqe.flags >> URCCL_SQE_CLASS_SHIFT] : LANE_BULK;
}

static void choose_lane(struct op *op)
{
	int is_small = op->total <= SMALL_BYTES && !(op->bits & OP_IS_VECTOR);

	if (op->sqe.flags >> URCCL_SQE_CLASS_SHIFT)
		choose_by_class(op);
	else
		op->lane = is_small ? LANE_SMALL : LANE_BULK;
}

static struct op *op_new(struct engine_ring *er, const struct urccl_sqe *sqe)
{
	struct op *op = er->free[--er->nfree];

	op->sqe = *sqe;
	op->started_ns = 0; /* in memory order, so that the compiler joins the stores */
	op->total = op->placed = 0;
	op->peer = NULL;
	op->state = OP_WAITING;
	op->remote = NULL;
	op->memory = NULL;
	op->scope_all = op->scope_group = NULL;
	op->linked = op->linked_to = NULL;
	op->flush_key = NULL;
	op->note = op->handle = 0;
	op->deadline_ns = 0;
	op->path = op->detail = op->left = op->drain_left = 0;
	op->note_len = op->hits = 0;
	op->flush_rails = op->fence = op->tries = op->worst = 0;
	op->blockers = 0;
	op->res = 0;
	op->first_bad = UINT32_MAX;
	return op;
}

static void cursor_reset(struct cursor *c)
{
	c->cur.len = 0;
	c->element.len = c->element.pos = 0;
	c->elements = 0;
	c->desc = c->fresh = 0;
}

static void open_data(struct op *op)
{
	if (op_is_atomic(op))
		atomic_open(op);
	else if (!cursor_open(op))
		choose_lane(op);
}

/* 1: a peer that is being lost, or is cut off, accepts nothing more. Its end would otherwise wait
 * for new entries. */
static int refuses(const struct engine_peer *p)
{
	return p->state > PEER_UP || p->cut;
}

static void op_refuse(struct op *op)
{
	const struct engine_peer *p = op->peer;
	uint64_t ms = (op_engine(op)->now - p->lost_ns) / NSEC_PER_MSEC;

	if (p->state <= PEER_UP)
		op_fail(op, -ENETDOWN, REASON_PORTS_DOWN, 0, 0, 0);
	else if (p->restarted)
		op_fail(op, -ESTALE, REASON_PEER_RESTARTED, ms, 0, 0);
	else
		op_fail(op, -ECONNRESET, REASON_PEER_LOST, ms, 0, 0);
}

static void op_start(struct op *op)
{
	if (op->bits & (OP_IS_DATA | OP_IS_ATOMIC))
		open_data(op);
	if (op->peer && refuses(op->peer) && !(op->bits & OP_MULTISHOT))
		op_refuse(op);
	if (op->bits & OP_DECIDED)
		op_run_ready(op_engine(op)); /* CQEs of failures keep their place */
	else if (!op->blockers)
		op_begin(op);
}

static void sqe_take(struct engine *e, struct engine_ring *er, const struct urccl_sqe *sqe)
{
	struct op *op = op_new(er, sqe);
	struct verdict v;
	int wrong = check_entry(e, op, sqe, &v);

	/* A failure before the start names the first segment. */
	if (op->bits & (OP_IS_DATA | OP_IS_ATOMIC))
		cursor_reset(&op->cursor);
	if (!order_enter(op) && !wrong) {
		op_start(op);
	} else {
		op->sqe.len = 0; /* its array was not checked: CANCEL must not read it */
		if (wrong)
			op_fail(op, v.res, v.reason, v.a, v.b, 0);
		op_run_ready(e);
	}
	if (op->state != OP_FREE && !op->is_fresh) {
		op->is_fresh = 1;
		op->fresh_next = e->fresh;
		e->fresh = op;
	}
}

/* Not inlined, to keep an iteration without entries fast. */
__attribute__((noinline)) uint32_t sq_fetch(struct engine *e, struct engine_ring *er, uint32_t n)
{
	struct ring *r = er->ring;
	uint32_t i;

	if (n > er->nfree)
		n = er->nfree; /* limits a program that wrote a wrong tail */
	for (i = 0; i < n;) {
		const struct urccl_sqe *sqe = ring_sqe(r, i++);

		PROBE(entry_taken, r->pub.id, sqe->user_data, sqe->opcode);
		if (!immediate_take(e, er, sqe))
			sqe_take(e, er, sqe);
		if (i % SHOW)
			continue;
		stats_succeeded(e);
		stats_ended(er);
		ring_show(r);
	}
	ring_taken(r, n);
	stats_taken(er);
	return n;
}
