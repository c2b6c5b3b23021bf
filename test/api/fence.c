/* SPDX-License-Identifier: Apache-2.0 */
/* FENCE waits for the entries of its ring, peer and group before it, fails when one of them failed,
 * also one whose CQE was seen long ago, and forgets that failure then. Group 0 is every group. */
#include "pair.h"

static struct pair p;
static struct target t;
static uint8_t local[1u << 20];

static void write_in(uint32_t group, uint64_t data, uint64_t off, uint32_t flags)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);

	urccl_prep_write(sqe, t.remote, local, sizeof(local), off);
	urccl_sqe_set_group(sqe, group);
	urccl_sqe_set_data64(sqe, data);
	urccl_sqe_add_flags(sqe, flags);
}

static void fence(uint32_t group, uint64_t data)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);

	urccl_prep_notify(sqe, p.a.peer, data, NULL, 0);
	urccl_sqe_set_group(sqe, group);
	urccl_sqe_add_flags(sqe, URCCL_SQE_FENCE);
	urccl_sqe_set_data64(sqe, data);
}

static int64_t run_fence(uint32_t group)
{
	fence(group, 500);
	urccl_submit(p.a.ring);
	return pair_end(&p, &p.a, 500).res;
}

static int64_t run_bad(uint32_t group)
{
	write_in(group, 501, t.len, 0);
	urccl_submit(p.a.ring);
	return pair_end(&p, &p.a, 501).res;
}

/* The notification comes when every write before it is there, in whatever order they end. */
static void waits(uint32_t group)
{
	struct urccl_cqe cqe;
	uint32_t i, writes = 0;

	for (i = 0; i < 8; i++)
		write_in(group ? group : i, 1, i * sizeof(local), 0);
	fence(group, 2);
	urccl_submit(p.a.ring);
	for (i = 0; i < 9; i++) {
		side_take(&p.a, &p.b, &cqe, NULL);
		CHECK_GE(cqe.res, 0);
		if (cqe.user_data == 2)
			CHECK_EQ(writes, 8);
		writes += cqe.user_data == 1;
	}
}

static void fails_while_waiting(void)
{
	int64_t res[4] = {1, 1, 1, 1};
	struct urccl_cqe cqe;
	uint32_t i;

	write_in(5, 0, 0, 0);
	write_in(5, 1, t.len, 0);
	fence(5, 2);
	fence(6, 3);
	urccl_submit(p.a.ring);
	for (i = 0; i < 4; i++) {
		side_take(&p.a, &p.b, &cqe, NULL);
		CHECK_LE(cqe.user_data, 3);
		res[cqe.user_data] = cqe.res;
		if (cqe.user_data == 2)
			check_sentence(&p.a, &cqe, "fence");
	}
	CHECK_EQ(res[0], sizeof(local));
	CHECK_EQ(res[1], -ERANGE);
	CHECK_EQ(res[2], -ECANCELED);
	CHECK_EQ(res[3], 0);
}

static void remembers(void)
{
	/* told to the group's next FENCE, and then forgotten */
	CHECK_EQ(run_bad(1), -ERANGE);
	CHECK_EQ(run_fence(2), 0);
	CHECK_EQ(run_fence(1), -ECANCELED);
	CHECK_EQ(run_fence(1), 0);
	CHECK_EQ(run_fence(0), 0);
	/* or to the next of every group */
	CHECK_EQ(run_bad(1), -ERANGE);
	CHECK_EQ(run_bad(2), -ERANGE);
	CHECK_EQ(run_fence(0), -ECANCELED);
	CHECK_EQ(run_fence(1), 0);
	CHECK_EQ(run_fence(2), 0);
	/* group 0's own are for group 0 alone */
	CHECK_EQ(run_bad(0), -ERANGE);
	CHECK_EQ(run_fence(3), 0);
	CHECK_EQ(run_fence(0), -ECANCELED);
	CHECK_EQ(run_fence(0), 0);
}

/* More failures than are kept apart: the next FENCE to that peer hears of the rest, of whatever
 * group. */
static void too_many(void)
{
	uint32_t i;

	for (i = 0; i < p.ring_params.entries + 1; i++)
		CHECK_EQ(run_bad(100 + i), -ERANGE);
	CHECK_EQ(run_fence(7), -ECANCELED);
	CHECK_EQ(run_fence(7), 0);
	CHECK_EQ(run_fence(100), -ECANCELED);
	CHECK_EQ(run_fence(0), -ECANCELED);
	CHECK_EQ(run_fence(101), 0);
}

int main(int argc, char **argv)
{
	pair_options(&p, argc, argv);
	p.ring_params.entries = 32;
	pair_open(&p);
	target_open(&p, &t, 8 * sizeof(local), 0);
	side_register(&p.a, local, sizeof(local), 0);
	waits(0);
	waits(4);
	fails_while_waiting();
	remembers();
	too_many();
	target_close(&p, &t);
	pair_close(&p);
	return 0;
}
