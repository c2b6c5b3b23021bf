/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The unix socket of an ep. The peer is authenticated once the kernel reports our own user and it
 * has sent the cookie, which only the address, sent over the control connection, contains.
 */
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>
#include "backend/shm/shm.h"

#define RECORDS_AT_ONCE 64u /* records read from one peer before others are served */
#define TICK_NS		(20 * NSEC_PER_MSEC)
#define LEAVING		10u  /* ticks for a peer to let go, */
#define LEAVING_JOBS	100u /* and for GPUs here to end their copies */
#define REFUSED_MAX	8u   /* HELLOs that were reset */

int shm_watch(struct shm_ep *e, int fd, int op, uint32_t at)
{
	struct epoll_event ev = {.events = EPOLLIN, .data.u64 = (uintptr_t)e | at};

	return epoll_ctl(e->dev->dev.fd, op, fd, &ev) ? -errno : 0;
}

/* A forked child may still hold the descriptor: then close() alone would neither end its events nor
 * hang up on the peer. */
void shm_watched_close(struct shm_ep *e, int fd)
{
	epoll_ctl(e->dev->dev.fd, EPOLL_CTL_DEL, fd, NULL);
	shutdown(fd, SHUT_RDWR);
	close(fd);
}

int shm_link_open(struct shm_ep *e)
{
	e->sock = e->in.fd = -1;
	list_init(&e->waiting);
	return shm_listener_open(e);
}

/* A link to an importer stays open at this end until its process closes the other, or ends. */
static void bye_end(struct shm_ep *e)
{
	if (e->bye == e->importer)
		shutdown(e->bye, SHUT_WR);
	else
		shm_watched_close(e, e->bye);
	e->bye = -1;
}

/* 0: BYE is sent, as nothing here uses the peer's memory, or the peer is gone. 1: GPUs here may
 * still use it, or the link is full. */
static int bye_waits(struct shm_ep *e)
{
	const struct shm_record r = {.type = SHM_BYE};

	if (e->gpu_seen && (shm_remotes_mapped(e, 0) || shm_gpu_close(e)))
		return 1;
	return send(e->bye, &r, sizeof(r), MSG_DONTWAIT | MSG_NOSIGNAL) < 0 && errno == EAGAIN &&
	       e->gpu_seen;
}

/* The link stays open until BYE: without it the peer waits for the end of this process. */
static void link_bye(struct shm_ep *e)
{
	if (bye_waits(e))
		shm_wait_tick(e);
	else
		bye_end(e);
}

static void link_drop(struct shm_ep *e)
{
	fd_close(e->in.fd);
	e->in.fd = -1;
	e->in.got = 0;
	if (e->sock < 0)
		return;
	if (shm_files_shown(e))
		e->importer = e->sock;
	e->bye = e->sock;
	e->sock = -1;
	epoll_ctl(e->dev->dev.fd, EPOLL_CTL_DEL, e->bye, NULL);
	link_bye(e);
}

void shm_link_close(struct shm_ep *e)
{
	list_del(&e->waiting);
	shm_listener_close(e);
	link_drop(e);
}

void shm_link_end(struct shm_ep *e)
{
	shm_link_close(e);
	list_del(&e->waiting);
	if (e->bye < 0)
		return;
	(void)bye_waits(e);
	bye_end(e);
}

int shm_link_left(int sock)
{
	struct shm_inlet in = {.fd = -1};
	int said = 0;

	while (shm_record_recv(sock, &in) > 0) {
		said |= in.rx.type == SHM_BYE;
		fd_close(in.fd);
		in = (struct shm_inlet){.fd = -1};
	}
	fd_close(in.fd);
	return said;
}

int shm_same_user(int sock)
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

void shm_link_doorbell(struct shm_ep *e)
{
	struct shm_record r = {.type = SHM_DOORBELL};

	/* If the socket has no room, it has records that wake the peer anyway. */
	shm_link_send(e, &r, -1);
}

/* Keeps the one descriptor a record may carry. */
static int fds_take(struct shm_inlet *in, struct msghdr *msg)
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
			if (in->fd < 0) {
				in->fd = fd;
				continue;
			}
			close(fd);
			err = -EPROTO;
		}
	}
	return err;
}

int shm_record_recv(int sock, struct shm_inlet *in)
{
	union {
		struct cmsghdr align;
		char buf[CMSG_SPACE(sizeof(int))];
	} control;
	struct iovec iov = {.iov_base = (char *)&in->rx + in->got,
			    .iov_len = sizeof(in->rx) - in->got};
	/* Room for one descriptor and not for the second that padding would let in. */
	struct msghdr msg = {.msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_control = &control,
			     .msg_controllen = CMSG_LEN(sizeof(int))};
	ssize_t n = recvmsg(sock, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	int err;

	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -ECONNRESET;
	err = fds_take(in, &msg);
	if (err)
		return err;
	if (!n)
		return -ECONNRESET;
	in->got += (uint32_t)n;
	return in->got == sizeof(in->rx);
}

/* The dialling side trusts the kernel and the address; the listening side waits for the cookie. */
int shm_link_proved(const struct shm_ep *e)
{
	return e->sock >= 0 && (e->active || e->state == SHM_UP);
}

static int hello_send(struct shm_ep *e, uint32_t type, int fd)
{
	struct shm_record r = {
		.type = type,
		.version = SHM_VERSION,
		.serial = e->dev->started,
	};

	memcpy(r.to, e->peer.cookie, SHM_COOKIE);
	memcpy(r.from, e->addr.cookie, SHM_COOKIE);
	return shm_link_send(e, &r, fd);
}

static int hello_valid(const struct shm_ep *e, const struct shm_record *rx)
{
	return rx->version == SHM_VERSION && equal_const_time(rx->to, e->addr.cookie, SHM_COOKIE) &&
	       equal_const_time(rx->from, e->peer.cookie, SHM_COOKIE);
}

/* Maps the pages that came, and answers. */
static int welcome(struct shm_ep *e, const struct shm_inlet *in)
{
	int err = shm_pages_take(&e->pages, in->fd);

	if (err)
		return err;
	err = hello_send(e, SHM_WELCOME, -1);
	if (!err)
		err = shm_watch(e, e->sock, EPOLL_CTL_MOD, SHM_AT_LINK);
	if (err)
		shm_pages_drop(&e->pages);
	return err;
}

/* Without a pidfd, only the end of the link shows that the process has ended. */
static void link_up(struct shm_ep *e, const struct shm_record *greeting)
{
	e->process = shm_process_open(e->sock, greeting->serial);
	e->has_process = e->process >= 0;
	shm_ep_up(e);
}

int shm_link_adopt(struct shm_ep *e, int sock, struct shm_inlet *in)
{
	int err;

	if (in->rx.type != SHM_HELLO || !hello_valid(e, &in->rx))
		return -EPROTO;
	if (in->fd < 0)
		return -EMFILE;
	e->sock = sock;
	err = welcome(e, in);
	if (err)
		e->sock = -1;
	else
		link_up(e, &in->rx);
	return err;
}

/* A record at a closed ep: the peer has let go, or asks us to. */
static int on_last_record(struct shm_ep *e)
{
	const struct shm_record *rx = &e->in.rx;
	int err = 0;

	e->said_bye |= rx->type == SHM_BYE;
	if (rx->type == SHM_REVOKE)
		err = shm_mapping_revoke(e, rx);
	if (rx->type != SHM_REVOKED)
		return err;
	err = shm_mapping_revoked(e, rx->serial);
	if (!err && e->revokes == e->revokes_done && !shm_gpu_close(e))
		shm_ep_left(e);
	return err;
}

static int on_record(struct shm_ep *e)
{
	const struct shm_record *rx = &e->in.rx;

	if (e->state == SHM_CLOSED)
		return on_last_record(e);
	if (e->state == SHM_CONNECTING) {
		if (rx->type != SHM_WELCOME || !e->active || !hello_valid(e, rx))
			return -EPROTO;
		link_up(e, rx);
		return 0;
	}
	switch (rx->type) {
	case SHM_DOORBELL:
		e->announced = e->doorbell_due = 0;
		shm_ep_active(e);
		return 0;
	case SHM_FILE:
	case SHM_GPU:
		return shm_mapping_add(e, rx, e->in.fd);
	case SHM_GONE:
		return shm_mapping_gone(e, rx->serial);
	case SHM_BYE:
		e->said_bye = 1;
		return 0;
	case SHM_REVOKE:
		return shm_mapping_revoke(e, rx);
	case SHM_REVOKED:
		return shm_mapping_revoked(e, rx->serial);
	}
	return -EPROTO;
}

/* Dials at the next tick. */
static void dial_again(struct shm_ep *e)
{
	link_drop(e);
	shm_pages_drop(&e->pages);
	shm_wait_tick(e);
}

/* A crowded listener closes silent connections, and may have closed ours before it read our HELLO:
 * dial again. A HELLO refused for its content is refused each time, so retries are limited. */
static int was_shut_out(struct shm_ep *e, int err)
{
	return err == -ECONNRESET && e->state == SHM_CONNECTING && e->active &&
	       e->refused++ < REFUSED_MAX;
}

void shm_link_recv(struct shm_ep *e)
{
	uint32_t i;
	int err = 0;

	for (i = 0; i < RECORDS_AT_ONCE && e->sock >= 0; i++) {
		err = shm_record_recv(e->sock, &e->in);
		if (!err)
			return;
		if (err > 0)
			err = on_record(e);
		if (err)
			break;
		fd_close(e->in.fd);
		e->in.fd = -1;
		e->in.got = 0;
	}
	if (err && was_shut_out(e, err))
		dial_again(e);
	else if (err)
		shm_ep_lost(e, err);
}

/* ---- dialling ---- */

/* fd: the pages' memfd. HELLO follows the connection at once, as the listener drops silent
 * connections. */
static int link_dial(struct shm_ep *e, int fd)
{
	struct sockaddr_un sun;
	socklen_t len;
	int err = shm_listener_sockaddr(e->dev, &e->peer, &sun, &len);

	if (err)
		return -EHOSTUNREACH;
	e->sock = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (e->sock < 0)
		return -errno;
	/* The listener's backlog may be full for a moment. */
	if (connect(e->sock, (struct sockaddr *)&sun, len))
		return errno == EAGAIN ? -EAGAIN : -EHOSTUNREACH;
	/* Another user's socket has the name: the peer is on another host or in another
	 * network namespace. */
	if (!shm_same_user(e->sock))
		return -EHOSTUNREACH;
	err = hello_send(e, SHM_HELLO, fd);
	if (err == -EPIPE || err == -ECONNRESET) /* dropped as a silent connection */
		return -EAGAIN;
	return err ? err : shm_watch(e, e->sock, EPOLL_CTL_ADD, SHM_AT_LINK);
}

int shm_link_dial(struct shm_ep *e)
{
	int err, fd;

	shm_listener_close(e);
	fd = shm_pages_make(&e->pages);
	if (fd < 0)
		return fd;
	err = link_dial(e, fd);
	close(fd);
	if (err != -EAGAIN)
		return err;
	dial_again(e);
	return 0;
}

/* ---- polling ---- */

static void timer_set(struct shm_dev *d, uint64_t ns)
{
	struct itimerspec t = {.it_interval.tv_nsec = (long)ns, .it_value.tv_nsec = (long)ns};

	timerfd_settime(d->timer, 0, &t, NULL);
}

void shm_wait_tick(struct shm_ep *e)
{
	if (list_empty(&e->dev->waiting))
		timer_set(e->dev, TICK_NS);
	list_del(&e->waiting);
	list_add_tail(&e->waiting, &e->dev->waiting);
}

/* A closed ep waits on, unless the peer has died or let go, or its time is over. */
static void tick_closed(struct shm_ep *e)
{
	int holds = e->gpu_seen ? shm_gpu_close(e) || shm_files_shown(e) : 1;

	if (e->leaving++ < (e->njobs ? LEAVING_JOBS : LEAVING) &&
	    (e->njobs || (!e->ep.died && holds))) {
		shm_wait_tick(e);
		return;
	}
	shm_ep_left(e);
}

static void tick_dial(struct shm_ep *e)
{
	int err = shm_link_dial(e);

	if (err)
		shm_ep_lost(e, err);
}

static void tick_ep(struct shm_ep *e)
{
	if (e->state == SHM_CLOSED)
		tick_closed(e);
	else if (e->bye >= 0)
		link_bye(e);
	else if (e->state == SHM_DOWN)
		shm_link_close(e);
	else if (e->active)
		tick_dial(e);
	else
		shm_listener_retry(e);
}

static void timer_tick(struct shm_dev *d)
{
	struct list now;
	uint64_t ticks;

	if (read(d->timer, &ticks, sizeof(ticks)) < 0)
		return;
	list_init(&now);
	while (!list_empty(&d->waiting)) {
		struct list *first = d->waiting.next;

		list_del(first);
		list_add_tail(first, &now);
	}
	timer_set(d, 0);
	while (!list_empty(&now)) {
		struct shm_ep *e = list_first(&now, struct shm_ep, waiting);

		list_del(&e->waiting);
		tick_ep(e);
	}
}

void shm_link_look(struct shm_dev *d)
{
	struct epoll_event ev[16];
	struct shm_ep *e;
	uint32_t at;
	int i, n = epoll_wait(d->dev.fd, ev, ARRAY_SIZE(ev), 0);

	for (i = 0; i < n; i++) {
		e = (struct shm_ep *)(uintptr_t)(ev[i].data.u64 & ~(uint64_t)SHM_AT_MASK);
		at = (uint32_t)ev[i].data.u64 & SHM_AT_MASK;
		if (!e)
			timer_tick(d);
		else if (at != SHM_AT_LINK)
			shm_listener_event(e, at);
		else if (e->sock >= 0)
			shm_link_recv(e);
	}
}
