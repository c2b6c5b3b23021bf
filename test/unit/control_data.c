/* SPDX-License-Identifier: Apache-2.0 */
/* More connections than a device has room for begin as data connections, while nobody drives the
 * engine: none is closed before its time, a peer's control connection gets through beside them, and
 * its data when the engine goes on. */
#include "control_rig.h"
#include "control/private.h"

#define STRANGERS 200u

static int is_open(int fd)
{
	char byte;

	return recv(fd, &byte, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN;
}

/* HELLO is refused: the answer comes behind all that came before. */
static void answers(uint16_t port)
{
	struct wire_hello h = stranger_hello();
	uint8_t body[WIRE_BUF];
	int fd = stranger_dial(port);

	h.nrails = 0;
	stranger_say_hello(fd, &h);
	CHECK_EQ(stranger_frame(fd, body, 0).type, WIRE_REFUSE);
	close(fd);
}

int case_control_data(void)
{
	struct urccl_params p = rig_params();
	int fds[STRANGERS];
	struct side a, b;
	uint64_t begin;
	uint32_t i;

	p.dead_after_ms = 60000;
	side_open(&a, &p);
	p.flags = URCCL_OPEN_INLINE;
	side_open(&b, &p);
	begin = clock_ns();
	for (i = 0; i < STRANGERS; i++) {
		fds[i] = stranger_dial(b.port);
		stranger_say(fds[i], "UC", 2);
	}
	answers(b.port);
	side_accept(&b, 1);
	side_connect(&a, b.blob, b.blob_len, 0, 2);
	CHECK_EQ(side_next(&b).user_data, 1);
	CHECK_EQ(side_next(&a).res, 0);
	for (i = 0; i < STRANGERS; i++) {
		CHECK(is_open(fds[i]) || clock_ns() - begin > HELLO_NS);
		close(fds[i]);
	}
	side_close(&a);
	side_close(&b);
	return 0;
}
