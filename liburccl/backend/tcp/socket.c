/* SPDX-License-Identifier: Apache-2.0 */
/* Sockets of the tcp backend: their settings, their epoll events, and those that the context's
 * listener has accepted. */
#include <fcntl.h>
#include <netinet/tcp.h>
#include <unistd.h>
#include "backend/tcp/tcp.h"

#define INBOX_MAX 128u /* connections that wait in the inbox: at most the pipe's capacity */

int tcp_watch(struct tcp_device *d, struct tcp_source *s, uint32_t events)
{
	struct epoll_event e = {.events = events, .data.ptr = s};
	int op = s->events == UINT32_MAX ? EPOLL_CTL_ADD : EPOLL_CTL_MOD;

	if (s->events == events)
		return 0;
	if (epoll_ctl(d->dev.fd, op, s->fd, &e))
		return -errno;
	s->events = events;
	return 0;
}

void tcp_source_init(struct tcp_source *s, enum tcp_source_kind kind, int fd)
{
	s->kind = kind;
	s->fd = fd;
	s->events = UINT32_MAX;
}

/* ---- connections that the context's listener has accepted ---- */

int tcp_inbox_open(struct tcp_device *d)
{
	int fd[2];

	if (pipe2(fd, O_NONBLOCK | O_CLOEXEC))
		return -errno;
	tcp_source_init(&d->inbox, TCP_INBOX, fd[0]);
	d->outbox = fd[1];
	return tcp_watch(d, &d->inbox, EPOLLIN);
}

int tcp_inbox_put(struct device *dev, int fd)
{
	struct tcp_device *d = tcp_device(dev);

	if (d->put - load_acquire(&d->taken) == INBOX_MAX)
		return 0;
	if (write(d->outbox, &fd, sizeof(fd)) != (ssize_t)sizeof(fd))
		return 0;
	d->put++;
	return 1;
}

int tcp_inbox_take(struct tcp_device *d)
{
	int fd, one = 1;

	if (d->inbox.fd < 0 || read(d->inbox.fd, &fd, sizeof(fd)) != (ssize_t)sizeof(fd))
		return -1;
	store_release(&d->taken, d->taken + 1);
	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	return fd;
}

void tcp_inbox_close(struct tcp_device *d)
{
	int fd;

	while ((fd = tcp_inbox_take(d)) >= 0) {
		(void)shutdown(fd, SHUT_RDWR); /* a forked child may hold it open */
		close(fd);
	}
	tcp_close_source(d, &d->inbox);
	if (d->outbox >= 0)
		close(d->outbox);
}

void tcp_inbox_pause(struct tcp_device *d)
{
	d->full = 1;
	tcp_watch(d, &d->inbox, 0);
	tcp_tick(d, TCP_TICK_MS);
}

void tcp_inbox_resume(struct tcp_device *d)
{
	d->full = 0;
	if (d->inbox.fd >= 0)
		tcp_watch(d, &d->inbox, EPOLLIN);
}

/* ---- sockets ---- */

/* A forked child may hold it open, so close() alone would not end it or remove it from epoll. */
void tcp_close_source(struct tcp_device *d, struct tcp_source *s)
{
	if (s->fd < 0)
		return;
	if (s->events != UINT32_MAX)
		epoll_ctl(d->dev.fd, EPOLL_CTL_DEL, s->fd, NULL);
	if (s->kind != TCP_TIMER && s->kind != TCP_INBOX)
		shutdown(s->fd, SHUT_RDWR);
	close(s->fd);
	s->fd = -1;
	/* There may be room again for connections in the inbox. */
	if (d->full)
		tcp_inbox_resume(d);
}

socklen_t tcp_addr_len(const struct sockaddr_storage *ss)
{
	return ss->ss_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
}

int tcp_socket(int family)
{
	int fd, rc, one = 1;

	if (family != AF_INET && family != AF_INET6)
		return -EAFNOSUPPORT;
	fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one))) {
		rc = -errno;
		close(fd);
		return rc;
	}
	return fd;
}

int tcp_bind_from(int fd, const struct sockaddr_storage *from)
{
	int on = 1;

	if (from->ss_family == AF_UNSPEC)
		return 0;
	(void)setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof(on));
	return bind(fd, (const struct sockaddr *)from, tcp_addr_len(from)) ? -errno : 0;
}
