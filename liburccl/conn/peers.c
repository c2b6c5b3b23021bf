/* SPDX-License-Identifier: Apache-2.0 */
/* Finds peers and their rails; sends words and pings to peers. */
#include "conn/shared.h"

struct peer *peer_find(struct control *c, uint64_t incarnation)
{
	struct peer *p;

	for (p = *peer_bucket(c, incarnation); p; p = p->hash_next)
		if (p->incarnation == incarnation && p->stage != STAGE_DOWN && !p->leaving)
			return p;
	return NULL;
}

/* The program may learn of its PEER event before this thread does. */
struct peer *peer_of(struct control *c, uint32_t handle)
{
	struct peer *p = handles_get(&c->peer_handles, handle);

	if (p && (p->refs || p->event.out))
		return p;
	return NULL;
}

void peer_send(struct control *c, struct peer *p, uint32_t type, uint64_t word)
{
	if (p->conn)
		conn_send(c, p->conn, c->tx, wire_put_word(c->tx, type, word));
}

void peer_span(struct control *c, struct control_timer *a)
{
	timer_set(c, a, c->config.params->dead_after_ms * NSEC_PER_MSEC / SPANS);
}

/* 1: frames other than REFUSE may be sent. A dialler takes only REFUSE before its HELLO_ACK. */
int peer_listens(const struct peer *p)
{
	return p->dialled || p->answered;
}

void peer_ping(struct control *c, struct peer *p)
{
	if (p->stage == STAGE_DOWN || !peer_listens(p) || p->ping_spans)
		return;
	peer_send(c, p, WIRE_PING, 0);
	p->ping_spans = SPANS;
	peer_span(c, &p->ping_timer);
}

void peer_heard(struct control *c, struct peer *p)
{
	p->ping_spans = 0;
	if (p->watched && p->process < 0 && p->stage != STAGE_DOWN)
		timer_set(c, &p->ping_timer, c->config.params->dead_after_ms * NSEC_PER_MSEC);
	else
		timer_stop(&p->ping_timer);
}

struct path *rail_path(const struct peer *p, uint32_t number)
{
	uint32_t i;

	for (i = 0; i < p->npaths; i++)
		if (p->paths[i]->rail.number == number && path_is_rail(p->paths[i]))
			return p->paths[i];
	return NULL;
}

uint32_t rails_up(const struct peer *p)
{
	uint32_t bits = 0, i;

	for (i = 0; i < p->npaths; i++)
		if (path_carries(p->paths[i]))
			bits |= 1u << p->paths[i]->rail.number;
	return bits;
}

void peer_cmd(struct control *c, struct peer *p, struct cmd *cmd, enum engine_cmd_type type,
	      void (*back)(struct control *c, struct cmd *cmd))
{
	cmd->e.peer = p->engine;
	cmd->e.owner = p;
	cmd_post(c, cmd, type, back);
}

void peer_due(struct control *c, struct peer *p)
{
	if (list_empty(&p->due))
		list_add_tail(&p->due, &c->due_peers);
}
