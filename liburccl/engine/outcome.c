/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The outcome of an entry, as any file of the engine may decide it. Nothing ends here: a decided
 * entry goes to the engine's ready list, and op.c takes its next step from there in the same
 * iteration.
 */
#include "engine/op.h"
#include "engine/peer.h"

#define SUMMED_MOST 256u /* segments that are summed up; many entries may fail in one iteration */

/* ---- the ready list ---- */

void op_ready(struct op *op)
{
	if (op->state == OP_FLUSHING) /* it is in the list of its rail, which continues it */
		return;
	list_del(&op->link);
	list_add_tail(&op->link, &op_engine(op)->ready);
	op->bits |= OP_LISTED;
}

void op_returned(struct op *op)
{
	if (!op->inflight && op->bits & (OP_DECIDED | OP_DONE_CURSOR))
		op_ready(op);
}

void op_result(struct op *op, int64_t res)
{
	op->bits |= OP_DECIDED;
	op->res = res;
	op_ready(op);
}

/* ---- the record of a failure ---- */

static uint32_t reached_segment(const struct op *op)
{
	const struct cursor *c = &op->cursor;

	if (c->cur.len)
		return c->cur.seg;
	if (op->bits & OP_DONE_CURSOR)
		return UINT32_MAX;
	if (c->element.pos < c->element.len && c->elements)
		return (uint32_t)(c->elements - 1);
	return c->elements < UINT32_MAX ? (uint32_t)c->elements : UINT32_MAX;
}

static uint64_t op_bytes(const struct op *op)
{
	const struct urccl_seg *s = (const void *)(uintptr_t)op->sqe.addr;
	uint64_t sum = op->total;
	uint32_t i;

	for (i = 0; op->bits & OP_IS_VECTOR && i < op->sqe.len; i++)
		sum += s[i].len;
	return sum < op->placed ? op->placed : sum;
}

static int others_ended(const struct op *op, uint32_t reason)
{
	if (op->sqe.opcode == URCCL_OP_CONNECT && (op->res == -ECONNREFUSED || op->res == -EPROTO))
		return 1;
	return reason == REASON_REVOKED || (op->res == -ECONNRESET && reason != REASON_PEER_LOST);
}

/* The time for the record, in us. -ETIMEDOUT: the time limit, unless the reason has it already. If
 * something else ended the entry: 1 + the time since its start. Otherwise 0. */
static uint32_t after_us(const struct op *op, uint32_t reason)
{
	uint64_t us = 0;

	if (op->res == -ETIMEDOUT && (reason < REASON_DEADLINE || reason > REASON_DEADLINE_LAST))
		us = (op->deadline_ns - op->started_ns) / NSEC_PER_USEC;
	else if (others_ended(op, reason))
		us = 1 + (op->started_ns ? op_engine(op)->now - op->started_ns : 0) / NSEC_PER_USEC;
	return us < UINT32_MAX ? (uint32_t)us : UINT32_MAX;
}

/* 1: the record names the transport. Entries submitted after a peer was lost record none, even if
 * the old rail is still closing. */
static int op_used_path(const struct op *op, uint32_t reason)
{
	return reason != REASON_PEER_LOST && reason != REASON_PEER_RESTARTED && op->peer &&
	       op->peer->rail;
}

void op_record(struct op *op, uint32_t reason, uint64_t a, uint64_t b, uint64_t c)
{
	struct failure f = {
		.reason = reason,
		.res = (int32_t)op->res,
		.peer = op->peer ? op->peer->handle : 0,
		.segment = op->first_bad,
		.opcode = op->sqe.opcode,
		.after_us = after_us(op, reason),
		.arg = {a, b, c},
		.user_data = op->sqe.user_data,
	};

	if (op_used_path(op, reason))
		f.transport = (uint8_t)op->peer->rail->ep->dev->ops->transport;
	op->detail = failures_add(&op_engine(op)->failures, &f);
}

/* ---- failing ---- */

void op_fail(struct op *op, int res, uint32_t reason, uint64_t a, uint64_t b, uint64_t c)
{
	uint32_t seg = op_is_data(op) ? reached_segment(op) : UINT32_MAX;

	if (op->state == OP_FREE || (op->bits & OP_DECIDED))
		return;
	op->bits |= OP_DECIDED;
	op->res = res;
	if (seg < op->first_bad)
		op->first_bad = seg;
	op_record(op, reason, a, b, c);
	list_del(&op->drain_link); /* it waits for no entry any more */
	order_leave_fence(op);
	op_ready(op);
}

int op_fail_handle(struct op *op, uint32_t handle, enum handle_kind wanted, uint32_t stale)
{
	struct handle_error e = handle_error(handle, wanted, stale);

	op_fail(op, e.res, e.reason, e.arg[0], e.arg[1], 0);
	return e.res;
}

/* The total length of a long vector is unknown: segments are read lazily. */
void op_fail_midway(struct op *op, int res, uint32_t reason, uint32_t reason_long, uint64_t figure)
{
	uint64_t placed = op->bits & OP_UNPROVED ? 0 : op->placed;

	if (op->bits & OP_DECIDED)
		return;
	if (op->bits & OP_IS_VECTOR && op->sqe.len > SUMMED_MOST)
		op_fail(op, res, reason_long, figure, placed, op->sqe.len);
	else
		op_fail(op, res, reason, figure, placed, op_bytes(op));
}

void op_fail_device(struct op *op, int res, uint64_t code)
{
	op_fail_midway(op, res, REASON_DEVICE, REASON_DEVICE_LONG, (uint64_t)-res | code);
}

void op_fail_chunk(struct op *op, const struct chunk *c)
{
	int res = c->res;

	if (c->seg < op->first_bad)
		op->first_bad = c->seg;
	if (c->flags & CHUNK_BOUNCES)
		op_fail(op, res, REASON_BOUNCE, 0, 0, 0);
	else if (res == -EBADMSG)
		op_fail(op, res, REASON_CHECKSUM, c->len, 0, 0);
	else if (res == -EOPNOTSUPP)
		op_fail(op, res, REASON_CHECKSUM_NONE, 0, 0, 0);
	else if (c->flags & CHUNK_CODED && c->path & URCCL_PATH_DEVICE)
		op_fail(op, res, REASON_GPU_COPY, c->len, c->scratch[0] >> 32, 0);
	else if (c->flags & CHUNK_REFUSED) /* it broke the ep: reported as a reset */
		op_fail(op, -ECONNRESET, REASON_PEER_RESET, ECONNRESET, 0, 0);
	else if (res == -EACCES || res == -ERANGE || res == -ESTALE)
		op_fail(op, res, REASON_PEER_REFUSED, c->len, (uint64_t)-res, 0);
	else if (res == -EFAULT && op_reads(op))
		op_fail(op, res, REASON_READ_ONLY, c->len, (uintptr_t)c->local, 0);
	else if (res == -ECONNRESET)
		op_fail(op, res, REASON_PEER_RESET, (uint64_t)-res, 0, 0);
	else if (res == -EILSEQ)
		op_fail(op, -ECONNRESET, REASON_PEER_GARBLED, 0, 0, 0);
	else
		op_fail_device(op, res, c->flags & CHUNK_CODED ? c->scratch[0] : 0);
}

/* ---- blockers ---- */

void op_unblock(struct op *op)
{
	assert(op->blockers);
	if (--op->blockers == 0 && op->state == OP_WAITING && !(op->bits & OP_DECIDED))
		op_ready(op);
}

void op_block_failed(struct op *op, uint32_t reason, uint64_t arg)
{
	if (op->state != OP_WAITING || (op->bits & OP_DECIDED))
		return;
	if (reason == REASON_FENCE || reason == REASON_FENCE_LOST)
		op->bits |= OP_FORGIVEN;
	op_fail(op, -ECANCELED, reason, arg, 0, 0);
}
