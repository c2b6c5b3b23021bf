/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Resumes the data path of a suspended peer, much as the first handshake does (handshake.c). The
 * side that dialled the connection sends HELLO with new eps and tries them in order; PATH names the
 * rail that came up. An acceptor with waiting entries sends RESUME (a resume request). After a
 * failure, such as a lack of descriptors, the dialler tries again until dead_after has passed.
 * Entries wait under their deadlines.
 */
#include <stdlib.h>

#include "peer/private.h"

#define RESUME_BACKOFF_NS (50 * NSEC_PER_MSEC)

/* Returns to the suspended state. */
static void resume_drop(struct control *c, struct peer *p)
{
	uint32_t i;

	p->path_state = PATH_SUSPENDED;
	p->path = NULL;
	timer_stop(&p->conn->timer);
	for (i = p->npaths; i; i--)
		path_close(c, p->paths[i - 1]);
}

/* Dialler: this attempt failed; try again later, or give the peer up. */
static void resume_backoff(struct control *c, struct peer *p, int err)
{
	uint64_t late = c->config.params->dead_after_ms * NSEC_PER_MSEC;

	if (clock_ns() - p->resume_ns > late)
		peer_down(c, p, -ECONNRESET, REASON_PEER_RESET, (uint64_t)-err, 0);
	else
		timer_set(c, &p->resume_timer, RESUME_BACKOFF_NS);
}

void resume_refused(struct control *c, struct peer *p)
{
	resume_drop(c, p);
	if (p->dialled)
		resume_backoff(c, p, -EHOSTUNREACH);
}

static void resume_give_up(struct control *c, struct peer *p, int err)
{
	peer_send(c, p, WIRE_SUSPENDED, 0);
	resume_drop(c, p);
	if (p->dialled)
		resume_backoff(c, p, err);
}

static void resume_done(struct control *c, struct peer *p)
{
	timer_stop(&p->conn->timer);
	p->transport = p->path->rail.ep->dev->ops->transport;
	suspend_active(c, p);
	if (!p->dialled)
		peer_send(c, p, WIRE_READY, 0);
	log_path_state(c, p);
	rails_begin(c, p);
}

/* ---- dialled ---- */

static int resume_open(struct control *c, struct peer *p)
{
	struct path *paths[WIRE_RAILS];
	int err = -ENODEV;
	uint32_t n = paths_open(c, p->required, paths, &err), i;

	for (i = 0; i < n; i++)
		path_take(c, p, paths[i]);
	return n ? 0 : err;
}

static void resume_send_hello(struct control *c, struct peer *p)
{
	struct wire_hello h = hello_make(c, p->paths, p->npaths, NULL, 0);

	h.expected = p->incarnation;
	conn_send(c, p->conn, c->tx, wire_put_hello(c->tx, WIRE_HELLO, &h));
}

static void resume_begin(struct control *c, struct peer *p)
{
	int err;

	if (!p->resume_ns)
		p->resume_ns = clock_ns();
	err = resume_open(c, p);
	if (err) {
		resume_backoff(c, p, err);
		return;
	}
	p->path_state = PATH_RESUMING;
	resume_send_hello(c, p);
}

static void resume_try(struct control *c, struct peer *p)
{
	struct path *path = path_next(p);

	timer_stop(&p->conn->timer);
	if (!path) {
		resume_give_up(c, p, p->rail_error ? p->rail_error : -EHOSTUNREACH);
		return;
	}
	paths_try(c, p, path);
	/* The last rail may take longer, but not for ever. */
	timer_set(c, &p->conn->timer, path_next(p) ? TRY_NS : PATH_NS);
}

static void resume_answered(struct control *c, struct peer *p, const struct wire_hello *ack)
{
	uint32_t i;

	p->rail_error = 0;
	for (i = p->npaths; i; i--)
		if (!path_answered(p->paths[i - 1], ack))
			path_close(c, p->paths[i - 1]);
	p->nknown = 0;
	for (i = 0; i < p->npaths; i++)
		rails_known(p, p->paths[i]);
	resume_try(c, p);
}

int resume_ready(struct control *c, struct peer *p)
{
	if (p->path_state == PATH_SUSPENDED)
		return 0;
	if (p->path_state != PATH_RESUMING || !p->dialled || !p->path)
		return -EPROTO;
	resume_done(c, p);
	return 0;
}

/* ---- accepted ---- */

/* As in handshake_added(): the engine has all rails, so the dialler may connect. */
static void resume_fenced(struct control *c, struct cmd *cmd)
{
	struct peer *p = cmd->e.owner;

	if (p->stage != STAGE_UP)
		peer_due(c, p);
	else if (p->path_state == PATH_RESUMING)
		(void)accept_answer(c, p); /* the proof was made at the first HELLO_ACK */
	else
		resume_step(c, p);
}

static void resume_accept(struct control *c, struct peer *p)
{
	struct path *paths[WIRE_RAILS];
	struct wire_hello *h = p->later;
	int err = -EHOSTUNREACH;
	uint32_t n = accept_paths(c, h, paths, &err), i;

	p->later = NULL;
	free(h);
	if (!n) {
		peer_send(c, p, WIRE_SUSPENDED, 0);
		return;
	}
	p->path_state = PATH_RESUMING;
	p->nknown = 0;
	for (i = 0; i < n; i++) {
		path_take_known(c, p, paths[i]);
		path_connect(c, paths[i], 0);
	}
	resume_reached(c, p);
}

void resume_reached(struct control *c, struct peer *p)
{
	if (p->path_state != PATH_RESUMING || p->dialled || paths_reaching(p))
		return;
	p->suspend.e.peer = p->engine;
	p->suspend.e.owner = p;
	cmd_post(c, &p->suspend, ENGINE_PEER_IDLE, resume_fenced);
}

/* A HELLO starts a new attempt and replaces one under way. */
static int resume_hello_came(struct control *c, struct peer *p, const struct wire_hello *h)
{
	if (p->path_state == PATH_RESUMING)
		resume_drop(c, p);
	free(p->later);
	p->later = malloc(sizeof(*h));
	if (!p->later) {
		peer_send(c, p, WIRE_SUSPENDED, 0);
		return 0;
	}
	*p->later = *h;
	resume_step(c, p);
	return 0;
}

int resume_hello(struct control *c, struct peer *p, uint32_t type, const struct wire_hello *h)
{
	int answer = type == WIRE_HELLO_ACK;

	if (answer != p->dialled ||
	    (p->path_state != PATH_SUSPENDED && p->path_state != PATH_RESUMING))
		return -EPROTO;
	if (!answer)
		return resume_hello_came(c, p, h);
	if (p->path_state == PATH_SUSPENDED)
		return 0;
	if (!p->npaths || p->paths[0]->tried)
		return -EPROTO;
	resume_answered(c, p, h);
	return 0;
}

int resume_path(struct control *c, struct peer *p, uint64_t id)
{
	if (p->path_state == PATH_SUSPENDED && !p->dialled)
		return 0;
	if (p->path_state != PATH_RESUMING || p->dialled || p->suspend.out || p->path)
		return -EPROTO;
	if (!path_choose(p, id))
		return -EPROTO;
	path_close_others(c, p);
	if (p->path->error && !p->failover)
		resume_give_up(c, p, p->path->error);
	else if (p->path->up || p->path->error)
		resume_done(c, p);
	return 0;
}

/* ---- both ---- */

void resume_path_up(struct control *c, struct path *path)
{
	struct peer *p = path->peer;

	if (p->path_state != PATH_RESUMING)
		return;
	if (!p->dialled) {
		if (p->path == path)
			resume_done(c, p);
		return;
	}
	if (!p->path)
		path_announce(c, path);
}

void resume_path_failed(struct control *c, struct path *path, int err)
{
	struct peer *p = path->peer;

	if (p->path_state != PATH_RESUMING)
		return;
	if (p->path && p->path != path) {
		path_close(c, path);
	} else if (p->dialled) {
		p->rail_error = err;
		log_rail(c, p, path->rail.ep->dev->ops->transport, err);
		path_close(c, path);
		if (!paths_trying(p, NULL))
			resume_try(c, p);
	} else if (p->path == path && p->failover) {
		resume_done(c, p);
	} else if (p->path == path) {
		resume_give_up(c, p, err);
	}
}

/* The exports of the peer name rails that are closed: free them. */
void resume_step(struct control *c, struct peer *p)
{
	if (p->path_state != PATH_SUSPENDED || p->npaths || p->suspend.out)
		return;
	(void)grants_free_peer(c, p);
	if (p->later) {
		resume_accept(c, p);
	} else if (p->resume_wanted && p->dialled) {
		if (!timer_is_set(&p->resume_timer))
			resume_begin(c, p);
	} else if (p->resume_wanted && !p->resume_sent) {
		p->resume_sent = 1;
		peer_send(c, p, WIRE_RESUME, 0);
	}
}

void resume_timer(struct control *c, struct control_timer *a)
{
	resume_step(c, container_of(a, struct peer, resume_timer));
}

int resume_asked(struct control *c, struct peer *p)
{
	if (!p->dialled)
		return -EPROTO;
	if (p->path_state == PATH_SUSPENDED)
		p->resume_wanted = 1;
	resume_step(c, p);
	return 0;
}

void resume_req(struct control *c, struct control_req *req)
{
	struct peer *p = handles_get(&c->peer_handles, req->handle);
	uint64_t arg = req->arg[0];
	uint32_t reason = req->reason;

	req_answer(req, 0, REASON_NONE, 0, 0, 0);
	if (p && reason && p->stage != STAGE_DOWN)
		peer_down(c, p, -ECONNRESET, reason, arg, 0);
	if (!p || p->stage != STAGE_UP || p->path_state < PATH_PAUSING)
		return;
	p->resume_wanted = p->resume_own = 1;
	resume_step(c, p);
}
