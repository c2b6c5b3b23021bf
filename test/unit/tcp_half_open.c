/* SPDX-License-Identifier: Apache-2.0 */
/* 10,000 connections to a device's port that say nothing or half a hello: few of them are kept at a
 * time, and a peer gets through; and who says a byte now and then is no longer kept for it. */
#include <fcntl.h>
#include <poll.h>
#include "fds.h"
#include "tcp_pair.h"

#define STRANGERS 10000u

static struct tcp_node a, b;
static int fds[STRANGERS];

static int dial(void)
{
	struct sockaddr_storage to = loopback(AF_INET);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	((struct sockaddr_in *)&to)->sin_port = htons(b.port);
	CHECK(fd >= 0);
	CHECK(!connect(fd, (struct sockaddr *)&to, sizeof(struct sockaddr_in)) ||
	      errno == EINPROGRESS);
	return fd;
}

static void turn(void)
{
	tcp_turn(&b);
	CHECK_LE(tcp_device(b.dev)->nstrays, TCP_STRAYS);
}

static void many(void)
{
	static const uint8_t begin[TCP_HELLO] = {'U', 'C', 'C', 'L', STREAM_VERSION};
	uint32_t i;

	for (i = 0; i < STRANGERS; i++) {
		fds[i] = dial();
		turn();
		(void)send(fds[i], begin, i % TCP_HELLO, MSG_NOSIGNAL);
	}
	TCP_WAIT(&a, &b, tcp_device(b.dev)->nstrays == TCP_STRAYS);
	tcp_meet(&a, &b, AF_INET);
	for (i = 0; i < STRANGERS; i++)
		close(fds[i]);
}

static void slowly(uint64_t patience_ns)
{
	struct pollfd pfd = {dial(), POLLIN, 0};
	uint8_t hello[TCP_HELLO] = {'U', 'C', 'C', 'L', STREAM_VERSION};
	uint64_t next = 0;
	uint32_t said = 0;

	CHECK_EQ(poll(&(struct pollfd){pfd.fd, POLLOUT, 0}, 1, 10000), 1);
	while (!poll(&pfd, 1, 0)) {
		turn();
		if (clock_ns() < next)
			continue;
		CHECK(said < TCP_HELLO - 1);
		CHECK_EQ(send(pfd.fd, hello + said++, 1, MSG_NOSIGNAL), 1);
		next = clock_ns() + patience_ns / 8;
	}
	CHECK_EQ(tcp_device(b.dev)->nstrays, 0);
	close(pfd.fd);
}

static void open_both(uint32_t dead_after_ms)
{
	struct urccl_params p = tcp_params();

	p.dead_after_ms = dead_after_ms;
	CHECK_EQ(tcp_try_open(&a, &p, AF_INET), 0);
	CHECK_EQ(tcp_try_open(&b, &p, AF_INET), 0);
}

static void close_both(void)
{
	backend_tcp.close(a.dev);
	backend_tcp.close(b.dev);
}

int case_tcp_half_open(void)
{
	if (!fds_allow(STRANGERS + 1000))
		SKIP("RLIMIT_NOFILE does not allow 10,000 descriptors");
	open_both(60000);
	many();
	close_both();
	open_both(1000);
	slowly(NSEC_PER_SEC);
	tcp_meet(&a, &b, AF_INET);
	close_both();
	return 0;
}
