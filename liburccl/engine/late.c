/* SPDX-License-Identifier: Apache-2.0 */
/* The reason that an entry was waiting for when its deadline passed. */
#include "engine/op.h"
#include "engine/peer.h"

static struct late late_make(uint32_t reason, uint64_t a, uint64_t b)
{
	return (struct late){reason, a, b};
}

/* An entry that was taken and has not begun. */
static struct late waiting(const struct op *op)
{
	const struct sync *s = sync_of(op);
	const struct engine_peer *p = op->peer;

	if (op->bits & OP_AWAITS)
		return late_make(s->wait_kind == URCCL_SYNC_CUDA_EVENT ? REASON_DEADLINE_EVENT
								       : REASON_DEADLINE_WORD,
				 (uintptr_t)s->wait, s->wait_value);
	if (op->linked_to)
		return late_make(REASON_DEADLINE_CHAIN, 0, 0);
	if (!list_empty(&op->drain_link))
		return late_make(REASON_DEADLINE_DRAIN, op->drain_left, 0);
	if (!list_empty(&op->fence_link))
		return late_make(REASON_DEADLINE_FENCE, order_waits_for(op), 0);
	if (p && p->state < PEER_UP)
		return late_make(REASON_DEADLINE_PATH, 0, 0);
	return late_make(REASON_DEADLINE_OTHER, 0, 0);
}

static int lacks_keys(const struct engine_peer *p, const struct engine_remote *r)
{
	return r && p->rail && r->nkeys[p->rail->number] < r->nparts;
}

/* The number of its chunks that wait in the lane, since the device is full. */
static uint32_t held_chunks(const struct op *op)
{
	const struct chunk *c;
	uint32_t n = 0;

	for (c = op->peer->lanes[op->lane].held.head; c; c = c->next)
		n += c->op == op;
	return n;
}

static struct late moving(const struct op *op)
{
	const struct engine_remote *r = op->cursor.cur.len ? op->cursor.cur.remote : op->remote;
	uint32_t out = op->inflight;

	if (!op->peer->nup)
		return late_make(REASON_DEADLINE_RAIL, 0, 0);
	if (!out && lacks_keys(op->peer, r))
		return late_make(REASON_DEADLINE_KEYS, r->handle, 0);
	if (op->state == OP_MOVING && !(op->bits & OP_DONE_CURSOR) && out == held_chunks(op))
		return late_make(REASON_DEADLINE_ROOM, 0, 0);
	return late_make(REASON_DEADLINE, 0, 0);
}

static struct late notifying(const struct op *op)
{
	if (op->note_slot == NOTE_WINDOW)
		return late_make(REASON_DEADLINE_WINDOW, NOTE_WINDOW, 0);
	return late_make(REASON_DEADLINE_NOTE, op->sqe.tag, 0);
}

static struct late atomic(const struct op *op)
{
	if (lacks_keys(op->peer, op->remote))
		return late_make(REASON_DEADLINE_KEYS, op->remote->handle, 0);
	if (op->atomic_slot == ATOMIC_WINDOW)
		return late_make(REASON_DEADLINE_WINDOW, ATOMIC_WINDOW, 0);
	return late_make(REASON_DEADLINE_ANSWER, 0, 0);
}

static struct late parked(const struct op *op)
{
	if (op->sqe.opcode == URCCL_OP_MSG_RING)
		return late_make(REASON_DEADLINE_SLOTS, op->sqe.ring, 0);
	if (op->sqe.opcode == URCCL_OP_CANCEL)
		return late_make(REASON_DEADLINE_ENTRIES, op->left, 0);
	return late_make(REASON_DEADLINE_OTHER, 0, 0);
}

struct late late_of(const struct op *op)
{
	switch (op->state) {
	case OP_WAITING:
		return waiting(op);
	case OP_MOVING:
	case OP_FLUSHING:
		return moving(op);
	case OP_NOTING:
		return notifying(op);
	case OP_ATOMIC:
		return atomic(op);
	case OP_PARKED:
		return parked(op);
	case OP_SIGNALLING:
		return late_make(REASON_DEADLINE_SIGNAL, (uintptr_t)sync_of(op)->signal, 0);
	default:
		return late_make(REASON_DEADLINE_OTHER, 0, 0);
	}
}
