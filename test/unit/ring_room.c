/* SPDX-License-Identifier: Apache-2.0 */
/* Room is counted as if the CQEs that are there had been seen, in waits and in wake-ups. */
#include "ring_rig.h"

#define ENTRIES 8u

static int wait_room(struct ring *r, uint32_t n)
{
	return urccl_wait_room(&r->pub, n, 0);
}

static void see_all(struct ring *r)
{
	urccl_cq_advance(&r->pub, urccl_cq_ready(&r->pub));
}

static void test_wait(struct ring *r)
{
	CHECK_EQ(wait_room(r, ENTRIES), ENTRIES);
	CHECK_EQ(wait_room(r, ENTRIES + 1), -EINVAL);
	rig_submit(r, ENTRIES, 0, 0);
	CHECK_EQ(wait_room(r, 1), -ETIME);
	rig_turn(r);
	/* Not seen, and yet counted. */
	CHECK_EQ(urccl_sq_space_left(&r->pub), 0);
	CHECK_EQ(wait_room(r, 1), ENTRIES);
	see_all(r);
	CHECK_EQ(urccl_sq_space_left(&r->pub), ENTRIES);
}

static void test_arm(struct ring *r)
{
	struct urccl_sqe sqe;
	uint32_t i;

	CHECK_EQ(urccl_arm(&r->pub, URCCL_ARM_FOR_ROOM, 1), 1);
	CHECK_EQ(urccl_arm(&r->pub, URCCL_ARM_FOR_ROOM, ENTRIES), 1);
	CHECK_EQ(urccl_arm(&r->pub, URCCL_ARM_FOR_ROOM, ENTRIES + 1), -EINVAL);
	rig_submit(r, ENTRIES, 0, 0);
	CHECK_EQ(urccl_arm(&r->pub, URCCL_ARM_FOR_ROOM, 3), 0);
	for (i = 1; i <= ENTRIES; i++) {
		sqe = rig_take(r);
		rig_end(r, &sqe);
		CHECK_EQ(ring_publish(r), i == 3);
		CHECK_EQ(rig_readable(r->pub.fd), i >= 3);
		/* CQEs alone are not what was armed for. */
		CHECK_EQ(urccl_arm(&r->pub, URCCL_ARM_FOR_CQE, 0), 1);
	}
	see_all(r);
}

/* An entry without a CQE, or with one that wakes nobody, makes room all the same. */
static void test_silent(struct ring *r)
{
	rig_submit(r, ENTRIES, URCCL_SQE_SKIP_SUCCESS, 0);
	CHECK_EQ(urccl_arm(&r->pub, URCCL_ARM_FOR_ROOM, 1), 0);
	CHECK_EQ(rig_readable(r->pub.fd), 0);
	rig_turn(r);
	CHECK_EQ(rig_readable(r->pub.fd), 1);
	CHECK_EQ(urccl_arm(&r->pub, URCCL_ARM_FOR_CQE, 0), 0);
	CHECK_EQ(rig_readable(r->pub.fd), 0);

	rig_submit(r, ENTRIES, URCCL_SQE_NO_WAKE, 0);
	CHECK_EQ(urccl_arm(&r->pub, URCCL_ARM_FOR_ROOM | URCCL_ARM_FOR_CQE, 2), 0);
	rig_turn(r);
	CHECK_EQ(rig_readable(r->pub.fd), 1);
	see_all(r);
}

int case_ring_room(void)
{
	static const uint32_t ages[] = {0, UINT32_MAX, UINT32_MAX - 10, 0x7ffffffe, 0x80000003};
	struct mailbox home;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(ages); i++) {
		struct ring *r = rig_open(ENTRIES, 1, 0, &home);

		rig_age(r, ages[i], 1000);
		r->spin_ns = 0;
		test_wait(r);
		test_arm(r);
		test_silent(r);
		rig_close(r);
	}
	return 0;
}
