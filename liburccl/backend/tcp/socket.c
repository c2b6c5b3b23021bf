/* SPDX-License-Identifier: Apache-2.0 */
/* Sockets of the tcp backend: their settings, their epoll events, listening. */
#include <netinet/tcp.h>
#include <unistd.h>
#include "backend/tcp/tcp.h"

#define BIND_TRIES 8u /* attempts to find a port that is free at all addresses */

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

static void watch_listeners(struct tcp_device *d, uint32_t events)
{
	uint32_t i;

	for (i = 0; i < d->nlisteners; i++)
		tcp_watch(d, &d->listeners[i], events);
}

void tcp_pause_listeners(struct tcp_device *d)
{
	d->full = 1;
	watch_listeners(d, 0);
	tcp_tick(d, TCP_TICK_MS);
}

void tcp_resume_listeners(struct tcp_device *d)
{
	d->full = 0;
	watch_listeners(d, EPOLLIN);
}

/* A forked child may hold it open, so close() alone would not end it or remove it from epoll. */
void tcp_close_source(struct tcp_device *d, struct tcp_source *s)
{
	if (s->fd < 0)
		return;
	if (s->events != UINT32_MAX)
		epoll_ctl(d->dev.fd, EPOLL_CTL_DEL, s->fd, NULL);
	if (s->kind != TCP_TIMER)
		shutdown(s->fd, SHUT_RDWR);
	close(s->fd);
	s->fd = -1;
	/* There may be room again for connections in the listener's backlog. */
	if (d->full)
		tcp_resume_listeners(d);
}

socklen_t tcp_addr_len(const struct sockaddr_storage *ss)
{
	return ss->ss_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
}

static in_port_t *addr_port(struct sockaddr_storage *ss)
{
	if (ss->ss_family == AF_INET6)
		return &((struct sockaddr_in6 *)ss)->sin6_port;
	return &((struct sockaddr_in *)ss)->sin_port;
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

/* Connections inherit the listener's settings. */
static int listen_one(struct tcp_device *d, const struct sockaddr_storage *at, int alone)
{
	struct tcp_source *s = &d->listeners[d->nlisteners];
	struct sockaddr_storage ss = *at;
	socklen_t len = tcp_addr_len(&ss);
	int fd = tcp_socket(ss.ss_family);

	if (fd < 0)
		return fd;
	tcp_source_init(s, TCP_LISTENER, fd);
	d->nlisteners++;
	if (ss.ss_family == AF_INET6 && !alone)
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &(int){1}, sizeof(int));
	*addr_port(&ss) = htons(d->port);
	if (bind(fd, (struct sockaddr *)&ss, len) || listen(fd, SOMAXCONN) ||
	    getsockname(fd, (struct sockaddr *)&ss, &len))
		return -errno;
	d->port = ntohs(*addr_port(&ss));
	return tcp_watch(d, s, EPOLLIN);
}

void tcp_unlisten(struct tcp_device *d)
{
	while (d->nlisteners)
		tcp_close_source(d, &d->listeners[--d->nlisteners]);
	d->port = 0;
}

int tcp_listen(struct tcp_device *d, const struct sockaddr_storage *at, uint32_t n)
{
	uint32_t i, tries;
	int rc = 0;

	/* A port that is free at one address may be taken at the next. */
	for (tries = 0; tries < BIND_TRIES; tries++) {
		for (i = 0, rc = 0; i < n && !rc; i++)
			rc = listen_one(d, &at[i], n == 1);
		if (!rc)
			break;
		tcp_unlisten(d);
		if (rc != -EADDRINUSE)
			break;
	}
	return rc;
}

int tcp_bind_from(int fd, const struct sockaddr_storage *from)
{
	int on = 1;

	if (from->ss_family == AF_UNSPEC)
		return 0;
	(void)setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof(on));
	return bind(fd, (const struct sockaddr *)from, tcp_addr_len(from)) ? -errno : 0;
}
