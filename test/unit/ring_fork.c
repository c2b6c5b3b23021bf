/* SPDX-License-Identifier: Apache-2.0 */
/* In a forked child the ring is dead to every call, and the parent's goes on. */
#include <sys/wait.h>

#include "ring_rig.h"

static void child(struct urccl_ring *ring)
{
	struct urccl_cqe *cqe = NULL, *cqes[4];
	uint32_t head, n = 0;

	CHECK(!urccl_get_sqe(ring));
	CHECK_EQ(urccl_sq_space_left(ring), 0);
	CHECK_EQ(urccl_submit(ring), -EPERM);
	CHECK_EQ(urccl_submit_and_wait(ring, 1), -EPERM);
	CHECK(!urccl_peek_cqe(ring));
	CHECK_EQ(urccl_peek_batch_cqe(ring, cqes, 4), 0);
	CHECK_EQ(urccl_cq_ready(ring), 0);
	urccl_for_each_cqe(ring, head, cqe)
		n++;
	CHECK_EQ(n, 0);
	urccl_cq_advance(ring, 1);
	CHECK_EQ(urccl_wait(ring, &cqe, NULL), -EPERM);
	CHECK(!cqe);
	CHECK_EQ(urccl_arm(ring, URCCL_ARM_FOR_CQE, 0), -EPERM);
	CHECK_EQ(urccl_ring_fd(ring), -EPERM);
	__urccl_ring_wake(ring);
	__urccl_ring_drive(ring);
}

/* In a child that the body of the loop forks, the loop ends. */
static void loop(struct ring *r)
{
	struct urccl_cqe *cqe;
	uint32_t head, n = 0;
	pid_t pid = 1;
	int status;

	urccl_for_each_cqe(&r->pub, head, cqe) {
		n += cqe != NULL;
		if (n == 1)
			pid = fork();
	}
	CHECK(pid >= 0);
	if (!pid)
		test_end(n != 1);
	CHECK_EQ(n, 3);
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK(WIFEXITED(status) && !WEXITSTATUS(status));
}

int case_ring_fork(void)
{
	struct mailbox home;
	struct ring *r = rig_open(4, 1, 0, &home);
	int status;
	pid_t pid;

	rig_submit(r, 2, 0, 0);
	rig_turn(r);
	rig_submit(r, 1, 0, 2);
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		child(&r->pub);
		test_end(0);
	}
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK(WIFEXITED(status) && !WEXITSTATUS(status));
	CHECK_EQ(rig_turn(r), 1);
	CHECK_EQ(urccl_cq_ready(&r->pub), 3);
	loop(r);
	rig_close(r);
	return 0;
}
