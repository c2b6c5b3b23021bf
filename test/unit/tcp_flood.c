/* SPDX-License-Identifier: Apache-2.0 */
/* A peer that sends on one connection faster than anybody can take it in and closes another: its
 * ep ends all the same, and the device serves the others. */
#include <sys/syscall.h>
#include "tcp_pair.h"

#define ACK 7

static struct tcp_node a, b;
static int endless = -1; /* a descriptor whose peer is always faster */

static ssize_t flood(uint8_t *buf, size_t len)
{
	size_t i;

	memset(buf, 0, len);
	for (i = 0; i + STREAM_HEADER <= len; i += STREAM_HEADER)
		buf[i] = ACK;
	return (ssize_t)i;
}

/* The library's receives come here. */
ssize_t recv(int fd, void *buf, size_t len, int flags)
{
	if (fd == endless)
		return flood(buf, len);
	return syscall(SYS_recvfrom, fd, buf, len, flags, NULL, NULL);
}

static int dial(uint8_t link)
{
	struct sockaddr_storage to = loopback(AF_INET);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	uint8_t h[TCP_HELLO] = {'U', 'C', 'C', 'L', STREAM_VERSION, 0, link};

	((struct sockaddr_in *)&to)->sin_port = htons(b.port);
	memcpy(h + 8, b.addr + TCP_ADDR - TCP_COOKIE, TCP_COOKIE);
	CHECK_EQ(connect(fd, (struct sockaddr *)&to, sizeof(struct sockaddr_in)), 0);
	CHECK_EQ(send(fd, h, sizeof(h), MSG_NOSIGNAL), sizeof(h));
	return fd;
}

int main(void)
{
	struct urccl_params p = tcp_params();
	int fd[TCP_LINKS_MAX];
	uint32_t i;

	CHECK_EQ(tcp_try_open(&a, &p, AF_INET), 0);
	CHECK_EQ(tcp_try_open(&b, &p, AF_INET), 0);
	tcp_open_ep(&a);
	tcp_open_ep(&b);
	tcp_connect(&b, &a, 0, AF_INET);
	for (i = 0; i < tcp_ep(b.ep)->nlinks; i++)
		fd[i] = dial((uint8_t)i);
	TCP_WAIT(&a, &b, b.up);
	/* A poll that does not come back is ended by this. */
	alarm(10);
	endless = tcp_ep(b.ep)->links[1].source.fd;
	close(fd[0]);
	TCP_WAIT(&a, &b, b.down);
	CHECK_EQ(b.down_res, -ECONNRESET);
	endless = -1;
	while (i-- > 1)
		close(fd[i]);
	backend_tcp.ep_close(b.ep);
	TCP_WAIT(&a, &b, b.closed);
	backend_tcp.ep_free(a.ep);
	backend_tcp.ep_free(b.ep);
	tcp_meet(&a, &b, AF_INET);
	backend_tcp.close(a.dev);
	backend_tcp.close(b.dev);
	return 0;
}
