/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A server of many clients in one epoll loop: each asks by a notification and is answered by one.
 *
 * What to see: the loop in serve(): reap until nothing is left, submit the answers, arm, sleep. The
 * ring's fd stands in the epoll set like any other, and one ring has the events of all clients.
 */
#include <liburccl.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CLIENTS = 8, REQUESTS = 50 };

static struct urccl *ctx;
static struct urccl_ring *ring;
static uint32_t clients, answered;
static int family = -1; /* a socket between server and clients, which tells when these are gone */

/* Ends this process when its children, who notice, have ended. */
static _Noreturn void die(const char *what)
{
	fprintf(stderr, "epoll_server: %s: %s\n", what,
		*urccl_errmsg() ? urccl_errmsg() : strerror(errno));
	urccl_close(ctx);
	close(family);
	while (wait(NULL) > 0)
		;
	exit(1);
}

/* Each client has one request under way, so 8 clients never fill a ring of 256. */
static void on_cqe(const struct urccl_cqe *cqe)
{
	struct urccl_peer peer = {cqe->peer};
	char why[256];

	switch (urccl_cqe_kind(cqe)) {
	case URCCL_KIND_PEER:
		printf("client %u came\n", ++clients);
		break;
	case URCCL_KIND_NOTE: /* the request is a tag; the answer is its square */
		if (cqe->res < 0)
			break;
		urccl_prep_notify(urccl_get_sqe(ring), peer, cqe->tag * cqe->tag, NULL, 0);
		answered++;
		break;
	case URCCL_KIND_LOST:
		urccl_prep_close(urccl_get_sqe(ring), peer);
		break;
	default:
		/* An answer whose client has what it wants and went away is no harm. */
		if (cqe->res < 0 && cqe->res != -ECONNRESET) {
			urccl_explain(ctx, cqe, why, sizeof(why));
			fprintf(stderr, "an entry failed: %s\n", why);
		}
	}
}

/* Until the last client is gone, however it ended. */
static void serve(int epfd)
{
	struct epoll_event event;
	struct urccl_cqe *cqe;

	do {
		do {
			while ((cqe = urccl_peek_cqe(ring))) {
				on_cqe(cqe);
				urccl_cqe_seen(ring, cqe);
			}
			urccl_submit(ring);
		} while (urccl_arm(ring, URCCL_ARM_FOR_CQE, 0));
	} while (epoll_wait(epfd, &event, 1, -1) < 1 || !(event.events & EPOLLHUP));
}

/* Submits, waits for one CQE, and takes it. */
static struct urccl_cqe next(void)
{
	struct urccl_cqe *cqe, copy;

	if (urccl_submit_and_wait(ring, 1) < 0 || !(cqe = urccl_peek_cqe(ring)))
		die("client");
	copy = *cqe;
	urccl_cqe_seen(ring, cqe);
	errno = (int)-copy.res;
	if (copy.res < 0)
		die("client");
	return copy;
}

/* A client: asks, one request after the other. */
static int ask(void)
{
	uint8_t metadata[URCCL_METADATA_MAX];
	ssize_t len = recv(family, metadata, sizeof(metadata), 0);
	struct urccl_peer peer;
	struct urccl_sqe *sqe;
	struct urccl_cqe cqe;
	uint64_t i;

	errno = len ? errno : ECONNRESET;
	if (len <= 0 || urccl_open(NULL, &ctx) || urccl_ring_open(ctx, NULL, &ring))
		die("client");
	sqe = urccl_get_sqe(ring);
	urccl_prep_connect(sqe, metadata, (uint32_t)len);
	urccl_sqe_add_flags(sqe, URCCL_SQE_WATCH); /* the answers come here */
	peer.id = (uint32_t)next().handle;
	for (i = 1; i <= REQUESTS; i++) {
		sqe = urccl_get_sqe(ring);
		urccl_prep_notify(sqe, peer, i, NULL, 0);
		urccl_sqe_add_flags(sqe, URCCL_SQE_SKIP_SUCCESS);
		cqe = next();
		if (urccl_cqe_kind(&cqe) != URCCL_KIND_NOTE || cqe.tag != i * i)
			die("a wrong answer");
	}
	urccl_close(ctx);
	return 0;
}

int main(void)
{
	int epfd = epoll_create1(EPOLL_CLOEXEC), ends[2], status, failed = 0, i, n;
	struct epoll_event on_ring = {.events = EPOLLIN}, on_end = {.events = 0};
	uint8_t metadata[URCCL_METADATA_MAX];
	struct urccl_sqe *sqe;
	pid_t pid = 0;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends))
		die("socketpair");
	family = ends[0];
	/* The clients first: a context does not live through fork(). */
	for (i = 0; i < CLIENTS && (pid = fork()) > 0; i++)
		;
	if (pid < 0)
		die("fork");
	if (!pid) {
		close(family);
		family = ends[1];
		return ask();
	}
	close(ends[1]);
	if (urccl_open(NULL, &ctx) || urccl_ring_open(ctx, NULL, &ring))
		die("cannot open");
	if (epoll_ctl(epfd, EPOLL_CTL_ADD, urccl_ring_fd(ring), &on_ring) ||
	    epoll_ctl(epfd, EPOLL_CTL_ADD, family, &on_end))
		die("epoll");
	sqe = urccl_get_sqe(ring);
	urccl_prep_accept(sqe);
	urccl_sqe_add_flags(sqe, URCCL_SQE_WATCH); /* the requests come here */
	urccl_submit(ring);
	n = urccl_metadata(ctx, metadata, sizeof(metadata));
	for (i = 0; i < CLIENTS; i++)
		if (n < 0 || send(family, metadata, (size_t)n, MSG_NOSIGNAL) != n)
			die("cannot say where we are");
	serve(epfd);
	while (wait(&status) > 0)
		failed += status != 0;
	printf("%u requests of %d clients answered in one loop\n", answered, CLIENTS);
	urccl_close(ctx);
	return failed || answered != CLIENTS * REQUESTS;
}
