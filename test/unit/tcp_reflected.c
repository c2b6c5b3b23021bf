/* SPDX-License-Identifier: Apache-2.0 */
/* Who is dialled for data and says back what it hears, or cuts its answer short, is not the peer.
 */
#include "tcp_pair.h"

static struct tcp_node a, b;

/* Somebody else listens where b's address leads. */
static int listen_for_b(void)
{
	struct sockaddr_storage at = loopback(AF_INET);
	struct sockaddr_in *in = (struct sockaddr_in *)&at;
	socklen_t len = sizeof(*in);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	uint16_t port;

	CHECK(fd >= 0);
	CHECK_EQ(bind(fd, (struct sockaddr *)&at, sizeof(*in)), 0);
	CHECK_EQ(listen(fd, 16), 0);
	CHECK_EQ(getsockname(fd, (struct sockaddr *)&at, &len), 0);
	/* The address is little-endian: versions, streams, a reserved byte, port. */
	port = ntohs(in->sin_port);
	b.addr[4] = (uint8_t)port;
	b.addr[5] = (uint8_t)(port >> 8);
	return fd;
}

static void says_back(uint32_t bytes, int res)
{
	uint8_t hello[TCP_HELLO];
	int listener, fd;

	tcp_open_ep(&a);
	tcp_open_ep(&b);
	listener = listen_for_b();
	tcp_connect(&a, &b, 1, AF_INET);
	fd = accept(listener, NULL, NULL);
	CHECK(fd >= 0);
	TCP_WAIT(&a, &b, recv(fd, hello, TCP_HELLO, MSG_PEEK | MSG_DONTWAIT) == TCP_HELLO);
	CHECK_EQ(recv(fd, hello, TCP_HELLO, 0), TCP_HELLO);
	CHECK_EQ(send(fd, hello, bytes, MSG_NOSIGNAL), bytes);
	CHECK_EQ(shutdown(fd, SHUT_WR), 0);
	TCP_WAIT(&a, &b, a.down);
	CHECK(!a.up);
	CHECK_EQ(a.down_res, res);
	close(fd);
	close(listener);
	backend_tcp.ep_close(a.ep);
	TCP_WAIT(&a, &b, a.closed);
	backend_tcp.ep_free(a.ep);
	backend_tcp.ep_free(b.ep);
}

int case_tcp_reflected(void)
{
	struct urccl_params p = tcp_params();

	CHECK_EQ(tcp_try_open(&a, &p, AF_INET), 0);
	CHECK_EQ(tcp_try_open(&b, &p, AF_INET), 0);
	says_back(TCP_HELLO, -EPROTO);
	says_back(TCP_HELLO - 1, -ECONNRESET);
	tcp_meet(&a, &b, AF_INET);
	backend_tcp.close(a.dev);
	backend_tcp.close(b.dev);
	return 0;
}
