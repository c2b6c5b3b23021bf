/* SPDX-License-Identifier: Apache-2.0 */
/* The listeners: sockets that accept.c takes connections from. */
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "control/private.h"

#define BIND_TRIES 8u /* attempts to find one port that is free at all addresses */

struct listener *listener_of(struct control *c, const void *ptr)
{
	uint32_t i;

	for (i = 0; i < c->nlisteners; i++)
		if (ptr == &c->listeners[i])
			return &c->listeners[i];
	return NULL;
}

static int listens_at(const struct control *c, const struct listener *l,
		      const struct sockaddr_storage *at)
{
	if (!addr_wildcard(&l->addr))
		return addr_same(&l->addr, at);
	return l->addr.ss_family == at->ss_family ||
	       (l->addr.ss_family == AF_INET6 && c->nlisteners == 1);
}

uint32_t listener_port(const struct control *c, const struct sockaddr_storage *from)
{
	struct sockaddr_storage at = *from;
	uint32_t i;

	addr_unmap(&at);
	for (i = 0; i < c->nlisteners; i++)
		if (listens_at(c, &c->listeners[i], &at))
			return addr_port(&c->listeners[i].addr);
	return 0;
}

int listener_text(const struct control *c, uint32_t i, char *buf, uint32_t len)
{
	char text[80];

	if (!c->nlisteners)
		return fail(-EOPNOTSUPP, "the context does not listen: set listen to an address");
	if (i >= c->nlisteners)
		return fail(-ENOENT, "the context listens on %u addresses", c->nlisteners);
	addr_text(&c->listeners[i].addr, text, sizeof(text));
	return snprintf(buf, len, "%s", text);
}

static void listener_watch(struct control *c, struct listener *l, int on)
{
	struct epoll_event ev = {.events = EPOLLIN, .data.ptr = l};

	if (l->fd < 0 || l->watched == (uint32_t)on)
		return;
	if (!epoll_ctl(c->epoll_fd, on ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, l->fd, &ev))
		l->watched = (uint32_t)on;
	else if (on)
		if (!timer_is_set(&c->listen_timer))
			timer_set(c, &c->listen_timer, LISTEN_PAUSE_NS);
}

static void listeners_watch(struct control *c, int on)
{
	uint32_t i;

	for (i = 0; i < c->nlisteners; i++)
		listener_watch(c, &c->listeners[i], on);
}

void listener_reserve(struct control *c)
{
	if (c->reserve_fd < 0)
		c->reserve_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
}

static void listener_resume(struct control *c, struct control_timer *a)
{
	(void)a;
	listener_reserve(c);
	listeners_watch(c, 1);
}

/* Connections that wait to be accepted keep a listener readable: look again later instead of
 * spinning. */
void listener_pause(struct control *c)
{
	listeners_watch(c, 0);
	timer_set(c, &c->listen_timer, LISTEN_PAUSE_NS);
}

static int listener_bind(struct control *c, struct listener *l, const struct sockaddr_storage *at)
{
	socklen_t len = at->ss_family == AF_INET6 ? sizeof(struct sockaddr_in6)
						  : sizeof(struct sockaddr_in);
	int on = 1, alone = c->config.nlisten > 1;

	l->addr = *at;
	l->fd = socket(at->ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (l->fd < 0)
		return -errno;
	(void)setsockopt(l->fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	/* An IPv6 wildcard takes IPv4 too if it is the only listen address. */
	if (at->ss_family == AF_INET6)
		(void)setsockopt(l->fd, IPPROTO_IPV6, IPV6_V6ONLY, &alone, sizeof(alone));
	if (bind(l->fd, (const struct sockaddr *)at, len) || listen(l->fd, SOMAXCONN))
		return -errno;
	len = sizeof(l->addr);
	return getsockname(l->fd, (struct sockaddr *)&l->addr, &len) ? -errno : 0;
}

static void listeners_shut(struct control *c)
{
	listeners_watch(c, 0);
	while (c->nlisteners) {
		struct listener *l = &c->listeners[--c->nlisteners];

		/* A forked child may hold the socket open too: close() alone would not end it. */
		(void)shutdown(l->fd, SHUT_RDWR);
		close(l->fd);
	}
}

/* Binds all listen addresses to the port that the first one got. *i: the address that failed. */
static int listeners_bind(struct control *c, uint32_t *i)
{
	struct sockaddr_storage at;
	int rc = 0;

	for (*i = 0; *i < c->config.nlisten && !rc; ++*i) {
		struct listener *l = &c->listeners[*i];

		at = c->config.listen[*i];
		if (*i)
			addr_port_set(&at, addr_port(&c->listeners[0].addr));
		rc = listener_bind(c, l, &at);
		if (l->fd >= 0)
			c->nlisteners++;
	}
	*i -= rc != 0;
	return rc;
}

int listener_open(struct control *c)
{
	uint32_t i, tries;
	char text[80];
	int rc = 0;

	timer_init(&c->listen_timer, listener_resume);
	if (!c->config.nlisten)
		return 0;
	/* A port that is free at one address may be taken at the next one: try another port. */
	for (tries = 0; tries < BIND_TRIES; tries++) {
		rc = listeners_bind(c, &i);
		if (!rc)
			break;
		listeners_shut(c);
		if (rc != -EADDRINUSE || !i || addr_port(&c->config.listen[0]))
			break;
	}
	if (rc) {
		addr_text(&c->config.listen[i], text, sizeof(text));
		return fail(rc,
			    "cannot listen on %s: %s; give an address of this host and a port that "
			    "is free (0: any)",
			    text, errno_text(-rc));
	}
	listener_reserve(c);
	listeners_watch(c, 1);
	return 0;
}

void listener_close(struct control *c)
{
	listeners_shut(c);
	timer_stop(&c->listen_timer);
	fd_close(c->reserve_fd);
	c->reserve_fd = -1;
}
