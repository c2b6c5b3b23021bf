/* SPDX-License-Identifier: Apache-2.0 */
/* What a CONNECT says when nobody, the wrong one, or itself is at the address. */
#include <pthread.h>

#include "control_rig.h"

struct stranger {
	int fd;
	uint16_t port;
	const void *answer;
	size_t len;
	pthread_t thread;
};

/* Takes one connection, answers it, and waits until the dialler has gone. */
static void *serve(void *arg)
{
	struct stranger *s = arg;
	int fd = accept(s->fd, NULL, NULL);
	char rest[4096];

	CHECK(fd >= 0);
	if (s->len)
		stranger_say(fd, s->answer, s->len);
	else
		shutdown(fd, SHUT_WR);
	while (stranger_hear(fd, rest, sizeof(rest)) == sizeof(rest))
		;
	close(fd);
	return NULL;
}

static void answered(struct side *a, const void *answer, size_t len, int res, const char *words)
{
	struct stranger s = {.answer = answer, .len = len};
	char text[32];

	s.fd = stranger_listen(&s.port);
	CHECK_EQ(pthread_create(&s.thread, NULL, serve, &s), 0);
	snprintf(text, sizeof(text), "127.0.0.1:%u", s.port);
	side_cannot_connect(a, text, (uint32_t)strlen(text), res, words);
	CHECK_EQ(pthread_join(s.thread, NULL), 0);
	close(s.fd);
}

static void strangers(struct side *a)
{
	static const char http[] = "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n";
	struct wire_refuse r = {7, 9, WIRE_NO_VERSION, 1, 0, 0, 0};
	struct wire_hello ack = stranger_hello();
	uint8_t newer[WIRE_BUF];
	uint32_t len;

	answered(a, http, sizeof(http) - 1, -EPROTO, "not liburccl");
	answered(a, "SSH-2.0-x\r\n", 11, -EPROTO, "not liburccl");
	answered(a, NULL, 0, -ECONNRESET, "ECONNRESET");
	memcpy(newer, wire_magic, WIRE_MAGIC);
	ack.rails[0].addr_len = 26;
	ack.rails[0].addr[0] = 2;
	ack.rails[0].addr[1] = 3;
	len = WIRE_MAGIC + wire_put_refuse(newer + WIRE_MAGIC, &r);
	answered(a, newer, len, -EPROTONOSUPPORT, "ours are 1 to 1, the peer's 7 to 9");
	len = WIRE_MAGIC + wire_put_hello(newer + WIRE_MAGIC, WIRE_HELLO_ACK, &ack);
	answered(a, newer, len, -EPROTONOSUPPORT,
		 "of the transport's protocol do not meet: ours are 1 to 1, the peer's 2 to 3");
}

static void bad_text(struct side *a)
{
	static const char *const text[] = {"",
					   "localhost",
					   ":80",
					   "127.0.0.1:",
					   "127.0.0.1:0",
					   "127.0.0.1:65536",
					   "127.0.0.1:x",
					   "::1:80",
					   "[::1:80",
					   "a b:80",
					   "1.2.3.4:80 ",
					   "[]:80"};
	static const uint8_t with_nul[] = {'a', 0, ':', '8', '0'};
	char longest[URCCL_METADATA_MAX + 1];
	uint32_t i;

	for (i = 1; i < sizeof(text) / sizeof(text[0]); i++)
		side_cannot_connect(a, text[i], (uint32_t)strlen(text[i]), -EINVAL, "host:port");
	side_cannot_connect(a, with_nul, sizeof(with_nul), -EINVAL, "host:port");
	memset(longest, 'x', sizeof(longest));
	side_cannot_connect(a, longest, sizeof(longest), -EINVAL, "host:port");
	longest[0] = 0; /* as a blob begins */
	side_cannot_connect(a, longest, 100, -EINVAL, "metadata");
}

static void nobody(struct side *a)
{
	struct sockaddr_in in = rig_loopback(0);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	socklen_t len = sizeof(in);
	char text[32];

	/* Bound, so that nobody else listens there, and not listening. */
	CHECK_EQ(bind(fd, (struct sockaddr *)&in, sizeof(in)), 0);
	CHECK_EQ(getsockname(fd, (struct sockaddr *)&in, &len), 0);
	snprintf(text, sizeof(text), "127.0.0.1:%u", ntohs(in.sin_port));
	side_cannot_connect(a, text, (uint32_t)strlen(text), -ECONNREFUSED, "nobody listens");
	close(fd);
}

/* Whoever takes the connection and says nothing holds the CONNECT up to its deadline. */
static void silent(struct side *a)
{
	char text[32];
	uint16_t port;
	int fd = stranger_listen(&port);

	snprintf(text, sizeof(text), "127.0.0.1:%u", port);
	side_connect(a, text, (uint32_t)strlen(text), 50000, 5);
	CHECK_EQ(side_end_of(a, 5), -ETIMEDOUT);
	close(fd);
}

int case_control_dial(void)
{
	struct urccl_params p = rig_params();
	struct side a;

	side_open(&a, &p);
	nobody(&a);
	silent(&a);
	strangers(&a);
	bad_text(&a);
	side_cannot_connect(&a, a.text, (uint32_t)strlen(a.text), -EINVAL, "own");
	side_cannot_connect(&a, a.blob, a.blob_len, -EINVAL, "own");
	side_close(&a);
	return 0;
}
