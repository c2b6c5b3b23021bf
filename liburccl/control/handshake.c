/* SPDX-License-Identifier: Apache-2.0 */
/* The handshake from HELLO_ACK to READY, on both sides, and all frames after it. */
#include "control/private.h"

/* ---- dialled ---- */

/* A rail that does not come up in TRY_NS is given up for the next one. The last rail may take as
 * long as the CONNECT. */
static void handshake_limit(struct control *c, struct peer *p)
{
	if (p->stage == STAGE_RAILS && path_next(p))
		timer_set(c, &p->conn->timer, TRY_NS);
}

static void handshake_no_path(struct control *c, struct peer *p)
{
	if (p->required && !p->rail_errors)
		peer_down(c, p, -EHOSTUNREACH, REASON_DIAL_REQUIRED, 1ull << p->required, 0);
	else
		peer_down(c, p, -EHOSTUNREACH,
			  p->required ? REASON_DIAL_REQUIRED_DOWN : REASON_DIAL_NO_PATH,
			  p->rail_errors, 0);
}

static void handshake_try(struct control *c, struct peer *p)
{
	struct path *path = path_next(p);

	assert(p->dialled && p->stage == STAGE_RAILS);
	timer_stop(&p->conn->timer);
	if (!path && p->rail_error == -EPROTONOSUPPORT) {
		peer_down(c, p, -EPROTONOSUPPORT, REASON_RAIL_VERSION, p->rail_versions, 0);
		return;
	}
	if (!path) {
		handshake_no_path(c, p);
		return;
	}
	paths_try(c, p, path);
	if (!p->add.out)
		handshake_limit(c, p);
}

/* The number of the rail plus 1. 0: both sides have only one rail of its transport. */
static uint32_t handshake_rail_name(const struct peer *p, const struct path *path)
{
	uint32_t n = 0, i;

	for (i = 0; i < p->nknown; i++)
		n += p->known[i].transport == path_transport(path);
	return n > 1 ? path->rail.number + 1 : 0;
}

static void handshake_tried(struct control *c, struct peer *p, struct path *path, int err)
{
	uint32_t transport = path->rail.ep->dev->ops->transport;

	p->rail_error = err;
	p->rail_errors = rails_arg(p->rail_errors, transport, handshake_rail_name(p, path), err);
	log_rail(c, p, transport, err);
	engine_peer_missed(p->engine, transport, err);
	if (err == -EPROTONOSUPPORT)
		p->rail_versions = versions_arg(path->addr[0], path->addr[1], path->rail.addr[0],
						path->rail.addr[1]);
	path_close(c, path);
	if (!paths_trying(p, NULL))
		handshake_try(c, p);
}

/* ---- accepted ---- */

static void handshake_refuse(struct control *c, struct peer *p, int err)
{
	struct conn *n = p->conn;

	p->conn = NULL;
	conn_refuse_paths(c, n, p->required, err);
	peer_down(c, p, -EHOSTUNREACH, REASON_DIAL_NO_PATH,
		  rails_arg(0, URCCL_TRANSPORT_NONE, 0, err), 0);
}

void handshake_yield(struct control *c, struct peer *p)
{
	struct conn *n = p->conn;

	/* Refuse a dialler that waits for its answer: it learns the reason. */
	if (!p->dialled && !p->answered) {
		p->conn = NULL;
		conn_refuse(c, n, WIRE_EXISTS, 0);
	}
	peer_down(c, p, -ECONNRESET, REASON_NONE, 0, 0);
}

static void handshake_up(struct control *c, struct peer *p)
{
	assert(p->stage == STAGE_COMMITTED);
	p->stage = STAGE_UP;
	p->transport = path_transport(p->path);
	log_peer_up(c, p);
	list_del(&p->held);
	if (!p->broken)
		timer_stop(&p->delay);
	/* The program gets the handle before the first notification, which waits for PEER_UP. */
	p->refs += dials_succeed(c, p);
	suspend_active(c, p);
	if (!p->dialled)
		peer_send(c, p, WIRE_READY, 0);
	rails_begin(c, p);
	remotes_pump(c, p);
}

/* Sends the hello of the ACCEPT, which replaces that of HELLO_ACK. */
static void handshake_send_accepted(struct control *c, const struct peer *p)
{
	uint8_t frame[WIRE_HEADER + HELLO_MAX];

	if (!p->event.e.answer || !p->conn)
		return;
	conn_send(c, p->conn, frame,
		  wire_put_bytes(frame, WIRE_ACCEPTED, p->answer, p->event.e.answer_len));
}

static int handshake_accepted(struct peer *p, const uint8_t *body, uint32_t len)
{
	if (!p->dialled || p->stage != STAGE_COMMITTED || len > HELLO_MAX)
		return -EPROTO;
	p->hello_len = len;
	memcpy(p->hello, body, len);
	return 0;
}

static void handshake_event_back(struct control *c, struct cmd *cmd)
{
	struct peer *p = cmd->e.owner;

	/* The event counts as a reference, even if the peer went down meanwhile. If a CONNECT here
	 * came first, there is no event. */
	if (!cmd->e.msg.res)
		p->refs++;
	if (p->refs && p->closing) {
		req_answer(p->closing, 0, REASON_NONE, 0, 0, 0);
		p->closing = NULL;
	}
	if (p->stage == STAGE_COMMITTED && !cmd->e.msg.res) {
		handshake_send_accepted(c, p);
		handshake_up(c, p);
	} else if (p->stage == STAGE_COMMITTED)
		peer_down(c, p, -ECONNRESET, REASON_PEER_RESET, (uint64_t)-cmd->e.msg.res, 0);
	else if (p->stage == STAGE_UP && !p->refs)
		peer_close(c, p);
	else
		peer_due(c, p);
}

static void handshake_ask(struct control *c, struct peer *p)
{
	assert(!p->dialled && p->stage == STAGE_COMMITTED);
	list_del(&p->held);
	if (!p->broken)
		timer_stop(&p->delay);
	p->event.e.peer = p->engine;
	p->event.e.data = p->hello;
	p->event.e.len = p->hello_len;
	p->event.e.answer = p->answer;
	p->event.e.owner = p;
	cmd_post(c, &p->event, ENGINE_PEER_EVENT, handshake_event_back);
}

void handshake_unhold(struct control *c)
{
	if (dials_unknown(c))
		return;
	while (!list_empty(&c->held))
		handshake_ask(c, list_first(&c->held, struct peer, held));
}

void handshake_dialled(struct control *c, struct peer *p)
{
	if (!p->dialled && p->stage == STAGE_COMMITTED)
		handshake_up(c, p);
}

/* PATH came, and the rail is up here too, or broke and is set up again. */
static void handshake_committed(struct control *c, struct peer *p)
{
	p->stage = STAGE_COMMITTED;
	timer_stop(&p->conn->timer);
	dials_adopt(c, p);
	if (p->stage != STAGE_COMMITTED)
		return;
	if (!list_empty(&p->dials)) {
		handshake_up(c, p);
	} else if (dials_unknown(c)) {
		list_add_tail(&p->held, &c->held);
		timer_set(c, &p->delay, HOLD_NS);
	} else {
		handshake_ask(c, p);
	}
}

static int handshake_path(struct control *c, struct peer *p, uint64_t id)
{
	uint32_t i;

	if (p->stage == STAGE_UP)
		return resume_path(c, p, id);
	if (!p->answered || p->stage != STAGE_RAILS || p->path_wanted)
		return -EPROTO;
	if (!path_choose(p, id))
		return -EPROTO;
	p->path_wanted = 1;
	/* Rails are tried best first: those before this one failed at the dialler. */
	for (i = 0; p->paths[i] != p->path; i++)
		engine_peer_missed(p->engine, p->paths[i]->rail.ep->dev->ops->transport,
				   p->paths[i]->error);
	path_close_others(c, p);
	if (p->path->error && !p->failover)
		handshake_refuse(c, p, p->path->error);
	else if (p->path->up || p->path->error)
		handshake_committed(c, p);
	return 0;
}

/* ---- both ---- */

/* The engine has taken all commands before this one, which may take long if it is INLINE. Only now
 * may the acceptor announce its rails, and only now does the time of the dialler's first rail
 * start. */
static void handshake_added(struct control *c, struct cmd *cmd)
{
	struct peer *p = cmd->e.owner;

	if (cmd->e.msg.res)
		p->added = 0;
	if (p->stage == STAGE_DOWN) {
		peer_due(c, p);
	} else if (cmd->e.msg.res) {
		peer_down(c, p, cmd->e.msg.res, REASON_NO_MEMORY, sizeof(*p), 0);
	} else if (p->dialled) {
		handshake_limit(c, p);
	} else {
		p->answered = 1;
		timer_set(c, &p->conn->timer, PATH_NS);
		if (accept_answer(c, p))
			handshake_refuse(c, p, -ENOMEM);
	}
}

static void handshake_add(struct control *c, struct peer *p)
{
	p->added = 1;
	p->add.e.peer = p->engine;
	p->add.e.owner = p;
	cmd_post(c, &p->add, ENGINE_PEER_ADD, handshake_added);
}

/* The acceptor's engine must have all rails before HELLO_ACK announces them. */
static void handshake_reached(struct control *c, struct peer *p)
{
	if (p->stage == STAGE_UP)
		resume_reached(c, p);
	else if (!p->dialled && !p->added && p->stage == STAGE_RAILS && !paths_reaching(p))
		handshake_add(c, p);
}

void handshake_begin(struct control *c, struct peer *p)
{
	uint32_t i;

	for (i = 0; i < p->npaths && !p->dialled; i++)
		path_connect(c, p->paths[i], 0);
	if (!p->dialled) {
		handshake_reached(c, p);
		return;
	}
	handshake_add(c, p);
	handshake_try(c, p);
}

static void handshake_path_up(struct control *c, struct path *path)
{
	struct peer *p = path->peer;

	if (p->stage == STAGE_UP && p->path_state < PATH_SUSPENDED)
		rails_came(c, path);
	else if (p->stage == STAGE_UP)
		resume_path_up(c, path);
	if (p->stage != STAGE_RAILS)
		return;
	if (!p->dialled) {
		if (p->path == path)
			handshake_committed(c, p);
		return;
	}
	p->stage = STAGE_COMMITTED;
	path_announce(c, path);
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

static void handshake_path_failed(struct control *c, struct path *path)
{
	struct peer *p = path->peer;

	if (p->stage == STAGE_UP && p->path_state < PATH_SUSPENDED)
		rails_missed(c, path);
	else if (p->stage == STAGE_UP)
		resume_path_failed(c, path, path->error);
	else if (p->stage == STAGE_COMMITTED && path != p->path)
		path_close(c, path);
	if (p->stage != STAGE_RAILS)
		return;
	if (p->dialled)
		handshake_tried(c, p, path, path->error);
	else if (p->path == path && p->failover)
		handshake_committed(c, p);
	else if (p->path == path || (!p->path && p->answered && lacks_resources(p)))
		handshake_refuse(c, p, path->error);
}

static void handshake_expired(struct control *c, struct conn *n)
{
	struct path *paths[WIRE_RAILS];
	struct peer *p = n->owner;
	uint32_t trying, i;

	if (!p->dialled) {
		handshake_refuse(c, p, -ETIMEDOUT);
		return;
	}
	trying = paths_trying(p, paths);
	assert(trying);
	for (i = 0; i < trying; i++) {
		if (p->stage == STAGE_UP)
			resume_path_failed(c, paths[i], -ETIMEDOUT);
		else
			handshake_tried(c, p, paths[i], -ETIMEDOUT);
	}
}

static int handshake_word_frame(struct control *c, struct peer *p, uint32_t type, uint64_t word)
{
	switch (type) {
	case WIRE_PATH:
		return handshake_path(c, p, word);
	case WIRE_READY:
		if (p->stage == STAGE_UP)
			return resume_ready(c, p);
		if (!p->dialled || p->stage != STAGE_COMMITTED)
			return -EPROTO;
		handshake_up(c, p);
		return 0;
	case WIRE_PING:
		peer_send(c, p, WIRE_PONG, word);
		return 0;
	case WIRE_PONG:
		return 0;
	case WIRE_REVOKED:
		return revoke_heard(c, p, word);
	case WIRE_FENCE:
		return rails_fence(c, p, word);
	case WIRE_PORT:
		return rails_port(c, p);
	case WIRE_BYE:
		p->leaving = 1;
		engine_peer_leaves(p->engine);
		return 0;
	default:
		return suspend_frame(c, p, type);
	}
}

static int handshake_keys(struct control *c, struct peer *p, uint32_t type, const uint8_t *body,
			  uint32_t len)
{
	struct wire_key_req req;
	struct wire_key_rep rep;
	struct wire_revoke rev;

	if (p->stage != STAGE_UP)
		return -EPROTO;
	/* A peer whose data path is suspended must not ask for keys. */
	if (type == WIRE_KEY_REQ && p->path_state > PATH_YIELDED)
		return -EPROTO;
	if (type == WIRE_KEY_REQ)
		return wire_get_key_req(body, len, &req) ? -EPROTO : grant_request(c, p, &req);
	if (type == WIRE_REVOKE)
		return wire_get_revoke(body, len, &rev) ? -EPROTO : revoke_come(c, p, &rev);
	return wire_get_key_rep(body, len, &rep) ? -EPROTO : remote_key(c, p, &rep);
}

/* HELLO or HELLO_ACK of a peer that resumes its data path. */
static int handshake_hello_again(struct control *c, struct peer *p, uint32_t type,
				 const uint8_t *body, uint32_t len)
{
	struct wire_hello h;

	if (p->stage != STAGE_UP || wire_get_hello(body, len, &h) ||
	    h.incarnation != p->incarnation)
		return -EPROTO;
	return resume_hello(c, p, type, &h);
}

static int handshake_frame(struct control *c, struct conn *n, uint32_t type, const uint8_t *body,
			   uint32_t len)
{
	struct peer *p = n->owner;
	struct wire_refuse r;
	uint64_t word;

	/* Any frame proves that the peer is alive. */
	peer_heard(c, p);
	if (p->stage == STAGE_DOWN)
		return 0;
	if (type == WIRE_KEY_REQ || type == WIRE_KEY_REP || type == WIRE_REVOKE)
		return handshake_keys(c, p, type, body, len);
	if (type == WIRE_RAIL || type == WIRE_RAIL_ACK)
		return rails_frame(c, p, type, body, len);
	if (type == WIRE_ACCEPTED)
		return handshake_accepted(p, body, len);
	if (type == WIRE_HELLO || type == WIRE_HELLO_ACK)
		return handshake_hello_again(c, p, type, body, len);
	if (type == WIRE_REFUSE && p->dialled && p->stage != STAGE_UP) {
		if (wire_get_refuse(body, len, &r))
			return -EPROTO;
		peer_down(c, p, -EHOSTUNREACH,
			  r.required ? REASON_DIAL_POLICY_DOWN : REASON_DIAL_NO_PATH,
			  rails_arg(0, r.required, 0, (int)(r.error & 0xfff)), 0);
		return 0;
	}
	return wire_get_word(body, len, &word) ? -EPROTO : handshake_word_frame(c, p, type, word);
}

static void handshake_ended(struct control *c, struct conn *n, int err)
{
	struct peer *p = n->owner;

	conn_close(c, n);
	p->conn = NULL;
	if (p->stage == STAGE_DOWN)
		peer_due(c, p);
	else if (p->leaving)
		peer_down(c, p, -ECONNRESET, REASON_PEER_GOODBYE, 0, 0);
	else if (err == -ETIMEDOUT)
		peer_down(c, p, -ECONNRESET, REASON_PEER_SILENT, c->config.params->dead_after_ms,
			  0);
	else
		peer_down(c, p, -ECONNRESET, REASON_PEER_RESET, err ? (uint64_t)-err : ECONNRESET,
			  0);
}

static const struct conn_ops handshake_conn_ops = {
	.frame = handshake_frame,
	.ended = handshake_ended,
	.expired = handshake_expired,
};

const struct peer_ops handshake_ops = {
	.conn = &handshake_conn_ops,
	.path_up = handshake_path_up,
	.path_failed = handshake_path_failed,
	.reached = handshake_reached,
	.refuse = handshake_refuse,
	.unheld = handshake_ask,
	.lost = dials_lost,
};
