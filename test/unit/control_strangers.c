/* SPDX-License-Identifier: Apache-2.0 */
/* Strangers at the port (a browser, noise, somebody who says nothing, a frame of the wrong kind or
 * length, one that ends anywhere) are closed at once, with a line in the log, or wait alone; a peer
 * that connects meanwhile notices nothing. */
#include "control_rig.h"

#define NOISES 6u

static uint32_t logged; /* by the control thread */

static void count(void *arg, int level, const char *text)
{
	(void)arg;
	if (level == URCCL_LOG_WARN && strstr(text, "refused 127.0.0.1:") &&
	    strstr(text, "does not speak the protocol of liburccl"))
		logged++;
}

static void closed(int fd)
{
	char byte;

	CHECK_EQ(stranger_hear(fd, &byte, 1), 0);
	close(fd);
}

static void says(uint16_t port, const void *bytes, size_t len)
{
	int fd = stranger_dial(port);

	stranger_say(fd, bytes, len);
	closed(fd);
}

static void says_after_magic(uint16_t port, const uint8_t *bytes, size_t len)
{
	uint8_t all[64];

	memcpy(all, wire_magic, WIRE_MAGIC);
	memcpy(all + WIRE_MAGIC, bytes, len);
	says(port, all, WIRE_MAGIC + len);
}

static void noise(uint16_t port)
{
	static const char http[] = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
	static const uint8_t too_long[] = {0xff, 0xff, 0xff, 0xff, WIRE_HELLO, 0, 0, 0};
	static const uint8_t no_hello[] = {8, 0, 0, 0, WIRE_PING, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8};
	static const uint8_t short_hello[] = {4, 0, 0, 0, WIRE_HELLO, 0, 0, 0, 1, 0, 1, 0};
	uint8_t almost[WIRE_MAGIC];

	says(port, http, sizeof(http) - 1);
	says(port, "\0", 1);
	memcpy(almost, wire_magic, WIRE_MAGIC);
	almost[WIRE_MAGIC - 1] ^= 1;
	says(port, almost, WIRE_MAGIC);
	says_after_magic(port, too_long, sizeof(too_long));
	says_after_magic(port, no_hello, sizeof(no_hello));
	says_after_magic(port, short_hello, sizeof(short_hello));
}

/* Byte by byte is slow, and as good as at once. */
static void slowly(uint16_t port)
{
	struct wire_hello h = stranger_hello();
	uint8_t frame[WIRE_BUF];
	uint32_t len = wire_put_hello(frame, WIRE_HELLO, &h), i;
	int fd = stranger_dial(port);

	for (i = 0; i < WIRE_MAGIC; i++)
		stranger_say(fd, &wire_magic[i], 1);
	for (i = 0; i < len; i++)
		stranger_say(fd, &frame[i], 1);
	CHECK_EQ(stranger_frame(fd, frame, 0).type, WIRE_HELLO_ACK);
	close(fd);
}

/* A good beginning that ends behind any of its bytes is no HELLO. */
static void truncated(uint16_t port)
{
	struct wire_hello h = stranger_hello();
	uint8_t all[WIRE_MAGIC + WIRE_BUF];
	uint32_t len = WIRE_MAGIC + wire_put_hello(all + WIRE_MAGIC, WIRE_HELLO, &h), i;

	memcpy(all, wire_magic, WIRE_MAGIC);
	for (i = 0; i < len; i++) {
		int fd = stranger_dial(port);

		stranger_say(fd, all, i);
		CHECK_EQ(shutdown(fd, SHUT_WR), 0);
		closed(fd);
	}
}

int case_control_strangers(void)
{
	struct urccl_params p = rig_params();
	struct side a, b;
	int silent[8], half = 0;
	uint32_t ab, ba, i;

	side_open(&a, &p);
	p.log = count;
	p.log_level = URCCL_LOG_WARN;
	side_open(&b, &p);
	for (i = 0; i < 8; i++) {
		silent[i] = stranger_dial(b.port);
		if (i % 2)
			stranger_say(silent[i], wire_magic, i);
	}
	noise(b.port);
	slowly(b.port);
	truncated(b.port);
	sides_connect(&a, &b, &ab, &ba);
	noise(b.port);
	/* Still connected. */
	side_hang_up(&b, ba, 3);
	CHECK_EQ(side_end_of(&b, 3), 0);
	for (i = 0; i < 8; i++)
		half += !close(silent[i]);
	CHECK_EQ(half, 8);
	side_close(&a);
	side_close(&b);
	CHECK_EQ(logged, 2 * NOISES);
	return 0;
}
