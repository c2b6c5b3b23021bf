/* SPDX-License-Identifier: Apache-2.0 */
/* The end of a peer begins: it is lost, or closed by the program. peer_step() does the rest. */
#include "peer/private.h"

void peer_bye(struct control *c, struct peer *p)
{
	struct conn *n = p->conn;

	if (!n)
		return;
	if (peer_listens(p)) {
		p->said_bye = 1;
		peer_send(c, p, WIRE_BYE, 0);
	} else {
		p->conn = NULL;
		conn_refuse(c, n, WIRE_CLOSING, 0);
	}
}

void peer_cmd_back(struct control *c, struct cmd *cmd)
{
	peer_due(c, cmd->e.owner);
}

void peer_disconnect(struct control *c, struct peer *p)
{
	if (p->conn)
		conn_close(c, p->conn);
	p->conn = NULL;
}

void peer_down(struct control *c, struct peer *p, int cause, uint32_t reason, uint64_t arg,
	       int graceful)
{
	assert(p->stage != STAGE_DOWN);
	log_peer_down(c, p, reason, arg, graceful);
	p->stage = STAGE_DOWN;
	p->lost_ns = clock_ns();
	c->live--;
	timer_stop(&p->ping_timer);
	timer_stop(&p->delay);
	suspend_leave(c, p);
	rails_end(p);
	list_del(&p->held);
	runs_step(c);
	/* After our BYE the connection stays until the engine has ended all entries: the other side
	 * closes its rails when the connection ends, and the engine needs the rails to cancel
	 * entries in order. */
	if (!p->said_bye)
		peer_disconnect(c, p);
	else if (p->conn)
		timer_stop(&p->conn->timer);
	p->lost.e.cause = cause;
	p->lost.e.reason = reason;
	p->lost.e.arg = arg;
	p->lost.e.graceful = graceful;
	if (p->added)
		peer_cmd(c, p, &p->lost, ENGINE_PEER_LOST, peer_cmd_back);
	peer_due(c, p);
}

void peer_close(struct control *c, struct peer *p)
{
	if (p->stage == STAGE_DOWN) {
		peer_due(c, p);
		return;
	}
	peer_bye(c, p);
	peer_down(c, p, -ECANCELED, REASON_PEER_CLOSED, 0, 1);
}
