/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The listener of an ep, under a random name, until its peer has come: a socket file lives for one
 * handshake only. The name is no secret: others may connect, in any number. A connection of
 * another user is closed at once, one that sends anything but the peer's HELLO once that is read.
 * The rest are pending side by side, and a slow one gives way to a newer one. If all places are
 * taken by recent connections, a newcomer is read once before it is dropped. The peer sends HELLO
 * as it connects, and dials again if it was dropped before, so it gets in however many others
 * there are.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>
#include "backend/shm/shm.h"

#define PREFIX	   "urccl-"
#define KNOCKS_MAX 64u			 /* accepted before others are served */
#define SLOW_NS	   (250 * NSEC_PER_MSEC) /* after which a pending connection gives way to another */

static int name_valid(const char *name)
{
	size_t prefix = sizeof(PREFIX) - 1, i;

	if (memcmp(name, PREFIX, prefix) || name[SHM_NAME - 1])
		return 0;
	for (i = prefix; i < SHM_NAME - 1; i++)
		if (!strchr("0123456789abcdef", name[i]) || !name[i])
			return 0;
	return 1;
}

static int name_make(char name[SHM_NAME])
{
	uint8_t random[(SHM_NAME - sizeof(PREFIX) + 1) / 2];
	char hex[2 * sizeof(random) + 1];
	int err = random_bytes(random, sizeof(random));
	size_t i;

	if (err)
		return err;
	for (i = 0; i < sizeof(random); i++)
		snprintf(hex + 2 * i, 3, "%02x", random[i]);
	snprintf(name, SHM_NAME, PREFIX "%.*s", (int)(SHM_NAME - sizeof(PREFIX)), hex);
	return 0;
}

/* The name of the peer's socket is a name in our own directory, never a path that the peer
 * chose. */
int shm_listener_sockaddr(const struct shm_dev *d, const struct shm_addr *a,
			  struct sockaddr_un *sun, socklen_t *len)
{
	int n;

	memset(sun, 0, sizeof(*sun));
	sun->sun_family = AF_UNIX;
	if (!a->in_dir) {
		memcpy(sun->sun_path + 1, a->name, SHM_NAME - 1);
		*len = offsetof(struct sockaddr_un, sun_path) + SHM_NAME;
		return 0;
	}
	if (!d->socket_dir)
		return -EHOSTUNREACH;
	n = snprintf(sun->sun_path, sizeof(sun->sun_path), "%s/%s", d->socket_dir, a->name);
	if (n < 0 || (size_t)n >= sizeof(sun->sun_path))
		return -ENAMETOOLONG;
	*len = sizeof(*sun);
	return 0;
}

int shm_listener_dir_fits(const char *dir)
{
	struct sockaddr_un sun;

	return strlen(dir) + 1 + SHM_NAME <= sizeof(sun.sun_path);
}

int shm_listener_open(struct shm_ep *e)
{
	struct sockaddr_un sun;
	socklen_t len;
	uint32_t i;
	int err;

	for (i = 0; i < SHM_PENDING_MAX; i++)
		e->pending[i].sock = e->pending[i].in.fd = -1;
	e->listener = -1;
	e->addr.versions[0] = e->addr.versions[1] = SHM_VERSION;
	e->addr.in_dir = e->dev->socket_dir != NULL;
	e->addr.policy = (uint8_t)((e->dev->by_owner ? SHM_NO_MAPPINGS : 0) |
				   (e->dev->no_bounce ? SHM_NO_BOUNCE : 0));
	err = name_make(e->addr.name);
	if (!err)
		err = random_bytes(e->addr.cookie, SHM_COOKIE);
	if (!err)
		err = random_bytes(&e->serial, sizeof(e->serial));
	if (!err)
		err = shm_listener_sockaddr(e->dev, &e->addr, &sun, &len);
	if (err)
		return err;
	e->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (e->listener < 0)
		return -errno;
	if (!bind(e->listener, (struct sockaddr *)&sun, len) && !listen(e->listener, SOMAXCONN))
		return 0;
	err = -errno;
	shm_listener_close(e);
	return err;
}

int shm_listener_addr_check(const void *addr, uint32_t len, struct shm_addr *out)
{
	static const uint8_t none[sizeof(out->reserved)];
	int err = ep_version_check(SHM_VERSION, addr, len), newer;

	if (err)
		return err;
	if (len < sizeof(*out))
		return -EPROTO;
	memcpy(out, addr, sizeof(*out));
	/* A newer version may use fields unknown to this one. */
	newer = out->versions[1] > SHM_VERSION;
	if (!newer && (len != sizeof(*out) || memcmp(out->reserved, none, sizeof(none))))
		return -EPROTO;
	if (!newer && out->policy & ~(SHM_NO_MAPPINGS | SHM_NO_BOUNCE))
		return -EPROTO;
	if (out->in_dir > 1 || !name_valid(out->name))
		return -EPROTO;
	return 0;
}

/* ---- pending connections ---- */

static void pending_drop(struct shm_ep *e, struct shm_pending *g)
{
	fd_close(g->in.fd);
	if (g->sock >= 0)
		shm_watched_close(e, g->sock);
	g->sock = g->in.fd = -1;
	g->in.got = 0;
}

void shm_listener_close(struct shm_ep *e)
{
	struct sockaddr_un sun;
	socklen_t len;
	uint32_t i;

	for (i = 0; i < SHM_PENDING_MAX; i++)
		pending_drop(e, &e->pending[i]);
	if (e->listener < 0)
		return;
	shm_watched_close(e, e->listener);
	e->listener = -1;
	if (e->addr.in_dir && !shm_listener_sockaddr(e->dev, &e->addr, &sun, &len))
		unlink(sun.sun_path);
}

/* Adopts the peer, drops others, waits for an incomplete HELLO. */
static void pending_recv(struct shm_ep *e, struct shm_pending *g)
{
	int sock = g->sock, err = shm_record_recv(sock, &g->in);

	if (!err)
		return;
	if (err > 0)
		err = e->state == SHM_CONNECTING ? shm_link_adopt(e, sock, &g->in) : -EPROTO;
	if (err == -EMFILE) {
		shm_ep_refuse(e, err);
		g->in.got = 0;
		return;
	}
	if (!err)
		g->sock = -1;
	pending_drop(e, g);
	if (!err) {
		list_del(&e->waiting);
		shm_listener_close(e);
	}
}

/* A free place; NULL: all connections are recent, or one of them was the peer. */
static struct shm_pending *pending_place(struct shm_ep *e)
{
	struct shm_pending *oldest = e->pending;
	uint32_t i;

	for (i = 0; i < SHM_PENDING_MAX; i++) {
		if (e->pending[i].sock < 0)
			return &e->pending[i];
		if (e->pending[i].since_ns < oldest->since_ns)
			oldest = &e->pending[i];
	}
	if (clock_ns() - oldest->since_ns < SLOW_NS)
		return NULL;
	pending_recv(e, oldest); /* its HELLO may be there now */
	if (e->listener < 0)
		return NULL;
	pending_drop(e, oldest);
	return oldest;
}

/* ---- the listener ---- */

/* The backlog keeps it readable, so it is not polled until the next tick. */
static void listener_pause(struct shm_ep *e)
{
	epoll_ctl(e->dev->dev.fd, EPOLL_CTL_DEL, e->listener, NULL);
	shm_wait_tick(e);
}

static int out_of_something(int err)
{
	return err == EMFILE || err == ENFILE || err == ENOMEM || err == ENOBUFS;
}

static void welcome(struct shm_ep *e, int sock)
{
	struct shm_pending now = {.sock = sock, .since_ns = clock_ns(), .in.fd = -1}, *g = NULL;

	if (!shm_watch(e, sock, EPOLL_CTL_ADD, SHM_AT_LISTENER)) {
		pending_recv(e, &now);
		if (now.sock < 0)
			return;
		g = pending_place(e);
	}
	if (!g || shm_watch(e, sock, EPOLL_CTL_MOD, SHM_AT_PENDING + (uint32_t)(g - e->pending)))
		pending_drop(e, &now);
	else
		*g = now;
}

/* 0: none to accept, or an error. */
static int let_in(struct shm_ep *e)
{
	int sock = accept4(e->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

	if (sock < 0) {
		if (e->state == SHM_CONNECTING && (errno == EMFILE || errno == ENFILE)) {
			epoll_ctl(e->dev->dev.fd, EPOLL_CTL_DEL, e->listener, NULL);
			shm_ep_refuse(e, -EMFILE);
		} else if (out_of_something(errno)) {
			listener_pause(e);
		}
		return 0;
	}
	if (shm_same_user(sock))
		welcome(e, sock);
	else
		close(sock);
	return 1;
}

void shm_listener_event(struct shm_ep *e, uint32_t at)
{
	uint32_t i;

	if (at >= SHM_AT_PENDING) {
		if (e->pending[at - SHM_AT_PENDING].sock >= 0)
			pending_recv(e, &e->pending[at - SHM_AT_PENDING]);
		return;
	}
	for (i = 0; i < KNOCKS_MAX && e->listener >= 0; i++)
		if (!let_in(e))
			return;
}

int shm_listener_await(struct shm_ep *e)
{
	return shm_watch(e, e->listener, EPOLL_CTL_ADD, SHM_AT_LISTENER);
}

void shm_listener_retry(struct shm_ep *e)
{
	if (e->listener < 0)
		return;
	if (shm_listener_await(e))
		shm_wait_tick(e);
	else
		shm_listener_event(e, SHM_AT_LISTENER);
}
