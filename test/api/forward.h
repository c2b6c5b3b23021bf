/* SPDX-License-Identifier: Apache-2.0 */
/* A mapped port, as NAT or docker -p give: 127.0.0.2 has one port, whose connections a thread
 * passes on to a port of 127.0.0.1. It cuts their bytes behind the first one. */
#ifndef API_FORWARD_H
#define API_FORWARD_H

#include <arpa/inet.h>
#include <poll.h>
#include <pthread.h>
#include "meet.h"

#define PIPES_MAX 64u

struct forward {
	pthread_t thread;
	uint16_t inside, port; /* at 127.0.0.1 and 127.0.0.2 */
	int once;	       /* nobody answers at port behind the first connection */
	int outside;
	struct pollfd fds[2 * PIPES_MAX + 1]; /* 2 * i and the one before are joined */
	uint32_t nfds, open;
	char buf[65536];
};

static inline struct sockaddr_in forward_place(const char *ip, uint16_t at)
{
	struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons(at)};

	CHECK_EQ(inet_pton(AF_INET, ip, &in.sin_addr), 1);
	return in;
}

static inline void forward_listen(struct forward *f)
{
	struct sockaddr_in in = forward_place("127.0.0.2", 0);
	socklen_t len = sizeof(in);

	f->outside = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	CHECK(f->outside >= 0);
	CHECK_EQ(bind(f->outside, (struct sockaddr *)&in, len), 0);
	CHECK_EQ(listen(f->outside, PIPES_MAX), 0);
	CHECK_EQ(getsockname(f->outside, (struct sockaddr *)&in, &len), 0);
	f->port = ntohs(in.sin_port);
}

/* Blocks if the other side does not read. 0: the connection has ended. */
static inline int forward_some(struct forward *f, int from, int to, size_t len)
{
	ssize_t n = read(from, f->buf, len), done = 0, some;

	for (; done < n; done += some) {
		some = send(to, f->buf + done, (size_t)(n - done), MSG_NOSIGNAL);
		if (some <= 0)
			return 0;
	}
	return n > 0;
}

static inline void forward_join(struct forward *f)
{
	struct sockaddr_in to = forward_place("127.0.0.1", f->inside);
	int from = accept(f->outside, NULL, NULL), fd = socket(AF_INET, SOCK_STREAM, 0);

	if (f->once)
		close(f->outside);
	CHECK_LE(f->nfds, 2 * PIPES_MAX - 1);
	CHECK_EQ(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
	CHECK(forward_some(f, from, fd, 1));
	f->fds[f->nfds++] = (struct pollfd){from, POLLIN, 0};
	f->fds[f->nfds++] = (struct pollfd){fd, POLLIN, 0};
	f->open++;
}

static inline void forward_ready(struct forward *f, uint32_t i)
{
	struct pollfd *one = &f->fds[i], *other = &f->fds[i % 2 ? i + 1 : i - 1];

	if (!one->revents || one->fd < 0 || forward_some(f, one->fd, other->fd, sizeof(f->buf)))
		return;
	close(one->fd);
	close(other->fd);
	one->fd = other->fd = -1;
	f->open--;
}

/* Ends when all connections have. */
static inline void *forward_run(void *arg)
{
	struct forward *f = arg;
	uint32_t i;

	do {
		CHECK_GE(poll(f->fds, f->nfds, -1), 1);
		for (i = 1; i < f->nfds; i++)
			forward_ready(f, i);
		if (!f->fds[0].revents)
			continue;
		forward_join(f);
		if (f->once)
			f->fds[0].fd = -1;
	} while (f->open);
	return NULL;
}

static inline void forward_begin(struct forward *f, uint16_t inside, int once)
{
	f->inside = inside;
	f->once = once;
	forward_listen(f);
	f->fds[0] = (struct pollfd){f->outside, POLLIN, 0};
	f->nfds = 1;
	f->open = 0;
	CHECK_EQ(pthread_create(&f->thread, NULL, forward_run, f), 0);
}

static inline void forward_end(struct forward *f)
{
	CHECK_EQ(pthread_join(f->thread, NULL), 0);
	if (!f->once)
		close(f->outside);
}

#endif
