/* SPDX-License-Identifier: Apache-2.0 */
#include "tcp.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static void prepare(int fd, const char *cc)
{
	int one = 1;

	if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)) < 0)
		bench_die("TCP_NODELAY: %s", strerror(errno));
	if (cc && setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, cc, (socklen_t)strlen(cc)) < 0)
		bench_die("congestion control '%s': %s", cc, strerror(errno));
}

void tcp_pair(int fd[2], const char *cc)
{
	struct sockaddr_in addr = {.sin_family = AF_INET,
				   .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(addr);
	int listener = socket(AF_INET, SOCK_STREAM, 0);

	if (listener < 0 || bind(listener, (struct sockaddr *)&addr, len) < 0 ||
	    listen(listener, 1) < 0 || getsockname(listener, (struct sockaddr *)&addr, &len) < 0)
		bench_die("cannot listen: %s", strerror(errno));
	fd[0] = socket(AF_INET, SOCK_STREAM, 0);
	if (fd[0] < 0 || connect(fd[0], (struct sockaddr *)&addr, len) < 0)
		bench_die("cannot connect: %s", strerror(errno));
	fd[1] = accept(listener, NULL, NULL);
	if (fd[1] < 0)
		bench_die("cannot accept: %s", strerror(errno));
	close(listener);
	prepare(fd[0], cc);
	prepare(fd[1], cc);
}

static void open_blocking(struct wire *w)
{
	(void)w;
}

static void open_nonblocking(struct wire *w)
{
	if (fcntl(w->fd, F_SETFL, O_NONBLOCK) < 0)
		bench_die("O_NONBLOCK: %s", strerror(errno));
}

static void open_uring(struct wire *w)
{
	struct io_uring_params params = {.flags = IORING_SETUP_SINGLE_ISSUER |
						  IORING_SETUP_DEFER_TASKRUN};
	int err = io_uring_queue_init_params(64, &w->ring, &params);

	if (err)
		bench_die("io_uring is not to be had here: %s", strerror(-err));
}

/* With a non-blocking socket these spin, with a blocking one they sleep in the call. */
static size_t socket_send(struct wire *w, const void *buf, size_t len)
{
	for (;;) {
		ssize_t n = send(w->fd, buf, len, MSG_NOSIGNAL);

		if (n >= 0)
			return (size_t)n;
		if (errno != EAGAIN)
			bench_die("send: %s", strerror(errno));
		bench_relax();
	}
}

static size_t socket_recv(struct wire *w, void *buf, size_t len)
{
	for (;;) {
		ssize_t n = recv(w->fd, buf, len, 0);

		if (n >= 0)
			return (size_t)n;
		if (errno != EAGAIN)
			bench_die("recv: %s", strerror(errno));
		bench_relax();
	}
}

static struct io_uring_sqe *uring_sqe(struct wire *w)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&w->ring);

	if (!sqe)
		bench_die("io_uring gave no entry");
	return sqe;
}

static size_t uring_end(struct wire *w, struct io_uring_cqe *cqe)
{
	int res = cqe->res;

	io_uring_cqe_seen(&w->ring, cqe);
	if (res < 0)
		bench_die("io_uring: %s", strerror(-res));
	return (size_t)res;
}

static size_t uring_sleep(struct wire *w)
{
	struct io_uring_cqe *cqe;
	int err = io_uring_submit_and_wait(&w->ring, 1);

	if (err >= 0)
		err = io_uring_wait_cqe(&w->ring, &cqe);
	if (err < 0)
		bench_die("io_uring: %s", strerror(-err));
	return uring_end(w, cqe);
}

static size_t uring_poll(struct wire *w)
{
	struct io_uring_cqe *cqe;
	int err = io_uring_submit(&w->ring);

	if (err < 0)
		bench_die("io_uring: %s", strerror(-err));
	while (io_uring_peek_cqe(&w->ring, &cqe))
		io_uring_get_events(&w->ring);
	return uring_end(w, cqe);
}

static size_t uring_send(struct wire *w, const void *buf, size_t len)
{
	io_uring_prep_send(uring_sqe(w), w->fd, buf, len, MSG_WAITALL);
	return uring_sleep(w);
}

static size_t uring_recv(struct wire *w, void *buf, size_t len)
{
	io_uring_prep_recv(uring_sqe(w), w->fd, buf, len, MSG_WAITALL);
	return uring_sleep(w);
}

static size_t uring_spin_send(struct wire *w, const void *buf, size_t len)
{
	io_uring_prep_send(uring_sqe(w), w->fd, buf, len, MSG_WAITALL);
	return uring_poll(w);
}

static size_t uring_spin_recv(struct wire *w, void *buf, size_t len)
{
	io_uring_prep_recv(uring_sqe(w), w->fd, buf, len, MSG_WAITALL);
	return uring_poll(w);
}

const struct way way_block = {"block", open_blocking, socket_send, socket_recv};
const struct way way_spin = {"spin", open_nonblocking, socket_send, socket_recv};
const struct way way_uring = {"uring", open_uring, uring_send, uring_recv};
const struct way way_uring_spin = {"uring_spin", open_uring, uring_spin_send, uring_spin_recv};
