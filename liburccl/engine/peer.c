/* SPDX-License-Identifier: Apache-2.0 */
/* Peers, their rails, and imported memory, as the engine keeps them. */
#include <stdlib.h>
#include "engine/post.h"

/* ---- remotes ---- */

struct engine_remote *engine_remote_new(uint32_t handle, struct engine_peer *peer,
					const uint64_t *lens, uint32_t nparts)
{
	struct engine_remote *r = calloc(1, sizeof(*r) + nparts * sizeof(r->parts[0]));
	uint32_t i;

	if (!r)
		return NULL;
	r->handle = handle;
	r->peer = peer;
	r->nparts = nparts;
	list_init(&r->waiters);
	list_init(&r->of_peer);
	for (i = 0; i < nparts; i++) {
		r->parts[i].start = r->len;
		r->parts[i].len = lens[i];
		r->len += lens[i];
	}
	return r;
}

enum urccl_enforced engine_remote_enforced(const struct engine_remote *r)
{
	if (load_acquire(&r->keys) < r->nparts)
		return URCCL_ENFORCED_UNKNOWN;
	return load_relaxed(&r->mapped) ? URCCL_ENFORCED_BY_IMPORTER : URCCL_ENFORCED_BY_OWNER;
}

void engine_remote_free(struct engine_remote *r)
{
	uint32_t i;

	for (i = 0; r && i < RAIL_NUMBERS; i++)
		free(r->rail_keys[i]);
	free(r);
}

void engine_remote_set_owner(struct engine_remote *r, void *owner)
{
	r->owner = owner;
}

void *engine_remote_owner(const struct engine_remote *r)
{
	return r->owner;
}

/* ---- entries of a peer ---- */

static void ring_each(struct engine_ring *er, struct engine_peer *p, uint32_t multishot,
		      void (*each)(struct op *op))
{
	uint32_t i;

	for (i = 0; i < er->entries; i++)
		if (er->ops[i].state != OP_FREE && er->ops[i].peer == p &&
		    (er->ops[i].bits & OP_MULTISHOT) == multishot)
			each(&er->ops[i]);
}

/* Calls each() for the peer's entries: the multishot ones (OP_MULTISHOT), or all others. */
static void peer_each(struct engine *e, struct engine_peer *p, uint32_t multishot,
		      void (*each)(struct op *op))
{
	struct list *pos;

	list_for_each(pos, &e->rings)
		ring_each(list_entry(pos, struct engine_ring, link), p, multishot, each);
}

static void stop_lost(struct op *op)
{
	struct engine_peer *p = op->peer;

	op_stop(op, p->lost_cause, p->lost_reason, p->lost_arg);
}

/* Ends every entry of the peer with the cause of its loss. */
void peer_stop(struct engine *e, struct engine_peer *p)
{
	peer_each(e, p, 0, stop_lost);
}

/* Ends WATCH entries of a lost peer that are not its watcher yet. */
void peer_stop_watches(struct engine *e, struct engine_peer *p)
{
	peer_each(e, p, OP_MULTISHOT, stop_lost);
}

void peer_abort(struct engine *e, struct engine_peer *p)
{
	peer_each(e, p, 0, op_abort);
}

/* Makes the outcome of each entry known soon, even if a device keeps its buffer. */
void peer_shorten_deadlines(struct engine *e, struct engine_peer *p)
{
	peer_each(e, p, 0, op_shorten_deadline);
}

/* No port has a link, so no answer can come: its entries end without waiting for one. */
static void stop_cut(struct op *op)
{
	op_stop(op, -ENETDOWN, REASON_PORTS_DOWN, 0);
	op_abort(op);
}

void peer_cut(struct engine *e, struct engine_peer *p, uint32_t is_cut)
{
	if (p->state > PEER_UP || (is_cut && p->nup))
		return;
	p->cut = is_cut;
	if (is_cut)
		peer_each(e, p, 0, stop_cut);
}

/* ---- waiting for a peer ---- */

static void ask_ping(struct engine *e, struct engine_peer *p, uint32_t is_watch)
{
	p->pinging = 1;
	p->watch_said |= is_watch;
	p->ping = (struct control_req){.msg = {.type = CONTROL_AWAITED, .reply = &e->mailbox},
				       .handle = p->handle,
				       .arg = {is_watch}};
	control_ask(e, &p->ping);
}

/* Entries have waited for the peer for a while: ping it. Or a ring watches the peer: the control
 * thread is to ping it while it is idle. */
void peer_awaited_expired(struct engine *e, struct engine_peer *p)
{
	uint32_t is_idle = !p->unfinished && relay_idle(p);
	uint32_t is_new = p->watch.er && !p->watch_said;

	if (p->state == PEER_LOSING)
		peer_losing_expired(e, p);
	if ((is_idle && !is_new) || p->state > PEER_UP)
		return;
	if (!p->pinging && p->state != PEER_CONNECTING)
		ask_ping(e, p, is_idle);
	peer_awaited(e, p);
}

void peer_ping_back(struct engine *e, struct control_req *req)
{
	(void)e;
	container_of(req, struct engine_peer, ping)->pinging = 0;
}

/* ---- rails ---- */

static void rail_done(struct engine_cmd **cmd, int res)
{
	struct engine_cmd *c = *cmd;

	*cmd = NULL;
	if (c)
		msg_reply(&c->msg, res);
}

static void rail_down(struct engine *e, struct rail *rail, int res, uint64_t code)
{
	rail_broke(e, rail, res);
	if (rail->connecting) {
		rail_missed(e, rail, res);
		rail_done(&rail->connecting, res);
	} else {
		rail_report(e, rail, res, REASON_NONE, code);
	}
}

static void rail_grow(struct engine *e, struct rail *rail)
{
	assert(!rail->grow_out);
	rail->grow_out = 1;
	rail->grow =
		(struct control_req){.msg = {.type = CONTROL_RAIL_ADD_QPS, .reply = &e->mailbox},
				     .rail = rail};
	control_ask(e, &rail->grow);
}

void rail_qps_added(struct control_req *req)
{
	struct rail *rail = req->rail;

	rail->grow_out = 0;
	rail->ep->dev->ops->ep_qps_added(rail->ep, req->msg.res);
}

static void message(struct engine *e, struct engine_peer *p, const uint8_t *data, uint32_t len)
{
	if (len && data[0] >= MESSAGE_RELAY)
		relay_message(e, p, data, len);
	else if (len && data[0] >= MESSAGE_ATOMIC)
		atomic_message(e, p, data, len);
	else
		note_message(e, p, data, len);
}

void rail_event(struct engine *e, const struct event *ev)
{
	struct rail *rail = ev->ep->owner;

	switch (ev->type) {
	case EVENT_UP:
		rail->up = 1;
		rail->up_ns = e->now;
		rail_done(&rail->connecting, 0); /* before its keys are requested */
		rail_joined(e, rail);
		break;
	case EVENT_DOWN:
		rail_down(e, rail, ev->res, ev->code);
		break;
	case EVENT_ADD_QPS:
		rail_grow(e, rail);
		break;
	case EVENT_CLOSED:
		rail->closed = 1;
		break;
	default:
		rail->peer->silent = 0;
		rail->peer->heard_ns = e->now;
		if (peer_is_heard(rail->peer))
			message(e, rail->peer, ev->data, ev->len);
		break;
	}
}

/* ---- life ---- */

struct engine_peer *engine_peer_new(struct engine *e, uint32_t handle, uint64_t incarnation,
				    const char *name)
{
	struct engine_peer *p = calloc(1, sizeof(*p));
	uint32_t i;

	if (!p)
		return NULL;
	p->notes = calloc(NOTE_WINDOW, sizeof(*p->notes));
	p->parked = calloc(NOTE_WINDOW, sizeof(*p->parked));
	p->atomics = calloc(1, sizeof(*p->atomics));
	if (!p->notes || !p->parked || !p->atomics) {
		engine_peer_free(p);
		return NULL;
	}
	p->handle = handle;
	p->incarnation = incarnation;
	p->stats = segment_peer_take(e->segment, handle, incarnation, name, p);
	if (!p->stats)
		p->stats = &p->own_stats;
	list_init(&p->link);
	list_init(&p->waiting);
	list_init(&p->remotes);
	list_init(&p->requeued_ops);
	list_init(&p->acked_scopes);
	chunk_queue_init(&p->requeued_chunks);
	list_init(&p->awaited.link);
	p->awaited.kind = TIMER_PEER;
	for (i = 0; i < LANES; i++) {
		list_init(&p->lanes[i].link);
		list_init(&p->lanes[i].ops);
		chunk_queue_init(&p->lanes[i].held);
		p->lanes[i].number = i;
		p->lanes[i].peer = p;
	}
	notes_init(p);
	atomics_init(p->atomics);
	return p;
}

void engine_peer_missed(struct engine_peer *p, uint32_t transport, int err)
{
	store_relaxed(&p->stats->missed, transport | (uint32_t)-err << 8);
}

void engine_peer_leaves(struct engine_peer *p)
{
	store_release(&p->stats->leaving, 1);
}

void engine_peer_free(struct engine_peer *p)
{
	if (!p)
		return;
	if (p->stats != &p->own_stats)
		segment_peer_give(p->stats);
	free(p->notes);
	free(p->parked);
	free(p->atomics);
	free(p->relay);
	free(p);
}
