/* SPDX-License-Identifier: Apache-2.0 */
/* A peer whose end nobody was told of, for its last packets were lost, and another incarnation at
 * its address: that is found by a CONNECT, which has the old one asked for a sign of life; it is
 * lost, and entries on its handle end with -ESTALE. */
#include <pthread.h>

#include "control_rig.h"

enum { ACCEPT = 1, CONNECT, WATCH, NOTIFY };

static int place; /* of the one and then of the other */
static uint16_t to[2];

static int pass(int from, int into)
{
	char buf[4096];
	ssize_t n = recv(from, buf, sizeof(buf), 0);

	return n > 0 && send(into, buf, (size_t)n, MSG_NOSIGNAL) == n;
}

static void reset(int fd)
{
	struct linger now = {.l_onoff = 1};

	CHECK_EQ(setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now)), 0);
	close(fd);
}

/* Until one side is done, or who is asked for comes; 1: that. */
static int lead(int in, int out, int asked)
{
	for (;;) {
		struct pollfd fd[3] = {{in, POLLIN, 0}, {out, POLLIN, 0}, {asked, POLLIN, 0}};

		CHECK(poll(fd, 3, -1) > 0);
		if (fd[2].revents)
			return 1;
		if ((fd[0].revents && !pass(in, out)) || (fd[1].revents && !pass(out, in)))
			return 0;
	}
}

static int come(int *out, uint16_t port)
{
	int in = accept(place, NULL, NULL);

	CHECK(in >= 0);
	*out = stranger_dial(port);
	return in;
}

/* The first connection leads to the one until the second comes, which leads to the other. From then
 * on the first says nothing, and what comes by it is answered as a host does that knows of no such
 * connection. */
static void *host(void *arg)
{
	int in[2], out[2];

	(void)arg;
	in[0] = come(&out[0], to[0]);
	CHECK_EQ(lead(in[0], out[0], place), 1);
	in[1] = come(&out[1], to[1]);
	CHECK_EQ(lead(in[1], out[1], in[0]), 1);
	reset(in[0]);
	CHECK_EQ(lead(in[1], out[1], -1), 0);
	close(in[1]);
	close(out[0]);
	close(out[1]);
	return NULL;
}

static uint32_t connected(const struct urccl_cqe *cqe)
{
	CHECK_EQ(cqe->user_data, CONNECT);
	CHECK_EQ(cqe->res, 0);
	return (uint32_t)cqe->handle;
}

static void watch(struct side *a, uint32_t handle)
{
	struct urccl_sqe *sqe = urccl_get_sqe(a->ring);

	urccl_prep_watch(sqe, (struct urccl_peer){handle});
	urccl_sqe_set_data64(sqe, WATCH);
	CHECK_EQ(urccl_submit(a->ring), 1);
}

static int64_t notify(struct side *a, uint32_t handle)
{
	struct urccl_sqe *sqe = urccl_get_sqe(a->ring);

	urccl_prep_notify(sqe, (struct urccl_peer){handle}, 7, NULL, 0);
	urccl_sqe_set_data64(sqe, NOTIFY);
	CHECK_EQ(urccl_submit(a->ring), 1);
	return side_end_of(a, NOTIFY);
}

int case_control_restart_unseen(void)
{
	struct urccl_params p = rig_params();
	struct urccl_cqe cqe[2];
	struct side a, b[2];
	pthread_t thread;
	uint32_t old, i;
	uint16_t port;
	char text[32];

	p.transport = "shm"; /* tcp would bring more connections to the port */
	side_open(&a, &p);
	for (i = 0; i < 2; i++) {
		side_open(&b[i], &p);
		side_accept(&b[i], ACCEPT);
		to[i] = b[i].port;
	}
	place = stranger_listen(&port);
	snprintf(text, sizeof(text), "127.0.0.1:%u", port);
	CHECK_EQ(pthread_create(&thread, NULL, host, NULL), 0);
	side_connect(&a, text, (uint32_t)strlen(text), 0, CONNECT);
	cqe[0] = side_next(&a);
	old = connected(&cqe[0]);
	watch(&a, old);
	side_connect(&a, text, (uint32_t)strlen(text), 0, CONNECT);
	cqe[0] = side_next(&a);
	cqe[1] = side_next(&a);
	i = cqe[0].user_data == WATCH;
	CHECK_NE(connected(&cqe[i]), old);
	CHECK_EQ(cqe[1 - i].user_data, WATCH);
	CHECK_EQ(urccl_cqe_kind(&cqe[1 - i]), URCCL_KIND_LOST);
	CHECK_EQ(cqe[1 - i].res, -ECONNRESET);
	CHECK_EQ(notify(&a, old), -ESTALE);
	side_close(&a);
	CHECK_EQ(pthread_join(thread, NULL), 0);
	close(place);
	side_close(&b[0]);
	side_close(&b[1]);
	return 0;
}
