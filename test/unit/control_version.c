/* SPDX-License-Identifier: Apache-2.0 */
/* A dialler of another protocol version is told the versions here; one whose range meets ours is
 * answered in the version both have. */
#include "control_rig.h"

static struct wire_refuse refused(uint16_t port, const struct wire_hello *h)
{
	struct wire_refuse r;
	struct wire_header head;
	uint8_t body[WIRE_BUF];
	int fd = stranger_dial(port);

	stranger_say_hello(fd, h);
	head = stranger_frame(fd, body, 0);
	CHECK_EQ(head.type, WIRE_REFUSE);
	CHECK_EQ(wire_get_refuse(body, head.len, &r), 0);
	CHECK_EQ(stranger_hear(fd, body, 1), 0);
	close(fd);
	return r;
}

static void newer_speaks_ours(uint16_t port)
{
	struct wire_hello h = stranger_hello(), ack;
	struct wire_header head;
	uint8_t body[WIRE_BUF];
	int fd = stranger_dial(port);

	h.version_max = WIRE_VERSION_MAX + 5;
	stranger_say_hello(fd, &h);
	head = stranger_frame(fd, body, 0);
	CHECK_EQ(head.type, WIRE_HELLO_ACK);
	CHECK_EQ(wire_get_hello(body, head.len, &ack), 0);
	CHECK_EQ(ack.version_min, WIRE_VERSION_MAX);
	CHECK_EQ(ack.version_max, WIRE_VERSION_MAX);
	CHECK_EQ(ack.nrails, 1);
	CHECK_EQ(ack.rails[0].transport, URCCL_TRANSPORT_TCP);
	close(fd);
}

int main(void)
{
	struct urccl_params p = rig_params();
	struct wire_hello h = stranger_hello();
	struct wire_refuse r;
	struct side a;

	side_open(&a, &p);
	h.version_min = h.version_max = WIRE_VERSION_MAX + 1;
	r = refused(a.port, &h);
	CHECK_EQ(r.code, WIRE_NO_VERSION);
	CHECK_EQ(r.version_min, WIRE_VERSION_MIN);
	CHECK_EQ(r.version_max, WIRE_VERSION_MAX);
	newer_speaks_ours(a.port);

	h = stranger_hello();
	h.incarnation = a.incarnation;
	CHECK_EQ(refused(a.port, &h).code, WIRE_SELF);
	h = stranger_hello();
	h.expected = a.incarnation ^ 1;
	CHECK_EQ(refused(a.port, &h).code, WIRE_STALE);
	h = stranger_hello();
	h.rails[0].transport = URCCL_TRANSPORT_IB;
	r = refused(a.port, &h);
	CHECK_EQ(r.code, WIRE_NO_PATH);
	CHECK_EQ(r.incarnation, a.incarnation);
	side_close(&a);
	return 0;
}
