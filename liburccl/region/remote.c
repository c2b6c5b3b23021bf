/* SPDX-License-Identifier: Apache-2.0 */
/* Imported memory: one or more adverts of a peer that form one remote. */
#include <stdlib.h>

#include "region/private.h"

/* ---- import ---- */

static int remote_set_error(struct control_error *t, int res, uint32_t reason, uint64_t a,
			    uint64_t b)
{
	*t = (struct control_error){res, reason, {a, b}};
	return res;
}

static int import_check(const struct control_req *req, const struct peer *p,
			struct control_error *t)
{
	const struct urccl_advert *a = req->data;
	uint64_t total = 0;
	uint32_t i;

	if (!req->len || !a)
		return remote_set_error(t, -EINVAL, REASON_ARRAY_NONE, 0, 0);
	if (req->len > PARTS_MAX)
		return remote_set_error(t, -E2BIG, REASON_ADVERTS, req->len, PARTS_MAX);
	for (i = 0; i < req->len; i++) {
		if (advert_import_check(&a[i], i, t))
			return t->res;
		if (a[i].incarnation != p->incarnation)
			return remote_set_error(t, -ESTALE, REASON_ADVERT_STALE, i, 0);
		if (a[i].length > UINT64_MAX - total)
			return remote_set_error(t, -EINVAL, REASON_ADVERTS_SUM, 0, 0);
		total += a[i].length;
	}
	return 0;
}

static void remote_init(struct remote *r, struct peer *p, const struct urccl_advert *adverts,
			uint32_t n)
{
	memcpy(r->adverts, adverts, n * sizeof(adverts[0]));
	r->has = (uint8_t *)&r->adverts[n];
	r->n = n;
	r->tried = RAIL_NUMBERS;
	r->peer = p;
	list_init(&r->fetching);
	list_init(&r->busy);
	list_init(&r->revoking);
}

static struct engine_remote *remote_engine(const struct remote *r)
{
	uint64_t *lens = calloc(r->n, sizeof(*lens));
	struct engine_remote *e;
	uint32_t i;

	if (!lens)
		return NULL;
	for (i = 0; i < r->n; i++)
		lens[i] = r->adverts[i].length;
	e = engine_remote_new(r->handle, r->peer->engine, lens, r->n);
	free(lens);
	return e;
}

static struct remote *remote_new(struct control *c, struct peer *p, const struct control_req *req,
				 struct control_error *t)
{
	uint32_t n = (uint32_t)req->len;
	size_t size = sizeof(struct remote) + n * (sizeof(struct urccl_advert) + 1);
	struct remote *r = calloc(1, size);

	remote_set_error(t, -ENOMEM, REASON_NO_MEMORY, size, 0);
	if (!r)
		return NULL;
	remote_init(r, p, req->data, n);
	r->handle = handles_add(&c->remote_handles, r);
	if (!r->handle) {
		remote_set_error(t, -ENFILE, REASON_HANDLES, c->remote_handles.max, 0);
		goto free_remote;
	}
	r->engine = remote_engine(r);
	if (!r->engine)
		goto del_handle;
	engine_remote_set_owner(r->engine, r);
	list_add_tail(&r->of_peer, &p->remotes);
	return r;

del_handle:
	handles_del(&c->remote_handles, r->handle);
free_remote:
	free(r);
	return NULL;
}

static void remote_free(struct control *c, struct remote *r)
{
	if (r->mapped.import)
		gpu_unimport(r->mapped.dev, r->mapped.import);
	engine_remote_free(r->engine);
	handles_del(&c->remote_handles, r->handle);
	list_del(&r->of_peer);
	list_del(&r->revoking);
	free(r);
}

/* Frees a remote that is ending, once no command for the engine names it any more. */
void remote_step(struct control *c, struct remote *r)
{
	struct control_req *req = r->req;
	struct peer *p = r->peer;
	int failed = r->failed;

	if (!r->deleting || r->add.out || r->del.out || r->revoke.out || r->warm.out || r->map.out)
		return;
	remote_free(c, r);
	if (req)
		req_answer(req, failed, failed ? REASON_NO_MEMORY : REASON_NONE, sizeof(*r), 0, 0);
	peer_due(c, p);
}

static void remote_cmd_back(struct control *c, struct cmd *cmd)
{
	remote_step(c, cmd->e.owner);
}

static void remote_end(struct control *c, struct remote *r)
{
	if (r->deleting)
		return;
	r->deleting = 1;
	keys_leave(c, r);
	r->del.e.remote = r->engine;
	r->del.e.peer = r->peer->engine;
	r->del.e.owner = r;
	cmd_post(c, &r->del, ENGINE_REMOTE_DEL, remote_cmd_back);
}

/* If the engine did not take the remote, it ends, and the request is answered at its end. */
static void remote_add_back(struct control *c, struct cmd *cmd)
{
	struct remote *r = cmd->e.owner;
	struct control_req *req = r->req;

	if (!cmd->e.msg.res)
		c->remote_slots = cmd->e.len;
	else
		r->failed = cmd->e.msg.res;
	if (r->failed) {
		remote_end(c, r);
	} else if (req && !r->deleting) {
		r->req = NULL;
		req_answer(req, 0, REASON_NONE, 0, 0, 0);
	}
	remote_step(c, r);
}

void remote_import(struct control *c, struct control_req *req)
{
	struct peer *p = peer_of(c, req->handle);
	struct remote *r = NULL;
	int is_own = req->msg.type != CONTROL_IMPORT;
	struct urccl_advert own;
	struct control_error t;

	if (!p) {
		req_answer_handle(req, HANDLE_PEER, REASON_PEER_STALE);
		return;
	}
	if (req->msg.type == CONTROL_SCRATCH)
		scratch_advert(p->incarnation, &own);
	else if (is_own)
		run_advert(p->incarnation, (uint32_t)req->arg[0], &own);
	if (is_own) {
		req->data = &own;
		req->len = 1;
	}
	if (p->stage == STAGE_DOWN)
		remote_set_error(&t, -ECONNRESET, REASON_PEER_LOST, peer_down_ms(p), 0);
	else if (is_own || !import_check(req, p, &t))
		r = remote_new(c, p, req, &t);
	if (!r) {
		req_answer_error(req, &t);
		return;
	}
	req->handle = r->handle;
	r->add.e.remote = r->engine;
	r->add.e.peer = p->engine;
	r->add.e.owner = r;
	cmd_post(c, &r->add, ENGINE_REMOTE_ADD, remote_add_back);
	if (HANDLE_SLOT(r->handle) < c->remote_slots)
		req_answer(req, 0, REASON_NONE, 0, 0, 0);
	else
		r->req = req;
}

/* ---- its end ---- */

void remote_forget(struct control *c, struct control_req *req)
{
	struct remote *r = handles_get(&c->remote_handles, req->handle);

	if (!r || r->deleting || r->req) {
		req_answer_handle(req, HANDLE_REMOTE, REASON_REMOTE_STALE);
		return;
	}
	r->req = req;
	remote_end(c, r);
}

void remote_info(struct control *c, struct control_call *call)
{
	struct remote *r = handles_get(&c->remote_handles, call->handle);
	struct urccl_remote_info *info = call->info;
	uint32_t i;

	if (!r || r->deleting) {
		call_answer(call, fail_handle(call->handle, HANDLE_REMOTE, REASON_REMOTE_STALE));
		return;
	}
	info->nadverts = r->n;
	info->peer.id = r->peer->handle;
	info->rights = UINT32_MAX;
	for (i = 0; i < r->n; i++) {
		info->len += r->adverts[i].length;
		info->rights &= r->adverts[i].rights;
	}
	info->enforced = engine_remote_enforced(r->engine);
	call_answer(call, 0);
}

/* ---- mapping into this process ---- */

static int map_failed(const struct remote *r, int res)
{
	switch (res) {
	case -EAGAIN:
		return fail(res,
			    "remote 0x%x has no keys yet: have an entry with URCCL_OP_WARM "
			    "for its peer succeed before",
			    r->handle);
	case -EACCES:
		return fail(res, "remote 0x%x was revoked by its owner: import another advert",
			    r->handle);
	default:
		return fail(res,
			    "remote 0x%x is not memory of one allocation of a GPU that this "
			    "process can map: entries alone reach it",
			    r->handle);
	}
}

/* A mapping gives read and write access, so kernels get an address only if all adverts have both
 * rights. */
static int map_allowed(const struct remote *r)
{
	const uint32_t both = URCCL_RIGHT_READ | URCCL_RIGHT_WRITE;
	uint32_t i;

	for (i = 0; i < r->n; i++)
		if ((r->adverts[i].rights & both) != both)
			return 0;
	return 1;
}

static void remote_map_back(struct control *c, struct cmd *cmd)
{
	struct remote *r = cmd->e.owner;
	struct control_call *call = r->mapping;
	int res = cmd->e.msg.res;

	r->mapping = NULL;
	call->addr = r->mapped.addr;
	call_answer(call, res && cmd->e.data ? map_failed(r, res) : 0);
	remote_step(c, r);
}

void remote_map(struct control *c, struct control_call *call)
{
	struct remote *r = handles_get(&c->remote_handles, call->handle);
	int maps = call->msg.type == CALL_REMOTE_MAP;

	if (!r || r->deleting) {
		call_answer(call, fail_handle(call->handle, HANDLE_REMOTE, REASON_REMOTE_STALE));
		return;
	}
	if (r->mapping || maps == !!r->mapped.import) {
		call_answer(call, fail(maps ? -EALREADY : -EINVAL, "remote 0x%x is %s", r->handle,
				       maps ? "mapped, or about to be" : "not mapped"));
		return;
	}
	if (maps && !map_allowed(r)) {
		call_answer(call,
			    fail(-EACCES,
				 "the advert of remote 0x%x does not give both the right to read "
				 "and to write, and CUDA maps memory of another process for both: "
				 "ask its owner for one that does",
				 r->handle));
		return;
	}
	if (!maps) {
		gpu_unimport(r->mapped.dev, r->mapped.import);
		r->mapped.import = NULL;
	}
	r->mapping = call;
	r->map.e.remote = r->engine;
	r->map.e.data = maps ? &r->mapped : NULL;
	r->map.e.owner = r;
	cmd_post(c, &r->map, ENGINE_REMOTE_MAP, remote_map_back);
}

void remotes_end(struct control *c, struct peer *p)
{
	struct list *pos;

	list_for_each(pos, &p->remotes)
		remote_end(c, list_entry(pos, struct remote, of_peer));
}
