/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Revocation: the end of a region's adverts. The owner sends REVOKE to each peer that has a key of
 * the region, and gives it REVOKE_NS to answer REVOKED when its entries have ended. Entries in
 * flight can end in this time, so that devices need not reject them midway. The keys then end, with
 * or without an answer. The importer fails all entries on the affected remotes, and accepts no new
 * ones.
 */
#include "region/private.h"

/* Sends one REVOKE for each peer and revocation. All its exports wait for one answer. */
static void revoke_send(struct control *c, struct grant *g)
{
	struct region *r = g->region;
	struct peer *p = g->peer;
	struct wire_revoke rev = {.upto = p->asked_upto, .region = r->memory->handle};

	if (p->stage != STAGE_UP || !p->conn || p->said_bye)
		return;
	if (p->revoke_round != c->revoke_round) {
		p->revoke_round = c->revoke_round;
		rev.number = ++p->revokes;
		conn_send(c, p->conn, c->tx, wire_put_revoke(c->tx, &rev));
	}
	g->number = p->revokes;
	list_add_tail(&g->revoke_unacked, &p->revoke_unacked);
	r->nrevoke_unacked++;
}

void revoke_begin(struct control *c, struct region *r)
{
	struct grant *g;

	c->revoke_round++;
	list_for_each_entry_safe(g, &r->grants, of_region) {
		grant_set_revoking(g);
		if (g->live)
			revoke_send(c, g);
	}
	pins_set_revoking(r);
	r->keys_go = 1;
	if (r->nrevoke_unacked && !timer_is_set(&r->revoke_timer))
		timer_set(c, &r->revoke_timer, REVOKE_NS);
}

void revoke_keys(struct control *c, struct region *r)
{
	struct list *pos, *tmp;

	r->keys_go = 0;
	timer_stop(&r->revoke_timer);
	list_for_each_safe(pos, tmp, &r->revoking_grants)
		grant_end(c, list_entry(pos, struct grant, of_region));
}

/* The peer has answered, or its time is over. */
static void revoke_acked(struct grant *g)
{
	list_del(&g->revoke_unacked);
	g->region->nrevoke_unacked--;
}

void revoke_expired(struct control *c, struct control_timer *a)
{
	struct region *r = container_of(a, struct region, revoke_timer);
	struct grant *g;

	list_for_each_entry(g, &r->revoking_grants, of_region) {
		if (!list_empty(&g->revoke_unacked))
			revoke_acked(g);
	}
	region_due(c, r);
}

int revoke_heard(struct control *c, struct peer *p, uint64_t number)
{
	if (number < p->revokes_done || number > p->revokes)
		return -EPROTO;
	p->revokes_done = number;
	while (!list_empty(&p->revoke_unacked)) {
		struct grant *g = list_first(&p->revoke_unacked, struct grant, revoke_unacked);
		struct region *r = g->region;

		if (g->number > number)
			break;
		revoke_acked(g);
		if (!r->nrevoke_unacked)
			region_due(c, r);
	}
	return 0;
}
