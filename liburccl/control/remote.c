/* SPDX-License-Identifier: Apache-2.0 */
/* Imported memory: adverts of peers, and the keys we ask them for at first use. */
#include <stdlib.h>

#include "control/private.h"

/* ---- import ---- */

static int import_check(const struct control_call *call, const struct peer *p)
{
	uint64_t total = 0;
	uint32_t i;
	int rc;

	if (!call->n || !call->adverts)
		return fail(-EINVAL, "no adverts to import");
	if (call->n > PARTS_MAX)
		return fail(-E2BIG, "%u adverts are above the limit of %u", call->n, PARTS_MAX);
	for (i = 0; i < call->n; i++) {
		const struct urccl_advert *a = &call->adverts[i];

		rc = advert_import_check(a, i);
		if (rc)
			return rc;
		if (a->incarnation != p->incarnation)
			return fail(
				-ESTALE,
				"advert %u is of another context than the peer, or of an earlier "
				"incarnation of it",
				i);
		if (a->length > UINT64_MAX - total)
			return fail(-EINVAL, "the adverts together pass 64 bits");
		total += a->length;
	}
	return 0;
}

static struct remote *remote_new(struct control *c, struct peer *p, const struct control_call *call,
				 int *err)
{
	struct remote *r = calloc(1, sizeof(*r) + call->n * sizeof(r->adverts[0]));
	uint64_t *lens = calloc(call->n, sizeof(*lens));
	uint32_t i;

	*err = fail(-ENOMEM, "no memory for a remote of %u adverts", call->n);
	if (!r || !lens)
		goto free_both;
	for (i = 0; i < call->n; i++) {
		r->adverts[i] = call->adverts[i];
		lens[i] = call->adverts[i].length;
	}
	r->n = r->next = call->n;
	r->peer = p;
	r->handle = handles_add(&c->remote_handles, r);
	if (!r->handle) {
		*err = fail(-ENFILE, "no handle is left for another remote");
		goto free_both;
	}
	r->engine = engine_remote_new(r->handle, p->engine, lens, call->n);
	if (!r->engine)
		goto del_handle;
	engine_remote_set_owner(r->engine, r);
	list_init(&r->fetching);
	list_add_tail(&r->of_peer, &p->remotes);
	free(lens);
	return r;

del_handle:
	handles_del(&c->remote_handles, r->handle);
free_both:
	free(lens);
	free(r);
	return NULL;
}

static void remote_free(struct control *c, struct remote *r)
{
	engine_remote_free(r->engine);
	handles_del(&c->remote_handles, r->handle);
	list_del(&r->of_peer);
	free(r);
}

/* What the engine had of it is back: the end may go on. */
static void remote_step(struct control *c, struct remote *r)
{
	struct control_call *call = r->call;
	struct peer *p = r->peer;
	int rc;

	if (!r->deleting || r->add.out || r->del.out)
		return;
	rc = r->failed ? fail(r->failed, "no memory for another remote") : 0;
	remote_free(c, r);
	if (call)
		call_answer(call, rc);
	peer_step(c, p);
}

static void remote_cmd_back(struct control *c, struct cmd *cmd)
{
	remote_step(c, cmd->e.owner);
}

static void remote_end(struct control *c, struct remote *r)
{
	uint32_t i;

	if (r->deleting)
		return;
	r->deleting = 1;
	list_del(&r->fetching);
	for (i = 0; i < KEY_WINDOW; i++)
		if (r->peer->fetch[i].remote == r)
			r->peer->fetch[i].remote = NULL;
	r->del.e.remote = r->engine;
	r->del.e.peer = r->peer->engine;
	r->del.e.owner = r;
	cmd_post(c, &r->del, ENGINE_REMOTE_DEL, remote_cmd_back);
}

/* One that was not taken ends: the call is answered then. */
static void remote_add_back(struct control *c, struct cmd *cmd)
{
	struct remote *r = cmd->e.owner;
	struct control_call *call = r->call;

	if (!cmd->e.msg.res)
		c->remote_slots = cmd->e.len;
	else
		r->failed = cmd->e.msg.res;
	if (r->failed) {
		remote_end(c, r);
	} else if (call && !r->deleting) {
		r->call = NULL;
		call_answer(call, 0);
	}
	remote_step(c, r);
}

void remote_import(struct control *c, struct control_call *call)
{
	struct peer *p = peer_of(c, call->handle);
	struct remote *r;
	int rc;

	if (!p) {
		call_answer(call, -ESTALE);
		return;
	}
	if (p->stage == STAGE_DOWN) {
		call_answer(call, fail(-ECONNRESET, "the peer was lost: connect again"));
		return;
	}
	rc = import_check(call, p);
	if (rc) {
		call_answer(call, rc);
		return;
	}
	r = remote_new(c, p, call, &rc);
	if (!r) {
		call_answer(call, rc);
		return;
	}
	call->handle = r->handle;
	r->add.e.remote = r->engine;
	r->add.e.peer = p->engine;
	r->add.e.owner = r;
	cmd_post(c, &r->add, ENGINE_REMOTE_ADD, remote_add_back);
	if (HANDLE_SLOT(r->handle) < c->remote_slots)
		call_answer(call, 0);
	else
		r->call = call;
}

/* ---- its end ---- */

void remote_forget(struct control *c, struct control_call *call)
{
	struct remote *r = handles_get(&c->remote_handles, call->handle);

	if (!r || r->deleting || r->call) {
		call_answer(call, fail(-ESTALE, "remote handle 0x%x names no imported memory",
				       call->handle));
		return;
	}
	r->call = call;
	remote_end(c, r);
}

void remotes_end(struct control *c, struct peer *p)
{
	struct list *pos;

	list_for_each(pos, &p->remotes)
		remote_end(c, list_entry(pos, struct remote, of_peer));
}

/* ---- keys ---- */

static void fetch_back(struct control *c, struct cmd *cmd)
{
	struct fetch *f = container_of(cmd, struct fetch, cmd);
	struct peer *p = cmd->e.owner;

	free(f->data);
	f->data = NULL;
	f->remote = NULL;
	p->fetch_out--;
	if (p->stage == STAGE_UP)
		remotes_pump(c, p);
	else
		peer_step(c, p);
}

/* Tells the engine what became of a part. */
static void fetch_done(struct control *c, struct peer *p, struct fetch *f, int cause)
{
	f->id = 0;
	f->cmd.e.remote = f->remote->engine;
	f->cmd.e.peer = p->engine;
	f->cmd.e.rail = p->path ? &p->path->rail : NULL;
	f->cmd.e.part = f->part;
	f->cmd.e.cause = cause;
	f->cmd.e.reason = cause ? REASON_KEYS : REASON_NONE;
	f->cmd.e.arg = (uint64_t)-cause;
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

/* Asks for as many keys as the owner takes requests. */
void remotes_pump(struct control *c, struct peer *p)
{
	struct wire_key_req req;
	struct fetch *f;

	while (p->stage == STAGE_UP && !list_empty(&p->fetching) && (f = fetch_free(p))) {
		struct remote *r = list_first(&p->fetching, struct remote, fetching);

		f->remote = r;
		f->part = r->next;
		f->id = ++p->fetch_seq;
		req.id = f->id;
		req.advert = r->adverts[r->next];
		if (++r->next == r->n)
			list_del(&r->fetching);
		conn_send(c, p->conn, c->tx, wire_put_key_req(c->tx, &req));
	}
}

void remote_keys(struct control *c, struct control_req *req)
{
	struct remote *r = engine_remote_owner(req->remote);

	req_answer(req, 0, REASON_NONE, 0, 0, 0);
	/* One round at a time: while parts are out the engine has no reason to ask again. */
	if (r->deleting || r->peer->stage == STAGE_DOWN || r->next < r->n)
		return;
	r->next = 0;
	list_add_tail(&r->fetching, &r->peer->fetching);
	remotes_pump(c, r->peer);
}

/* What the owner said, as the importer's entries are to hear it. */
static int key_cause(int status)
{
	switch (status) {
	case 0:
	case -EACCES:
	case -ESTALE:
	case -EOPNOTSUPP:
		return status;
	default:
		return -EREMOTEIO;
	}
}

int remote_key(struct control *c, struct peer *p, const struct wire_key_rep *rep)
{
	struct fetch *f = NULL;
	int cause = key_cause(rep->status);
	uint32_t i;

	for (i = 0; i < KEY_WINDOW && rep->id; i++)
		if (p->fetch[i].id == rep->id)
			f = &p->fetch[i];
	if (!f)
		return -EPROTO;
	if (!f->remote) { /* forgotten meanwhile */
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
	fetch_done(c, p, f, cause);
	return 0;
}
