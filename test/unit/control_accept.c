/* SPDX-License-Identifier: Apache-2.0 */
/* Without an ACCEPT a CONNECT waits under its own deadline; with one it succeeds; and if the other
 * side dials meanwhile it needs none, and there is no PEER event any more. */
#include "control_rig.h"

/* Until B has a peer of this incarnation, or none: a stranger of the same name is told. Some more
 * of these, and a dialler is through all that comes before the ACCEPT, or nearly always. */
static void until(struct side *b, uint64_t incarnation, enum wire_code answer, int times)
{
	struct wire_hello h = stranger_hello();
	struct wire_refuse refuse;
	uint8_t body[WIRE_BUF];
	struct wire_header head;
	int fd;

	h.incarnation = incarnation;
	h.nrails = 0;
	while (times) {
		fd = stranger_dial(b->port);
		stranger_say_hello(fd, &h);
		head = stranger_frame(fd, body, 0);
		CHECK_EQ(head.type, WIRE_REFUSE);
		CHECK_EQ(wire_get_refuse(body, head.len, &refuse), 0);
		close(fd);
		times -= refuse.code == answer;
	}
}

/* The engine has had what was posted to it before. */
static void turned(struct side *b)
{
	struct urccl_sqe *sqe = urccl_get_sqe(b->ring);

	urccl_prep_nop(sqe);
	urccl_sqe_set_data64(sqe, 10);
	CHECK_EQ(urccl_submit(b->ring), 1);
	CHECK_EQ(side_end_of(b, 10), 0);
}

static void waits(struct side *a, struct side *b)
{
	struct urccl_cqe cqe;
	uint32_t ab, ba;

	side_connect(a, b->blob, b->blob_len, 50000, 1);
	CHECK_EQ(side_end_of(a, 1), -ETIMEDOUT);
	/* A dialler that just gave up may be told of, if B did not hear of it yet. */
	until(b, a->incarnation, WIRE_NO_PATH, 1);
	turned(b);
	side_connect(a, b->blob, b->blob_len, 0, 2);
	side_accept(b, 3);
	cqe = side_next(a);
	CHECK_EQ(cqe.res, 0);
	ab = (uint32_t)cqe.handle;
	cqe = side_next(b);
	CHECK_EQ(cqe.user_data, 3);
	CHECK_EQ(urccl_cqe_kind(&cqe), URCCL_KIND_PEER);
	ba = cqe.peer;
	side_hang_up(a, ab, 4);
	CHECK_EQ(side_end_of(a, 4), 0);
	side_hang_up(b, ba, 4);
	CHECK_EQ(side_end_of(b, 4), 0);
}

/* The ACCEPT of waits() is cancelled, so that the next dialler waits again. */
static void stop_accepting(struct side *b)
{
	struct urccl_sqe *sqe = urccl_get_sqe(b->ring);
	int ends;

	urccl_prep_cancel(sqe, URCCL_CANCEL_BY_USER_DATA, 3);
	urccl_sqe_set_data64(sqe, 5);
	urccl_submit(b->ring);
	for (ends = 0; ends < 2; ends++) {
		struct urccl_cqe cqe = side_next(b);

		CHECK(cqe.user_data == 3 ? cqe.res == -ECANCELED : cqe.res == 1);
	}
}

static void dialled_back(struct side *a, struct side *b)
{
	struct urccl_cqe cqe;
	uint32_t ab, ba;

	side_connect(a, b->blob, b->blob_len, 0, 6);
	until(b, a->incarnation, WIRE_EXISTS, 100);
	side_connect(b, a->text, (uint32_t)strlen(a->text), 0, 7);
	cqe = side_next(b);
	CHECK_EQ(cqe.user_data, 7);
	CHECK_EQ(cqe.res, 0);
	ba = (uint32_t)cqe.handle;
	cqe = side_next(a);
	CHECK_EQ(cqe.user_data, 6);
	CHECK_EQ(cqe.res, 0);
	ab = (uint32_t)cqe.handle;
	/* An event would come before this CLOSE's end, and would be a reference that keeps the
	 * peer. */
	side_accept(b, 8);
	side_hang_up(b, ba, 9);
	CHECK_EQ(side_end_of(b, 9), 0);
	side_hang_up(b, ba, 9);
	CHECK_EQ(side_end_of(b, 9), -ESTALE);
	side_hang_up(a, ab, 9);
	CHECK_EQ(side_end_of(a, 9), 0);
}

int case_control_accept(void)
{
	struct urccl_params p = rig_params();
	struct side a, b;

	side_open(&a, &p);
	side_open(&b, &p);
	waits(&a, &b);
	stop_accepting(&b);
	dialled_back(&a, &b);
	side_close(&a);
	side_close(&b);
	return 0;
}
