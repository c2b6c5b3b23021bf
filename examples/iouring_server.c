/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A server whose only loop is io_uring's. It tells clients of a unix socket how to dial it, and
 * answers their notifications:
 *	iouring_server [CLIENTS]
 *
 * What to see: serve(). A multishot poll of the ring's fd stands beside a multishot accept. Before
 * the loop sleeps in io_uring, it reaps until nothing is left and arms; that drains the fd, so the
 * next wake-up is an edge that the poll sees.
 */
#include <liburccl.h>
#include <liburing.h>

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

/* Each client has one request under way, so 64 never fill a ring of 256. */
enum { CLIENTS_MAX = 64, REQUESTS = 50, ANSWERS = 1024 };
enum source { RING_FD = 1, LISTENER };

static struct io_uring loop;
static struct urccl *ctx;
static struct urccl_ring *ring;
static uint8_t metadata[URCCL_METADATA_MAX];
static int metadata_len, listener;
static uint64_t squares[ANSWERS]; /* answers under way: the library's until their CQEs */
static uint32_t clients, answered, lost, wakes;

static _Noreturn void die(const char *what, const char *why)
{
	fprintf(stderr, "iouring_server: %s: %s\n", what, why);
	exit(1);
}

/* What comes from liburccl: a request is a tag, the answer is its square. */
static void on_cqe(const struct urccl_cqe *cqe)
{
	struct urccl_peer peer = {cqe->peer};
	uint64_t *square;
	char why[256];

	if (urccl_cqe_kind(cqe) == URCCL_KIND_NOTE && cqe->res >= 0) {
		square = &squares[answered++ % ANSWERS];
		*square = cqe->tag * cqe->tag;
		urccl_prep_notify(urccl_get_sqe(ring), peer, cqe->tag, square, sizeof(*square));
		urccl_submit(ring);
	} else if (urccl_cqe_kind(cqe) == URCCL_KIND_LOST) {
		lost++;
		urccl_prep_close(urccl_get_sqe(ring), peer);
		urccl_submit(ring);
	} else if (cqe->res < 0 && cqe->res != -ECONNRESET) {
		/* An answer whose client has what it wants and went away is no harm. */
		urccl_explain(ctx, cqe, why, sizeof(why));
		fprintf(stderr, "an entry failed: %s\n", why);
	}
}

/* A multishot that is new, or that the kernel ended: a poll sees at once what it missed. */
static void watch(enum source source)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&loop);

	if (source == RING_FD)
		io_uring_prep_poll_multishot(sqe, urccl_ring_fd(ring), POLLIN);
	else
		io_uring_prep_multishot_accept(sqe, listener, NULL, NULL, 0);
	io_uring_sqe_set_data64(sqe, source);
}

/* What comes from io_uring. The ring itself is looked at before the next sleep. */
static void on_done(const struct io_uring_cqe *done)
{
	enum source source = (enum source)done->user_data;

	if (done->res < 0)
		die("io_uring", strerror(-done->res));
	if (source == RING_FD) {
		wakes++;
	} else {
		send(done->res, metadata, (size_t)metadata_len, MSG_NOSIGNAL);
		close(done->res);
	}
	if (!(done->flags & IORING_CQE_F_MORE))
		watch(source);
}

static void serve(void)
{
	struct io_uring_cqe *done;
	struct urccl_cqe *cqe;
	int err;

	watch(RING_FD);
	watch(LISTENER);
	for (;;) {
		do {
			while ((cqe = urccl_peek_cqe(ring))) {
				on_cqe(cqe);
				urccl_cqe_seen(ring, cqe);
			}
		} while (urccl_arm(ring, URCCL_ARM_FOR_CQE, 0));
		if (lost == clients)
			return;
		err = io_uring_submit_and_wait(&loop, 1);
		if (err < 0 && err != -EINTR)
			die("io_uring", strerror(-err));
		while (!io_uring_peek_cqe(&loop, &done)) {
			on_done(done);
			io_uring_cqe_seen(&loop, done);
		}
	}
}

/* Submits, waits for one CQE and takes it. Returns a copy; *payload has a notification's word. */
static struct urccl_cqe next(uint64_t *payload)
{
	struct urccl_cqe *cqe, copy;

	if (urccl_submit_and_wait(ring, 1) < 0 || !(cqe = urccl_peek_cqe(ring)) || cqe->res < 0)
		die("client", "the server does not answer");
	copy = *cqe;
	if (copy.res == sizeof(*payload))
		memcpy(payload, urccl_cqe_note(ring, cqe), sizeof(*payload));
	urccl_cqe_seen(ring, cqe);
	return copy;
}

/* A client: learns by the socket how to dial, and asks, one request after the other. */
static int ask(const struct sockaddr_un *at, socklen_t at_len)
{
	int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
	uint64_t i, square = 0;
	struct urccl_peer peer;
	struct urccl_sqe *sqe;
	struct urccl_cqe cqe;

	if (connect(fd, (const struct sockaddr *)at, at_len) ||
	    (metadata_len = (int)recv(fd, metadata, sizeof(metadata), 0)) <= 0)
		die("client", "nobody said where to dial");
	if (urccl_open(NULL, &ctx) || urccl_ring_open(ctx, NULL, &ring))
		die("client", urccl_errmsg());
	sqe = urccl_get_sqe(ring);
	urccl_prep_connect(sqe, metadata, (uint32_t)metadata_len);
	urccl_sqe_add_flags(sqe, URCCL_SQE_WATCH); /* the answers come here */
	peer.id = (uint32_t)next(&square).handle;
	for (i = 1; i <= REQUESTS; i++) {
		sqe = urccl_get_sqe(ring);
		urccl_prep_notify(sqe, peer, i, NULL, 0);
		urccl_sqe_add_flags(sqe, URCCL_SQE_SKIP_SUCCESS);
		cqe = next(&square);
		if (urccl_cqe_kind(&cqe) != URCCL_KIND_NOTE || cqe.tag != i || square != i * i)
			die("client", "a wrong answer");
	}
	urccl_close(ctx);
	return 0;
}

int main(int argc, char **argv)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	struct urccl_sqe *sqe;
	socklen_t at_len = sizeof(at.sun_family); /* no name: the kernel finds one */
	unsigned long i, n = 8;
	int status, failed = 0, err;
	char *end = "";

	if (argc > 1)
		n = strtoul(argv[1], &end, 10);
	if (argc > 2 || *end || n < 1 || n > CLIENTS_MAX) {
		fprintf(stderr, "usage: iouring_server [CLIENTS], 1 to %d of them\n", CLIENTS_MAX);
		return 2;
	}
	clients = (uint32_t)n;
	err = io_uring_queue_init(8, &loop, 0);
	if (err) {
		fprintf(stderr, "iouring_server: no io_uring here: %s\n", strerror(-err));
		return 77;
	}
	listener = socket(AF_UNIX, SOCK_SEQPACKET, 0);
	if (bind(listener, (struct sockaddr *)&at, at_len) || listen(listener, CLIENTS_MAX))
		die("socket", strerror(errno));
	at_len = sizeof(at);
	getsockname(listener, (struct sockaddr *)&at, &at_len);
	/* The clients first: a context does not live through fork(). */
	for (i = 0; i < n; i++)
		if (!fork()) {
			close(listener);
			return ask(&at, at_len);
		}
	if (urccl_open(NULL, &ctx) || urccl_ring_open(ctx, NULL, &ring) ||
	    (metadata_len = urccl_metadata(ctx, metadata, sizeof(metadata))) < 0)
		die("cannot open", urccl_errmsg());
	sqe = urccl_get_sqe(ring);
	urccl_prep_accept(sqe);
	urccl_sqe_add_flags(sqe, URCCL_SQE_WATCH); /* the requests come here */
	urccl_submit(ring);
	serve();
	for (i = 0; i < n; i++)
		failed |= wait(&status) < 0 || status;
	printf("%u requests of %u clients answered, %u wake-ups\n", answered, clients, wakes);
	urccl_close(ctx);
	return failed || answered != clients * REQUESTS;
}
