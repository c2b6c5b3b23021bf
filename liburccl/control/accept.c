/* SPDX-License-Identifier: Apache-2.0 */
/* The listener and pending connections: accepted connections that have not sent HELLO yet. */
#include <fcntl.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "control/private.h"

#define ACCEPTS_MAX 64 /* connections accepted per event, so that other events are handled too */
#define BIND_TRIES  8u /* attempts to find one port that is free at all addresses */

/* ---- a pending connection sends HELLO ---- */

/* The number of the i-th rail of a hello, counted among the rails of its transport. */
static uint32_t rail_number(const struct wire_hello *h, uint32_t i)
{
	uint32_t number = 0, k;

	for (k = 0; k < i; k++)
		number += h->rails[k].transport == h->rails[i].transport;
	return number;
}

/* The device that is paired with the dialler's device of this number, or NULL. */
static struct device *accept_device(const struct control *c, uint32_t transport, uint32_t number)
{
	struct device *of[DEVICES_MAX];
	uint32_t n = 0, i;

	for (i = 0; i < c->config.ndevices; i++)
		if (c->config.devices[i]->ops->transport == transport)
			of[n++] = c->config.devices[i];
	return n ? of[number % n] : NULL;
}

static struct path *accept_path(struct control *c, const struct wire_hello *h, uint32_t i, int *err)
{
	const struct wire_rail *theirs = &h->rails[i];
	uint32_t number = rail_number(h, i);
	struct device *dev = accept_device(c, theirs->transport, number);
	struct path *path;

	if (!dev || number >= RAIL_NUMBERS)
		return NULL;
	if (!policy_allows(c, h->host, theirs->transport)) {
		*err = *err ? *err : -EACCES;
		return NULL;
	}
	path = path_open(dev, theirs->id, err);
	if (!path)
		return NULL;
	path->rail.number = number;
	path->rail.addr_len = theirs->addr_len;
	memcpy(path->rail.addr, theirs->addr, theirs->addr_len);
	return path;
}

uint32_t accept_paths(struct control *c, const struct wire_hello *h, struct path **paths, int *err)
{
	uint32_t n = 0, i;

	for (i = 0; i < h->nrails; i++) {
		paths[n] = accept_path(c, h, i, err);
		if (paths[n])
			n++;
	}
	return n;
}

/* With a secret, sends the acceptor's PROOF before the HELLO_ACK that the proof covers. */
static void accept_send(struct control *c, struct peer *p, const struct wire_hello *ack)
{
	uint32_t len = wire_put_hello(c->tx, WIRE_HELLO_ACK, ack);
	uint8_t proof[HMAC_BYTES], frame[WIRE_HEADER + HMAC_BYTES];

	if (p->conn->auth) {
		if (auth_answer(p->conn->auth, c->tx + WIRE_HEADER, len - WIRE_HEADER, proof)) {
			handshake_refuse(c, p, -ENOMEM);
			return;
		}
		conn_send(c, p->conn, frame,
			  wire_put_bytes(frame, WIRE_PROOF, proof, sizeof(proof)));
		auth_free(p->conn->auth);
		p->conn->auth = NULL;
	}
	conn_send(c, p->conn, c->tx, len);
}

void accept_answer(struct control *c, struct peer *p)
{
	struct wire_hello ack = {.version_min = WIRE_VERSION,
				 .version_max = WIRE_VERSION,
				 .incarnation = c->config.incarnation,
				 .host = c->host,
				 .key_window = KEY_WINDOW};

	ack.note_len = c->config.params->hello_len;
	if (ack.note_len)
		memcpy(ack.note, c->config.params->hello, ack.note_len);
	path_say(p->paths, p->npaths, &ack);
	accept_send(c, p, &ack);
}

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
	for (i = 0; i < npaths; i++)
		handshake_take_path(c, p, paths[i]);
	/* Before the program learns of the peer: the program may then use the handle of the peer
	 * that was at this address before. */
	if (h->port)
		peer_comes(c, p, h->port);
	handshake_begin(c, p);
	dials_give(c, dials, p);
}

/* 1: both contexts dial at once, and the other dial is kept, since its dialler has the smaller
 * incarnation. Our dial ends; its CONNECTs move to *dials. 0: our connection is kept. */
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
	(void)err;
	conn_close(c, n);
}

static const struct conn_ops pending_ops = {
	.connected = conn_close,
	.frame = pending_frame,
	.ended = pending_ended,
	.expired = conn_close,
};

/* ---- the listener ---- */

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
		timer_set(c, &c->listen_timer, LISTEN_PAUSE_NS);
}

static void listeners_watch(struct control *c, int on)
{
	uint32_t i;

	for (i = 0; i < c->nlisteners; i++)
		listener_watch(c, &c->listeners[i], on);
}

static void listener_resume(struct control *c, struct control_timer *a)
{
	(void)a;
	listeners_watch(c, 1);
}

/* Connections that wait to be accepted keep a listener readable: look again later instead of
 * spinning. */
static void listener_pause(struct control *c)
{
	listeners_watch(c, 0);
	timer_set(c, &c->listen_timer, LISTEN_PAUSE_NS);
}

/* 1: there is room for one more connection, perhaps after closing a pending one that took longer
 * than its limit. 0: all pending connections are still within their limits. */
static int accept_room(struct control *c)
{
	uint64_t now = clock_ns();
	struct list *pos;

	if (c->npending < PENDING_MAX)
		return 1;
	list_for_each(pos, &c->pending) {
		struct conn *n = list_entry(pos, struct conn, pending);

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
	fd = accept4(l->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	if (fd >= 0) {
		memcpy(c->tx, wire_magic, WIRE_MAGIC);
		len = WIRE_MAGIC + wire_put_refuse(c->tx + WIRE_MAGIC, &r);
		(void)send(fd, c->tx, len, MSG_NOSIGNAL | MSG_DONTWAIT);
		(void)shutdown(fd, SHUT_WR);
		(void)recv(fd, c->rx, RX_MAX, MSG_DONTWAIT);
		close(fd);
	}
	c->reserve_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
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

/* ---- opening ---- */

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
	conn_options(c, l->fd);
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
	c->reserve_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	listeners_watch(c, 1);
	return 0;
}

void listener_close(struct control *c)
{
	listeners_shut(c);
	timer_stop(&c->listen_timer);
	if (c->reserve_fd >= 0)
		close(c->reserve_fd);
	c->reserve_fd = -1;
}
