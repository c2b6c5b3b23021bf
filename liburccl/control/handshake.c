/* SPDX-License-Identifier: Apache-2.0 */
/* The handshake from PATH to READY, on both sides, and all frames after it. peer/setup.c tries the
 * rails. */
#include "control/private.h"

/* ---- accepted ---- */

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
	p->event.e.data = p->hello;
	p->event.e.len = p->hello_len;
	p->event.e.answer = p->answer;
	peer_cmd(c, p, &p->event, ENGINE_PEER_EVENT, handshake_event_back);
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

/* ---- both ---- */

static int handshake_word_frame(struct control *c, struct peer *p, uint32_t type, uint64_t word)
{
	switch (type) {
	case WIRE_PATH:
		return setup_path(c, p, word);
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
	.expired = setup_expired,
};

const struct peer_ops handshake_ops = {
	.conn = &handshake_conn_ops,
	.committed = handshake_committed,
	.unheld = handshake_ask,
	.lost = dials_lost,
};
