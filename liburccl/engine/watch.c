/* SPDX-License-Identifier: Apache-2.0 */
/* The ring that receives the events of a peer. A WATCH chooses it, or a CONNECT or ACCEPT with
 * URCCL_SQE_WATCH, which leaves no entry behind. deliver.c posts the events. */
#include "engine/peer.h"
#include "engine/stats.h"

static const struct watch nowhere;

/* Delivers changes of rails that no ring was told of. */
static void rails_pending(struct engine *e)
{
	struct engine_peer *p;

	list_for_each_entry(p, &e->peers, link) {
		if (p->rails_news)
			pending_add(p);
	}
}

/* p NULL: the watch of all peers. */
static void watch_put(struct engine *e, struct engine_peer *p, const struct watch *w)
{
	*(p ? &p->watch : &e->watch_all) = *w;
	stat_set32(p ? &p->stats->watched : &e->stats->watched, w->er ? w->er->ring->pub.id : 0);
}

/* Replaces the previous watch, whose entry ends. */
static void watch_set(struct engine *e, struct engine_peer *p, const struct watch *w)
{
	struct op *old = p ? p->watch.op : e->watch_all.op;

	watch_put(e, p, w);
	if (old)
		op_fail(old, -ECANCELED, REASON_REPLACED, 0, 0, 0);
	if (p && w->er && !p->watch_said)
		peer_awaited(e, p);
	if (p)
		pending_add(p);
	else
		rails_pending(e);
}

void watch_drop(struct engine_peer *p)
{
	watch_put(p->engine, p, &nowhere);
}

void watch_given(const struct op *op, struct engine_peer *p)
{
	struct watch w = {op->er, op->sqe.user_data, NULL};

	watch_set(op_engine(op), p, &w);
}

void watch_start(struct op *op)
{
	struct watch w = {op->er, op->sqe.user_data, op};
	struct engine *e = op_engine(op);
	struct engine_peer *p = op->peer;

	if (p && p->lost_due && !p->lost_unposted && list_empty(&p->parked_list)) {
		op_fail(op, -ECONNRESET, REASON_PEER_LOST, (e->now - p->lost_ns) / NSEC_PER_MSEC, 0,
			0);
		return;
	}
	op->state = OP_PARKED;
	watch_set(e, p, &w);
}

void watch_stop(const struct op *op)
{
	struct engine *e = op_engine(op);

	if (e->watch_all.op == op)
		watch_put(e, NULL, &nowhere);
	if (op->peer && op->peer->watch.op == op)
		watch_put(e, op->peer, &nowhere);
}

void watches_gone(struct engine_ring *er)
{
	struct engine *e = er->engine;
	struct engine_peer *p;

	list_for_each_entry(p, &e->peers, link) {
		if (p->watch.er != er)
			continue;
		watch_put(e, p, &nowhere);
		pending_add(p); /* a WATCH of all peers may receive them */
	}
}
