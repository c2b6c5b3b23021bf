/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The end of a peer: its entries end, its rails close, LOST is posted, the handle becomes stale. A
 * driver that hangs delays only the last step: an entry whose outcome was reported is not waited
 * for, and a rail that does not close is waited for only CLOSING_NS.
 */
#include "engine/post.h"
#include "engine/stats.h"

#define GRACEFUL_NS (1 * NSEC_PER_SEC) /* CLOSE: time for the peer's answers */
/* LOST waits so long for rails that close, since bytes may land until then. */
#define CLOSING_NS (5 * NSEC_PER_SEC)

/* Returns PEER events that were not posted: no program learns of this peer. */
void peer_events_drop(struct engine *e, struct engine_peer *p, int res)
{
	struct engine_cmd *cmd;

	list_for_each_entry_safe(cmd, &e->pending_accepts, link) {
		if (cmd->peer != p)
			continue;
		list_del(&cmd->link);
		msg_reply(&cmd->msg, res);
	}
}

void peer_lost(struct engine *e, struct engine_cmd *cmd)
{
	struct engine_peer *p = cmd->peer;

	p->lost_unposted = p->state == PEER_UP || p->state == PEER_SUSPENDED || p->handle_given;
	if (!p->lost_unposted)
		notes_drop(p);
	p->lost_cause = cmd->cause;
	p->lost_ns = e->now;
	p->lost_res = cmd->reason == REASON_PEER_GOODBYE || cmd->reason == REASON_PEER_CLOSED
			      ? 0
			      : cmd->cause;
	p->lost_reason = cmd->reason;
	p->lost_arg = cmd->arg;
	p->state = PEER_LOSING;
	failed_notes_drop(p); /* LOST stands for them */
	stats_peer(p);
	PROBE(peer_lost, p->handle, p->incarnation, p->lost_cause);
	wheel_unset(&p->awaited);
	wheel_set(&e->wheel, &p->awaited, e->now + GRACEFUL_NS);
	peer_events_drop(e, p, -ECONNRESET);
	peer_stop(e, p);
	if (!cmd->graceful)
		peer_abort(e, p);
}

void peer_died(struct engine_peer *p)
{
	uint32_t i;

	for (i = 0; i < RAILS_MAX; i++)
		if (p->rails[i])
			p->rails[i]->ep->died = 1;
}

/* 1: the peer goes on without this rail for a while. */
static int rails_stay(const struct engine_peer *p)
{
	return p->failover && (p->state == PEER_UP || p->state == PEER_SUSPENDED);
}

void rail_close(struct engine *e, struct rail *rail)
{
	struct exposure *x;

	if (rail->ending)
		return;
	rail_broke(e, rail, -ECONNRESET);
	rail->ending = 1;
	list_for_each_entry_safe(x, &e->exposures, link) {
		/* An ep that closes ends its exports, whatever unexpose returns now. */
		if (x->exposed && x->ep == rail->ep && !rails_stay(rail->peer))
			exposure_end(e, x);
	}
	rail->ep->dev->ops->ep_close(rail->ep);
	/* After ep_close(): a peer that finds the ep open without exports would take that for a
	 * refusal. */
	if (rails_stay(rail->peer))
		exposures_detach(e, rail->ep, 0);
}

/* Drops chunks of the lanes that no device has taken. Chunks of entries went with their entries. */
static void lanes_clear(struct engine_peer *p)
{
	uint32_t i;

	for (i = 0; i < LANES; i++) {
		struct chunk *c;

		while (p->lanes[i].held.head) {
			c = chunk_queue_pop(&p->lanes[i].held);
			if (c == &p->ack_chunk)
				p->ack_sending = 0;
			else if (c->seg >= RELAY_SEG)
				relay_chunk_dropped(p->engine, c);
			else if (c->seg >= BATCH_SEG)
				atomic_chunk_dropped(c);
			else
				p->notes[c->seg].sending = 0;
		}
		list_del(&p->lanes[i].link);
	}
}

static void forget_rail(struct engine *e, struct rail *rail)
{
	struct engine_peer *p = rail->peer;
	struct list *pos;
	uint32_t i, left = 0;

	list_for_each(pos, &p->remotes)
		remote_forget_keys(list_entry(pos, struct engine_remote, of_peer), rail);
	for (i = 0; i < RAILS_MAX; i++) {
		left += p->rails[i] && p->rails[i] != rail;
		if (p->rails[i] != rail)
			continue;
		p->rails[i] = NULL;
		rail->ep->dev->rails--;
		e->rails--;
	}
	rail_leaves(rail);
	list_del(&rail->flush_link);
	if (p->rail == rail)
		p->rail = NULL;
	if (left || p->state != PEER_SUSPENDED)
		return;
	peer_forget_keys(p);
	exposures_end(e, p);
	/* Lanes can only hold second answers to repeated requests, which nobody needs. */
	lanes_clear(p);
}

/* The deadline passed: reports the outcome of entries whose chunks are not back. */
void peer_losing_expired(struct engine *e, struct engine_peer *p)
{
	if (p->closing) {
		p->lost_due = 1;
		pending_add(p);
		return;
	}
	peer_abort(e, p);
	peer_shorten_deadlines(e, p);
}

int peer_is_heard(const struct engine_peer *p)
{
	return p->state <= PEER_UP || (p->state == PEER_LOSING && p->lost_unposted);
}

/* 1: closed, and no request about it is under way. */
int rail_is_closed(struct engine *e, struct rail *rail)
{
	struct exposure *x;

	if (!rail->closed || rail->down_out || rail->grow_out)
		return 0;
	/* The exposures end below, and with the last one its memory may be unregistered. */
	if ((!rails_stay(rail->peer) || rail->peer->state == PEER_SUSPENDED) &&
	    relay_copies(rail->peer))
		return 0;
	if (rails_stay(rail->peer))
		exposures_detach(e, rail->ep, 1);
	list_for_each_entry_safe(x, &e->exposures, link) {
		if (x->exposed && x->ep == rail->ep)
			exposure_drop(e, x);
	}
	forget_rail(e, rail);
	if (rail->connecting) {
		msg_reply(&rail->connecting->msg, -ECANCELED);
		rail->connecting = NULL;
	}
	return 1;
}

static void closing_begin(struct engine *e, struct engine_peer *p)
{
	p->closing = 1;
	wheel_unset(&p->awaited);
	wheel_set(&e->wheel, &p->awaited, e->now + CLOSING_NS);
}

int peer_is_lost(struct engine *e, struct engine_peer *p)
{
	uint32_t i, open = 0;

	if (p->state == PEER_LOST)
		return 1;
	if (p->unfinished > p->kept)
		return 0;
	if (!p->closing)
		closing_begin(e, p);
	if (!relay_is_quiet(e, p)) /* a GPU may still copy from or to memory for the peer */
		return 0;
	for (i = 0; i < RAILS_MAX; i++) {
		struct rail *rail = p->rails[i];

		if (!rail)
			continue;
		rail_close(e, rail);
		open += !rail_is_closed(e, rail);
	}
	if (open || p->unfinished || p->pinging || p->resume_out ||
	    (p->relay && (p->relay->ask_out || p->relay->end_out || e->relays.stage_out)))
		return 0;
	lanes_clear(p);
	relay_reset(e, p);
	exposures_end(e, p);
	wheel_unset(&p->awaited);
	p->state = PEER_LOST;
	p->lost_due = 1;
	pending_add(p);
	return 1;
}

void peer_del(struct engine *e, struct engine_peer *p)
{
	struct list *pos;
	struct op *watch = p->watch.op;

	if (watch)
		watch_end(watch, p);
	peer_stop_watches(e, p);
	list_for_each(pos, &e->rings)
		order_forget_peer(list_entry(pos, struct engine_ring, link), p);
	list_del(&p->pending_link);
	list_del(&p->link);
	e->peer_slots[HANDLE_SLOT(p->handle)] = NULL;
}
