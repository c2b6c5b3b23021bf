/* SPDX-License-Identifier: Apache-2.0 */
/* Whoever finds the port of a device: what they say is no hello, or names nobody, and they are sent
 * away, at the latest when their time is up. Nobody else notices. */
#include <fcntl.h>
#include "tcp_pair.h"

static struct tcp_node a, b;

static int dial(void)
{
	struct sockaddr_storage to = loopback(AF_INET);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	((struct sockaddr_in *)&to)->sin_port = htons(b.port);
	CHECK(fd >= 0);
	CHECK_EQ(connect(fd, (struct sockaddr *)&to, sizeof(struct sockaddr_in)), 0);
	CHECK_EQ(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
	return fd;
}

static int is_gone(int fd)
{
	char c;
	ssize_t n = recv(fd, &c, 1, 0);

	return n == 0 || (n < 0 && errno != EAGAIN);
}

static void say(const void *what, size_t len)
{
	int fd = dial();

	CHECK_EQ(send(fd, what, len, MSG_NOSIGNAL), len);
	TCP_WAIT(&a, &b, is_gone(fd));
	close(fd);
}

/* As the code has it: magic, version, link, 0, cookie, 0. */
static void hello(uint8_t *h, const struct tcp_node *to, uint8_t link)
{
	memset(h, 0, TCP_HELLO);
	memcpy(h, "UCCL", 4);
	h[4] = STREAM_VERSION;
	h[6] = link;
	memcpy(h + 8, to->addr + TCP_ADDR - TCP_COOKIE, TCP_COOKIE);
}

static void garbage(void)
{
	static const char http[] = "GET / HTTP/1.1\r\nHost: localhost\r\nAccept: */*\r\n\r\n";
	uint8_t h[TCP_HELLO];

	say(http, sizeof(http) - 1);
	memset(h, 0xff, sizeof(h));
	say(h, sizeof(h));
	hello(h, &b, 0);
	h[4] = STREAM_VERSION + 1;
	say(h, sizeof(h));
	hello(h, &b, 0);
	h[7] = 1;
	say(h, sizeof(h));
}

/* A hello for a cookie that nobody has, half a hello, none: gone after dead_after. */
static void timeout(void)
{
	uint8_t h[TCP_HELLO];
	int silent = dial(), half = dial();

	hello(h, &b, 0);
	CHECK_EQ(send(half, h, 7, MSG_NOSIGNAL), 7);
	h[9] ^= 1;
	say(h, sizeof(h));
	TCP_WAIT(&a, &b, is_gone(silent) && is_gone(half));
	CHECK_EQ(tcp_device(b.dev)->nstrays, 0);
	close(silent);
	close(half);
}

/* As many as a device keeps, and they say nothing: they give way to a peer long before their time
 * is up. */
static void crowd(void)
{
	struct urccl_params p = tcp_params();
	int fds[TCP_STRAYS];
	uint32_t i;

	p.dead_after_ms = 60000;
	CHECK_EQ(tcp_try_open(&a, &p, AF_INET), 0);
	CHECK_EQ(tcp_try_open(&b, &p, AF_INET), 0);
	for (i = 0; i < TCP_STRAYS; i++) {
		fds[i] = dial();
		tcp_turn(&b);
	}
	TCP_WAIT(&a, &b, tcp_device(b.dev)->nstrays == TCP_STRAYS);
	tcp_meet(&a, &b, AF_INET);
	while (i--)
		close(fds[i]);
	backend_tcp.close(a.dev);
	backend_tcp.close(b.dev);
}

/* Until the device is polled, a listener can give it some connections and keeps the others. */
static void unpolled(void)
{
	uint32_t i, n = 0;
	int fds[TCP_STRAYS], near = -1;

	do {
		fds[n] = dial();
		near = accept4(b.listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
		CHECK(near >= 0);
	} while (backend_tcp.accept(b.dev, near) && ++n < TCP_STRAYS);
	CHECK(n && n < TCP_STRAYS);
	CHECK(!is_gone(fds[n]));
	while (tcp_device(b.dev)->nstrays < n)
		tcp_turn(&b);
	CHECK(backend_tcp.accept(b.dev, near));
	for (i = 0; i <= n; i++)
		close(fds[i]);
	TCP_WAIT(&a, &b, !tcp_device(b.dev)->nstrays);
}

/* They know the cookie, but not the rest: a link that is not, or is there already. */
static void thieves(void)
{
	uint8_t h[TCP_HELLO];

	tcp_open_ep(&a);
	tcp_open_ep(&b);
	tcp_connect(&b, &a, 0, AF_INET);
	hello(h, &b, 2);
	say(h, sizeof(h));
	hello(h, &b, 255);
	say(h, sizeof(h));
	tcp_connect(&a, &b, 1, AF_INET);
	TCP_WAIT(&a, &b, a.up && b.up);
	hello(h, &b, 0);
	say(h, sizeof(h));
	CHECK(!a.down && !b.down);
	tcp_close_eps(&a, &b);
}

/* The dialling side gets no answer in time. */
static void nobody(void)
{
	tcp_open_ep(&a);
	tcp_open_ep(&b);
	tcp_connect(&a, &b, 1, AF_INET);
	TCP_WAIT(&a, &b, a.down);
	CHECK(a.down_res == -ETIMEDOUT || a.down_res == -ECONNRESET);
	backend_tcp.ep_close(a.ep);
	TCP_WAIT(&a, &b, a.closed);
	backend_tcp.ep_free(a.ep);
	backend_tcp.ep_free(b.ep);
}

int case_tcp_strangers(void)
{
	struct urccl_params p = tcp_params();

	p.dead_after_ms = 1000;
	CHECK_EQ(tcp_try_open(&a, &p, AF_INET), 0);
	CHECK_EQ(tcp_try_open(&b, &p, AF_INET), 0);
	garbage();
	tcp_meet(&a, &b, AF_INET);
	timeout();
	tcp_meet(&a, &b, AF_INET);
	unpolled();
	tcp_meet(&a, &b, AF_INET);
	thieves();
	nobody();
	tcp_meet(&a, &b, AF_INET);
	backend_tcp.close(a.dev);
	backend_tcp.close(b.dev);
	crowd();
	return 0;
}
