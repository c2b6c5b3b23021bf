/* SPDX-License-Identifier: Apache-2.0 */
/* Posts events of peers to the ring that watches them: notifications, rails, LOST. */
#include "engine/peer.h"
#include "engine/stats.h"

/* The watch for the peer's events; er NULL: there is none. */
static const struct watch *watcher(const struct engine_peer *p)
{
	return p->watch.er ? &p->watch : &p->engine->watch_all;
}

/* 1: posted; 0: no event slot. */
static int deliver_note(struct engine_peer *p, const struct watch *w, struct parked_note *n)
{
	void *payload;
	struct urccl_cqe *cqe = ring_post_event(w->er->ring, &payload);

	if (!cqe)
		return 0;
	cqe->user_data = w->user_data;
	cqe->res = n->res;
	cqe->flags = URCCL_KIND_NOTE | URCCL_CQE_MORE;
	if (p->unflushed || p->flush_gpus & p->engine->direct.failed)
		cqe->flags |= URCCL_CQE_NOT_FLUSHED;
	cqe->peer = p->handle;
	cqe->tag = n->tag;
	memcpy(payload, n->payload, n->len);
	p->delivered |= 1ull << (n->seq % NOTE_STATES);
	p->ack_due = 1;
	list_del(&n->link);
	list_add_tail(&n->link, &p->parked_free);
	stat_add(&p->engine->stats->count.notes_received, 1);
	return 1;
}

/* The record is written only now: failures of the peer's entries may have used up all records
 * before. */
static uint32_t lost_record(const struct engine_peer *p)
{
	struct failure f = {.reason = p->lost_reason,
			    .res = p->lost_cause,
			    .peer = p->handle,
			    .segment = UINT32_MAX,
			    .opcode = URCCL_OP_WATCH,
			    .arg = {p->lost_arg}};

	return p->lost_res ? failures_add(&p->engine->failures, &f) : 0;
}

static void lost_fill(const struct engine_peer *p, struct urccl_cqe *cqe, uint64_t user_data,
		      uint32_t more)
{
	cqe->user_data = user_data;
	cqe->res = p->lost_res;
	cqe->flags = URCCL_KIND_LOST | more;
	cqe->peer = p->handle;
	cqe->fail.segment = UINT32_MAX;
	cqe->fail.detail = lost_record(p);
}

void watch_end(struct op *op, struct engine_peer *p)
{
	struct ring *r = op->er->ring;
	struct urccl_cqe cqe;

	watch_drop(p);
	lost_fill(p, &cqe, op->sqe.user_data, 0);
	op->bits |= OP_OUTCOME;
	op_end(op, cqe.res);
	r->pub.cqes[(r->own.tail - 1) & r->pub.cq_mask] = cqe;
}

/* LOST ends a WATCH of that peer, and is an event otherwise. 1: posted. */
static int deliver_lost(struct engine_peer *p, const struct watch *w)
{
	struct urccl_cqe *cqe;
	void *payload;

	if (w == &p->watch && w->op) {
		watch_end(w->op, p);
		return 1;
	}
	cqe = ring_post_event(w->er->ring, &payload);
	if (!cqe)
		return 0;
	lost_fill(p, cqe, w->user_data, URCCL_CQE_MORE);
	return 1;
}

/* Posts the event of the first rail that changed. 1: posted, or there is none. */
static int deliver_rail(struct engine_peer *p, const struct watch *w)
{
	uint32_t number = (uint32_t)__builtin_ctz(p->rails_news), bit = 1u << number;
	struct urccl_cqe *cqe;
	void *payload;

	if ((p->rails_up ^ p->rails_said) & bit) {
		cqe = ring_post_event(w->er->ring, &payload);
		if (!cqe)
			return 0;
		cqe->user_data = w->user_data;
		cqe->res = p->rails_up & bit ? 0 : p->rail_res[number];
		cqe->flags = URCCL_KIND_RAIL | URCCL_CQE_MORE;
		cqe->peer = p->handle;
		cqe->tag = number;
		p->rails_said ^= bit;
	}
	p->rails_news &= ~bit;
	return 1;
}

enum { DELIVER_NOTHING, DELIVER_DONE, DELIVER_NO_SLOT };

/* Delivers one event: a notification, then a rail, then LOST if it is due. Nothing of the peer
 * comes after LOST. */
static int deliver(struct engine_peer *p)
{
	const struct watch *w = watcher(p);

	/* Until PEER_UP the program does not have the handle: PEER_UP checks again. */
	if (p->state == PEER_CONNECTING || !w->er)
		return DELIVER_NOTHING;
	if (!list_empty(&p->parked_list)) {
		struct parked_note *n = list_first(&p->parked_list, struct parked_note, link);

		if (p->flush_gpus && !direct_flushed(p->engine, n))
			return DELIVER_NOTHING;
		return deliver_note(p, w, n) ? DELIVER_DONE : DELIVER_NO_SLOT;
	}
	if (p->rails_news && p->state == PEER_UP)
		return deliver_rail(p, w) ? DELIVER_DONE : DELIVER_NO_SLOT;
	if (!p->lost_unposted || !p->lost_due)
		return DELIVER_NOTHING;
	if (!deliver_lost(p, w))
		return DELIVER_NO_SLOT;
	p->lost_unposted = 0;
	return DELIVER_DONE;
}

/* A peer that got a slot moves behind the others, in this iteration and the next: few slots are
 * shared fairly. */
static int deliver_all(struct engine *e)
{
	struct list *pos = e->pending.next, *next;
	int waits = 0, did;

	while (pos != &e->pending) {
		did = deliver(list_entry(pos, struct engine_peer, pending_link));
		waits |= did == DELIVER_NO_SLOT;
		next = pos->next;
		if (did == DELIVER_DONE) {
			list_del(pos);
			list_add_tail(pos, &e->pending);
			if (next == &e->pending)
				next = pos;
		}
		pos = next;
	}
	return waits;
}

static void stats_parked(const struct engine_peer *p)
{
	uint64_t parked = list_empty(&p->parked_list) ? 0 : p->arrived & ~p->delivered;

	stat_set32(&p->stats->parked, parked ? (uint32_t)__builtin_popcountll(parked) : 0);
}

int notes_pending(struct engine *e)
{
	int waits = deliver_all(e);
	struct engine_peer *p;

	list_for_each_entry_safe(p, &e->pending, pending_link) {
		note_ack_send(p);
		stats_parked(p);
		if (list_empty(&p->parked_list) && !p->lost_unposted && !p->ack_due &&
		    (!p->rails_news || !watcher(p)->er))
			list_del(&p->pending_link);
	}
	return waits;
}
