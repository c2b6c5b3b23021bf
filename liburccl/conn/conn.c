/* SPDX-License-Identifier: Apache-2.0 */
/* One control connection: framing, output that waits for the socket, its end. This file does not
 * interpret the frames. */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "conn/shared.h"

#define READS_MAX 16 /* reads of one connection before others are served */

static void conn_expired(struct control *c, struct control_timer *a)
{
	struct conn *n = container_of(a, struct conn, timer);

	n->ops->expired(c, n);
}

static void set_option(int fd, int level, int name, int value)
{
	/* These options only tune: the connection works on a kernel that lacks one. */
	(void)setsockopt(fd, level, name, &value, sizeof(value));
}

/* The kernel detects a peer that vanished: by keepalive while idle, otherwise by unacknowledged
 * data (TCP_USER_TIMEOUT). */
void conn_options(const struct control *c, int fd)
{
	uint32_t dead_ms = c->config.params->dead_after_ms;
	int idle = (int)(dead_ms / 2000), interval = (int)(dead_ms / 6000);

	set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
	set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
	set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, idle ? idle : 1);
	set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, interval ? interval : 1);
	set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, 3);
	set_option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, (int)dead_ms);
	/* The same call worked when the context was opened, so an error is not expected here. */
	(void)class_socket_set(&c->socket, fd);
}

static int conn_events(struct control *c, struct conn *n, uint32_t events)
{
	struct epoll_event ev = {.events = events, .data.ptr = n};
	int op = n->events ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;

	if (n->events == events)
		return 0;
	if (epoll_ctl(c->epoll_fd, op, n->fd, &ev))
		return -errno;
	n->events = events;
	return 0;
}

struct conn *conn_new(struct control *c, int fd, int connecting, const struct conn_ops *ops,
		      void *owner)
{
	struct conn *n = calloc(1, sizeof(*n));
	socklen_t len = sizeof(n->remote);

	if (!n)
		goto close_fd;
	n->fd = fd;
	n->ops = ops;
	n->owner = owner;
	n->connecting = (uint8_t)connecting;
	n->since = clock_ns();
	timer_init(&n->timer, conn_expired);
	list_init(&n->pending);
	if (!connecting)
		(void)getpeername(fd, (struct sockaddr *)&n->remote, &len);
	/* An accepted socket gets them behind our magic: a data connection has others. */
	if (connecting)
		conn_options(c, fd);
	if (conn_events(c, n, connecting ? EPOLLOUT : EPOLLIN))
		goto free_conn;
	list_add_tail(&n->link, &c->conns);
	return n;

free_conn:
	free(n);
close_fd:
	close(fd);
	return NULL;
}

static socklen_t addr_size(const struct sockaddr_storage *ss)
{
	return ss->ss_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
}

/* Binds to an address of the interfaces that socket_ifname names, if it is set. */
static int conn_bind(const struct control *c, int fd, const struct sockaddr_storage *to)
{
	struct sockaddr_storage from;
	int on = 1, err = netif_source(c->config.params->socket_ifname, to, &from);

	if (err || from.ss_family == AF_UNSPEC)
		return err;
	(void)setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof(on));
	return bind(fd, (const struct sockaddr *)&from, addr_size(&from)) ? -errno : 0;
}

void conn_local(const struct conn *n, struct sockaddr_storage *ss)
{
	socklen_t len = sizeof(*ss);

	memset(ss, 0, sizeof(*ss));
	if (getsockname(n->fd, (struct sockaddr *)ss, &len))
		ss->ss_family = AF_UNSPEC;
	addr_port_set(ss, 0);
}

struct conn *conn_dial(struct control *c, const struct sockaddr_storage *to,
		       const struct conn_ops *ops, void *owner)
{
	int fd = socket(to->ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), err;
	struct conn *n;

	if (fd < 0)
		return NULL;
	err = conn_bind(c, fd, to);
	if (err) {
		close(fd);
		errno = -err;
		return NULL;
	}
	if (connect(fd, (const struct sockaddr *)to, addr_size(to)) && errno != EINPROGRESS) {
		err = errno;
		close(fd);
		errno = err;
		return NULL;
	}
	/* A connection that is complete at once becomes writable at once. */
	n = conn_new(c, fd, 1, ops, owner);
	if (!n) {
		errno = ENOMEM;
		return NULL;
	}
	n->remote = *to;
	return n;
}

void conn_add_pending(struct control *c, struct conn *n)
{
	list_add_tail(&n->pending, &c->pending);
	c->npending++;
}

static void conn_known(struct control *c, struct conn *n)
{
	if (list_empty(&n->pending))
		return;
	list_del(&n->pending);
	c->npending--;
}

void conn_set(struct control *c, struct conn *n, const struct conn_ops *ops, void *owner)
{
	conn_known(c, n);
	timer_stop(&n->timer);
	n->ops = ops;
	n->owner = owner;
}

void conn_hold(struct control *c, struct conn *n)
{
	if (n->events)
		(void)epoll_ctl(c->epoll_fd, EPOLL_CTL_DEL, n->fd, NULL);
	n->events = 0;
}

void conn_resume(struct control *c, struct conn *n)
{
	if (conn_events(c, n, EPOLLIN))
		n->ops->ended(c, n, -ENOMEM);
}

static void conn_leave(struct control *c, struct conn *n)
{
	conn_known(c, n);
	timer_stop(&n->timer);
	conn_hold(c, n);
	n->fd = -1;
	list_del(&n->link);
	list_add_tail(&n->link, &c->closed);
}

void conn_released(struct control *c, struct conn *n)
{
	assert(!n->events);
	conn_leave(c, n);
}

/* A forked child may hold the socket open, so it is removed from epoll and shut down explicitly.
 * The struct stays until this round of events is over, since later events of the round may name
 * it. */
void conn_close(struct control *c, struct conn *n)
{
	int fd = n->fd;

	if (fd < 0)
		return;
	conn_leave(c, n);
	(void)shutdown(fd, SHUT_RDWR);
	close(fd);
}

void conns_free(struct control *c)
{
	while (!list_empty(&c->closed)) {
		struct conn *n = list_first(&c->closed, struct conn, link);

		list_del(&n->link);
		free(n->in);
		free(n->out);
		auth_free(n->auth);
		free(n);
	}
}

void conns_close(struct control *c)
{
	while (!list_empty(&c->conns))
		conn_close(c, list_first(&c->conns, struct conn, link));
	conns_free(c);
}

/* ---- out ---- */

/* Shuts the socket down instead of returning an error, which senders could not handle. The next
 * read sees the end. */
static void conn_break(struct conn *n)
{
	(void)shutdown(n->fd, SHUT_RDWR);
	n->out_off = n->out_len = 0;
}

/* Returns the bytes sent, at most len. A failed connection reports all of them as sent. */
static uint32_t conn_push(struct conn *n, const uint8_t *buf, uint32_t len)
{
	uint32_t done = 0;

	while (done < len) {
		ssize_t r = send(n->fd, buf + done, len - done, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (r > 0) {
			done += (uint32_t)r;
			continue;
		}
		if (r < 0 && errno == EINTR)
			continue;
		if (r < 0 && errno != EAGAIN) {
			conn_break(n);
			return len;
		}
		break;
	}
	return done;
}

static void conn_keep(struct control *c, struct conn *n, const uint8_t *buf, uint32_t len)
{
	uint32_t need, max;
	uint8_t *out;

	if (n->out_off) {
		memmove(n->out, n->out + n->out_off, n->out_len - n->out_off);
		n->out_len -= n->out_off;
		n->out_off = 0;
	}
	need = n->out_len + len;
	if (need > OUT_MAX)
		goto fail;
	if (need > n->out_max) {
		max = need < 4096 ? 4096 : need * 2;
		out = realloc(n->out, max);
		if (!out)
			goto fail;
		n->out = out;
		n->out_max = max;
	}
	memcpy(n->out + n->out_len, buf, len);
	n->out_len = need;
	if (!conn_events(c, n, EPOLLIN | EPOLLOUT))
		return;
fail:
	conn_break(n);
}

static void conn_put(struct control *c, struct conn *n, const uint8_t *buf, uint32_t len)
{
	uint32_t done = 0;

	if (n->out_off == n->out_len)
		done = conn_push(n, buf, len);
	if (done < len)
		conn_keep(c, n, buf + done, len - done);
}

void conn_send(struct control *c, struct conn *n, const void *buf, uint32_t len)
{
	if (n->fd < 0)
		return;
	assert(!n->connecting);
	if (!n->spoke) {
		n->spoke = 1;
		conn_put(c, n, wire_magic, WIRE_MAGIC);
	}
	conn_put(c, n, buf, len);
}

static void conn_flush(struct control *c, struct conn *n)
{
	n->out_off += conn_push(n, n->out + n->out_off, n->out_len - n->out_off);
	if (n->out_off < n->out_len)
		return;
	/* An idle connection holds no buffer. */
	free(n->out);
	n->out = NULL;
	n->out_off = n->out_len = n->out_max = 0;
	if (conn_events(c, n, EPOLLIN))
		conn_break(n);
}

/* ---- in ---- */

/* Returns the bytes used of the len in buf, or -1: the connection has ended. */
static int64_t conn_parse(struct control *c, struct conn *n, const uint8_t *buf, uint32_t len)
{
	struct wire_header h;
	uint32_t used = 0;

	if (!n->greeted) {
		if (memcmp(buf, wire_magic, len < WIRE_MAGIC ? len : WIRE_MAGIC))
			goto bad;
		if (len < WIRE_MAGIC)
			return 0;
		n->greeted = 1;
		/* Accepted: it is no data connection. */
		if (n->ops->first)
			conn_options(c, n->fd);
		used = WIRE_MAGIC;
	}
	while (len - used >= WIRE_HEADER) {
		if (wire_get_header(buf + used, &h))
			goto bad;
		if (len - used - WIRE_HEADER < h.len)
			break;
		used += WIRE_HEADER;
		if (n->ops->frame(c, n, h.type, buf + used, h.len))
			goto bad;
		if (n->fd < 0)
			return -1;
		used += h.len;
	}
	return used;
bad:
	if (n->fd >= 0)
		n->ops->ended(c, n, -EPROTO);
	return -1;
}

static void conn_save(struct control *c, struct conn *n, uint32_t len)
{
	if (!len)
		return;
	n->in = malloc(len);
	if (!n->in) {
		n->ops->ended(c, n, -ENOMEM);
		return;
	}
	memcpy(n->in, c->rx, len);
	n->in_len = len;
}

/* Reads once. *have counts the bytes of an unfinished frame in control.rx. 1: there may be more to
 * read; 0: not now; -1: the connection has ended. */
static int conn_read_some(struct control *c, struct conn *n, uint32_t *have)
{
	ssize_t r = recv(n->fd, c->rx + *have, RX_MAX - *have, 0);
	int64_t used;
	int more;

	if (r < 0 && errno == EINTR)
		return 1;
	if (r < 0 && errno == EAGAIN)
		return 0;
	if (r <= 0) {
		n->ops->ended(c, n, r ? -errno : 0);
		return -1;
	}
	more = (uint32_t)r == RX_MAX - *have;
	*have += (uint32_t)r;
	used = conn_parse(c, n, c->rx, *have);
	if (used < 0)
		return -1;
	*have -= (uint32_t)used;
	memmove(c->rx, c->rx + used, *have);
	return more;
}

void conn_read(struct control *c, struct conn *n)
{
	uint32_t have = n->in_len;
	int i, rc = 1;

	_Static_assert(WIRE_HEADER + WIRE_FRAME_MAX < RX_MAX, "a frame fits");
	if (!n->greeted && !have && n->ops->first && n->ops->first(c, n))
		return;
	if (have)
		memcpy(c->rx, n->in, have);
	free(n->in);
	n->in = NULL;
	n->in_len = 0;
	for (i = 0; i < READS_MAX && rc == 1; i++)
		rc = conn_read_some(c, n, &have);
	if (rc >= 0)
		conn_save(c, n, have);
}

/* A dial to a free port of this host may connect to itself, if the kernel picks that very port for
 * our end. */
static int conn_is_itself(const struct conn *n)
{
	struct sockaddr_storage local;
	socklen_t len = sizeof(local);
	char a[80], b[80];

	memset(&local, 0, sizeof(local));
	if (getsockname(n->fd, (struct sockaddr *)&local, &len))
		return 0;
	addr_text(&local, a, sizeof(a));
	addr_text(&n->remote, b, sizeof(b));
	return !strcmp(a, b);
}

static void conn_connected(struct control *c, struct conn *n)
{
	socklen_t len = sizeof(int);
	int err = 0;

	if (getsockopt(n->fd, SOL_SOCKET, SO_ERROR, &err, &len))
		err = errno;
	if (!err && conn_is_itself(n))
		err = ECONNREFUSED;
	if (!err)
		err = -conn_events(c, n, EPOLLIN);
	if (err) {
		n->ops->ended(c, n, -err);
		return;
	}
	n->connecting = 0;
	n->ops->connected(c, n);
}

void conn_event(struct control *c, struct conn *n, uint32_t events)
{
	if (n->fd < 0)
		return;
	if (n->connecting) {
		conn_connected(c, n);
		return;
	}
	if (events & EPOLLOUT)
		conn_flush(c, n);
	/* Bytes that arrived before the end are read before the end is seen. */
	if (events & (EPOLLIN | EPOLLHUP | EPOLLERR))
		conn_read(c, n);
}

/* ---- refusing: the other side must read the reason, so wait until it closes ---- */

static int refused_frame(struct control *c, struct conn *n, uint32_t type, const uint8_t *body,
			 uint32_t len)
{
	(void)c, (void)n, (void)type, (void)body, (void)len;
	return 0;
}

static void refused_ended(struct control *c, struct conn *n, int err)
{
	(void)err;
	conn_close(c, n);
}

static const struct conn_ops refused_ops = {
	.connected = conn_close,
	.frame = refused_frame,
	.ended = refused_ended,
	.expired = conn_close,
};

static void conn_refuse_with(struct control *c, struct conn *n, uint32_t code, int err,
			     uint32_t required)
{
	struct wire_refuse r = {.version_min = WIRE_VERSION,
				.version_max = WIRE_VERSION,
				.code = code,
				.incarnation = c->config.incarnation,
				.transports = paths_possible(c),
				.error = (uint32_t)-err,
				.required = required};

	log_refused(c, n, &r);
	conn_send(c, n, c->tx, wire_put_refuse(c->tx, &r));
	n->ops = &refused_ops;
	n->owner = NULL;
	(void)shutdown(n->fd, SHUT_WR);
	/* A refused connection counts as pending until it closes: PENDING_MAX limits both kinds. */
	if (list_empty(&n->pending))
		conn_add_pending(c, n);
	timer_set(c, &n->timer, PENDING_SLOW_NS);
}

void conn_refuse(struct control *c, struct conn *n, uint32_t code, int err)
{
	conn_refuse_with(c, n, code, err, 0);
}

void conn_refuse_paths(struct control *c, struct conn *n, uint32_t required, int err)
{
	conn_refuse_with(c, n, WIRE_NO_PATH, err, required);
}
