/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Local ports without a link. A peer is cut off if all of these hold: its rails may come back, it
 * has none now, and none of the ports that reach it has a link. Only devices that report their port
 * (ib) count. Entries of a peer that is cut off end with -ENETDOWN, new ones too, until a port or a
 * rail is back. Its connection stays, as long as TCP and dead_after allow.
 */
#include "peer/private.h"

#define DOWN_NS	 (100 * NSEC_PER_MSEC) /* a shorter loss of the link is ignored */
#define FRESH_NS (10 * NSEC_PER_MSEC)  /* many peers share one check of a device */

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
	p->cutting.e.arg = p->cut;
	peer_cmd(c, p, &p->cutting, ENGINE_PEER_CUT, cut_back);
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

int port_is_cut(struct control *c, struct device *dev)
{
	uint64_t now = clock_ns();

	if (now - c->ports[dev->index].ns >= FRESH_NS) {
		c->ports[dev->index].ns = now;
		c->ports[dev->index].is_cut = dev->ops->is_cut(dev);
	}
	return c->ports[dev->index].is_cut;
}

/* A peer without a rail may lose its link at any time. */
uint64_t link_look(struct control *c, struct peer *p)
{
	uint64_t now = clock_ns();

	if (!p->broken || p->unlinked != p->rails) {
		link_back(c, p);
		return p->broken ? now + DOWN_NS : p->unlinked ? now + RAIL_PORT_NS : NEVER_NS;
	}
	if (!p->down_ns)
		p->down_ns = now;
	if (!p->cut && now - p->down_ns < DOWN_NS)
		return p->down_ns + DOWN_NS;
	peer_set_cut(c, p, 1);
	return now + RAIL_PORT_NS;
}

void link_back(struct control *c, struct peer *p)
{
	p->down_ns = 0;
	peer_set_cut(c, p, 0);
}
