/* SPDX-License-Identifier: Apache-2.0 */
/* Takes entries off a ring: copies, checks, resolves handles, and either starts them or lets them
 * wait. */
#include "engine/private.h"

#define SMALL_BYTES  16384u /* entries up to here have a lane of their own, */
#define URGENT_BYTES 65536u /* and those of the classes above bulk up to here have theirs */
#define URGENT_SEGS  1024u
#define SHOW	     8u /* entries taken until the program sees what became of them */

/* What a vector is in all is known when its segments were reached; one that is short is soon
 * looked at. */
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

/* What is long is bulk whatever its class, or all that goes before bulk would wait behind it. */
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

/* It stays OP_FREE until its handles are known: news that is heard in looking for them is of
 * entries that are under way. */
static struct op *op_new(struct engine_ring *er, const struct urccl_sqe *sqe)
{
	struct op *op = er->free[--er->nfree];

	op->sqe = *sqe;
	op->peer = NULL; /* in the order of their places, which makes few stores of them */
	op->remote = NULL;
	op->memory = NULL;
	op->scope_all = op->scope_group = NULL;
	op->linked = op->linked_to = NULL;
	op->flush_key = NULL;
	op->note = op->total = op->placed = op->handle = 0;
	op->started_ns = op->deadline_ns = 0;
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

/* A peer that is being lost takes nothing more, for its end would wait for what waits here; nor
 * does one that is cut off. */
static int refuses(const struct engine_peer *p)
{
	return p->state > PEER_UP || p->cut;
}

static void refuse(struct op *op)
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

/* A look for what is not known yet hears news, which may end what it waits for: then it begins in
 * its turn. */
static void start(struct op *op)
{
	uint32_t waits = op->blockers;

	if (op->bits & (OP_IS_DATA | OP_IS_ATOMIC))
		open_data(op);
	if (op->peer && refuses(op->peer) && !(op->bits & OP_MULTISHOT))
		refuse(op);
	if (!waits && !(op->bits & OP_DECIDED)) /* nor has it ended */
		op_begin(op);
}

static void take(struct engine *e, struct engine_ring *er, const struct urccl_sqe *sqe)
{
	struct op *op = op_new(er, sqe);
	struct verdict v;
	int wrong = check_entry(e, op, sqe, &v);

	/* An entry that fails before it starts names its first segment. */
	if (op->bits & (OP_IS_DATA | OP_IS_ATOMIC))
		cursor_reset(&op->cursor);
	op->state = OP_WAITING; /* told with the rest of it, if it outlives the turn */
	if (!order_enter(op) && !wrong) {
		start(op);
	} else {
		op->sqe.len = 0; /* nobody looked at its array: a CANCEL must not */
		if (wrong)
			op_fail(op, v.res, v.reason, v.a, v.b, 0);
	}
	if (op->state != OP_FREE && !op->is_fresh) {
		op->is_fresh = 1;
		op->fresh_next = e->fresh;
		e->fresh = op;
	}
}

uint32_t take_ring(struct engine *e, struct engine_ring *er)
{
	struct ring *r = er->ring;
	uint32_t n = ring_submitted(r), i;

	if (n > er->nfree)
		n = er->nfree; /* a program that wrote its own tail gets what it can have */
	for (i = 0; i < n;) {
		const struct urccl_sqe *sqe = ring_sqe(r, i++);

		PROBE(entry_taken, r->pub.id, sqe->user_data, sqe->opcode);
		take(e, er, sqe);
		if (i % SHOW)
			continue;
		tell_succeeded(e);
		tell_ended(er);
		ring_show(r);
	}
	if (n) {
		ring_taken(r, n);
		tell_taken(er);
	}
	return n;
}
