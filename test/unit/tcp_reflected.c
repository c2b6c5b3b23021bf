/* SPDX-License-Identifier: Apache-2.0 */
/* Who is dialled for data and says back what it hears, or cuts its answer short, is not the peer. A
 * listener that has no descriptor left says so in the control protocol, and closes. */
#include "conn/wire.h"
#include "tcp_pair.h"

static struct tcp_node a, b;

/* Somebody else listens where b's address leads. */
static int listen_for_b(void)
{
	struct sockaddr_storage at = loopback(AF_INET);
	struct sockaddr_in *in = (struct sockaddr_in *)&at;
	socklen_t len = sizeof(*in);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	CHECK(fd >= 0);
	CHECK_EQ(bind(fd, (struct sockaddr *)&at, sizeof(*in)), 0);
	CHECK_EQ(listen(fd, 16), 0);
	CHECK_EQ(getsockname(fd, (struct sockaddr *)&at, &len), 0);
	b.port = ntohs(in->sin_port);
	return fd;
}

static void answered(int (*answer)(int fd, int n), int n, int res)
{
	uint16_t port = b.port;
	int listener, fd;

	tcp_open_ep(&a);
	tcp_open_ep(&b);
	listener = listen_for_b();
	tcp_connect(&a, &b, 1, AF_INET);
	fd = accept(listener, NULL, NULL);
	CHECK(fd >= 0);
	fd = answer(fd, n);
	TCP_WAIT(&a, &b, a.down);
	CHECK(!a.up);
	CHECK_EQ(a.down_res, res);
	if (fd >= 0)
		close(fd);
	close(listener);
	backend_tcp.ep_close(a.ep);
	TCP_WAIT(&a, &b, a.closed);
	backend_tcp.ep_free(a.ep);
	backend_tcp.ep_free(b.ep);
	b.port = port;
}

static int say_back(int fd, int n)
{
	uint8_t hello[TCP_HELLO];

	TCP_WAIT(&a, &b, recv(fd, hello, TCP_HELLO, MSG_PEEK | MSG_DONTWAIT) == TCP_HELLO);
	CHECK_EQ(recv(fd, hello, TCP_HELLO, 0), TCP_HELLO);
	CHECK_EQ(send(fd, hello, (size_t)n, MSG_NOSIGNAL), n);
	CHECK_EQ(shutdown(fd, SHUT_WR), 0);
	return fd;
}

/* Closes it while the hello is unread: the answer is followed by a reset. */
static int refuse(int fd, int n)
{
	struct wire_refuse r = {.code = WIRE_FULL, .error = (uint32_t)n};
	uint8_t bytes[WIRE_MAGIC + WIRE_BUF];
	uint32_t len = WIRE_MAGIC + wire_put_refuse(bytes + WIRE_MAGIC, &r);
	char byte;

	TCP_WAIT(&a, &b, recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 1);
	memcpy(bytes, wire_magic, WIRE_MAGIC);
	CHECK_EQ(send(fd, bytes, len, MSG_NOSIGNAL), len);
	close(fd);
	return -1;
}

int case_tcp_reflected(void)
{
	struct urccl_params p = tcp_params();

	CHECK_EQ(tcp_try_open(&a, &p, AF_INET), 0);
	CHECK_EQ(tcp_try_open(&b, &p, AF_INET), 0);
	answered(say_back, TCP_HELLO, -EPROTO);
	answered(say_back, TCP_HELLO - 1, -ECONNRESET);
	answered(refuse, EMFILE, -EMFILE);
	answered(refuse, ENFILE, -ENFILE);
	tcp_meet(&a, &b, AF_INET);
	backend_tcp.close(a.dev);
	backend_tcp.close(b.dev);
	return 0;
}
