/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sets up the data path of a peer, at first and when a suspended one resumes. The dialler tries the
 * rails of both sides in order; PATH names the one that came up.
 *
 * To resume, the side that dialled the connection sends HELLO with new eps. An acceptor with
 * waiting entries sends RESUME (a resume request). After a failure, such as a lack of descriptors,
 * the dialler tries again until dead_after has passed. Entries wait under their deadlines.
 */
#include <stdlib.h>

#include "peer/private.h"

#define RESUME_BACKOFF_NS (50 * NSEC_PER_MSEC)

/* Returns to the suspended state. */
static void resume_drop(struct control *c, struct peer *p)
{
	p->path_state = PATH_SUSPENDED;
	p->path = NULL;
	timer_stop(&p->conn->timer);
	paths_close(c, p);
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

/* ---- at first and to resume ---- */

/* 1: new rails are tried. */
static int is_trying(const struct peer *p)
{
	return p->stage == STAGE_RAILS || (p->stage == STAGE_UP && p->path_state == PATH_RESUMING);
}

static void setup_no_path(struct control *c, struct peer *p)
{
	if (p->required && !p->rail_errors)
		peer_down(c, p, -EHOSTUNREACH, REASON_DIAL_REQUIRED, 1ull << p->required, 0);
	else
		peer_down(c, p, -EHOSTUNREACH,
			  p->required ? REASON_DIAL_REQUIRED_DOWN : REASON_DIAL_NO_PATH,
			  p->rail_errors, 0);
}

void setup_refuse(struct control *c, struct peer *p, int err)
{
	struct conn *n = p->conn;

	p->conn = NULL;
	conn_refuse_paths(c, n, p->required, err);
	peer_down(c, p, -EHOSTUNREACH, REASON_DIAL_NO_PATH,
		  rails_arg(0, URCCL_TRANSPORT_NONE, 0, err), 0);
}

/* No rail of the peer comes up. */
static void setup_fail(struct control *c, struct peer *p, int err)
{
	if (p->stage == STAGE_UP)
		resume_give_up(c, p, err);
	else if (!p->dialled)
		setup_refuse(c, p, err);
	else if (err == -EPROTONOSUPPORT)
		peer_down(c, p, err, REASON_RAIL_VERSION, p->rail_versions, 0);
	else
		setup_no_path(c, p);
}

/* A rail that does not come up in TRY_NS is given up for the next one. The last rail may take
 * longer: as long as the CONNECT, or to resume, PATH_NS. */
static void setup_limit(struct control *c, struct peer *p)
{
	int next = path_next(p) != NULL;

	if (is_trying(p) && !p->add.out && (next || p->stage == STAGE_UP))
		timer_set(c, &p->conn->timer, next ? TRY_NS : PATH_NS);
}

/* Dialler: tries the next rail. */
static void setup_try(struct control *c, struct peer *p)
{
	struct path *path = path_next(p);

	assert(p->dialled && is_trying(p));
	timer_stop(&p->conn->timer);
	if (!path) {
		setup_fail(c, p, p->rail_error ? p->rail_error : -EHOSTUNREACH);
		return;
	}
	paths_try(c, p, path);
	setup_limit(c, p);
}

/* The number of the rail plus 1. 0: both sides have only one rail of its transport. */
static uint32_t setup_rail_name(const struct peer *p, const struct path *path)
{
	uint32_t n = 0, i;

	for (i = 0; i < p->nknown; i++)
		n += p->known[i].transport == path_transport(path);
	return n > 1 ? path->rail.number + 1 : 0;
}

static void setup_missed(struct control *c, struct peer *p, struct path *path, int err)
{
	uint32_t transport = path_transport(path);

	p->rail_error = err;
	p->rail_errors = rails_arg(p->rail_errors, transport, setup_rail_name(p, path), err);
	log_rail(c, p, transport, err);
	if (p->stage == STAGE_RAILS)
		engine_peer_missed(p->engine, transport, err);
	if (err == -EPROTONOSUPPORT)
		p->rail_versions = versions_arg(path->addr[0], path->addr[1], path->rail.addr[0],
						path->rail.addr[1]);
	path_close(c, path);
	if (!paths_trying(p, NULL))
		setup_try(c, p);
}

void setup_expired(struct control *c, struct conn *n)
{
	struct path *paths[WIRE_RAILS];
	struct peer *p = n->owner;
	uint32_t trying, i;

	if (!p->dialled) {
		setup_refuse(c, p, -ETIMEDOUT);
		return;
	}
	trying = paths_trying(p, paths);
	assert(trying);
	for (i = 0; i < trying; i++)
		setup_missed(c, p, paths[i], -ETIMEDOUT);
}

/* Acceptor: PATH came, and the rail is up here too, or broke and is set up again. */
static void setup_chosen(struct control *c, struct peer *p)
{
	if (p->stage == STAGE_RAILS)
		c->peer_ops->committed(c, p);
	else
		resume_done(c, p);
}

int setup_path(struct control *c, struct peer *p, uint64_t id)
{
	uint32_t i;

	if (p->stage == STAGE_UP && p->path_state == PATH_SUSPENDED && !p->dialled)
		return 0;
	if (!is_trying(p) || !p->answered || p->suspend.out || p->path || !path_choose(p, id))
		return -EPROTO;
	/* Rails are tried best first: those before this one failed at the dialler. */
	for (i = 0; p->stage == STAGE_RAILS && p->paths[i] != p->path; i++)
		engine_peer_missed(p->engine, path_transport(p->paths[i]), p->paths[i]->error);
	path_close_others(c, p);
	if (p->path->error && !p->failover)
		setup_fail(c, p, p->path->error);
	else if (p->path->up || p->path->error)
		setup_chosen(c, p);
	return 0;
}

void setup_path_up(struct control *c, struct path *path)
{
	struct peer *p = path->peer;

	if (p->stage == STAGE_UP && p->path_state < PATH_SUSPENDED) {
		rails_came(c, path);
	} else if (is_trying(p) && p->dialled && !p->path) {
		if (p->stage == STAGE_RAILS)
			p->stage = STAGE_COMMITTED;
		path_announce(c, path);
	} else if (is_trying(p) && !p->dialled && p->path == path) {
		setup_chosen(c, p);
	}
}

/* 1: no rail that the dialler may choose is left, and this process lacked a descriptor or memory
 * for one. The dialler finds out other causes itself, with one for each rail. */
static int lacks_resources(const struct peer *p)
{
	int err, lacks = 0;
	uint32_t i;

	for (i = 0; i < p->npaths; i++) {
		err = p->paths[i]->error;
		if (!err)
			return 0;
		lacks |= err == -EMFILE || err == -ENFILE || err == -ENOMEM || err == -ENOBUFS ||
			 err == -ENOSPC;
	}
	return lacks;
}

void setup_path_failed(struct control *c, struct path *path)
{
	struct peer *p = path->peer;
	int trying = is_trying(p);

	if (p->stage == STAGE_UP && p->path_state < PATH_SUSPENDED)
		rails_missed(c, path);
	else if ((trying || p->stage == STAGE_COMMITTED) && p->path && p->path != path)
		path_close(c, path);
	else if (trying && p->dialled)
		setup_missed(c, p, path, path->error);
	else if (trying && p->path && p->failover)
		setup_chosen(c, p);
	else if (trying &&
		 (p->path || (p->stage == STAGE_RAILS && p->answered && lacks_resources(p))))
		setup_fail(c, p, path->error);
}

/* ---- the engine has the rails ---- */

/* The engine has taken all commands before this one, which may take long if it is INLINE. Only now
 * may the acceptor announce its rails, and only now does the time of the dialler's first rail
 * start. */
static void setup_added(struct control *c, struct cmd *cmd)
{
	struct peer *p = cmd->e.owner;

	if (cmd->e.msg.res)
		p->added = 0;
	if (p->stage == STAGE_DOWN) {
		peer_due(c, p);
	} else if (cmd->e.msg.res) {
		peer_down(c, p, cmd->e.msg.res, REASON_NO_MEMORY, sizeof(*p), 0);
	} else if (p->dialled) {
		setup_limit(c, p);
	} else {
		p->answered = 1;
		timer_set(c, &p->conn->timer, PATH_NS);
		if (accept_answer(c, p))
			setup_refuse(c, p, -ENOMEM);
	}
}

static void setup_add(struct control *c, struct peer *p)
{
	p->added = 1;
	peer_cmd(c, p, &p->add, ENGINE_PEER_ADD, setup_added);
}

/* As in setup_added(): the engine has all rails, so the dialler may connect. */
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

/* The acceptor's engine must have all rails before HELLO_ACK announces them. */
void setup_reached(struct control *c, struct peer *p)
{
	if (p->dialled || !is_trying(p) || paths_reaching(p))
		return;
	if (p->stage == STAGE_UP)
		peer_cmd(c, p, &p->suspend, ENGINE_PEER_IDLE, resume_fenced);
	else if (!p->added)
		setup_add(c, p);
}

void setup_accept(struct control *c, struct peer *p, struct path *const *paths, uint32_t n)
{
	uint32_t i;

	for (i = 0; i < n; i++) {
		path_take_known(c, p, paths[i]);
		path_connect(c, paths[i], 0);
	}
	setup_reached(c, p);
}

void setup_dial(struct control *c, struct peer *p)
{
	setup_add(c, p);
	setup_try(c, p);
}

/* ---- to resume: dialled ---- */

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
	setup_try(c, p);
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

/* ---- to resume: accepted ---- */

static void resume_accept(struct control *c, struct peer *p)
{
	struct path *paths[WIRE_RAILS];
	struct wire_hello *h = p->later;
	int err = -EHOSTUNREACH;
	uint32_t n = accept_paths(c, h, paths, &err);

	p->later = NULL;
	free(h);
	if (!n) {
		peer_send(c, p, WIRE_SUSPENDED, 0);
		return;
	}
	p->path_state = PATH_RESUMING;
	p->nknown = 0;
	setup_accept(c, p, paths, n);
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
