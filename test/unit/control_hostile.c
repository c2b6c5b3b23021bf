/* SPDX-License-Identifier: Apache-2.0 */
/* One that begins well and goes on badly: frames out of turn end its connection, an acceptor whose
 * answer is of no use makes the CONNECT fail with a reason, and others notice nothing. */
#include <pthread.h>

#include "control_rig.h"

/* After a good HELLO. */
static void out_of_turn(uint16_t port, const uint8_t *frame, uint32_t len)
{
	struct wire_hello h = stranger_hello();
	uint8_t body[WIRE_BUF];
	int fd = stranger_dial(port);

	stranger_say_hello(fd, &h);
	CHECK_EQ(stranger_frame(fd, body, 0).type, WIRE_HELLO_ACK);
	stranger_say(fd, frame, len);
	CHECK_EQ(stranger_hear(fd, body, 1), 0);
	close(fd);
}

static void dialler(uint16_t port)
{
	static const uint32_t words[] = {WIRE_READY, WIRE_REFUSE, WIRE_HELLO_ACK};
	struct wire_key_req req = {.id = 1};
	struct wire_key_rep rep = {.id = 1, .grant = 1};
	struct wire_hello h = stranger_hello();
	uint8_t frame[WIRE_BUF];
	uint32_t i;

	for (i = 0; i < ARRAY_SIZE(words); i++)
		out_of_turn(port, frame, wire_put_word(frame, words[i], 0));
	/* A rail that was not offered, keys before there is a path, and HELLO once more. */
	out_of_turn(port, frame, wire_put_word(frame, WIRE_PATH, 15));
	out_of_turn(port, frame, wire_put_key_req(frame, &req));
	out_of_turn(port, frame, wire_put_key_rep(frame, &rep));
	out_of_turn(port, frame, wire_put_hello(frame, WIRE_HELLO, &h));
}

/* PINGs are answered, whatever else is wrong. */
static void pings(uint16_t port)
{
	struct wire_hello h = stranger_hello();
	uint8_t body[WIRE_BUF];
	struct wire_header head;
	int fd = stranger_dial(port);
	uint64_t word;

	stranger_say_hello(fd, &h);
	CHECK_EQ(stranger_frame(fd, body, 0).type, WIRE_HELLO_ACK);
	stranger_say(fd, body, wire_put_word(body, WIRE_PING, 4711));
	head = stranger_frame(fd, body, 1);
	CHECK_EQ(head.type, WIRE_PONG);
	CHECK_EQ(wire_get_word(body, head.len, &word), 0);
	CHECK_EQ(word, 4711);
	close(fd);
}

struct acceptor {
	int fd;
	struct wire_hello ack;
	pthread_t thread;
};

static void *accept_one(void *arg)
{
	struct acceptor *s = arg;
	int fd = accept(s->fd, NULL, NULL);
	uint8_t buf[WIRE_BUF];

	CHECK(fd >= 0);
	CHECK_EQ(stranger_frame(fd, buf, 0).type, WIRE_HELLO);
	stranger_say(fd, wire_magic, WIRE_MAGIC);
	stranger_say(fd, buf, wire_put_hello(buf, WIRE_HELLO_ACK, &s->ack));
	CHECK_EQ(stranger_hear(fd, buf, 1), 0);
	close(fd);
	return NULL;
}

static void answers(struct side *a, const struct wire_hello *ack, int res, const char *words)
{
	struct acceptor s = {.ack = *ack};
	char text[32];
	uint16_t port;

	s.fd = stranger_listen(&port);
	CHECK_EQ(pthread_create(&s.thread, NULL, accept_one, &s), 0);
	snprintf(text, sizeof(text), "127.0.0.1:%u", port);
	side_cannot_connect(a, text, (uint32_t)strlen(text), res, words);
	CHECK_EQ(pthread_join(s.thread, NULL), 0);
	close(s.fd);
}

static void acceptor(struct side *a)
{
	struct wire_hello ack = stranger_hello();

	ack.nrails = 0;
	answers(a, &ack, -EHOSTUNREACH, "none of the allowed transports");
	/* An address that is none, of a rail that was offered. */
	ack.nrails = 1;
	ack.rails[0].addr_len = 3;
	answers(a, &ack, -EHOSTUNREACH, "none of the allowed transports");
	ack.incarnation = a->incarnation;
	answers(a, &ack, -EINVAL, "own");
}

int case_control_hostile(void)
{
	struct urccl_params p = rig_params();
	struct side a, b;
	uint32_t ab, ba;

	side_open(&a, &p);
	side_open(&b, &p);
	dialler(b.port);
	pings(b.port);
	acceptor(&a);
	sides_connect(&a, &b, &ab, &ba);
	side_close(&a);
	side_close(&b);
	return 0;
}
