/* SPDX-License-Identifier: Apache-2.0 */
/* CONNECT to a listener that is not liburccl, or speaks another version of the protocol, or says
 * nothing: a clean error with a sentence, by the deadline; and the context is none the worse. */
#include <pthread.h>
#include <sys/socket.h>
#include "meet.h"

#define GREETING 8u /* bytes that either side begins with */
#define HEADER	 8u /* {u32 length, u16 type, u16 0} */
#define REFUSE	 3u

enum manner { GARBAGE, HTTP, LEAVES, HALF_GREETING, LONG_FRAME, VERSION_0, VERSION_9, SILENT };

static struct pair p;
static int listener;
static char place[PLACE_MAX];

static void hear(int fd, uint8_t *buf, size_t n)
{
	CHECK_EQ(recv(fd, buf, n, MSG_WAITALL), (long long)n);
}

/* Says that only this version is spoken: in all versions the same bytes. */
static void refuse(int fd, const uint8_t *greeting, uint8_t version)
{
	uint8_t out[GREETING + HEADER + 16] = {0};

	memcpy(out, greeting, GREETING);
	out[GREETING] = 16;
	out[GREETING + 4] = REFUSE;
	out[GREETING + HEADER] = version;
	out[GREETING + HEADER + 2] = version;
	out[GREETING + HEADER + 4] = 1;
	out[GREETING + HEADER + 8] = 77;
	CHECK_EQ(send(fd, out, sizeof(out), MSG_NOSIGNAL), sizeof(out));
}

static void answer(int fd, enum manner how)
{
	static const char http[] = "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n";
	uint8_t in[GREETING], out[4096];
	uint32_t i;

	if (how == LEAVES)
		return;
	hear(fd, in, sizeof(in));
	for (i = 0; i < sizeof(out); i++)
		out[i] = (uint8_t)(i * 37 + 1);
	if (how == GARBAGE) {
		CHECK_GE(send(fd, out, sizeof(out), MSG_NOSIGNAL), 1);
	} else if (how == HTTP) {
		CHECK_GE(send(fd, http, sizeof(http) - 1, MSG_NOSIGNAL), 1);
	} else if (how == HALF_GREETING) {
		CHECK_GE(send(fd, in, GREETING / 2, MSG_NOSIGNAL), 1);
		shutdown(fd, SHUT_WR);
	} else if (how == LONG_FRAME) {
		CHECK_GE(send(fd, in, GREETING, MSG_NOSIGNAL), 1);
		memset(out, 0xff, 4);
		CHECK_GE(send(fd, out, 64, MSG_NOSIGNAL), 1);
	} else if (how != SILENT) {
		refuse(fd, in, how == VERSION_0 ? 0 : 9);
	}
	/* Whoever dialled ends it. */
	while (recv(fd, out, sizeof(out), 0) > 0)
		;
}

static void *serve(void *arg)
{
	int fd = accept(listener, NULL, NULL);

	CHECK(fd >= 0);
	answer(fd, *(enum manner *)arg);
	close(fd);
	return NULL;
}

static void meets(enum manner how, int64_t res, const char *why, uint32_t us)
{
	struct urccl_cqe cqe;
	pthread_t thread;

	CHECK_EQ(pthread_create(&thread, NULL, serve, &how), 0);
	cqe = side_dialled(&p.a, NULL, place, (uint32_t)strlen(place), us);
	if (cqe.res != res)
		fprintf(stderr, "manner %d\n", how);
	CHECK_EQ(cqe.res, res);
	check_sentence(&p.a, &cqe, why);
	CHECK_EQ(pthread_join(thread, NULL), 0);
}

int main(int argc, char **argv)
{
	uint16_t port;

	pair_begin(&p, argc, argv);
	listener = raw_listen(&port);
	place_v4(place, port);
	meets(GARBAGE, -EPROTO, "not liburccl", 10000000);
	meets(HTTP, -EPROTO, "not liburccl", 10000000);
	meets(LONG_FRAME, -EPROTO, "not liburccl", 10000000);
	meets(LEAVES, -ECONNRESET, "ECONNRESET", 10000000);
	meets(HALF_GREETING, -ECONNRESET, "ECONNRESET", 10000000);
	meets(VERSION_0, -EPROTONOSUPPORT, "ours are 1 to 1, the peer's 0 to 0", 10000000);
	meets(VERSION_9, -EPROTONOSUPPORT, "ours are 1 to 1, the peer's 9 to 9", 10000000);
	meets(SILENT, -ETIMEDOUT, "1000000 us", 1000000);
	CHECK_EQ(side_tell(&p.a, &p.b, p.a.peer.id, 1), 0);
	CHECK_EQ(side_event(&p.b, &p.a, URCCL_KIND_NOTE, NULL).tag, 1);
	close(listener);
	pair_close(&p);
	return 0;
}
