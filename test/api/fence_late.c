/* SPDX-License-Identifier: Apache-2.0 */
/* A FENCE that expires tells how many entries it waits for, also those that wait for an earlier
 * FENCE; and what it waited for counts for those behind it. */
#include "pair.h"

#define GROUP	5u
#define LATE_US 20000u

static struct pair p;
static struct target t;
static uint64_t local[512]; /* the last one: the word that entries wait for */

/* Begins when the word is 1. */
static void hold(uint64_t data)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);

	urccl_prep_write(sqe, t.remote, local, sizeof(local), 0);
	urccl_sqe_set_group(sqe, GROUP);
	urccl_sqe_set_data64(sqe, data);
	urccl_sqe_set_wait(p.a.ring, sqe, &local[511], 1);
}

static void fence(uint64_t data, uint32_t deadline_us)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);

	urccl_prep_notify(sqe, p.a.peer, data, NULL, 0);
	urccl_sqe_set_group(sqe, GROUP);
	urccl_sqe_add_flags(sqe, URCCL_SQE_FENCE);
	urccl_sqe_set_data64(sqe, data);
	urccl_sqe_set_deadline_us(sqe, deadline_us);
}

static void expect_late(uint64_t data, const char *why)
{
	struct urccl_cqe cqe = pair_end(&p, &p.a, data);

	CHECK_EQ(cqe.res, -ETIMEDOUT);
	check_sentence(&p.a, &cqe, why);
}

int main(int argc, char **argv)
{
	struct urccl_cqe cqe;
	uint32_t i;

	pair_options(&p, argc, argv);
	pair_open(&p);
	target_open(&p, &t, sizeof(local), 0);
	side_register(&p.a, local, sizeof(local), URCCL_RIGHT_READ);
	for (i = 0; i < 3; i++)
		hold(10 + i);
	fence(20, 0);
	hold(13);
	hold(14);
	fence(21, LATE_US);
	fence(22, 0);
	urccl_submit(p.a.ring);
	expect_late(21, "waits for 6 earlier entries");
	CHECK_EQ(pair_end(&p, &p.a, 22).res, -ECANCELED);
	fence(23, LATE_US);
	urccl_submit(p.a.ring);
	expect_late(23, "waits for 6 earlier entries");
	fence(24, 0); /* is told of 23 */
	urccl_submit(p.a.ring);
	CHECK_EQ(pair_end(&p, &p.a, 24).res, -ECANCELED);
	hold(15);
	fence(25, 0);
	urccl_submit(p.a.ring);
	settle();
	__atomic_store_n(&local[511], 1, __ATOMIC_RELEASE);
	for (i = 0; i < 8; i++) {
		side_take(&p.a, &p.b, &cqe, NULL);
		CHECK_EQ(cqe.res, cqe.user_data < 20 ? sizeof(local) : 0);
	}
	CHECK_EQ(cqe.user_data, 25);
	target_close(&p, &t);
	pair_close(&p);
	return 0;
}
