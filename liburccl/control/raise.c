/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Resumes the data path of a suspended peer, much as the first handshake does (meet.c). The side
 * that dialled the connection sends HELLO with new eps and tries them in order; PATH names the rail
 * that came up. An acceptor with waiting entries sends WANT (a resume request). After a failure,
 * such as a lack of descriptors, the dialler tries again until dead_after has passed. Entries wait
 * under their deadlines.
 */
#include <stdlib.h>

#include "control/private.h"

#define RAISE_REST_NS (50 * NSEC_PER_MSEC)

/* Returns to the suspended state. */
static void raise_drop(struct control *c, struct peer *p)
{
	uint32_t i;

	p->heat = HEAT_COLD;
	p->path = NULL;
	alarm_stop(&p->conn->alarm);
	for (i = p->npaths; i; i--)
		path_close(c, p->paths[i - 1]);
}

/* Dialler: this attempt failed; try again later, or give the peer up. */
static void raise_rest(struct control *c, struct peer *p, int err)
{
	uint64_t late = c->config.params->dead_after_ms * NSEC_PER_MSEC;

	if (clock_ns() - p->raise_ns > late)
		peer_down(c, p, -ECONNRESET, REASON_PEER_RESET, (uint64_t)-err, 0);
	else
		alarm_set(c, &p->raise_alarm, RAISE_REST_NS);
}

void raise_refused(struct control *c, struct peer *p)
{
	raise_drop(c, p);
	if (p->dialled)
		raise_rest(c, p, -EHOSTUNREACH);
}

static void raise_give_up(struct control *c, struct peer *p, int err)
{
	peer_send(c, p, WIRE_COLD, 0);
	raise_drop(c, p);
	if (p->dialled)
		raise_rest(c, p, err);
}

static void raise_done(struct control *c, struct peer *p)
{
	alarm_stop(&p->conn->alarm);
	p->transport = p->path->rail.ep->dev->ops->transport;
	cool_warm(c, p);
	if (!p->dialled)
		peer_send(c, p, WIRE_READY, 0);
	log_heat(c, p);
	rails_begin(c, p);
}

/* ---- dialled ---- */

static int raise_open(struct control *c, struct peer *p)
{
	struct path *paths[WIRE_RAILS];
	int err = -ENODEV;
	uint32_t n = paths_open(c, p->required, paths, &err), i;

	for (i = 0; i < n; i++)
		path_take(c, p, paths[i]);
	return n ? 0 : err;
}

static void raise_say_hello(struct control *c, struct peer *p)
{
	struct wire_hello h = {.version_min = WIRE_VERSION,
			       .version_max = WIRE_VERSION,
			       .incarnation = c->config.incarnation,
			       .expected = p->incarnation,
			       .host = c->host,
			       .key_window = KEY_WINDOW};

	path_say(p->paths, p->npaths, &h);
	conn_send(c, p->conn, c->tx, wire_put_hello(c->tx, WIRE_HELLO, &h));
}

static void raise_begin(struct control *c, struct peer *p)
{
	int err;

	if (!p->raise_ns)
		p->raise_ns = clock_ns();
	err = raise_open(c, p);
	if (err) {
		raise_rest(c, p, err);
		return;
	}
	p->heat = HEAT_RAISING;
	raise_say_hello(c, p);
}

static void raise_try(struct control *c, struct peer *p)
{
	struct path *path = path_next(p);

	alarm_stop(&p->conn->alarm);
	if (!path) {
		raise_give_up(c, p, p->rail_error ? p->rail_error : -EHOSTUNREACH);
		return;
	}
	paths_try(c, p, path);
	/* The last rail may take longer, but not for ever. */
	alarm_set(c, &p->conn->alarm, path_next(p) ? TRY_NS : PATH_NS);
}

static void raise_answered(struct control *c, struct peer *p, const struct wire_hello *ack)
{
	uint32_t i;

	p->rail_error = 0;
	for (i = p->npaths; i; i--)
		if (!path_answered(p->paths[i - 1], ack))
			path_close(c, p->paths[i - 1]);
	p->nknown = 0;
	for (i = 0; i < p->npaths; i++)
		rails_known(p, p->paths[i]);
	raise_try(c, p);
}

void raise_expired(struct control *c, struct peer *p)
{
	struct path *paths[WIRE_RAILS];
	uint32_t n, i;

	n = paths_trying(p, paths);
	assert(n);
	for (i = 0; i < n; i++)
		raise_failed(c, paths[i], -ETIMEDOUT);
}

int raise_ready(struct control *c, struct peer *p)
{
	if (p->heat == HEAT_COLD)
		return 0;
	if (p->heat != HEAT_RAISING || !p->dialled || !p->path)
		return -EPROTO;
	raise_done(c, p);
	return 0;
}

/* ---- accepted ---- */

/* As in meet_added(): the engine has all rails, so the dialler may connect. */
static void raise_fenced(struct control *c, struct cmd *cmd)
{
	struct peer *p = cmd->e.owner;

	if (p->stage != STAGE_UP)
		peer_step(c, p);
	else if (p->heat == HEAT_RAISING)
		accept_answer(c, p);
	else
		raise_step(c, p);
}

static void raise_accept(struct control *c, struct peer *p)
{
	struct path *paths[WIRE_RAILS];
	struct wire_hello *h = p->later;
	int err = -EHOSTUNREACH;
	uint32_t n = accept_paths(c, h, paths, &err), i;

	p->later = NULL;
	free(h);
	if (!n) {
		peer_send(c, p, WIRE_COLD, 0);
		return;
	}
	p->heat = HEAT_RAISING;
	p->nknown = 0;
	for (i = 0; i < n; i++) {
		meet_take_path(c, p, paths[i]);
		path_connect(c, paths[i], 0);
	}
	raise_reached(c, p);
}

void raise_reached(struct control *c, struct peer *p)
{
	if (p->heat != HEAT_RAISING || p->dialled || paths_reaching(p))
		return;
	p->cool.e.peer = p->engine;
	p->cool.e.owner = p;
	cmd_post(c, &p->cool, ENGINE_PEER_IDLE, raise_fenced);
}

/* A HELLO starts a new attempt and replaces one under way. */
static int raise_asked(struct control *c, struct peer *p, const struct wire_hello *h)
{
	if (p->heat == HEAT_RAISING)
		raise_drop(c, p);
	free(p->later);
	p->later = malloc(sizeof(*h));
	if (!p->later) {
		peer_send(c, p, WIRE_COLD, 0);
		return 0;
	}
	*p->later = *h;
	raise_step(c, p);
	return 0;
}

int raise_hello(struct control *c, struct peer *p, uint32_t type, const struct wire_hello *h)
{
	int answer = type == WIRE_HELLO_ACK;

	if (answer != p->dialled || (p->heat != HEAT_COLD && p->heat != HEAT_RAISING))
		return -EPROTO;
	if (!answer)
		return raise_asked(c, p, h);
	if (p->heat == HEAT_COLD)
		return 0;
	if (!p->npaths || p->paths[0]->tried)
		return -EPROTO;
	raise_answered(c, p, h);
	return 0;
}

int raise_path(struct control *c, struct peer *p, uint64_t id)
{
	uint32_t i;

	if (p->heat == HEAT_COLD && !p->dialled)
		return 0;
	if (p->heat != HEAT_RAISING || p->dialled || p->cool.out || p->path)
		return -EPROTO;
	for (i = 0; i < p->npaths; i++)
		if (p->paths[i]->id == id)
			p->path = p->paths[i];
	if (!p->path)
		return -EPROTO;
	path_close_others(c, p);
	if (p->path->error && !path_returns(p->path))
		raise_give_up(c, p, p->path->error);
	else if (p->path->up || p->path->error)
		raise_done(c, p);
	return 0;
}

/* ---- both ---- */

void raise_up(struct control *c, struct path *path)
{
	struct peer *p = path->peer;

	if (p->heat != HEAT_RAISING)
		return;
	if (!p->dialled) {
		if (p->path == path)
			raise_done(c, p);
		return;
	}
	if (p->path)
		return;
	p->path = path;
	alarm_stop(&p->conn->alarm);
	path_close_others(c, p);
	peer_send(c, p, WIRE_PATH, path->id);
}

void raise_failed(struct control *c, struct path *path, int err)
{
	struct peer *p = path->peer;

	if (p->heat != HEAT_RAISING)
		return;
	if (p->path && p->path != path) {
		path_close(c, path);
	} else if (p->dialled) {
		p->rail_error = err;
		log_rail(c, p, path->rail.ep->dev->ops->transport, err);
		path_close(c, path);
		if (!paths_trying(p, NULL))
			raise_try(c, p);
	} else if (p->path == path && path_returns(path)) {
		raise_done(c, p);
	} else if (p->path == path) {
		raise_give_up(c, p, err);
	}
}

/* The exports of the peer name rails that are closed: free them. */
void raise_step(struct control *c, struct peer *p)
{
	if (p->heat != HEAT_COLD || p->npaths || p->cool.out)
		return;
	(void)grants_free_peer(c, p);
	if (p->later) {
		raise_accept(c, p);
	} else if (p->wanted && p->dialled) {
		if (!alarm_is_set(&p->raise_alarm))
			raise_begin(c, p);
	} else if (p->wanted && !p->want_said) {
		p->want_said = 1;
		peer_send(c, p, WIRE_WANT, 0);
	}
}

void raise_alarm(struct control *c, struct alarm *a)
{
	raise_step(c, container_of(a, struct peer, raise_alarm));
}

int raise_wanted(struct control *c, struct peer *p)
{
	if (!p->dialled)
		return -EPROTO;
	if (p->heat == HEAT_COLD)
		p->wanted = 1;
	raise_step(c, p);
	return 0;
}

void raise_req(struct control *c, struct control_req *req)
{
	struct peer *p = handles_get(&c->peer_handles, req->handle);
	uint64_t arg = req->arg[0];
	uint32_t reason = req->reason;

	req_answer(req, 0, REASON_NONE, 0, 0, 0);
	if (p && reason && p->stage != STAGE_DOWN)
		peer_down(c, p, -ECONNRESET, reason, arg, 0);
	if (!p || p->stage != STAGE_UP || p->heat < HEAT_PAUSING)
		return;
	p->wanted = p->own_want = 1;
	raise_step(c, p);
}
