/* SPDX-License-Identifier: Apache-2.0 */
/* CONNECTs to a listener that takes the connection and says nothing: each ends by its own
 * deadline, or at once by CANCEL, whatever becomes of another to the same address; and closing
 * ends what is left. */
#include "meet.h"

static struct pair p;
static char place[PLACE_MAX];

static void dial(uint32_t us, uint64_t user_data)
{
	side_dial(&p.a, place, (uint32_t)strlen(place), us, user_data);
}

static void cancel(enum urccl_cancel_by by, uint64_t key, int64_t res, uint64_t first)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);
	struct urccl_cqe cqe;
	int64_t i;

	urccl_prep_cancel(sqe, by, key);
	urccl_sqe_set_data64(sqe, 99);
	CHECK_EQ(urccl_submit(p.a.ring), 1);
	for (i = 0; i < res; i++) {
		do
			side_take(&p.a, NULL, &cqe, NULL);
		while (cqe.flags & URCCL_CQE_MORE);
		CHECK(cqe.user_data >= first && cqe.user_data < first + (uint64_t)res);
		CHECK_EQ(cqe.res, -ECANCELED);
		check_sentence(&p.a, &cqe, "cancelled");
	}
	CHECK_EQ(side_end(&p.a, NULL, 99).res, res);
}

static void deadline(void)
{
	uint64_t start = now_ns();
	struct urccl_cqe cqe;

	dial(100000, 1);
	cqe = side_end(&p.a, NULL, 1);
	CHECK_EQ(cqe.res, -ETIMEDOUT);
	check_sentence(&p.a, &cqe, "100000 us");
	CHECK_GE(now_ns() - start, 100000000);
}

/* Two wait for one dial: the end of one is not the end of the other. */
static void one_of_two(void)
{
	struct urccl_cqe cqe;

	dial(200000, 1);
	dial(10000000, 2);
	cqe = side_end(&p.a, NULL, 1);
	CHECK_EQ(cqe.res, -ETIMEDOUT);
	side_silent(&p.a, NULL, 10000000);
	cancel(URCCL_CANCEL_BY_USER_DATA, 2, 1, 2);
	dial(10000000, 3);
	dial(10000000, 4);
	cancel(URCCL_CANCEL_BY_USER_DATA, 3, 1, 3);
	side_silent(&p.a, NULL, 10000000);
	cancel(URCCL_CANCEL_BY_ALL, 0, 1, 4);
}

int main(int argc, char **argv)
{
	uint64_t start;
	uint16_t port;
	int fd, i;

	pair_options(&p, argc, argv);
	pair_sim(&p);
	side_open(&p, &p.a);
	fd = raw_listen(&port);
	place_v4(place, port);
	deadline();
	one_of_two();
	for (i = 0; i < 8; i++)
		dial(10000000, (uint64_t)(10 + i));
	cancel(URCCL_CANCEL_BY_ALL, 0, 8, 10);
	for (i = 0; i < 8; i++)
		dial(30000000, (uint64_t)i);
	start = now_ns();
	side_close(&p.a);
	CHECK(!is_late(start + 5000000000));
	close(fd);
	if (p.sim)
		CHECK_EQ(urccl_sim_close(p.sim), 0);
	return 0;
}
