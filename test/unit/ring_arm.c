/* SPDX-License-Identifier: Apache-2.0 */
/* One wake-up for what was armed for, none without, whoever comes first; a late write costs one
 * empty wake-up and not two. */
#include "ring_rig.h"

#define ENTRIES 8u

static void complete(struct ring *r, uint32_t n, uint32_t flags)
{
	rig_submit(r, n, flags, 0);
	CHECK_EQ(rig_turn(r), n);
}

static void see_all(struct ring *r)
{
	urccl_cq_advance(&r->pub, urccl_cq_ready(&r->pub));
}

static void test_once(struct ring *r)
{
	/* Not armed: completions write nothing. */
	complete(r, 2, 0);
	CHECK_EQ(rig_readable(r->pub.fd), 0);
	CHECK_EQ(urccl_arm(&r->pub, URCCL_ARM_FOR_CQE, 0), 1);
	see_all(r);

	CHECK_EQ(urccl_arm(&r->pub, URCCL_ARM_FOR_CQE, 0), 0);
	CHECK_EQ(urccl_arm(&r->pub, URCCL_ARM_FOR_CQE, 0), 0);
	complete(r, 1, 0);
	CHECK_EQ(rig_readable(r->pub.fd), 1);
	see_all(r);
	wake_drain(r->pub.fd);
	/* The wake-up was one: the next completion writes nothing. */
	complete(r, 1, 0);
	CHECK_EQ(rig_readable(r->pub.fd), 0);
	see_all(r);
}

/* A completion that wakes nobody waits for one that does, far behind the last one that did. */
static void test_no_wake(struct ring *r)
{
	uint32_t i;

	for (i = 0; i < 40; i++) {
		complete(r, 1, URCCL_SQE_NO_WAKE);
		see_all(r);
	}
	CHECK_EQ(urccl_arm(&r->pub, URCCL_ARM_FOR_ROOM, 0), 1);
	CHECK_EQ(urccl_arm(&r->pub, URCCL_ARM_FOR_CQE, 0), 0);
	complete(r, 1, URCCL_SQE_NO_WAKE);
	CHECK_EQ(rig_readable(r->pub.fd), 0);
	complete(r, 1, 0);
	CHECK_EQ(rig_readable(r->pub.fd), 1);
	see_all(r);

	/* Room alone is armed for: a CQE must not wake, however the counters lie. */
	rig_submit(r, ENTRIES, 0, 0);
	CHECK_EQ(urccl_arm(&r->pub, URCCL_ARM_FOR_ROOM, ENTRIES), 0);
	for (i = 0; i < ENTRIES; i++) {
		struct urccl_sqe sqe = rig_take(r);

		CHECK_EQ(rig_readable(r->pub.fd), 0);
		rig_end(r, &sqe);
		ring_publish(r);
	}
	CHECK_EQ(rig_readable(r->pub.fd), 1);
	see_all(r);
}

static void end_one(struct ring *r, uint32_t flags)
{
	struct urccl_sqe sqe;

	rig_submit(r, 1, flags, 0);
	sqe = rig_take(r);
	rig_end(r, &sqe);
	ring_show(r);
}

/* What is shown before it is published: who armed before is woken, once; who saw it and armed again
 * is not. */
static void test_shown(struct ring *r)
{
	CHECK_EQ(urccl_arm(&r->pub, URCCL_ARM_FOR_CQE, 0), 0);
	end_one(r, 0);
	CHECK_EQ(urccl_cq_ready(&r->pub), 1);
	CHECK_EQ(rig_readable(r->pub.fd), 0);
	end_one(r, 0);
	CHECK_EQ(ring_publish(r), 1);
	CHECK_EQ(rig_readable(r->pub.fd), 1);
	see_all(r);
	wake_drain(r->pub.fd);

	end_one(r, 0);
	CHECK_EQ(urccl_arm(&r->pub, URCCL_ARM_FOR_CQE, 0), 1);
	see_all(r);
	CHECK_EQ(urccl_arm(&r->pub, URCCL_ARM_FOR_CQE, 0), 0);
	end_one(r, URCCL_SQE_NO_WAKE);
	CHECK_EQ(ring_publish(r), 0);
	CHECK_EQ(rig_readable(r->pub.fd), 0);
	see_all(r);
	complete(r, 1, 0);
	CHECK_EQ(rig_readable(r->pub.fd), 1);
	see_all(r);
	wake_drain(r->pub.fd);
}

/* The engine's write comes late: the program saw the CQE and armed again meanwhile. */
static void test_late_write(struct ring *r)
{
	CHECK_EQ(urccl_arm(&r->pub, URCCL_ARM_FOR_CQE, 0), 0);
	CHECK_EQ(sleep_take(&r->arm_line.cq_arm), URCCL_ARM_FD); /* the engine, about to write */
	complete(r, 1, 0);
	see_all(r);
	wake_write(r->pub.fd);
	CHECK_EQ(rig_readable(r->pub.fd), 1);
	CHECK_EQ(urccl_arm(&r->pub, URCCL_ARM_FOR_CQE, 0), 0);
	CHECK_EQ(rig_readable(r->pub.fd), 0);

	CHECK_EQ(sleep_take(&r->arm_line.cq_arm), URCCL_ARM_FD);
	CHECK_EQ(urccl_arm(&r->pub, URCCL_ARM_FOR_CQE, 0), 0);
	wake_write(r->pub.fd); /* after the drain: the one empty wake-up */
	CHECK_EQ(rig_readable(r->pub.fd), 1);
	CHECK_EQ(urccl_arm(&r->pub, URCCL_ARM_FOR_CQE, 0), 0);
	CHECK_EQ(rig_readable(r->pub.fd), 0);
	complete(r, 1, 0);
	CHECK_EQ(rig_readable(r->pub.fd), 1);
	see_all(r);
	wake_drain(r->pub.fd);
}

/* The doorbell: written when the progress thread announced its sleep, once. */
static void test_doorbell(struct ring *r)
{
	complete(r, 1, 0);
	CHECK_EQ(rig_readable(r->home->fd), 0);
	CHECK_EQ(ring_arm_sq(r), 0);
	rig_submit(r, 1, 0, 0);
	CHECK_EQ(rig_readable(r->home->fd), 1);
	wake_drain(r->home->fd);
	rig_submit(r, 1, 0, 0);
	CHECK_EQ(rig_readable(r->home->fd), 0);
	CHECK_EQ(ring_arm_sq(r), 1);
	rig_turn(r);
	see_all(r);
}

int case_ring_arm(void)
{
	static const uint32_t ages[] = {0, UINT32_MAX - 1, 0x7ffffffd};
	struct mailbox home;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(ages); i++) {
		struct ring *r = rig_open(ENTRIES, 1, 0, &home);

		rig_age(r, ages[i], ages[i]);
		CHECK_EQ(urccl_arm(&r->pub, 0, 0), -EINVAL);
		CHECK_EQ(urccl_arm(&r->pub, 4, 0), -EINVAL);
		test_once(r);
		test_no_wake(r);
		test_shown(r);
		test_late_write(r);
		test_doorbell(r);
		rig_close(r);
	}
	return 0;
}
