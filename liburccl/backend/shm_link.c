/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The unix socket of an ep. Each ep listens under a random name until its peer has come, so a
 * socket file lives for one handshake only. Whoever connects is believed after the kernel has
 * named our own user and it has shown the cookie that only the address, sent over the control
 * connection, gives away.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>
#include "backend/shm.h"

#ifndef SHM_VERSION_MAX
#define SHM_VERSION_MIN 1u
#define SHM_VERSION_MAX 1u
#endif
#define PREFIX		"urccl-"
#define BACKLOG		8
#define RECORDS_AT_ONCE 64u /* that one peer may have us read before others get their turn */
#define LISTENER	1u  /* lowest bit of what epoll gives back: the listener, not the link */

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
static int sockaddr_make(const struct shm_dev *d, const struct shm_addr *a, struct sockaddr_un *sun,
			 socklen_t *len)
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

int shm_link_dir_fits(const char *dir)
{
	struct sockaddr_un sun;

	return strlen(dir) + 1 + SHM_NAME <= sizeof(sun.sun_path);
}

int shm_link_open(struct shm_ep *e)
{
	struct sockaddr_un sun;
	socklen_t len;
	int err;

	e->sock = e->rx_fd = -1;
	e->addr.versions[0] = SHM_VERSION_MIN;
	e->addr.versions[1] = SHM_VERSION_MAX;
	e->addr.in_dir = e->dev->socket_dir != NULL;
	err = name_make(e->addr.name);
	if (!err)
		err = random_bytes(e->addr.cookie, SHM_COOKIE);
	if (!err)
		err = random_bytes(&e->serial, sizeof(e->serial));
	if (!err)
		err = sockaddr_make(e->dev, &e->addr, &sun, &len);
	if (err)
		return err;
	e->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (e->listener < 0)
		return -errno;
	if (!bind(e->listener, (struct sockaddr *)&sun, len) && !listen(e->listener, BACKLOG))
		return 0;
	err = -errno;
	shm_link_unlisten(e);
	return err;
}

/* A forked child may still hold what we close, so the epoll would go on telling of it and the peer
 * would hear of nothing. */
static void watched_close(struct shm_ep *e, int fd)
{
	epoll_ctl(e->dev->dev.fd, EPOLL_CTL_DEL, fd, NULL);
	shutdown(fd, SHUT_RDWR);
	close(fd);
}

void shm_link_unlisten(struct shm_ep *e)
{
	struct sockaddr_un sun;
	socklen_t len;

	if (e->listener < 0)
		return;
	watched_close(e, e->listener);
	e->listener = -1;
	if (e->addr.in_dir && !sockaddr_make(e->dev, &e->addr, &sun, &len))
		unlink(sun.sun_path);
}

static void link_drop(struct shm_ep *e)
{
	if (e->rx_fd >= 0)
		close(e->rx_fd);
	if (e->sock >= 0)
		watched_close(e, e->sock);
	e->rx_fd = e->sock = -1;
	e->rx_got = 0;
}

void shm_link_close(struct shm_ep *e)
{
	shm_link_unlisten(e);
	link_drop(e);
}

int shm_link_addr_check(const void *addr, uint32_t len, struct shm_addr *out)
{
	static const uint8_t none[sizeof(out->reserved)];
	int version = ep_version(SHM_VERSION_MIN, SHM_VERSION_MAX, addr, len), newer;

	if (version < 0)
		return version;
	if (len < sizeof(*out))
		return -EPROTO;
	memcpy(out, addr, sizeof(*out));
	/* A newer one may say what this version does not know. */
	newer = out->versions[1] > SHM_VERSION_MAX;
	if (!newer && (len != sizeof(*out) || memcmp(out->reserved, none, sizeof(none))))
		return -EPROTO;
	if (out->in_dir > 1 || !name_valid(out->name))
		return -EPROTO;
	return version;
}

static int watch(struct shm_ep *e, int fd, uint32_t which)
{
	struct epoll_event ev = {.events = EPOLLIN, .data.u64 = (uintptr_t)e | which};

	return epoll_ctl(e->dev->dev.fd, EPOLL_CTL_ADD, fd, &ev) ? -errno : 0;
}

static int same_user(int sock)
{
	struct ucred cred;
	socklen_t len = sizeof(cred);

	return !getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &cred, &len) && cred.uid == geteuid();
}

int shm_link_send(struct shm_ep *e, const struct shm_record *r, int fd)
{
	union {
		struct cmsghdr align;
		char buf[CMSG_SPACE(sizeof(int))];
	} control;
	struct iovec iov = {.iov_base = (void *)(uintptr_t)r, .iov_len = sizeof(*r)};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
	struct cmsghdr *cmsg;
	ssize_t n;

	if (fd >= 0) {
		memset(&control, 0, sizeof(control));
		msg.msg_control = &control;
		msg.msg_controllen = sizeof(control);
		cmsg = CMSG_FIRSTHDR(&msg);
		cmsg->cmsg_level = SOL_SOCKET;
		cmsg->cmsg_type = SCM_RIGHTS;
		cmsg->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(cmsg), &fd, sizeof(int));
	}
	n = sendmsg(e->sock, &msg, MSG_DONTWAIT | MSG_NOSIGNAL);
	if (n < 0)
		return -errno;
	return n == (ssize_t)sizeof(*r) ? 0 : -EIO;
}

void shm_link_bell(struct shm_ep *e)
{
	struct shm_record r = {.type = SHM_BELL};

	/* A queue without room for a doorbell is one that wakes whoever sleeps on it. */
	shm_link_send(e, &r, -1);
}

/* Keeps the one descriptor a record may carry. */
static int fds_take(struct shm_ep *e, struct msghdr *msg)
{
	struct cmsghdr *cmsg;
	int fd, err = 0;
	size_t i, n;

	for (cmsg = CMSG_FIRSTHDR(msg); cmsg; cmsg = CMSG_NXTHDR(msg, cmsg)) {
		if (cmsg->cmsg_level != SOL_SOCKET || cmsg->cmsg_type != SCM_RIGHTS)
			continue;
		n = (cmsg->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (i = 0; i < n; i++) {
			memcpy(&fd, CMSG_DATA(cmsg) + i * sizeof(int), sizeof(int));
			if (e->rx_fd < 0) {
				e->rx_fd = fd;
				continue;
			}
			close(fd);
			err = -EPROTO;
		}
	}
	return err;
}

/* 1: a record is whole, 0: not yet, -ECONNRESET: hung up, -EPROTO. */
static int record_recv(struct shm_ep *e)
{
	union {
		struct cmsghdr align;
		char buf[CMSG_SPACE(sizeof(int))];
	} control;
	struct iovec iov = {.iov_base = (char *)&e->rx + e->rx_got,
			    .iov_len = sizeof(e->rx) - e->rx_got};
	/* Room for one descriptor and not for the second that padding would let in. */
	struct msghdr msg = {.msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_control = &control,
			     .msg_controllen = CMSG_LEN(sizeof(int))};
	ssize_t n = recvmsg(e->sock, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	int err;

	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -ECONNRESET;
	err = fds_take(e, &msg);
	if (err)
		return err;
	if (!n)
		return -ECONNRESET;
	e->rx_got += (uint32_t)n;
	return e->rx_got == sizeof(e->rx);
}

/* Who dialled has the word of the kernel and of the address; who was dialled waits for the
 * cookie. */
int shm_link_proved(const struct shm_ep *e)
{
	return e->sock >= 0 && (e->active || e->state == SHM_UP);
}

static int hello_send(struct shm_ep *e, uint32_t type, int fd)
{
	struct shm_record r = {
		.type = type,
		.version = e->version,
		.serial = shm_cma_begin(e),
	};

	memcpy(r.to, e->peer.cookie, SHM_COOKIE);
	memcpy(r.from, e->addr.cookie, SHM_COOKIE);
	return shm_link_send(e, &r, fd);
}

static int hello_valid(const struct shm_ep *e)
{
	return e->rx.version == e->version &&
	       equal_const_time(e->rx.to, e->addr.cookie, SHM_COOKIE) &&
	       equal_const_time(e->rx.from, e->peer.cookie, SHM_COOKIE);
}

/* Passive. */
static int on_hello(struct shm_ep *e)
{
	int err;

	if (!hello_valid(e))
		return -EPROTO;
	if (e->rx_fd < 0)
		return -EMFILE;
	err = shm_pages_take(&e->pages, e->rx_fd);
	if (err)
		return err;
	shm_cma_meet(e, e->rx.serial);
	err = hello_send(e, SHM_WELCOME, -1);
	if (err) {
		shm_cma_close(e);
		shm_pages_drop(&e->pages);
		return err;
	}
	shm_link_unlisten(e);
	shm_ep_up(e);
	return 0;
}

static int on_record(struct shm_ep *e)
{
	if (e->state == SHM_MEETING) {
		if (e->rx.type == SHM_HELLO && !e->active)
			return on_hello(e);
		if (e->rx.type != SHM_WELCOME || !e->active || !hello_valid(e))
			return -EPROTO;
		shm_cma_meet(e, e->rx.serial);
		shm_ep_up(e);
		return 0;
	}
	switch (e->rx.type) {
	case SHM_BELL:
		e->announced = e->bell_due = 0;
		shm_ep_warm(e);
		return 0;
	case SHM_FILE:
		return shm_view_add(e, &e->rx, e->rx_fd);
	case SHM_GONE:
		return shm_view_gone(e, e->rx.serial);
	case SHM_REVOKE:
		return shm_view_revoke(e, &e->rx);
	case SHM_REVOKED:
		return shm_view_revoked(e, e->rx.serial);
	}
	return -EPROTO;
}

void shm_link_recv(struct shm_ep *e)
{
	uint32_t i;
	int err = 0;

	for (i = 0; i < RECORDS_AT_ONCE && e->sock >= 0; i++) {
		err = record_recv(e);
		if (!err)
			return;
		if (err > 0)
			err = on_record(e);
		if (err)
			break;
		if (e->rx_fd >= 0)
			close(e->rx_fd);
		e->rx_fd = -1;
		e->rx_got = 0;
	}
	if (!err)
		return;
	/* Somebody who is not the peer may knock; the peer may still come. */
	if (e->state == SHM_MEETING && !e->active)
		link_drop(e);
	else
		shm_ep_lost(e, err);
}

/* A stranger that connects and says nothing gives way to whoever comes next. */
static void link_accept(struct shm_ep *e)
{
	int sock = accept4(e->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

	if (sock < 0)
		return;
	if (!same_user(sock)) {
		close(sock);
		return;
	}
	link_drop(e);
	e->sock = sock;
	if (watch(e, sock, 0)) {
		link_drop(e);
		return;
	}
	shm_link_recv(e);
}

int shm_link_await(struct shm_ep *e)
{
	return watch(e, e->listener, LISTENER);
}

int shm_link_dial(struct shm_ep *e)
{
	struct sockaddr_un sun;
	socklen_t len;
	int err, fd;

	shm_link_unlisten(e);
	err = sockaddr_make(e->dev, &e->peer, &sun, &len);
	if (err)
		return -EHOSTUNREACH;
	e->sock = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (e->sock < 0)
		return -errno;
	/* Nobody there under a random name, or somebody else: that is another host, or a namespace
	 * apart. */
	if (connect(e->sock, (struct sockaddr *)&sun, len) || !same_user(e->sock))
		return -EHOSTUNREACH;
	err = watch(e, e->sock, 0);
	if (err)
		return err;
	fd = shm_pages_make(&e->pages);
	if (fd < 0)
		return fd;
	err = hello_send(e, SHM_HELLO, fd);
	close(fd);
	return err;
}

void shm_link_look(struct shm_dev *d)
{
	struct epoll_event ev[16];
	struct shm_ep *e;
	int i, n = epoll_wait(d->dev.fd, ev, ARRAY_SIZE(ev), 0);

	for (i = 0; i < n; i++) {
		e = (struct shm_ep *)(uintptr_t)(ev[i].data.u64 & ~(uint64_t)LISTENER);
		if (!(ev[i].data.u64 & LISTENER)) {
			if (e->sock >= 0)
				shm_link_recv(e);
		} else if (e->listener >= 0) {
			link_accept(e);
		}
	}
}
