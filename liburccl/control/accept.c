/* SPDX-License-Identifier: Apache-2.0 */
/* The listener and pending connections: accepted connections that have not sent HELLO yet. */
#include <fcntl.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "control/private.h"

#define ACCEPTS_MAX 64 /* connections accepted per event, so that other events are handled too */

/* ---- a pending connection sends HELLO ---- */

static void accept_not(struct control *c, struct conn *n, const struct wire_hello *h,
		       uint32_t npaths, int err)
{
	if (!npaths)
		conn_refuse_paths(c, n, policy_required(c, h->host), err);
	else if (err == -EBUSY)
		conn_refuse(c, n, WIRE_BUSY, 0);
	else
		conn_refuse(c, n, WIRE_FULL, err == -EUSERS ? 0 : err);
}

static void accept_peer(struct control *c, struct conn *n, const struct wire_hello *h,
			struct list *dials)
{
	struct path *paths[WIRE_RAILS];
	struct peer *p = NULL;
	int err = 0;
	uint32_t npaths = accept_paths(c, h, paths, &err), i;

	if (npaths)
		p = peer_new(c, n, h, 0, &err);
	if (!p) {
		for (i = 0; i < npaths; i++)
			path_free(paths[i]);
		accept_not(c, n, h, npaths, err);
		dials_give(c, dials, NULL);
		return;
	}
	p->required = policy_required(c, h->host);
	/* Record the address before the program learns of the new peer: the program may at once use
	 * the old handle for this address, which must be known to be stale. */
	if (h->port)
		peer_comes(c, p, h->port);
	setup_accept(c, p, paths, npaths);
	dials_give(c, dials, p);
}

/* Both contexts dialled each other: the dial of the smaller incarnation is kept. 1: theirs is kept;
 * our dial ends, and our CONNECTs move to *dials. 0: ours is kept. */
static int accept_yield(struct control *c, struct peer *ours, struct list *dials)
{
	if (!ours->dialled || ours->stage != STAGE_RAILS ||
	    c->config.incarnation < ours->incarnation)
		return 0;
	dials_take(ours, dials);
	handshake_yield(c, ours);
	return 1;
}

static void accept_hello(struct control *c, struct conn *n, const struct wire_hello *h)
{
	struct peer *old = peer_find(c, h->incarnation);
	struct list dials;

	list_init(&dials);
	if (c->ending) {
		conn_refuse(c, n, WIRE_CLOSING, 0);
	} else if (h->incarnation == c->config.incarnation) {
		conn_refuse(c, n, WIRE_SELF, 0);
	} else if (h->expected && h->expected != c->config.incarnation) {
		conn_refuse(c, n, WIRE_STALE, 0);
	} else if (old && !accept_yield(c, old, &dials)) {
		/* The older connection may be dead without our knowing. The ping finds that out,
		 * and the dialler tries again. */
		peer_ping(c, old);
		conn_refuse(c, n, WIRE_EXISTS, 0);
	} else {
		accept_peer(c, n, h, &dials);
	}
}

/* ---- a pending connection proves that it has the secret ---- */

static void pending_challenge(struct control *c, struct conn *n, const struct wire_hello *h,
			      const uint8_t *body, uint32_t len)
{
	uint8_t nonce[WIRE_NONCE], frame[WIRE_HEADER + WIRE_NONCE];
	int err = -ENOMEM;

	n->auth = calloc(1, sizeof(*n->auth));
	if (n->auth)
		err = auth_hello_come(n->auth, c->config.secret, body, len, nonce);
	if (err) {
		conn_refuse(c, n, WIRE_FULL, err);
		return;
	}
	n->auth->hello = *h;
	conn_send(c, n, frame, wire_put_bytes(frame, WIRE_CHALLENGE, nonce, sizeof(nonce)));
}

static int pending_proof(struct control *c, struct conn *n, const uint8_t *body, uint32_t len)
{
	int err = auth_dialler_come(n->auth, body, len);

	if (err == -EPROTO)
		return err;
	if (err)
		conn_refuse(c, n, err == -EACCES ? WIRE_OTHER_SECRET : WIRE_FULL,
			    err == -EACCES ? 0 : err);
	else
		accept_hello(c, n, &n->auth->hello);
	return 0;
}

static void pending_hello(struct control *c, struct conn *n, const struct wire_hello *h,
			  const uint8_t *body, uint32_t len)
{
	int here = c->config.secret->is_set, there = !!(h->features & WIRE_HAS_SECRET);

	if (here && !there)
		conn_refuse(c, n, WIRE_SECRET, 0);
	else if (there && !here)
		conn_refuse(c, n, WIRE_NO_SECRET, 0);
	else if (here)
		pending_challenge(c, n, h, body, len);
	else
		accept_hello(c, n, h);
}

static int pending_frame(struct control *c, struct conn *n, uint32_t type, const uint8_t *body,
			 uint32_t len)
{
	struct wire_hello h;
	int rc;

	if (n->auth)
		return type == WIRE_PROOF ? pending_proof(c, n, body, len) : -EPROTO;
	if (type != WIRE_HELLO)
		return -EPROTO;
	rc = wire_get_hello(body, len, &h);
	if (!rc)
		pending_hello(c, n, &h, body, len);
	else if (rc == -EPROTONOSUPPORT)
		conn_refuse(c, n, WIRE_NO_VERSION, 0);
	else
		return rc;
	return 0;
}

static void pending_ended(struct control *c, struct conn *n, int err)
{
	if (err == -EPROTO)
		log_garbage(c, n);
	conn_close(c, n);
}

/* The device may use or close the socket at once, so this thread first stops watching it. */
static void pending_give(struct control *c, struct conn *n, struct device *dev)
{
	conn_hold(c, n);
	if (dev->ops->accept(dev, n->fd)) {
		conn_released(c, n);
		return;
	}
	/* Further ones wait in the kernel meanwhile. */
	listener_pause(c);
	timer_set(c, &n->timer, LISTEN_PAUSE_NS);
}

/* Data connections come to the same port. Their first bytes name the device; the device checks the
 * rest of a greeting that came in pieces. */
static int pending_first(struct control *c, struct conn *n)
{
	uint8_t head[sizeof(((struct backend *)0)->greeting)];
	ssize_t len = recv(n->fd, head, sizeof(head), MSG_PEEK | MSG_DONTWAIT);
	uint32_t i;

	for (i = 0; len > 0 && i < c->config.ndevices; i++) {
		struct device *dev = c->config.devices[i];

		if (!dev->ops->accept || memcmp(head, dev->ops->greeting, (size_t)len))
			continue;
		pending_give(c, n, dev);
		return 1;
	}
	return 0;
}

static void pending_expired(struct control *c, struct conn *n)
{
	if (n->events || clock_ns() - n->since > HELLO_NS) {
		conn_close(c, n);
		return;
	}
	timer_set(c, &n->timer, HELLO_NS);
	conn_resume(c, n);
}

static const struct conn_ops pending_ops = {
	.connected = conn_close,
	.frame = pending_frame,
	.ended = pending_ended,
	.expired = pending_expired,
	.first = pending_first,
};

/* ---- a connection comes ---- */

/* 1: there is room for one more connection, perhaps after closing a pending one that took longer
 * than its limit. 0: all pending connections are still within their limits. */
static int accept_room(struct control *c)
{
	uint64_t now = clock_ns();
	struct conn *n;

	if (c->npending < PENDING_MAX)
		return 1;
	list_for_each_entry(n, &c->pending, pending) {
		if (now - n->since < (n->greeted ? PENDING_SLOW_NS : PENDING_SILENT_NS))
			continue;
		conn_close(c, n);
		return 1;
	}
	return 0;
}

/* No descriptor is left: uses the reserved one to accept a dialler and to refuse it with that
 * reason. 1: one was accepted. */
static int accept_shed(struct control *c, const struct listener *l, int err)
{
	struct wire_refuse r = {.version_min = WIRE_VERSION,
				.version_max = WIRE_VERSION,
				.code = WIRE_FULL,
				.incarnation = c->config.incarnation,
				.error = (uint32_t)err};
	uint32_t len;
	int fd;

	if (c->reserve_fd < 0)
		return 0;
	close(c->reserve_fd);
	c->reserve_fd = -1;
	fd = accept4(l->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	if (fd >= 0) {
		memcpy(c->tx, wire_magic, WIRE_MAGIC);
		len = WIRE_MAGIC + wire_put_refuse(c->tx + WIRE_MAGIC, &r);
		(void)send(fd, c->tx, len, MSG_NOSIGNAL | MSG_DONTWAIT);
		(void)shutdown(fd, SHUT_WR);
		(void)recv(fd, c->rx, RX_MAX, MSG_DONTWAIT);
		close(fd);
	}
	listener_reserve(c);
	return fd >= 0;
}

/* 1: try again. 0: no connection waits, or the listener pauses. */
static int accept_failed(struct control *c, const struct listener *l, int err)
{
	if (err == EAGAIN)
		return 0;
	if ((err == EMFILE || err == ENFILE) && accept_shed(c, l, err))
		return 1;
	if (err != EMFILE && err != ENFILE && err != ENOMEM && err != ENOBUFS)
		return 1;
	listener_pause(c);
	return 0;
}

static int accept_one(struct control *c, const struct listener *l)
{
	struct conn *n;
	int fd;

	if (!accept_room(c)) {
		listener_pause(c);
		return 0;
	}
	fd = accept4(l->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	if (fd < 0)
		return accept_failed(c, l, errno);
	n = conn_new(c, fd, 0, &pending_ops, NULL);
	if (!n)
		return 1;
	conn_add_pending(c, n);
	timer_set(c, &n->timer, HELLO_NS);
	return 1;
}

void listener_event(struct control *c, struct listener *l)
{
	int i;

	for (i = 0; i < ACCEPTS_MAX && l->fd >= 0; i++)
		if (!accept_one(c, l))
			return;
}
