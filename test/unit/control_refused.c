/* SPDX-License-Identifier: Apache-2.0 */
/* A HELLO that cannot be answered is refused with the reason. */
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

int case_control_refused(void)
{
	struct urccl_params p = rig_params();
	struct wire_hello h = stranger_hello();
	struct wire_refuse r;
	struct side a;

	side_open(&a, &p);
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
