/* SPDX-License-Identifier: Apache-2.0 */
/* Commands of the control thread. A command that must wait (for entries to end, rails to close,
 * notifications to find a slot) is kept and checked again in each iteration. There are few of them,
 * and rarely any. */
#include <stdlib.h>
#include "engine/post.h"
#include "engine/stats.h"

#define WINDOW	   (4u << 20)	/* initial window of a rail whose transport names none */
#define GPU_WINDOW (256u << 20) /* least window of a rail with memory that GPUs reach directly */
#define RATE	   (1ull << 30) /* bytes per second of a port with unknown speed */

/* ---- tables ---- */

/* Makes room for index i in *array of *n elements of size bytes, zeroed. It allocates on the
 * engine's thread, but no entry waits for it: tables grow when something is registered or
 * connected. */
static int table_grow(void **array, uint32_t *n, uint32_t i, size_t size)
{
	uint32_t room = *n ? *n : 64;
	char *grown;

	if (i < *n)
		return 0;
	while (room <= i)
		room *= 2;
	grown = realloc(*array, room * size);
	if (!grown)
		return -ENOMEM;
	memset(grown + *n * size, 0, (room - *n) * size);
	*array = grown;
	*n = room;
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

	swap_map(e, cmd);
	if (table_grow((void **)&e->regions, &e->nregions, slot, sizeof(*e->regions)))
		return -ENOMEM;
	e->regions[slot].handle = cmd->memory->handle;
	e->regions[slot].memory = cmd->memory;
	cmd->len = e->nregions;
	return 0;
}

static int remote_add(struct engine *e, struct engine_cmd *cmd)
{
	uint32_t slot = HANDLE_SLOT(cmd->remote->handle);

	if (table_grow((void **)&e->remotes, &e->nremotes, slot, sizeof(*e->remotes)))
		return -ENOMEM;
	e->remotes[slot] = cmd->remote;
	list_add_tail(&cmd->remote->of_peer, &cmd->remote->peer->remotes);
	cmd->len = e->nremotes;
	return 0;
}

/* ---- rings, regions, remotes ---- */

static int ring_add(struct engine *e, struct engine_cmd *cmd)
{
	struct engine_ring *er = cmd->ring;
	uint32_t i;

	for (i = 0; i < RINGS_MAX && e->ring_index[i];)
		i++;
	if (i == RINGS_MAX)
		return -EMFILE;
	e->ring_index[i] = er;
	er->index = i;
	er->engine = e;
	list_add_tail(&er->link, &e->rings);
	if (er->ring->device) {
		er->watched = 1; /* its lanes are told of each end */
		slow_list_add(e, &er->device_link, &e->device_rings);
	}
	return 0;
}

static void region_del(struct engine *e, struct engine_cmd *cmd)
{
	uint32_t slot = HANDLE_SLOT(cmd->memory->handle);

	/* Its ADD may have failed for lack of memory. */
	if (slot < e->nregions)
		e->regions[slot].memory = NULL;
	swap_map(e, cmd);
}

/* The next entry requests the keys again, unless a request is under way. */
static void key_failed(struct engine_remote *r, int err)
{
	if (key_final(err, (int)r->revoked))
		r->failed = err;
	r->asked = r->req_out;
	remote_waiters(r, err);
}

/* It allocates, but no entry waits: it runs at the first import. */
static struct rail_key *rail_keys(struct engine_remote *r, uint32_t number)
{
	struct rail_key *keys = r->rail_keys[number];
	uint32_t i;

	if (keys)
		return keys;
	keys = calloc(r->nparts, sizeof(*keys));
	for (i = 0; keys && i < r->nparts; i++)
		keys[i].remote = r;
	r->rail_keys[number] = keys;
	return keys;
}

/* No device of this side gets there. */
static int key_relay(struct engine_remote *r, struct rkey *key)
{
	*key = (struct rkey){.relay = 1};
	r->relayed = 1;
	r->peer->engine->gpus = 1;
	return relay_make(r->peer);
}

static int key_import(struct engine_cmd *cmd)
{
	struct engine_remote *r = cmd->remote;
	struct rail *rail = cmd->rail;
	struct remote_part *part = &r->parts[cmd->part];
	struct rail_key *k = rail_keys(r, rail->number);
	int res = -ENOMEM;

	if (part->rails >> rail->number & 1)
		return 0;
	if (k) {
		k += cmd->part;
		res = cmd->len ? rail->ep->dev->ops->import(rail->ep, cmd->data, cmd->len,
							    part->len, &k->key)
			       : -EOPNOTSUPP;
		if (res == -EOPNOTSUPP)
			res = key_relay(r, &k->key);
	}
	if (res)
		return res;
	k->resolved = 1;
	k->rail = rail;
	if (k->key.gpu) {
		if (rail->window < GPU_WINDOW)
			rail->window = GPU_WINDOW;
		r->gpu = r->peer->engine->gpus = 1;
		bundles_open(r->peer->engine);
	}
	r->host |= !k->key.gpu;
	part->grant = cmd->grant;
	r->nkeys[rail->number]++;
	r->peer->engine->has_mapped |= k->key.mapped;
	if (!part->rails) {
		store_relaxed(&r->mapped, r->mapped + !!k->key.mapped);
		store_release(&r->keys, r->keys + 1);
	}
	part->rails |= 1u << rail->number;
	return 0;
}

/* Entries wait for the keys of the best rail only. Failures on other rails are reported by their
 * own rail, and a rail that is closing fails no entry. */
static int keys_fail(const struct engine_peer *p, const struct rail *rail, int res)
{
	if (!p->failover || key_refused(res))
		return 1;
	return res != -ENOTCONN && rail && rail == p->rail;
}

/* -EINPROGRESS: the device has not finished; call again. */
static int remote_keys(struct engine *e, struct engine_cmd *cmd)
{
	struct engine_remote *r = cmd->remote;
	struct engine_peer *p = r->peer;
	struct rail *rail = cmd->rail && !cmd->rail->ending ? cmd->rail : NULL;
	int res = r->revoked && !cmd->cause ? -EACCES : cmd->cause;

	(void)e;
	if (!res)
		res = rail && !r->deleting ? key_import(cmd) : -ENOTCONN;
	if (res == -EINPROGRESS)
		return res;
	if (res)
		r->why = res == cmd->cause ? (uint32_t)cmd->arg : (uint32_t)-res;
	if (res && keys_fail(p, rail, res))
		key_failed(r, res);
	else if (p->rail && r->nkeys[p->rail->number] == r->nparts)
		remote_waiters(r, 0);
	replay_run(p);
	return res;
}

/* Prefaults one piece per iteration, so that entries go on. 1: all of it is done. */
static int remote_warm(struct engine *e, struct engine_cmd *cmd)
{
	struct engine_remote *r = cmd->remote;
	struct rail *rail = r->peer->rail;

	while (rail && rail->ep->dev->ops->warm && cmd->part < r->nparts) {
		if (r->parts[cmd->part].rails >> rail->number & 1 &&
		    !r->rail_keys[rail->number][cmd->part].key.relay &&
		    rail->ep->dev->ops->warm(rail->ep, &r->rail_keys[rail->number][cmd->part].key))
			return 0;
		cmd->part++;
	}
	e->warming--;
	return 1;
}

static int remote_map(struct engine_remote *r, struct gpu_mapping *out)
{
	struct rail *rail = r->peer->state == PEER_UP ? r->peer->rail : NULL;
	int res;

	if (r->revoked)
		return -EACCES;
	if (!rail || !rail->up || r->nkeys[rail->number] < r->nparts)
		return r->failed ? r->failed : -EAGAIN;
	if (r->nparts > 1 || r->relayed || !rail->ep->dev->ops->map)
		return -EOPNOTSUPP;
	res = rail->ep->dev->ops->map(rail->ep, &r->rail_keys[rail->number][0].key, out);
	r->has_address = !res;
	return res;
}

/* Keys of closed rails have no mapping. */
static void remote_unmap(struct engine_remote *r)
{
	uint32_t i;

	r->has_address = 0;
	for (i = 0; i < RAIL_NUMBERS; i++) {
		struct rail_key *k = r->rail_keys[i];

		if (k && k->resolved && !k->key.relay && k->rail->ep->dev->ops->map)
			(void)k->rail->ep->dev->ops->map(k->rail->ep, &k->key, NULL);
	}
}

/* ---- exports ---- */

static int expose(struct engine *e, struct engine_cmd *cmd)
{
	int n;

	cmd->exposure->peer = cmd->peer;
	n = exposure_begin(e, cmd->exposure, cmd->rail, cmd->data);
	if (n < 0)
		return n;
	cmd->len = (uint32_t)n;
	cmd->grant = cmd->exposure->grant;
	return 0;
}

/* 1: done */
static int unexpose(struct engine *e, struct exposure *x)
{
	return list_empty(&x->link) || !exposure_end(e, x);
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

	if ((p->state != PEER_CONNECTING && p->state != PEER_SUSPENDED) ||
	    (!cmd->rail->up && !cmd->failover))
		return -ENOTCONN;
	if (p->state == PEER_CONNECTING)
		p->rails_said = 1u << cmd->rail->number;
	p->failover = cmd->failover && cmd->rail->ep->dev->caps & CAP_FAILOVER;
	rails_of(p, cmd->rail->ep->dev->ops);
	p->rails_news |= p->rails_up ^ p->rails_said;
	p->rail = cmd->rail->up ? cmd->rail : NULL;
	store_relaxed(&p->used, e->iterations);
	p->heard_ns = e->now;
	peer_go(p);
	if (!p->rail)
		peer_choose(p);
	stats_peer(p);
	PROBE(peer_up, p->handle, p->incarnation, cmd->rail->ep->dev->ops->transport);
	/* A CONNECT here came first: the program has the handle from it. */
	peer_events_drop(e, p, -ECANCELED);
	return 0;
}

static int peer_resume(struct engine_peer *p)
{
	p->rails_news |= p->rails_up ^ p->rails_said;
	if (p->state == PEER_SUSPENDED)
		peer_go(p);
	if (p->failover && !p->rail)
		peer_choose(p);
	return 0;
}

static int rail_connect(struct engine *e, struct engine_cmd *cmd)
{
	struct rail *rail = cmd->rail;
	uint32_t i;
	int res;

	for (i = 0; i < RAILS_MAX && cmd->peer->rails[i];)
		i++;
	if (i == RAILS_MAX)
		return -EMFILE;
	rail->peer = cmd->peer;
	rail->bytes = cmd->peer->stats->bytes;
	rail->ep->owner = rail;
	rail->window = rail->ep->dev->ops->window;
	if (!rail->window)
		rail->window = WINDOW;
	rail->rate = rail->ep->dev->bytes_per_s;
	if (!rail->rate)
		rail->rate = RATE;
	rail->path = rail->ep->dev->ops->transport | 1u << (URCCL_PATH_RAILS_SHIFT + rail->number);
	list_init(&rail->flush_link);
	list_init(&rail->flush_wait);
	list_init(&rail->flushing);
	res = rail->ep->dev->ops->ep_connect(rail->ep, rail->addr, rail->addr_len, rail->active,
					     &rail->via);
	cmd->peer->rails[i] = rail;
	rail->ep->dev->rails++;
	e->rails++;
	rail->connecting = res ? NULL : cmd;
	return res;
}

/* ---- the mailbox ---- */

enum { DONE_LATER = 1 };

static int keys_begin(struct engine *e, struct engine_cmd *cmd)
{
	int res = remote_keys(e, cmd);

	if (res != -EINPROGRESS)
		return res;
	cmd->remote->importing++;
	return DONE_LATER;
}

/* 1: done, and cmd->msg.res is the result. */
static int keys_again(struct engine *e, struct engine_cmd *cmd)
{
	cmd->msg.res = remote_keys(e, cmd);
	if (cmd->msg.res == -EINPROGRESS)
		return 0;
	cmd->remote->importing--;
	return 1;
}

/* Returns the result to reply with, or DONE_LATER: retry_commands() replies. */
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
	case ENGINE_PEER_IDLE:
		return peer_idle(cmd->peer);
	case ENGINE_PEER_PAUSE:
		return peer_pause(cmd->peer);
	case ENGINE_PEER_RESUME:
		return peer_resume(cmd->peer);
	case ENGINE_PEER_LOST:
		peer_lost(e, cmd);
		return DONE_LATER;
	case ENGINE_PEER_DIED:
		peer_died(cmd->peer);
		return 0;
	case ENGINE_PEER_RESTARTED:
		cmd->peer->restarted = 1;
		return 0;
	case ENGINE_PEER_CUT:
		peer_cut(e, cmd->peer, (uint32_t)load_acquire(&cmd->arg));
		return 0;
	case ENGINE_PEER_DEL:
		peer_del(e, cmd->peer);
		return 0;
	case ENGINE_REMOTE_ADD:
		return remote_add(e, cmd);
	case ENGINE_REMOTE_KEYS:
		return keys_begin(e, cmd);
	case ENGINE_REMOTE_REVOKE:
		remote_revoke(cmd->remote);
		/* Done at once if possible: entries taken later are not affected. */
		return remote_is_revoked(e, cmd->remote) ? 0 : DONE_LATER;
	case ENGINE_REMOTE_DEL:
		if (cmd->remote->has_address)
			remote_unmap(cmd->remote);
		return DONE_LATER;
	case ENGINE_REMOTE_WARM:
		e->warming++;
		return DONE_LATER;
	case ENGINE_REMOTE_MAP:
		if (cmd->data)
			return remote_map(cmd->remote, cmd->data);
		remote_unmap(cmd->remote);
		return 0;
	case ENGINE_EXPOSE:
		return expose(e, cmd);
	case ENGINE_STAGE:
		return stage_open(e, cmd->memory);
	case ENGINE_RAIL_FENCED:
		rail_fenced(e, cmd->peer, cmd->part);
		return 0;
	case ENGINE_RAIL_CLOSE:
		rail_close(e, cmd->rail);
		return DONE_LATER;
	default:
		return DONE_LATER; /* UNEXPOSE, PEER_EVENT, STOP */
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
	case ENGINE_REMOTE_KEYS:
		return keys_again(e, cmd);
	case ENGINE_REMOTE_REVOKE:
		return remote_is_revoked(e, cmd->remote);
	case ENGINE_REMOTE_WARM:
		return remote_warm(e, cmd);
	case ENGINE_UNEXPOSE:
		return unexpose(e, cmd->exposure);
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
		slow_list_add(e, &cmd->link, &e->pending_accepts);
		return;
	}
	if (cmd->msg.type == ENGINE_STOP) {
		e->stop = cmd;
		e->stopping = 1;
		return;
	}
	if (cmd->msg.type == ENGINE_RAIL_CONNECT) {
		res = rail_connect(e, cmd);
		if (res)
			msg_reply(&cmd->msg, res);
		return;
	}
	res = command(e, cmd);
	if (res == DONE_LATER)
		slow_list_add(e, &cmd->link, &e->commands);
	else
		msg_reply(&cmd->msg, res);
}

static void request_returned(struct engine *e, struct control_req *req)
{
	if (control_held_by(e, req))
		clock_release(e->config.clock);
	switch (req->msg.type) {
	case CONTROL_KEYS:
		req->remote->req_out = 0;
		break;
	case CONTROL_RAIL_DOWN:
		req->rail->down_out = 0;
		break;
	case CONTROL_RAIL_ADD_QPS:
		rail_qps_added(req);
		break;
	case CONTROL_AWAITED:
		peer_ping_back(e, req);
		break;
	case CONTROL_RESUME:
		peer_resume_back(req);
		break;
	case CONTROL_RUN:
	case CONTROL_RUN_FORGET:
		relay_ask_back(e, req);
		break;
	case CONTROL_RUN_END:
		relay_end_back(e, req);
		break;
	case CONTROL_STAGE:
		relay_stage_back(e, req);
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
	struct engine_cmd *cmd;

	list_for_each_entry_safe(cmd, &e->commands, link) {
		cmd->msg.res = 0;
		if (!is_done(e, cmd))
			continue;
		list_del(&cmd->link);
		msg_reply(&cmd->msg, cmd->msg.res);
	}
}
