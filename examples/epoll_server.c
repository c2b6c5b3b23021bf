/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A server of many clients in one epoll loop: each asks by a notification and is answered by one.
 *
 * What to see: the loop in serve(): reap until nothing is left, arm, sleep. The ring's fd stands in
 * the epoll set like any other, and one ring has the events of all clients.
 */
#include <liburccl.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CLIENTS = 8, REQUESTS = 50, ANSWERS = 1024 };

static struct urccl *ctx;
static struct urccl_ring *ring;
static uint64_t squares[ANSWERS]; /* answers under way: the library's until their CQEs */
static uint32_t clients, answered, lost;

static _Noreturn void die(const char *what)
{
	fprintf(stderr, "epoll_server: %s: %s\n", what, urccl_errmsg());
	exit(1);
}

/* The request is the tag; the answer is its square. */
static void answer(struct urccl_peer peer, uint64_t request)
{
	uint64_t *square = &squares[answered++ % ANSWERS];
	struct urccl_sqe *sqe = urccl_get_sqe(ring);

	/* Each client has one request under way, so 8 clients never fill a ring of 256. */
	if (!sqe)
		die("the ring is full");
	*square = request * request;
	urccl_prep_notify(sqe, peer, request, square, sizeof(*square));
	urccl_submit(ring);
}

static void on_cqe(const struct urccl_cqe *cqe)
{
	struct urccl_peer peer = {cqe->peer};
	char why[256];

	switch (urccl_cqe_kind(cqe)) {
	case URCCL_KIND_PEER:
		printf("client %u came\n", ++clients);
		break;
	case URCCL_KIND_NOTE:
		if (cqe->res >= 0)
			answer(peer, cqe->tag);
		break;
	case URCCL_KIND_LOST:
		lost++;
		urccl_prep_close(urccl_get_sqe(ring), peer);
		urccl_submit(ring);
		break;
	default:
		/* An answer whose client has what it wants and went away is no harm. */
		if (cqe->res < 0 && cqe->res != -ECONNRESET) {
			urccl_explain(ctx, cqe, why, sizeof(why));
			fprintf(stderr, "an entry failed: %s\n", why);
		}
	}
}

static void serve(int epfd)
{
	struct epoll_event event;
	struct urccl_cqe *cqe;

	for (;;) {
		do {
			while ((cqe = urccl_peek_cqe(ring))) {
				on_cqe(cqe);
				urccl_cqe_seen(ring, cqe);
			}
		} while (urccl_arm(ring, URCCL_FOR_CQE, 0));
		if (lost == CLIENTS)
			return;
		epoll_wait(epfd, &event, 1, -1);
	}
}

/* Submits, waits for one CQE and takes it. Returns a copy; *payload has a notification's word. */
static struct urccl_cqe next(uint64_t *payload)
{
	struct urccl_cqe *cqe, copy;

	if (urccl_submit_and_wait(ring, 1) < 0 || !(cqe = urccl_peek_cqe(ring)) || cqe->res < 0)
		die("client");
	copy = *cqe;
	if (copy.res == sizeof(*payload))
		memcpy(payload, urccl_cqe_note(ring, cqe), sizeof(*payload));
	urccl_cqe_seen(ring, cqe);
	return copy;
}

/* A client: asks, one request after the other. */
static int ask(int from)
{
	uint8_t metadata[URCCL_METADATA_MAX];
	ssize_t len = read(from, metadata, sizeof(metadata));
	uint64_t i, square = 0;
	struct urccl_peer peer;
	struct urccl_sqe *sqe;
	struct urccl_cqe cqe;

	if (len <= 0 || urccl_open(NULL, &ctx) || urccl_ring_open(ctx, NULL, &ring))
		die("client");
	urccl_prep_connect(urccl_get_sqe(ring), metadata, (uint32_t)len);
	peer.id = (uint32_t)next(&square).handle;
	urccl_prep_watch(urccl_get_sqe(ring), peer);
	for (i = 1; i <= REQUESTS; i++) {
		sqe = urccl_get_sqe(ring);
		urccl_prep_notify(sqe, peer, i, NULL, 0);
		urccl_sqe_set_flags(sqe, URCCL_SQE_SKIP_SUCCESS);
		cqe = next(&square);
		if (urccl_cqe_kind(&cqe) != URCCL_KIND_NOTE || cqe.tag != i || square != i * i)
			die("a wrong answer");
	}
	urccl_close(ctx);
	return 0;
}

int main(void)
{
	int pipes[CLIENTS][2], epfd = epoll_create1(EPOLL_CLOEXEC), status, failed = 0, i, n;
	struct epoll_event event = {.events = EPOLLIN};
	uint8_t metadata[URCCL_METADATA_MAX];

	/* The clients first: a context does not live through fork(). */
	for (i = 0; i < CLIENTS; i++)
		if (pipe(pipes[i]))
			return 1;
		else if (!fork())
			return ask(pipes[i][0]);
	if (urccl_open(NULL, &ctx) || urccl_ring_open(ctx, NULL, &ring))
		die("cannot open");
	if (epoll_ctl(epfd, EPOLL_CTL_ADD, urccl_ring_fd(ring), &event))
		die("epoll");
	urccl_prep_accept(urccl_get_sqe(ring));
	urccl_prep_watch(urccl_get_sqe(ring), (struct urccl_peer){0});
	urccl_submit(ring);
	n = urccl_metadata(ctx, metadata, sizeof(metadata));
	for (i = 0; i < CLIENTS; i++)
		if (n < 0 || write(pipes[i][1], metadata, (size_t)n) != n)
			die("cannot say where we are");
	serve(epfd);
	for (i = 0; i < CLIENTS; i++)
		failed |= wait(&status) < 0 || status;
	printf("%u requests of %d clients answered in one loop\n", answered, CLIENTS);
	urccl_close(ctx);
	return failed || answered != CLIENTS * REQUESTS;
}
