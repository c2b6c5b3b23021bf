/* SPDX-License-Identifier: Apache-2.0 */
/* What the control thread asks of the engine. A command that must wait (for entries to end, rails
 * to close, notes to find a slot) is kept and looked at every turn; there are few of them, and
 * rarely any. */
#include <stdlib.h>
#include "engine/private.h"

#define GRACEFUL_NS (1 * NSEC_PER_SEC) /* CLOSE: how long the peer's word is waited for */

/* ---- tables ---- */

/* Room for index i in *array of *n elements of size bytes, zeroed. On the engine's thread, but no
 * entry waits for it: tables grow when something is registered or connected. */
static int table_grow(void **array, uint32_t *n, uint32_t i, size_t size)
{
	uint32_t want = *n ? *n : 64;
	char *grown;

	if (i < *n)
		return 0;
	while (want <= i)
		want *= 2;
	grown = realloc(*array, want * size);
	if (!grown)
		return -ENOMEM;
	memset(grown + *n * size, 0, (want - *n) * size);
	*array = grown;
	*n = want;
	return 0;
}

static void swap_map(struct engine *e, struct engine_cmd *cmd)
{
	struct memory_map *old = e->map;

	e->map = cmd->map;
	cmd->map = old;
}

static int region_add(struct engine *e, struct engine_cmd *cmd)
{
	uint32_t slot = HANDLE_SLOT(cmd->memory->handle);

	if (table_grow((void **)&e->regions, &e->nregions, slot, sizeof(*e->regions)))
		return -ENOMEM;
	e->regions[slot].handle = cmd->memory->handle;
	e->regions[slot].memory = cmd->memory;
	swap_map(e, cmd);
	return 0;
}

static int remote_add(struct engine *e, struct engine_cmd *cmd)
{
	uint32_t slot = HANDLE_SLOT(cmd->remote->handle);

	if (table_grow((void **)&e->remotes, &e->nremotes, slot, sizeof(*e->remotes)))
		return -ENOMEM;
	e->remotes[slot] = cmd->remote;
	return 0;
}

/* ---- rings ---- */

static int ring_add(struct engine *e, struct engine_cmd *cmd)
{
	struct engine_ring *er = cmd->ring;
	uint32_t i;

	for (i = 0; i < RINGS_MAX && e->ring_index[i];)
		i++;
	if (i == RINGS_MAX)
		return -EMFILE;
	store_release(&e->ring_index[i], er);
	er->index = i;
	er->engine = e;
	list_add_tail(&er->link, &e->rings);
	return 0;
}

static void ring_stop(struct engine_ring *er)
{
	uint32_t i;

	er->closing = 1;
	for (i = 0; i < er->entries; i++)
		if (er->ops[i].state != OP_FREE)
			op_stop(&er->ops[i], -ESHUTDOWN, REASON_CLOSING, 0);
}

static int ring_is_quiet(struct engine *e, struct engine_ring *er)
{
	if (er->nfree != er->entries)
		return 0;
	list_del(&er->link);
	store_release(&e->ring_index[er->index], NULL);
	er->index = RINGS_MAX;
	return 1;
}

/* ---- regions ---- */

static int chunk_on(const struct engine *e, const struct chunk *c, const void *what)
{
	const struct memory *m = what;

	(void)e;
	return c->memory == m;
}

static int chunk_of(const struct engine *e, const struct chunk *c, const void *what)
{
	const struct engine_remote *r = what;

	(void)e;
	return c->key >= &r->parts[0].key && c->key <= &r->parts[r->nparts - 1].key;
}

/* Stops the entries of chunks that match; returns whether there are any. */
static int chunks_stop(struct engine *e,
		       int (*match)(const struct engine *, const struct chunk *, const void *),
		       const void *what, int res, uint32_t reason)
{
	int found = 0;
	uint32_t i;

	for (i = 0; i < CHUNKS_MAX && e->chunks_used; i++) {
		struct chunk *c = &e->chunks[i];

		if (!c->op || !match(e, c, what))
			continue;
		found = 1;
		op_stop(c->op, res, reason, 0);
	}
	return found;
}

static int region_in(const struct op *op, const void *what)
{
	return op->memory == what || (op->cursor.cur.len && op->cursor.cur.memory == what) ||
	       (op->cursor.element.pos < op->cursor.element.len &&
		op->cursor.element.memory == what);
}

static int remote_in(const struct op *op, const void *what)
{
	const struct engine_remote *r = what;

	return op->remote == what || (op->cursor.cur.len && op->cursor.cur.remote == what) ||
	       (op->cursor.element.pos < op->cursor.element.len &&
		op->cursor.element.remote == what) ||
	       (op->flush_key >= &r->parts[0].key && op->flush_key <= &r->parts[r->nparts - 1].key);
}

static int ops_stop(struct engine *e, int (*match)(const struct op *, const void *),
		    const void *what, int res, uint32_t reason)
{
	struct list *pos;
	int found = 0;
	uint32_t i;

	list_for_each (pos, &e->rings) {
		struct engine_ring *er = list_entry(pos, struct engine_ring, link);

		for (i = 0; i < er->entries; i++) {
			struct op *op = &er->ops[i];

			if (op->state == OP_FREE || !(op_is_data(op) && match(op, what)))
				continue;
			op_stop(op, res, reason, 0);
			found |= op->state != OP_FREE;
		}
	}
	return found;
}

/* 1: nothing of ours and no peer touches it any more. */
static int region_is_quiet(struct engine *e, struct memory *m)
{
	struct list *pos, *tmp;
	struct exposure *x;
	int busy = 0;

	list_for_each_safe (pos, tmp, &e->exposures) {
		x = list_entry(pos, struct exposure, link);
		if (x->memory != m)
			continue;
		if (x->ep->dev->ops->unexpose(x))
			busy = 1;
		else
			list_del(&x->link);
	}
	busy |= ops_stop(e, region_in, m, -ECANCELED, REASON_UNREGISTERED);
	return !(chunks_stop(e, chunk_on, m, -ECANCELED, REASON_UNREGISTERED) | busy);
}

static void region_del(struct engine *e, struct engine_cmd *cmd)
{
	e->regions[HANDLE_SLOT(cmd->memory->handle)].memory = NULL;
	swap_map(e, cmd);
}

/* ---- remotes ---- */

static int remote_is_quiet(struct engine *e, struct engine_remote *r)
{
	struct ep *ep = r->peer->rail ? r->peer->rail->ep : NULL;
	uint32_t i;
	int busy;

	r->deleting = 1;
	busy = ops_stop(e, remote_in, r, -ECANCELED, REASON_FORGOTTEN);
	busy |= chunks_stop(e, chunk_of, r, -ECANCELED, REASON_FORGOTTEN);
	if (r->peer->flush_busy)
		busy |= r->peer->flush.key >= &r->parts[0].key &&
			r->peer->flush.key <= &r->parts[r->nparts - 1].key;
	if (busy || r->req_out)
		return 0;
	for (i = 0; i < r->nparts; i++)
		if (r->parts[i].has_key && ep && r->peer->state <= PEER_LOSING)
			ep->dev->ops->forget(ep, &r->parts[i].key);
	e->remotes[HANDLE_SLOT(r->handle)] = NULL;
	return 1;
}

static void keys_ready(struct engine_remote *r)
{
	struct op *op;

	while (!list_empty(&r->waiters)) {
		op = list_first(&r->waiters, struct op, link);
		list_del(&op->link);
		if (r->failed)
			op_fail(op, r->failed, REASON_KEYS, (uint64_t)-r->failed, 0, 0);
		else
			lane_add_op(op);
	}
}

static int remote_keys(struct engine *e, struct engine_cmd *cmd)
{
	struct engine_remote *r = cmd->remote;
	struct ep *ep = cmd->rail ? cmd->rail->ep : NULL;
	struct remote_part *part = &r->parts[cmd->part];
	int res = cmd->cause;

	(void)e;
	if (!res && !part->has_key) {
		res = ep ? ep->dev->ops->import(ep, cmd->data, cmd->len, part->len, &part->key)
			 : -ENOTCONN;
		part->has_key = !res;
		r->keys += !res;
	}
	if (res)
		r->failed = res;
	if (r->failed || r->keys == r->nparts)
		keys_ready(r);
	return res;
}

/* ---- exposures ---- */

static int expose(struct engine *e, struct engine_cmd *cmd)
{
	struct exposure *x = cmd->exposure;
	int n;

	if (region_get(e, x->memory->handle) != x->memory)
		return -EACCES;
	n = x->ep->dev->ops->expose(x, cmd->data, KEY_MAX);
	if (n < 0)
		return n;
	cmd->len = (uint32_t)n;
	list_add_tail(&x->link, &e->exposures);
	return 0;
}

/* 1: done */
static int unexpose(struct exposure *x)
{
	if (list_empty(&x->link))
		return 1;
	if (x->ep->dev->ops->unexpose(x))
		return 0;
	list_del(&x->link);
	return 1;
}

/* ---- peers ---- */

static int peer_add(struct engine *e, struct engine_cmd *cmd)
{
	struct engine_peer *p = cmd->peer;
	uint32_t slot = HANDLE_SLOT(p->handle);

	if (table_grow((void **)&e->peer_slots, &e->npeer_slots, slot, sizeof(*e->peer_slots)))
		return -ENOMEM;
	e->peer_slots[slot] = p;
	p->engine = e;
	list_add_tail(&p->link, &e->peers);
	return 0;
}

static int peer_up(struct engine *e, struct engine_cmd *cmd)
{
	struct engine_peer *p = cmd->peer;
	struct op *op;

	if (p->state != PEER_CONNECTING || !cmd->rail->up)
		return -ENOTCONN;
	p->rail = cmd->rail;
	store_relaxed(&p->state, PEER_UP);
	while (!list_empty(&p->waiting)) {
		op = list_first(&p->waiting, struct op, link);
		list_del(&op->link);
		list_add_tail(&op->link, &e->ready);
	}
	if (!list_empty(&p->parked_list))
		pending_add(p);
	return 0;
}

static void peer_events_drop(struct engine *e, struct engine_peer *p)
{
	struct list *pos, *tmp;
	struct engine_cmd *cmd;

	list_for_each_safe (pos, tmp, &e->pending_accepts) {
		cmd = list_entry(pos, struct engine_cmd, link);
		if (cmd->peer != p)
			continue;
		list_del(&cmd->link);
		msg_reply(&cmd->msg, -ECONNRESET);
	}
}

static void peer_lost(struct engine *e, struct engine_cmd *cmd)
{
	struct engine_peer *p = cmd->peer;
	struct failure f = {.reason = cmd->reason,
			    .res = cmd->cause,
			    .peer = p->handle,
			    .segment = UINT32_MAX,
			    .opcode = URCCL_OP_WATCH,
			    .arg = {cmd->arg}};

	p->lost_untold = p->state == PEER_UP;
	p->lost_cause = cmd->cause;
	p->lost_res = cmd->reason == REASON_PEER_GOODBYE || cmd->reason == REASON_PEER_CLOSED
			      ? 0
			      : cmd->cause;
	p->lost_reason = cmd->reason;
	p->lost_arg = cmd->arg;
	p->lost_detail = p->lost_res ? failures_add(&e->failures, &f) : 0;
	store_relaxed(&p->state, PEER_LOSING);
	wheel_unset(&p->awaited);
	wheel_set(&e->wheel, &p->awaited, e->now + GRACEFUL_NS);
	peer_events_drop(e, p);
	peer_stop(e, p);
	if (!cmd->graceful)
		peer_force(e, p);
}

static void rail_close(struct engine *e, struct rail *rail)
{
	struct list *pos, *tmp;

	if (rail->ending)
		return;
	rail->ending = 1;
	rail->up = 0;
	list_for_each_safe (pos, tmp, &e->exposures) {
		struct exposure *x = list_entry(pos, struct exposure, link);

		/* An ep that closes lets go of its exposures, whatever it says now. */
		if (x->ep == rail->ep && !x->ep->dev->ops->unexpose(x))
			list_del(&x->link);
	}
	rail->ep->dev->ops->ep_close(rail->ep);
}

/* 1: closed, and nothing of it is on its way to the control thread. */
static int rail_is_closed(struct engine *e, struct rail *rail)
{
	struct list *pos, *tmp;
	uint32_t i;

	if (!rail->closed || rail->down_out)
		return 0;
	list_for_each_safe (pos, tmp, &e->exposures) {
		struct exposure *x = list_entry(pos, struct exposure, link);

		if (x->ep == rail->ep)
			list_del(&x->link);
	}
	for (i = 0; i < RAILS_MAX; i++)
		if (rail->peer->rails[i] == rail)
			rail->peer->rails[i] = NULL;
	if (rail->peer->rail == rail)
		rail->peer->rail = NULL;
	if (rail->connecting) {
		msg_reply(&rail->connecting->msg, -ECANCELED);
		rail->connecting = NULL;
	}
	return 1;
}

/* Whatever chunks of the lanes were never taken is of no use any more; entries' own went with their
 * entries. */
static void lanes_clear(struct engine_peer *p)
{
	uint32_t i;

	for (i = 0; i < LANES; i++) {
		struct chunk *c;

		while ((c = p->lanes[i].held)) {
			p->lanes[i].held = c->next;
			if (c->kind == CHUNK_FLUSH)
				p->flush_busy = 0;
			else if (c == &p->ack_chunk)
				p->ack_sending = 0;
			else
				p->notes[c->seg].sending = 0;
		}
		p->lanes[i].held_tail = &p->lanes[i].held;
		list_del(&p->lanes[i].link);
	}
}

static int peer_is_lost(struct engine *e, struct engine_peer *p)
{
	uint32_t i, open = 0;

	if (p->state == PEER_LOST)
		return 1;
	if (p->unfinished)
		return 0;
	for (i = 0; i < RAILS_MAX; i++) {
		struct rail *rail = p->rails[i];

		if (!rail)
			continue;
		rail_close(e, rail);
		open += !rail_is_closed(e, rail);
	}
	if (open || p->pinging)
		return 0;
	lanes_clear(p);
	list_del(&p->flush_link);
	wheel_unset(&p->awaited);
	store_relaxed(&p->state, PEER_LOST);
	pending_add(p);
	return 1;
}

static void peer_del(struct engine *e, struct engine_peer *p)
{
	struct list *pos;
	struct op *watch = p->watch;

	if (watch) {
		p->watch = NULL;
		watch_end(watch, p);
	}
	list_for_each (pos, &e->rings)
		order_forget_peer(list_entry(pos, struct engine_ring, link), p);
	list_del(&p->pending_link);
	list_del(&p->link);
	e->peer_slots[HANDLE_SLOT(p->handle)] = NULL;
}

static int rail_connect(struct engine_cmd *cmd)
{
	struct rail *rail = cmd->rail;
	uint32_t i;
	int res;

	for (i = 0; i < RAILS_MAX && cmd->peer->rails[i];)
		i++;
	if (i == RAILS_MAX)
		return -EMFILE;
	rail->peer = cmd->peer;
	rail->ep->owner = rail;
	rail->window = 4u << 20;
	res = rail->ep->dev->ops->ep_connect(rail->ep, rail->addr, rail->addr_len, rail->active,
					     &rail->via);
	cmd->peer->rails[i] = rail;
	rail->connecting = res ? NULL : cmd;
	return res;
}

/* ---- the mailbox ---- */

enum { DONE_LATER = 1 };

/* A result to reply with, or DONE_LATER: retry_commands() replies. */
static int command(struct engine *e, struct engine_cmd *cmd)
{
	switch (cmd->msg.type) {
	case ENGINE_RING_ADD:
		return ring_add(e, cmd);
	case ENGINE_RING_DEL:
		ring_stop(cmd->ring);
		return DONE_LATER;
	case ENGINE_REGION_ADD:
		return region_add(e, cmd);
	case ENGINE_REGION_DEL:
		region_del(e, cmd);
		return DONE_LATER;
	case ENGINE_PEER_ADD:
		return peer_add(e, cmd);
	case ENGINE_PEER_UP:
		return peer_up(e, cmd);
	case ENGINE_PEER_LOST:
		peer_lost(e, cmd);
		return DONE_LATER;
	case ENGINE_PEER_DEL:
		peer_del(e, cmd->peer);
		return 0;
	case ENGINE_REMOTE_ADD:
		return remote_add(e, cmd);
	case ENGINE_REMOTE_KEYS:
		return remote_keys(e, cmd);
	case ENGINE_EXPOSE:
		return expose(e, cmd);
	case ENGINE_RAIL_CLOSE:
		rail_close(e, cmd->rail);
		return DONE_LATER;
	default:
		return DONE_LATER; /* REMOTE_DEL, UNEXPOSE, PEER_EVENT, STOP */
	}
}

static int is_done(struct engine *e, struct engine_cmd *cmd)
{
	switch (cmd->msg.type) {
	case ENGINE_RING_DEL:
		return ring_is_quiet(e, cmd->ring);
	case ENGINE_REGION_DEL:
		return region_is_quiet(e, cmd->memory);
	case ENGINE_PEER_LOST:
		return peer_is_lost(e, cmd->peer);
	case ENGINE_REMOTE_DEL:
		return remote_is_quiet(e, cmd->remote);
	case ENGINE_UNEXPOSE:
		return unexpose(cmd->exposure);
	case ENGINE_RAIL_CLOSE:
		return rail_is_closed(e, cmd->rail);
	default:
		return 0;
	}
}

static void command_run(struct engine *e, struct engine_cmd *cmd)
{
	int res;

	if (cmd->msg.type == ENGINE_PEER_EVENT) {
		list_add_tail(&cmd->link, &e->pending_accepts);
		return;
	}
	if (cmd->msg.type == ENGINE_STOP) {
		e->stop = cmd;
		e->stopping = 1;
		return;
	}
	if (cmd->msg.type == ENGINE_RAIL_CONNECT) {
		res = rail_connect(cmd);
		if (res)
			msg_reply(&cmd->msg, res);
		return;
	}
	res = command(e, cmd);
	if (res == DONE_LATER)
		list_add_tail(&cmd->link, &e->commands);
	else
		msg_reply(&cmd->msg, res);
}

static void request_returned(struct engine *e, struct control_req *req)
{
	switch (req->msg.type) {
	case CONTROL_KEYS:
		req->remote->req_out = 0;
		break;
	case CONTROL_RAIL_DOWN:
		req->rail->down_out = 0;
		break;
	case CONTROL_AWAITED:
		peer_ping_back(e, req);
		break;
	default:
		request_back(e, req);
		break;
	}
}

uint32_t run_commands(struct engine *e)
{
	struct msg *msg = mailbox_take(&e->mailbox), *next;
	uint32_t n = 0;

	for (; msg; msg = next, n++) {
		next = msg->next;
		if (msg->type >= CONTROL_CONNECT)
			request_returned(e, container_of(msg, struct control_req, msg));
		else
			command_run(e, container_of(msg, struct engine_cmd, msg));
	}
	return n;
}

void retry_commands(struct engine *e)
{
	struct list *pos, *tmp;
	struct engine_cmd *cmd;

	list_for_each_safe (pos, tmp, &e->commands) {
		cmd = list_entry(pos, struct engine_cmd, link);
		if (!is_done(e, cmd))
			continue;
		list_del(&cmd->link);
		msg_reply(&cmd->msg, 0);
	}
}

/* A handle that is not known yet may be in the mailbox: it was put there before the program could
 * know it. */
void engine_lookup_missed(struct engine *e)
{
	run_commands(e);
}
