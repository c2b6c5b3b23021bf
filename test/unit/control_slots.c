/* SPDX-License-Identifier: Apache-2.0 */
/* Strangers that begin well and go no further hold every slot of max_peers: a peer that dials, or
 * is dialled, gets in all the same, the oldest stranger makes way for it, and those that are
 * connected notice nothing. */
#include "control_rig.h"

#define STRANGERS 3u

static int strangers[STRANGERS];

static void stranger_begins(uint16_t port, uint32_t i)
{
	struct wire_hello h = stranger_hello();
	uint8_t body[WIRE_BUF];

	h.incarnation += i;
	strangers[i] = stranger_dial(port);
	stranger_say_hello(strangers[i], &h);
	CHECK_EQ(stranger_frame(strangers[i], body, 0).type, WIRE_HELLO_ACK);
}

static void stranger_is_refused(uint32_t i)
{
	uint8_t body[WIRE_BUF];
	struct wire_header head = stranger_frame(strangers[i], body, 1);
	struct wire_refuse r;

	CHECK_EQ(head.type, WIRE_REFUSE);
	CHECK_EQ(wire_get_refuse(body, head.len, &r), 0);
	CHECK_EQ(r.code, WIRE_NO_PATH);
	CHECK_EQ(r.error, ETIMEDOUT);
	CHECK_EQ(stranger_hear(strangers[i], body, 1), 0);
}

int case_control_slots(void)
{
	struct urccl_params p = rig_params();
	struct side server, a, b, d;
	uint32_t first, last, i;

	side_open(&a, &p);
	side_open(&b, &p);
	side_open(&d, &p);
	side_accept(&d, 1);
	p.max_peers = 1 + STRANGERS;
	side_open(&server, &p);
	side_accept(&server, 1);

	side_connected(&a, &server, 10000000);
	first = side_next(&server).peer;
	for (i = 0; i < STRANGERS; i++)
		stranger_begins(server.port, i);
	side_connected(&b, &server, 10000000);
	side_next(&server);
	stranger_is_refused(0);
	last = side_connected(&server, &d, 10000000);
	stranger_is_refused(1);
	/* The last one only sits there, and the one that was first is still connected. */
	CHECK_EQ(recv(strangers[2], &i, 1, MSG_DONTWAIT), -1);
	side_hang_up(&server, first, 3);
	CHECK_EQ(side_end_of(&server, 3), 0);
	side_hang_up(&server, last, 3);
	CHECK_EQ(side_end_of(&server, 3), 0);
	for (i = 0; i < STRANGERS; i++)
		close(strangers[i]);
	side_close(&a);
	side_close(&b);
	side_close(&d);
	side_close(&server);
	return 0;
}
