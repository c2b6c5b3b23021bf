/* SPDX-License-Identifier: Apache-2.0 */
/* LINK, DRAIN and SKIP_SUCCESS: a chain runs in order and across submits, ends at the first failure
 * with -ECANCELED for the rest; DRAIN waits for everything before it; an entry that succeeds
 * silently gives its room back. */
#include "pair.h"

#define ROOM 63u

static struct pair p;
static struct target t;
static uint8_t local[4096];

static struct urccl_sqe *entry(uint64_t data, uint32_t flags)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);

	urccl_prep_write(sqe, t.remote, local, sizeof(local), 0);
	urccl_sqe_add_flags(sqe, flags);
	urccl_sqe_set_data64(sqe, data);
	return sqe;
}

static void expect(uint64_t data, int64_t res)
{
	CHECK_EQ(pair_end(&p, &p.a, data).res, res);
}

static void in_order(void)
{
	uint32_t i;

	for (i = 0; i < 20; i++) {
		entry(i, i < 19 ? URCCL_SQE_LINK : 0);
		if (i % 3 == 0)
			CHECK_GE(urccl_submit(p.a.ring), 1);
	}
	urccl_submit(p.a.ring);
	for (i = 0; i < 20; i++)
		expect(i, sizeof(local));
}

static void broken(void)
{
	entry(1, URCCL_SQE_LINK);
	entry(2, URCCL_SQE_LINK)->off = t.len;
	urccl_submit(p.a.ring);
	entry(3, URCCL_SQE_LINK);
	entry(4, 0);
	entry(5, 0);
	urccl_submit(p.a.ring);
	{
		int64_t res[6] = {0};
		struct urccl_cqe cqe;
		uint32_t i;

		for (i = 1; i <= 5; i++) {
			side_take(&p.a, &p.b, &cqe, NULL);
			CHECK(cqe.user_data >= 1 && cqe.user_data <= 5 && !res[cqe.user_data]);
			res[cqe.user_data] = cqe.res;
			if (cqe.res == -ECANCELED)
				check_sentence(&p.a, &cqe, "chain");
		}
		CHECK_EQ(res[1], sizeof(local));
		CHECK_EQ(res[2], -ERANGE);
		CHECK_EQ(res[3], -ECANCELED);
		CHECK_EQ(res[4], -ECANCELED);
		CHECK_EQ(res[5], sizeof(local));
	}
}

/* 10 ms pass before the drained entry may start. */
static void drain(void)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);
	uint64_t start = now_ns();

	urccl_prep_timeout(sqe, 10000000, 0, 0);
	urccl_sqe_set_data64(sqe, 1);
	entry(2, URCCL_SQE_DRAIN);
	urccl_submit(p.a.ring);
	expect(1, -ETIME);
	CHECK_GE(now_ns() - start, 10000000);
	expect(2, sizeof(local));
}

static void silent(void)
{
	uint32_t i, k;

	for (k = 0; k < 4; k++) {
		for (i = 0; i < ROOM - 1; i++)
			entry(i, URCCL_SQE_SKIP_SUCCESS | URCCL_SQE_LINK);
		entry(7, 0);
		urccl_submit(p.a.ring);
		expect(7, sizeof(local));
		CHECK_EQ(urccl_sq_space_left(p.a.ring), ROOM);
	}
	entry(8, URCCL_SQE_SKIP_SUCCESS)->off = t.len;
	urccl_submit(p.a.ring);
	expect(8, -ERANGE);
}

/* The longest chain there can be, cancelled at its head. */
static void long_chain(void)
{
	struct urccl_sqe *sqe;
	uint32_t i, n = ROOM;
	struct urccl_cqe cqe;

	entry(0, URCCL_SQE_LINK)->off = t.len;
	for (i = 1; i < n; i++) {
		sqe = side_sqe(&p.a);
		urccl_prep_nop(sqe);
		urccl_sqe_add_flags(sqe, i < n - 1 ? URCCL_SQE_LINK : 0);
	}
	urccl_submit(p.a.ring);
	for (i = 0; i < n; i++) {
		side_take(&p.a, &p.b, &cqe, NULL);
		CHECK_EQ(cqe.res, i ? -ECANCELED : -ERANGE);
	}
}

int main(int argc, char **argv)
{
	pair_options(&p, argc, argv);
	p.ring_params.entries = ROOM + 1; /* the pair's WATCH has one */
	pair_open(&p);
	target_open(&p, &t, sizeof(local), 0);
	side_register(&p.a, local, sizeof(local), 0);
	in_order();
	broken();
	drain();
	silent();
	long_chain();
	target_close(&p, &t);
	pair_close(&p);
	return 0;
}
