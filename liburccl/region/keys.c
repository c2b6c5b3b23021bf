/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keys of imported memory. The owner is asked at first use, or earlier by WARM. A remote asks in
 * rounds; each round asks for all parts without a key. A key that failed for a passing reason or
 * was revoked is asked for again by the next entry. A key that the owner refused for good is not.
 * WARM does not ask again after any refusal. A WARM waits for all remotes that were busy when the
 * WARM arrived, in their order.
 */
#include <stdlib.h>

#include "region/private.h"

/* ---- WARM ---- */

static uint32_t warm_reason(const struct control_req *req)
{
	if (!req->msg.res)
		return REASON_NONE;
	return req->arg[1] == ENOMEM ? REASON_WARM_MEMORY : REASON_WARM_KEYS;
}

static void warm_step(struct control *c, struct peer *p)
{
	uint64_t done = UINT64_MAX;
	struct control_req *req;

	(void)c;
	if (!list_empty(&p->busy))
		done = list_first(&p->busy, struct remote, busy)->busy_seq - 1;
	list_for_each_entry_safe(req, &p->warming, link) {
		if (req->turn > done)
			continue;
		list_del(&req->link);
		req_answer(req, req->msg.res, warm_reason(req), req->arg[0], req->arg[1], 0);
	}
}

/* Records the failure with each WARM that waits for the remote: the result, and the owner's
 * errno. */
static void warm_note(struct remote *r, int err, uint32_t why)
{
	struct control_req *req;

	list_for_each_entry(req, &r->peer->warming, link) {
		if (req->turn < r->busy_seq || req->msg.res)
			continue;
		req->msg.res = err;
		req->arg[0] = r->handle;
		req->arg[1] = why;
	}
}

void warm_req(struct control *c, struct control_req *req)
{
	struct peer *p = peer_of(c, req->handle);
	struct list *pos;

	if (!p) {
		req_answer_handle(req, HANDLE_PEER, REASON_PEER_STALE);
		return;
	}
	if (p->stage == STAGE_DOWN) {
		req_answer(req, -ECONNRESET, REASON_PEER_LOST, peer_down_ms(p), 0, 0);
		return;
	}
	list_for_each(pos, &p->remotes)
		keys_request(c, list_entry(pos, struct remote, of_peer), 1);
	req->owner = p;
	req->msg.res = 0;
	req->turn = p->busy_seq;
	list_add_tail(&req->link, &p->warming);
	warm_step(c, p);
}

void warm_drop(struct control *c, struct control_req *req)
{
	(void)c;
	list_del(&req->link);
	req_answer(req, -ECANCELED, REASON_NONE, 0, 0, 0);
}

/* ---- rounds ---- */

/* 1: some part lacks a key of a rail that is up, or no rail is up. */
static int remote_lacks_keys(const struct remote *r)
{
	uint32_t up = rails_up(r->peer), i;

	for (i = 0; i < r->n; i++)
		if (up & ~(uint32_t)r->has[i])
			return 1;
	return !up;
}

void keys_lose(struct peer *p, const struct path *path)
{
	struct remote *r;
	uint32_t i;

	for (i = 0; i < KEY_WINDOW; i++)
		if (p->fetch[i].path == path)
			p->fetch[i].path = NULL;
	if (!path_is_rail(path))
		return;
	list_for_each_entry(r, &p->remotes, of_peer) {
		for (i = 0; i < r->n; i++)
			r->has[i] &= (uint8_t) ~(1u << path->rail.number);
	}
}

static void round_begin(struct control *c, struct remote *r);
static void round_ask(struct control *c, struct remote *r);

static void busy_begin(struct remote *r)
{
	r->busy_seq = ++r->peer->busy_seq;
	list_add_tail(&r->busy, &r->peer->busy);
}

static void busy_end(struct control *c, struct remote *r)
{
	list_del(&r->busy);
	r->warm_wanted = 0;
	warm_step(c, r->peer);
}

static void warm_back(struct control *c, struct cmd *cmd)
{
	struct remote *r = cmd->e.owner;

	busy_end(c, r);
	remote_step(c, r);
}

static void warm_post(struct control *c, struct remote *r)
{
	r->warm.e.remote = r->engine;
	r->warm.e.part = 0;
	r->warm.e.owner = r;
	cmd_post(c, &r->warm, ENGINE_REMOTE_WARM, warm_back);
}

/* 1: each part has a key, by any rail. */
static int has_all(const struct remote *r)
{
	uint32_t i;

	for (i = 0; i < r->n; i++)
		if (!r->has[i])
			return 0;
	return 1;
}

/* Status: the errno that the owner sent; 0: the failure arose here. */
static void round_failed(struct remote *r, int res, uint32_t status)
{
	r->error = res;
	r->why = res == -EREMOTEIO && status ? status : (uint32_t)-res;
}

static void round_end(struct control *c, struct remote *r)
{
	/* A rail that ended is no failure if other rails have all keys. Otherwise the round waits
	 * for a rail of the peer, or for the end of the peer. */
	if (r->error == -ENOTCONN && r->peer->failover && has_all(r))
		r->error = 0;
	if (r->error == -ENOTCONN && r->peer->failover) {
		r->rail_awaited = 1;
		if (r->again && rails_up(r->peer))
			round_ask(c, r);
		return;
	}
	if (r->error)
		warm_note(r, r->error, r->why);
	if (!remote_lacks_keys(r) && r->warm_wanted) {
		warm_post(c, r);
		return;
	}
	list_del(&r->busy);
	if (r->again && remote_lacks_keys(r))
		round_begin(c, r);
	else
		r->warm_wanted = 0;
	warm_step(c, r->peer);
}

static uint32_t round_rail(const struct remote *r)
{
	return (r->first + r->tried) % RAIL_NUMBERS;
}

static int round_is_over(const struct remote *r)
{
	return r->tried == RAIL_NUMBERS;
}

/* Advances to the next part without a key, rail by rail. */
static void round_skip(struct remote *r)
{
	uint32_t up = rails_up(r->peer);

	for (; r->tried < RAIL_NUMBERS; r->tried++, r->next = 0) {
		uint32_t rail = round_rail(r);

		while (up >> rail & 1 && r->next < r->n && r->has[r->next] >> rail & 1)
			r->next++;
		if (up >> rail & 1 && r->next < r->n)
			return;
	}
	list_del(&r->fetching);
}

static void round_ask(struct control *c, struct remote *r)
{
	r->again = r->rail_awaited = 0;
	r->error = 0;
	r->next = r->tried = 0;
	r->first = r->peer->path ? r->peer->path->rail.number : 0;
	list_add_tail(&r->fetching, &r->peer->fetching);
	remotes_pump(c, r->peer);
}

static void round_begin(struct control *c, struct remote *r)
{
	busy_begin(r);
	round_ask(c, r);
}

void keys_request(struct control *c, struct remote *r, int warm)
{
	if (r->deleting || r->peer->stage == STAGE_DOWN)
		return;
	if (r->refused && (warm || key_final(r->refused, r->revoked)))
		return;
	r->used = 1;
	r->warm_wanted |= (uint8_t)warm;
	if (r->rail_awaited && rails_up(r->peer)) {
		round_ask(c, r);
	} else if (!list_empty(&r->busy)) {
		r->again = 1;
	} else if (remote_lacks_keys(r)) {
		round_begin(c, r);
	} else if (warm) {
		busy_begin(r);
		warm_post(c, r);
	}
}

void keys_of_rail(struct control *c, struct peer *p)
{
	struct remote *r;

	list_for_each_entry(r, &p->remotes, of_peer) {
		if (r->rail_awaited)
			round_ask(c, r);
		else if (r->used && !r->refused)
			keys_request(c, r, 0);
	}
}

void keys_leave(struct control *c, struct remote *r)
{
	struct peer *p = r->peer;
	uint32_t i;

	list_del(&r->fetching);
	r->tried = RAIL_NUMBERS;
	r->out = 0;
	r->again = r->rail_awaited = 0;
	for (i = 0; i < KEY_WINDOW; i++)
		if (p->fetch[i].remote == r)
			p->fetch[i].remote = NULL;
	if (!r->warm.out && !list_empty(&r->busy))
		busy_end(c, r);
}

void remote_refuse(struct control *c, struct remote *r, int err)
{
	uint8_t again = r->again;

	r->refused = err;
	if (!list_empty(&r->busy))
		warm_note(r, err, (uint32_t)-err);
	keys_leave(c, r);
	if (again)
		keys_request(c, r, 0);
}

/* ---- a part ---- */

static void part_settled(struct control *c, struct remote *r, const struct fetch *f, int res)
{
	r->out--;
	if (key_refused(res)) {
		remote_refuse(c, r, res);
		return;
	}
	if (res == -ENOTCONN && r->peer->failover && !f->path) /* its rail was closed meanwhile */
		r->again = 1;
	else if (res)
		round_failed(r, res, (uint32_t)f->cmd.e.arg);
	else if (f->path)
		r->has[f->part] |= (uint8_t)(1u << f->number);
	if (!r->out && round_is_over(r))
		round_end(c, r);
}

static void fetch_back(struct control *c, struct cmd *cmd)
{
	struct fetch *f = container_of(cmd, struct fetch, cmd);
	struct remote *r = f->remote;
	struct peer *p = cmd->e.owner;

	free(f->data);
	f->data = NULL;
	f->remote = NULL;
	p->fetch_out--;
	if (r)
		part_settled(c, r, f, cmd->e.msg.res);
	if (p->stage == STAGE_UP)
		remotes_pump(c, p);
	else
		peer_due(c, p);
}

/* Passes the result for a part to the engine; status: the owner's errno, or the local one. */
static void fetch_done(struct control *c, struct peer *p, struct fetch *f, int cause, int status)
{
	f->id = 0;
	f->cmd.e.remote = f->remote->engine;
	f->cmd.e.peer = p->engine;
	f->cmd.e.rail = f->path && !f->path->closing ? &f->path->rail : NULL;
	f->cmd.e.part = f->part;
	f->cmd.e.cause = cause;
	f->cmd.e.arg = (uint64_t)-status;
	f->cmd.e.data = f->data;
	f->cmd.e.owner = p;
	p->fetch_out++;
	cmd_post(c, &f->cmd, ENGINE_REMOTE_KEYS, fetch_back);
}

static struct fetch *fetch_free(struct peer *p)
{
	uint32_t i;

	for (i = 0; i < p->fetch_window; i++)
		if (!p->fetch[i].id && !p->fetch[i].remote && !p->fetch[i].cmd.out)
			return &p->fetch[i];
	return NULL;
}

/* Sends as many KEY_REQs as the owner's window allows. */
void remotes_pump(struct control *c, struct peer *p)
{
	struct wire_key_req req;
	struct fetch *f;

	while (p->stage == STAGE_UP && !list_empty(&p->fetching) && (f = fetch_free(p))) {
		struct remote *r = list_first(&p->fetching, struct remote, fetching);

		round_skip(r);
		if (round_is_over(r)) {
			if (!rails_up(p))
				round_failed(r, -ENOTCONN, 0);
			if (!r->out)
				round_end(c, r);
			continue;
		}
		f->number = round_rail(r);
		f->path = rail_path(p, f->number);
		req.rail = f->number;
		f->remote = r;
		f->part = r->next;
		f->id = ++p->fetch_seq;
		r->first_id = r->first_id ? r->first_id : f->id;
		req.id = f->id;
		req.advert = r->adverts[r->next++];
		r->out++;
		round_skip(r);
		conn_send(c, p->conn, c->tx, wire_put_key_req(c->tx, &req));
	}
}

void remote_keys(struct control *c, struct control_req *req)
{
	struct remote *r = engine_remote_owner(req->remote);

	req_answer(req, 0, REASON_NONE, 0, 0, 0);
	keys_request(c, r, 0);
}

/* Turns the owner's status into the errno for entries of the importer. -ENOTCONN stays: the owner
 * closes the rail and sends FENCE too, and the key is requested for the next rail. */
static int key_cause(const struct peer *p, int status)
{
	if (status == -ENOTCONN && p->failover)
		return status;
	return !status || key_refused(status) ? status : -EREMOTEIO;
}

int remote_key(struct control *c, struct peer *p, const struct wire_key_rep *rep)
{
	struct fetch *f = NULL;
	int cause = key_cause(p, rep->status);
	uint32_t i;

	for (i = 0; i < KEY_WINDOW && rep->id; i++)
		if (p->fetch[i].id == rep->id)
			f = &p->fetch[i];
	if (!f)
		return -EPROTO;
	if (!f->remote) { /* the remote was ended meanwhile */
		f->id = 0;
		remotes_pump(c, p);
		return 0;
	}
	f->cmd.e.len = cause ? 0 : rep->len;
	f->cmd.e.grant = rep->grant;
	if (!cause) {
		f->data = malloc(rep->len ? rep->len : 1);
		if (f->data)
			memcpy(f->data, rep->key, rep->len);
		else
			cause = -ENOMEM;
	}
	fetch_done(c, p, f, cause, rep->status ? rep->status : cause);
	return 0;
}

void keys_forget(struct peer *p)
{
	struct remote *r;

	list_for_each_entry(r, &p->remotes, of_peer) {
		if (r->deleting || r->revoked)
			continue;
		memset(r->has, 0, r->n);
		r->refused = 0;
	}
}
