/* SPDX-License-Identifier: Apache-2.0 */
/* A peer that closes in order while entries are under way is not said to have been lost: each that
 * fails says that the peer closed. */
#include "meet.h"

#define N   64u
#define LEN (4u << 20)

static struct pair p;
static struct target t;
static uint8_t local[LEN];

static void closed(const struct urccl_cqe *cqe)
{
	char why[300];

	if (cqe->res == -EACCES) /* its region had ended before its goodbye came */
		return;
	CHECK_EQ(cqe->res, -ECONNRESET);
	CHECK_GE(urccl_explain(p.a.ctx, cqe, why, sizeof(why)), 1);
	if (!strstr(why, "the peer closed the connection") && !strstr(why, "the peer was lost"))
		fprintf(stderr, "%s\n", why);
	CHECK(!strstr(why, "broke"));
	CHECK(strstr(why, "the peer closed the connection") || strstr(why, "the peer was lost"));
}

int main(int argc, char **argv)
{
	struct urccl_sqe *sqe;
	struct urccl_cqe cqe;
	uint32_t i, ended = 0, failed = 0;

	pair_begin(&p, argc, argv);
	target_open(&p, &t, LEN, 0);
	side_register(&p.a, local, LEN, 0);
	sqe = side_sqe(&p.a);
	urccl_prep_write(sqe, t.remote, local, 1, 0);
	CHECK_EQ(pair_run(&p, &p.a, sqe).res, 1);
	for (i = 0; i < N; i++) {
		sqe = side_sqe(&p.a);
		urccl_prep_write(sqe, t.remote, local, LEN, 0);
	}
	CHECK_EQ(urccl_submit(p.a.ring), N);
	side_close(&p.b);
	while (ended < N) {
		side_take(&p.a, NULL, &cqe, NULL);
		if (urccl_cqe_kind(&cqe) == URCCL_KIND_LOST) {
			CHECK_EQ(cqe.res, 0);
			continue;
		}
		if (cqe.flags & URCCL_CQE_MORE)
			continue;
		ended++;
		failed += cqe.res < 0;
		if (cqe.res < 0)
			closed(&cqe);
	}
	CHECK_GE(failed, 1);
	side_close(&p.a);
	if (p.sim)
		CHECK_EQ(urccl_sim_close(p.sim), 0);
	return 0;
}
