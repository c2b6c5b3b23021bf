/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Local ports without a link. A peer is cut off if all of these hold: its rails may come back, it
 * has none now, and none of the ports that reach it has a link. Only devices that report their port
 * (ib) count. Entries of a peer that is cut off end with -ENETDOWN, new ones too, until a port or a
 * rail is back. Its connection stays, as long as TCP and dead_after allow.
 */
#include "peer/private.h"

#define DOWN_NS	 (100 * NSEC_PER_MSEC) /* a shorter loss of the link is ignored */
#define AGAIN_NS (250 * NSEC_PER_MSEC) /* interval of checks while a peer is cut off */

static void cut_post(struct control *c, struct peer *p);

static void cut_back(struct control *c, struct cmd *cmd)
{
	struct peer *p = cmd->e.owner;

	if (p->stage == STAGE_DOWN)
		peer_due(c, p);
	else if (p->cut_again)
		cut_post(c, p);
}

static void cut_post(struct control *c, struct peer *p)
{
	p->cut_again = 0;
	p->cutting.e.peer = p->engine;
	p->cutting.e.arg = p->cut;
	p->cutting.e.owner = p;
	cmd_post(c, &p->cutting, ENGINE_PEER_CUT, cut_back);
}

/* The engine may read the command late (INLINE): it then reads the latest state from arg. */
static void peer_set_cut(struct control *c, struct peer *p, uint8_t is_cut)
{
	if (p->cut == is_cut)
		return;
	p->cut = is_cut;
	log_link(c, p);
	if (!p->cutting.out) {
		cut_post(c, p);
	} else {
		store_release(&p->cutting.e.arg, is_cut);
		p->cut_again = 1;
	}
}

static const struct backend *ops_of(const struct control *c, const struct peer *p)
{
	uint32_t i;

	for (i = 0; i < c->config.ndevices; i++)
		if (c->config.devices[i]->ops->transport == p->transport)
			return c->config.devices[i]->ops;
	return NULL;
}

/* 1: it has no rail, and its devices report the state of their links. */
static int is_lost(const struct control *c, const struct peer *p)
{
	const struct backend *ops = ops_of(c, p);

	return p->broken && p->failover && ops && ops->is_cut;
}

enum has_link { LINK_UNASKED, LINK_UP, LINK_NONE };

/* One check of all peers. It asks each device at most once. */
struct look {
	uint8_t links[UINT8_MAX + 1]; /* enum has_link */
};

/* 1: none of the devices that reach the peer has a link. */
static int has_no_link(const struct control *c, const struct peer *p, struct look *look)
{
	uint32_t i;

	for (i = 0; i < p->nknown; i++) {
		struct device *dev = c->config.devices[p->known[i].device];
		uint8_t *link = &look->links[p->known[i].device];

		if (p->known[i].transport != p->transport)
			continue;
		if (*link == LINK_UNASKED)
			*link = dev->ops->is_cut(dev) ? LINK_NONE : LINK_UP;
		if (*link == LINK_UP)
			return 0;
	}
	return 1;
}

/* Checks a peer. Returns the time until the next check. A peer without a rail may lose its link at
 * any time. */
static uint64_t look_at(struct control *c, struct peer *p, struct look *look)
{
	int lost = is_lost(c, p);
	uint64_t now = clock_ns();

	if (!lost || !has_no_link(c, p, look)) {
		p->down_ns = 0;
		peer_set_cut(c, p, 0);
		return lost ? DOWN_NS : NEVER_NS;
	}
	if (!p->down_ns)
		p->down_ns = now;
	if (!p->cut && now - p->down_ns < DOWN_NS)
		return DOWN_NS - (now - p->down_ns);
	peer_set_cut(c, p, 1);
	return AGAIN_NS;
}

static void look_in(struct control *c, uint64_t ns)
{
	struct control_timer *a = &c->link_timer;

	if (ns != NEVER_NS && (!timer_is_set(a) || a->due.at > clock_ns() + ns))
		timer_set(c, a, ns);
}

void links_look(struct control *c, struct control_timer *a)
{
	struct look look = {0};
	struct peer *p;

	(void)a;
	list_for_each_entry(p, &c->peers, link) {
		if (p->stage == STAGE_UP && (p->cut || is_lost(c, p)))
			look_in(c, look_at(c, p, &look));
	}
}

void link_lost(struct control *c, struct peer *p)
{
	if (is_lost(c, p))
		look_in(c, 1);
}

void link_back(struct control *c, struct peer *p)
{
	p->down_ns = 0;
	peer_set_cut(c, p, 0);
}
