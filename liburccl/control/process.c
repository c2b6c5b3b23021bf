/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The process of a peer on this host, by the one pidfd that came with its first rail. The peer is
 * lost when the process ends, even while the peer is idle or has no rail, and even if a forked
 * child holds the peer's sockets open. Memory of ours that it had mapped is unmapped from then on.
 */
#include <poll.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "control/private.h"

/* Registers by handle, since another event of the same round may free the peer. */
int process_epoll(struct control *c, const struct peer *p, int fd, uint32_t events)
{
	struct epoll_event ev = {.events = events,
				 .data.u64 = (uint64_t)p->handle << 1 | PROCESS_EVENT};

	return epoll_ctl(c->epoll_fd, EPOLL_CTL_ADD, fd, &ev) ? -errno : 0;
}

void process_begin(struct control *c, struct path *path)
{
	const struct backend *ops = path->rail.ep->dev->ops;
	struct peer *p = path->peer;
	int fd = ops->process ? ops->process(path->rail.ep) : -1;

	if (fd < 0)
		return;
	if (p->process >= 0 || p->died || process_epoll(c, p, fd, EPOLLIN))
		close(fd);
	else
		p->process = fd;
}

/* A forked child of ours may hold the descriptor, so it is removed from epoll explicitly. */
void process_leave(struct control *c, struct peer *p)
{
	if (p->process < 0)
		return;
	(void)epoll_ctl(c->epoll_fd, EPOLL_CTL_DEL, p->process, NULL);
	close(p->process);
	p->process = -1;
}

static int process_ended(const struct peer *p)
{
	struct pollfd fd = {.fd = p->process, .events = POLLIN};

	return p->process >= 0 && poll(&fd, 1, 0) > 0;
}

static void process_back(struct control *c, struct cmd *cmd)
{
	peer_step(c, cmd->e.owner);
}

static void process_died(struct control *c, struct peer *p)
{
	process_leave(c, p);
	p->died = 1;
	if (p->added && !p->deleting) {
		p->dying.e.peer = p->engine;
		p->dying.e.owner = p;
		cmd_post(c, &p->dying, ENGINE_PEER_DIED, process_back);
	}
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
