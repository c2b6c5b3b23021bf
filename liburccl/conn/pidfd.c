/* SPDX-License-Identifier: Apache-2.0 */
/* The pidfd of a peer on this host, and the sockets of importers, in the thread's epoll. */
#include <sys/epoll.h>
#include <unistd.h>

#include "conn/shared.h"

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
