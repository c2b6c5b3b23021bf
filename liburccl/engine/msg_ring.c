/* SPDX-License-Identifier: Apache-2.0 */
/*
 * MSG_RING: posts an event to another ring of the context. It takes an event slot of the target. If
 * none is free, the entry waits at the target, in order and under its deadline: nothing is dropped.
 * All rings belong to one engine, so message_post() can write the target's CQE directly; it is
 * published at the end of the iteration.
 */
#include "engine/op.h"

static struct engine_ring *ring_find(struct engine *e, uint32_t id)
{
	struct engine_ring *er;

	list_for_each_entry(er, &e->rings, link) {
		if (er->ring->pub.id == id)
			return er->closing ? NULL : er;
	}
	return NULL;
}

/* 1: posted; 0: no event slot. */
static int message_post(struct engine_ring *to, const struct op *op)
{
	void *payload;
	struct urccl_cqe *cqe = ring_post_event(to->ring, &payload);

	if (!cqe)
		return 0;
	cqe->user_data = op->sqe.operand;
	cqe->res = op->sqe.msg_res;
	cqe->flags = URCCL_KIND_MSG | URCCL_CQE_MORE;
	cqe->path = op->er->ring->pub.id;
	cqe->tag = op->sqe.tag;
	return 1;
}

void msg_ring_start(struct op *op)
{
	struct engine *e = op_engine(op);
	struct engine_ring *to = ring_find(e, op->sqe.ring);

	if (!to) {
		op_fail_handle(op, op->sqe.ring, HANDLE_INTERNAL, REASON_RING_STALE);
		return;
	}
	if (list_empty(&to->messages) && message_post(to, op)) {
		op_result(op, 0);
		return;
	}
	op->state = OP_PARKED;
	list_add_tail(&op->link, &to->messages);
	if (list_empty(&to->messages_link))
		slow_list_add(e, &to->messages_link, &e->messages);
}

int msg_rings_pending(struct engine *e)
{
	struct engine_ring *to;
	struct op *op;
	int waits = 0;

	list_for_each_entry_safe(to, &e->messages, messages_link) {
		while (!list_empty(&to->messages)) {
			op = list_first(&to->messages, struct op, link);
			if (!message_post(to, op))
				break;
			op_result(op, 0);
		}
		if (list_empty(&to->messages))
			list_del(&to->messages_link);
		else
			waits = 1;
	}
	return waits;
}

void msg_ring_gone(struct engine_ring *er)
{
	while (!list_empty(&er->messages))
		op_fail(list_first(&er->messages, struct op, link), -ESTALE, REASON_RING_STALE,
			er->ring->pub.id, 0, 0);
	list_del(&er->messages_link);
}
