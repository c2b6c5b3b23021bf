/* SPDX-License-Identifier: Apache-2.0 */
/* The life of a peer. After a loss or a close, peer_step() gives back what it has, in order. */
#include <stdlib.h>

#include "peer/private.h"

static void peer_silent(struct control *c, struct control_timer *a)
{
	struct peer *p = container_of(a, struct peer, ping_timer);

	if (!p->ping_spans)
		peer_ping(c, p);
	else if (--p->ping_spans)
		peer_span(c, a);
	else if (p->cut)
		peer_down(c, p, -ENETDOWN, REASON_PORTS_DOWN, 0, 0);
	else
		peer_down(c, p, -ECONNRESET, REASON_PEER_SILENT, c->config.params->dead_after_ms,
			  0);
}

/* A dialler that was answered uses a slot before it has proved to be a peer. If slots run out, the
 * oldest such dialler that took too long is refused. 0, or an error as of peer_new(). */
static int peers_room(struct control *c)
{
	uint64_t now = clock_ns();
	struct peer *p;
	int err = -EUSERS;

	if (c->live < c->config.params->max_peers)
		return 0;
	list_for_each_entry(p, &c->peers, link) {
		if (p->dialled || p->stage != STAGE_RAILS)
			continue;
		err = -EBUSY;
		if (!p->answered || p->conn->timer.due.at + PENDING_SLOW_NS > now + PATH_NS)
			continue;
		setup_refuse(c, p, -ETIMEDOUT);
		return 0;
	}
	return err;
}

static void peer_unhash(struct control *c, struct peer *p)
{
	struct peer **at = peer_bucket(c, p->incarnation);

	while (*at != p)
		at = &(*at)->hash_next;
	*at = p->hash_next;
}

/* The last known address of the same incarnation applies to a peer that dials us. */
static void peer_known(const struct control *c, struct peer *p)
{
	const struct peer *before;

	for (before = *peer_bucket(c, p->incarnation); before; before = before->hash_next) {
		if (before->incarnation == p->incarnation && before->at.ss_family) {
			p->at = before->at;
			return;
		}
	}
}

struct peer *peer_new(struct control *c, struct conn *n, const struct wire_hello *hello,
		      int dialled, int *err)
{
	char name[80];
	struct peer *p;

	*err = peers_room(c);
	if (*err)
		return NULL;
	p = calloc(1, sizeof(*p));
	*err = -ENOMEM;
	if (!p)
		return NULL;
	*err = -EUSERS;
	p->handle = handles_add(&c->peer_handles, p);
	if (!p->handle)
		goto free_peer;
	*err = -ENOMEM;
	addr_text(&n->remote, name, sizeof(name));
	p->engine = engine_peer_new(c->engine, p->handle, hello->incarnation, name);
	if (!p->engine)
		goto del_handle;
	*err = n->auth ? auth_bond(n->auth, p->bond) : 0;
	if (*err)
		goto free_engine;
	p->bonded = n->auth != NULL;
	p->process = -1;
	p->incarnation = hello->incarnation;
	p->dialled = (uint8_t)dialled;
	p->conn = n;
	p->remote = n->remote;
	p->hello_len = hello->note_len;
	memcpy(p->hello, hello->note, hello->note_len);
	p->fetch_window = hello->key_window < KEY_WINDOW ? hello->key_window : KEY_WINDOW;
	p->grants_sweep = 1024;
	timer_init(&p->ping_timer, peer_silent);
	timer_init(&p->delay, peer_delay);
	timer_init(&p->resume_timer, resume_timer);
	timer_init(&p->rails_timer, rails_timer);
	list_init(&p->active);
	list_init(&p->due);
	list_init(&p->held);
	list_init(&p->dials);
	list_init(&p->remotes);
	list_init(&p->fetching);
	list_init(&p->busy);
	list_init(&p->warming);
	list_init(&p->grants);
	list_init(&p->importers);
	list_init(&p->revoke_unacked);
	list_init(&p->revoking);
	list_add_tail(&p->link, &c->peers);
	if (!dialled)
		peer_known(c, p);
	p->hash_next = *peer_bucket(c, p->incarnation);
	*peer_bucket(c, p->incarnation) = p;
	c->live++;
	conn_set(c, n, c->peer_ops->conn, p);
	return p;

free_engine:
	engine_peer_free(p->engine);
del_handle:
	handles_del(&c->peer_handles, p->handle);
free_peer:
	free(p);
	return NULL;
}

/* ---- the end ---- */

static int peer_was_at(const struct peer *old, const struct peer *p,
		       const struct sockaddr_storage *at)
{
	return old->added && !old->deleting && !old->restarted.out &&
	       old->incarnation != p->incarnation &&
	       (addr_port_same(&old->at, at) || addr_port_same(&old->place, at));
}

/* The peer is at this address: other incarnations recorded there have ended. */
static void peer_takes_place(struct control *c, const struct peer *p,
			     const struct sockaddr_storage *at)
{
	struct peer *old;

	list_for_each_entry(old, &c->peers, link) {
		if (!peer_was_at(old, p, at))
			continue;
		peer_cmd(c, old, &old->restarted, ENGINE_PEER_RESTARTED, peer_cmd_back);
		/* One may be dead without our knowing: the ping finds out. */
		peer_ping(c, old);
	}
}

void peer_answers(struct control *c, struct peer *p, const struct sockaddr_storage *at)
{
	peer_takes_place(c, p, at);
	if (!p->at.ss_family)
		p->at = *at;
}

/* The address is observed, but the port is only the peer's claim. So the place only serves to find
 * earlier incarnations; dials to it are not given this peer. */
void peer_comes(struct control *c, struct peer *p, uint32_t port)
{
	p->place = p->remote;
	addr_unmap(&p->place);
	addr_port_set(&p->place, port);
	peer_takes_place(c, p, &p->place);
}

/* Answers its last CLOSE. */
static void peer_closed(struct peer *p)
{
	struct control_req *req = p->closing;

	p->closing = NULL;
	if (req)
		req_answer(req, 0, REASON_NONE, 0, 0, 0);
}

static void peer_free(struct control *c, struct peer *p)
{
	assert(list_empty(&p->dials) && list_empty(&p->grants) && !p->conn);
	engine_peer_free(p->engine);
	handles_del(&c->peer_handles, p->handle);
	list_del(&p->link);
	list_del(&p->due);
	peer_unhash(c, p);
	peer_closed(p);
	free(p->later);
	free(p);
}

/* Takes every step that is possible now. Each command that returns makes the peer due again. */
static void peer_step(struct control *c, struct peer *p)
{
	if (p->stage != STAGE_DOWN)
		return;
	if (!list_empty(&p->dials)) /* it was not up yet */
		c->peer_ops->lost(c, p);
	if (p->lost.out)
		return;
	peer_disconnect(c, p);
	paths_close(c, p);
	if (p->npaths || p->add.out || p->up.out || p->event.out || p->suspend.out ||
	    p->cutting.out || p->restarted.out || p->dying.out || p->fences_out)
		return;
	if (list_empty(&p->importers))
		process_leave(c, p);
	/* A handle without a connection stays valid until the program closes it. */
	if (grants_free_peer(c, p) || p->refs)
		return;
	remotes_end(c, p);
	if (!list_empty(&p->remotes) || p->fetch_out || p->del.out)
		return;
	if (p->added && !p->deleting) {
		p->deleting = 1;
		peer_cmd(c, p, &p->del, ENGINE_PEER_DEL, peer_cmd_back);
		return;
	}
	if (list_empty(&p->grants) && list_empty(&p->importers))
		peer_free(c, p);
	else
		peer_closed(p); /* importers_step() makes it due again */
}

void peers_step(struct control *c)
{
	while (!list_empty(&c->due_peers)) {
		struct peer *p = list_first(&c->due_peers, struct peer, due);

		list_del(&p->due);
		peer_step(c, p);
	}
}

/* ---- requests of the engine ---- */

void peer_close_req(struct control *c, struct control_req *req)
{
	struct peer *p = handles_get(&c->peer_handles, req->handle);

	req->owner = NULL;
	if (!p || !p->refs) {
		req_answer_handle(req, HANDLE_PEER, REASON_PEER_STALE);
		return;
	}
	if (--p->refs) {
		req_answer(req, 0, REASON_NONE, 0, 0, 0);
		return;
	}
	p->closing = req;
	req->owner = p;
	/* A PEER event under way may add a reference: handshake_event_back() continues then. */
	if (!p->event.out)
		peer_close(c, p);
}

void peer_awaited_req(struct control *c, struct control_req *req)
{
	struct peer *p = handles_get(&c->peer_handles, req->handle);

	if (p && req->arg[0] && !p->watched) {
		p->watched = 1;
		if (!p->ping_spans)
			peer_heard(c, p);
	} else if (p && !req->arg[0]) {
		peer_ping(c, p);
	}
	req_answer(req, 0, REASON_NONE, 0, 0, 0);
}

/* The timer that ends HOLD_NS or RAIL_GRACE_NS: the peer waited for dials that have not completed,
 * or its rail broke and no reason came. */
void peer_delay(struct control *c, struct control_timer *a)
{
	struct peer *p = container_of(a, struct peer, delay);

	if (p->broken && p->delay_spans && --p->delay_spans)
		peer_span(c, a);
	else if (p->broken == -EILSEQ)
		peer_down(c, p, -ECONNRESET, REASON_PEER_GARBLED, 0, 0);
	else if (p->broken && p->cut)
		peer_down(c, p, -ENETDOWN, REASON_PORTS_DOWN, 0, 0);
	else if (p->broken)
		peer_down(c, p, -ECONNRESET, REASON_PEER_RESET, (uint64_t)-p->broken, 0);
	else
		c->peer_ops->unheld(c, p);
}

void peer_rail_down_req(struct control *c, struct control_req *req)
{
	struct path *path = container_of(req->rail, struct path, rail);
	struct peer *p = path->peer;
	int err = req->msg.res < 0 ? req->msg.res : -ECONNRESET;
	uint32_t reason = req->reason;
	uint64_t arg = req->arg[0];

	req_answer(req, 0, REASON_NONE, 0, 0, 0);
	if (p->stage == STAGE_DOWN)
		return;
	/* Both ends are about to close it: either may close first. */
	if (!reason && (p->path_state == PATH_COMMITTED || p->path_state == PATH_SUSPENDED))
		return;
	/* The peer may have sent BYE, or its connection may have ended: that is the reason then. */
	if (p->conn)
		conn_read(c, p->conn);
	if (p->stage == STAGE_DOWN || (!reason && p->path_state == PATH_SUSPENDED))
		return;
	if (reason) {
		peer_down(c, p, err, reason, arg, 0);
		return;
	}
	if (arg)
		log_device(c, p, path, arg);
	if (p->failover && p->stage == STAGE_UP && !p->leaving && p->path_state < PATH_SUSPENDED) {
		rails_broke(c, path, err);
		return;
	}
	/* PATH or rails_begin() reads the error later. */
	path->error = err;
	if (p->path != path || (p->failover && !p->leaving))
		return;
	p->broken = err;
	p->delay_spans = 0;
	log_rail(c, p, p->transport, err);
	if (p->leaving)
		peer_down(c, p, -ECONNRESET, REASON_PEER_GOODBYE, 0, 0);
	else
		timer_set(c, &p->delay, RAIL_GRACE_NS);
}
