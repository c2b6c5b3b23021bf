/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The process of a peer on this host, by the one pidfd that came with its first rail. The peer is
 * lost when the process ends, even while the peer is idle or has no rail, and even if a forked
 * child holds the peer's sockets open. Memory of ours that it had mapped is unmapped from then on.
 */
#include <poll.h>

#include "control/private.h"

static int process_ended(const struct peer *p)
{
	struct pollfd fd = {.fd = p->process, .events = POLLIN};

	return p->process >= 0 && poll(&fd, 1, 0) > 0;
}

static void process_died(struct control *c, struct peer *p)
{
	process_leave(c, p);
	p->died = 1;
	if (p->added && !p->deleting)
		peer_cmd(c, p, &p->dying, ENGINE_PEER_DIED, peer_cmd_back);
	/* The peer may have sent BYE before. */
	if (p->stage != STAGE_DOWN && p->conn)
		conn_read(c, p->conn);
	if (p->stage != STAGE_DOWN)
		peer_down(c, p, -ECONNRESET, p->leaving ? REASON_PEER_GOODBYE : REASON_PEER_DIED, 0,
			  0);
}

void process_event(struct control *c, uint64_t data)
{
	struct peer *p = handles_get(&c->peer_handles, (uint32_t)(data >> 1));

	if (!p)
		return;
	if (process_ended(p))
		process_died(c, p);
	importers_step(c, p);
}
