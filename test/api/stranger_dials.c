/* SPDX-License-Identifier: Apache-2.0 */
/* Strangers at our listener, hundreds of them, who send noise, half a greeting, HTTP or nothing:
 * the peer that is there moves its bytes meanwhile, and another can still connect. */
#include <sys/socket.h>
#include "meet.h"

#define STRANGERS 300u
#define OPEN_MAX_AT_ONCE 64u

static struct pair p;
static struct target t;
static uint8_t local[4096], back[4096];
static int fds[OPEN_MAX_AT_ONCE];
static uint64_t seed = 7;

static uint8_t noise(void)
{
	seed = seed * 6364136223846793005ull + 1442695040888963407ull;
	return (uint8_t)(seed >> 33);
}

/* What is sent may already be refused: the connection ends then, and not the test. */
static void say(int fd, uint32_t k)
{
	static const char http[] = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
	static const uint8_t greeting[] = {0x8e, 'u', 'r', 'c', 'c', 'l', '\r', '\n'};
	uint8_t out[2048];
	size_t i;

	for (i = 0; i < sizeof(out); i++)
		out[i] = noise();
	switch (k % 6) {
	case 0:
		send(fd, out, sizeof(out), MSG_NOSIGNAL);
		break;
	case 1:
		send(fd, http, sizeof(http) - 1, MSG_NOSIGNAL);
		break;
	case 2:
		send(fd, greeting, k % sizeof(greeting), MSG_NOSIGNAL);
		break;
	case 3: /* well begun, then noise of a good length and a known type */
		memcpy(out, greeting, sizeof(greeting));
		memset(out + 8, 0, 8);
		out[8] = 200;
		out[12] = (uint8_t)(1 + k / 6 % 9);
		send(fd, out, 216, MSG_NOSIGNAL);
		break;
	case 4:
		memcpy(out, greeting, sizeof(greeting));
		memset(out + 8, 0xff, 8);
		send(fd, out, sizeof(out), MSG_NOSIGNAL);
		break;
	default:
		break;
	}
}

static void stranger(uint16_t port, uint32_t k)
{
	int *fd = &fds[k % OPEN_MAX_AT_ONCE];

	if (k >= OPEN_MAX_AT_ONCE)
		close(*fd);
	*fd = raw_dial(port);
	say(*fd, k);
}

static void move(uint32_t k)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);

	pattern_fill(local, sizeof(local), 0, k);
	urccl_prep_write(sqe, t.remote, local, sizeof(local), 0);
	CHECK_EQ(pair_run(&p, &p.a, sqe).res, sizeof(local));
	sqe = side_sqe(&p.a);
	urccl_prep_read(sqe, t.remote, back, sizeof(back), 0);
	CHECK_EQ(pair_run(&p, &p.a, sqe).res, sizeof(back));
	CHECK(pattern_holds(back, sizeof(back), 0, k));
}

int main(int argc, char **argv)
{
	uint16_t port = free_port();
	char place[PLACE_MAX];
	struct side c;
	uint32_t k;

	pair_options(&p, argc, argv);
	pair_sim(&p);
	place_v4(place, port);
	p.params.listen = place;
	side_open(&p, &p.b);
	p.params.listen = NULL;
	pair_open(&p);
	target_open(&p, &t, sizeof(local), 0);
	side_register(&p.a, local, sizeof(local), 0);
	side_register(&p.a, back, sizeof(back), 0);
	for (k = 0; k < STRANGERS; k++) {
		stranger(port, k);
		move(k);
	}
	side_open(&p, &c);
	side_connect(&c, &p.b);
	side_close(&c);
	for (k = 0; k < OPEN_MAX_AT_ONCE; k++)
		close(fds[k]);
	pair_close(&p);
	return 0;
}
