/* SPDX-License-Identifier: Apache-2.0 */
/* A chunk in the simulated network, from post to completion or cancellation. Its seed decides its
 * faults when it is posted; packet.c has its packets. */
#include "backend/sim/sim.h"

/* ---- ops ---- */

static void op_to_send(struct sim_op *op)
{
	struct sim_ep *ep = op->ep;

	list_add_tail(&op->unsent, &ep->unsent);
	if (list_empty(&ep->sending))
		list_add_tail(&ep->sending, &ep->dev->sending);
}

/* FLUSHes are sent once only FLUSHes are before them. */
static void send_flushes(struct sim_ep *ep)
{
	struct sim_op *op;

	list_for_each_entry(op, &ep->ops, link) {
		if (op->kind != CHUNK_FLUSH)
			return;
		if (op->chunk && !op->packets && list_empty(&op->unsent))
			op_to_send(op);
	}
}

static void op_free(struct sim_op *op)
{
	struct sim_ep *ep = op->ep;

	assert(!op->chunk && !op->inflight);
	list_del(&op->link);
	list_del(&op->unsent);
	op->next = ep->free_ops;
	ep->free_ops = op;
	if (!ep->down)
		send_flushes(ep);
}

/* If the ep ended, it is unknown whether the chunk was done; an answer of the peer tells. */
static int may_fail_over(const struct sim_ep *ep, int res)
{
	return ep->down && (res == ep->down || res == -ECONNRESET || res == -ECANCELED);
}

static void chunk_done(struct sim_device *dev, struct chunk *chunk, int res, uint32_t flags)
{
	chunk->res = res;
	chunk->path = 0;
	if (res && may_fail_over(to_sim_ep(chunk->ep), res))
		flags |= CHUNK_FAILOVER;
	chunk->flags |= (uint8_t)flags;
	chunk->state = 0;
	chunk_queue_add(&dev->done, chunk);
	sim_wake(dev);
}

static void op_out(struct sim_op *op, int res, uint32_t flags)
{
	struct chunk *chunk = op->chunk;

	if (!res && op->fault)
		res = -EIO;
	op->chunk = NULL;
	list_del(&op->unsent);
	chunk_done(op->ep->dev, chunk, res, flags);
}

/* Completes it without an answer of the peer; an op that was never sent is quiet all the same. */
static void op_give_up(struct sim_op *op, int res)
{
	if (op->chunk)
		op_out(op, op->res ? op->res : res, op->packets ? 0 : CHUNK_QUIET);
}

static int op_ended(const struct sim_op *op)
{
	if (op->stopped)
		return !op->inflight;
	return !op->waiting && op->packets && list_empty(&op->unsent);
}

void sim_op_check(struct sim_op *op)
{
	if (op->chunk && op_ended(op))
		op_out(op, op->res, op->inflight ? 0 : CHUNK_QUIET);
	if (!op->chunk && !op->inflight)
		op_free(op);
}

/* ---- posting ---- */

/* Only a WRITE or READ can be placed in part. */
static enum sim_fault op_fault(const struct sim_op *op, const struct sim_faults *f)
{
	uint64_t draw = sim_draw(op->seed, DRAW_FAULT, 0);
	int is_data = op->kind == CHUNK_WRITE || op->kind == CHUNK_READ;

	if (is_data && sim_happens(f->partial, sim_draw(op->seed, DRAW_PART, UINT32_MAX)))
		return SIM_FAULT_PARTIAL;
	if (!sim_happens(f->error, draw))
		return SIM_FAULT_NONE;
	return sim_draw(op->seed, DRAW_KIND, 0) & 1 ? SIM_FAULT_NOTHING : SIM_FAULT_PLACED;
}

static void op_fill(struct sim_op *op, struct chunk *chunk)
{
	const struct sim_faults *f = &op->ep->dev->faults;
	uint64_t serial = op->ep->posted++;

	op->chunk = chunk;
	op->seed = sim_draw(op->ep->seed, (uint32_t)(serial >> 32), (uint32_t)serial);
	op->off = chunk->off;
	op->len = chunk->kind == CHUNK_FLUSH ? 0 : chunk->len;
	op->exposure = chunk->key ? (uint32_t)chunk->key->v[0] : 0;
	op->sent = op->packets = op->waiting = op->inflight = 0;
	op->res = 0;
	op->kind = chunk->kind;
	op->checksum = chunk->checksum;
	op->stopped = 0;
	op->early =
		op->kind == CHUNK_WRITE && sim_happens(f->early, sim_draw(op->seed, DRAW_EARLY, 0));
	op->fault = op_fault(op, f);
}

int sim_op_post(struct sim_ep *ep, struct chunk *chunk)
{
	struct sim_op *op = ep->free_ops;

	if (ep->state != SIM_EP_UP) {
		chunk->flags = 0;
		ep->taken++;
		chunk_done(ep->dev, chunk, ep->down ? ep->down : -ENOTCONN, CHUNK_QUIET);
		return 1;
	}
	if (!op)
		return 0;
	ep->free_ops = op->next;
	ep->taken++;
	op_fill(op, chunk);
	chunk->flags = 0;
	chunk->state = 1;
	chunk->scratch[0] = (uint64_t)(uintptr_t)op;
	list_init(&op->unsent);
	list_add_tail(&op->link, &ep->ops);
	if (op->kind == CHUNK_FLUSH)
		send_flushes(ep);
	else
		op_to_send(op);
	return 1;
}

/* ---- ending before the end ---- */

/* All of them, or only the acknowledged packets that are not placed. */
static void op_drop_packets(struct sim_op *op, int all)
{
	struct sim_ep *ep = op->ep;
	uint32_t i;

	for (i = 0; i < SIM_PACKETS; i++) {
		if (ep->packets[i].op != op || (!all && ep->packets[i].stage != SIM_PLACING))
			continue;
		sim_heap_del(ep->dev, &ep->packets[i]);
		ep->packets[i].op = NULL;
		ep->packets[i].next = ep->free_packets;
		ep->free_packets = &ep->packets[i];
		op->inflight--;
	}
	assert(!op->inflight || !all);
	op->waiting = all ? 0 : op->waiting;
}

void sim_op_cancel(struct chunk *chunk, enum cancel_how how)
{
	struct sim_op *op = (struct sim_op *)(uintptr_t)chunk->scratch[0];

	chunk->flags |= CHUNK_CANCELLED;
	if (!chunk->state)
		return;
	list_del(&op->unsent);
	op->stopped = 1;
	if (how == CANCEL_NOW) {
		/* Packets of a WRITE or SEND are copies; READ and FLUSH need the chunk. */
		op_give_up(op, -ECANCELED);
		if (op->kind == CHUNK_READ || op->kind == CHUNK_FLUSH)
			op_drop_packets(op, 1);
	} else if (!op->res && (op->sent < op->len || !op->packets)) {
		op->res = -ECANCELED;
	}
	sim_op_check(op);
}

/* A WRITE's packets are copies: packets in flight still arrive if the peer's ep exists. */
void sim_op_end_all(struct sim_ep *ep, int res)
{
	struct sim_op *op;

	list_for_each_entry_safe(op, &ep->ops, link) {
		op_give_up(op, res);
		op_drop_packets(op, op->kind != CHUNK_WRITE);
		if (!op->inflight)
			op_free(op);
	}
	list_del(&ep->sending);
}

int sim_op_left(const struct sim_ep *ep)
{
	return !list_empty(&ep->ops);
}

void sim_op_lose_all(struct sim_ep *ep)
{
	struct sim_op *op;

	while (!list_empty(&ep->ops)) {
		op = list_first(&ep->ops, struct sim_op, link);
		op_drop_packets(op, 1);
		op_free(op);
	}
}
