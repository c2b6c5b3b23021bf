/* SPDX-License-Identifier: Apache-2.0 */
/* Entries that fail before they begin: malformed, out of range, in a chain that broke. A FENCE
 * behind one hears of it as of any other; the peer hears that a promised notification will not
 * come, in its turn, which the entry does not wait for: a CANCEL behind it finds none. */
#include "pair.h"

#define WINDOW 40u /* more notifications than are under way at a time */

static struct pair p;
static struct target t;
static uint8_t local[4096];

static struct urccl_sqe *write_entry(uint32_t group)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);

	urccl_prep_write(sqe, t.remote, local, 64, 0);
	urccl_sqe_set_group(sqe, group);
	return sqe;
}

static int64_t run_fence(uint32_t group)
{
	struct urccl_sqe *sqe = write_entry(group);

	urccl_sqe_add_flags(sqe, URCCL_SQE_FENCE);
	return pair_run(&p, &p.a, sqe).res;
}

/* The sqe is bad: ends with res; group's next FENCE fails for it, and another's does not. */
static void fenced(struct urccl_sqe *sqe, int64_t res)
{
	CHECK_EQ(pair_run(&p, &p.a, sqe).res, res);
	CHECK_EQ(run_fence(8), 64);
	CHECK_EQ(run_fence(7), -ECANCELED);
	CHECK_EQ(run_fence(7), 64);
}

static void fences(void)
{
	struct urccl_sqe *sqe = write_entry(7);

	sqe->reserved = 1;
	fenced(sqe, -EINVAL);
	sqe = write_entry(7);
	sqe->dtype = URCCL_DTYPE_BF16;
	fenced(sqe, -EOPNOTSUPP);
	sqe = write_entry(7);
	sqe->off = t.len;
	fenced(sqe, -ERANGE);
	sqe = side_sqe(&p.a);
	urccl_prep_writev(sqe, p.a.peer, NULL, 3);
	urccl_sqe_set_group(sqe, 7);
	fenced(sqe, -EINVAL);
	sqe = side_sqe(&p.a);
	urccl_prep_notify(sqe, p.a.peer, 0, local, 300);
	urccl_sqe_set_group(sqe, 7);
	CHECK_EQ(pair_run(&p, &p.a, sqe).res, -E2BIG);
	sqe = write_entry(7); /* both in one submit */
	sqe->reserved = 1;
	sqe->user_data = 1;
	sqe = write_entry(7);
	urccl_sqe_add_flags(sqe, URCCL_SQE_FENCE);
	sqe->user_data = 2;
	CHECK_EQ(urccl_submit(p.a.ring), 2);
	CHECK_EQ(pair_end(&p, &p.a, 1).res, -EINVAL);
	CHECK_EQ(pair_end(&p, &p.a, 2).res, -ECANCELED);
	CHECK_EQ(run_fence(0), 64);
}

static void hear(uint64_t tag, int64_t res)
{
	struct urccl_cqe cqe;

	side_take(&p.b, &p.a, &cqe, NULL);
	CHECK_EQ(urccl_cqe_kind(&cqe), URCCL_KIND_NOTE);
	CHECK_EQ(cqe.tag, tag);
	CHECK_EQ(cqe.res, res);
}

static void promises(void)
{
	struct urccl_sqe *sqe = write_entry(0);

	hear(0, -E2BIG); /* of fences() */
	urccl_sqe_set_notify(p.a.ring, sqe, 11, NULL, 0);
	sqe->off = t.len;
	CHECK_EQ(pair_run(&p, &p.a, sqe).res, -ERANGE);
	hear(11, -ERANGE);
	sqe = write_entry(0);
	urccl_sqe_set_notify(p.a.ring, sqe, 12, NULL, 0);
	sqe->reserved = 1;
	CHECK_EQ(pair_run(&p, &p.a, sqe).res, -EINVAL);
	hear(12, -EINVAL);
	sqe = write_entry(0);
	sqe->reserved = 1;
	urccl_sqe_add_flags(sqe, URCCL_SQE_LINK);
	CHECK_EQ(pair_run(&p, &p.a, sqe).res, -EINVAL);
	sqe = write_entry(0);
	urccl_sqe_set_notify(p.a.ring, sqe, 13, NULL, 0);
	CHECK_EQ(pair_run(&p, &p.a, sqe).res, -ECANCELED);
	hear(13, -ECANCELED);
}

/* b takes nothing, so the window fills and failures are told behind it, after their entries. */
static void waiting(void)
{
	struct urccl_sqe *sqe;
	struct urccl_cqe cqe;
	uint32_t i, failed = 0;

	for (i = 0; i < p.ring_params.event_slots + WINDOW; i++) {
		sqe = side_sqe(&p.a);
		urccl_prep_notify(sqe, p.a.peer, i, NULL, 0);
		urccl_sqe_add_flags(sqe, URCCL_SQE_SKIP_SUCCESS);
		CHECK_EQ(urccl_submit(p.a.ring), 1);
	}
	sqe = write_entry(0);
	sqe->reserved = 1;
	urccl_sqe_add_flags(sqe, URCCL_SQE_LINK);
	CHECK_EQ(pair_run(&p, &p.a, sqe).res, -EINVAL);
	sqe = side_sqe(&p.a);
	urccl_prep_writev(sqe, p.a.peer, NULL, 3); /* nothing is there */
	urccl_sqe_set_notify(p.a.ring, sqe, 1000, NULL, 0);
	sqe->user_data = 1000;
	sqe = side_sqe(&p.a);
	urccl_prep_cancel(sqe, URCCL_CANCEL_BY_REMOTE, t.remote.id);
	CHECK_EQ(urccl_submit(p.a.ring), 2);
	CHECK_EQ(pair_end(&p, &p.a, 1000).res, -ECANCELED);
	CHECK_EQ(pair_end(&p, &p.a, 0).res, -ENOENT);
	for (i = 0; i <= p.ring_params.event_slots + WINDOW; i++) {
		side_take(&p.b, &p.a, &cqe, NULL); /* in any order */
		CHECK_EQ(cqe.res, cqe.tag == 1000 ? -ECANCELED : 0);
		failed += cqe.tag == 1000;
	}
	CHECK_EQ(failed, 1);
	CHECK(!side_take_within(&p.a, &p.b, 1000000, &cqe, NULL));
}

int main(int argc, char **argv)
{
	pair_options(&p, argc, argv);
	p.ring_params.event_slots = 4;
	pair_open(&p);
	target_open(&p, &t, sizeof(local), 0);
	side_register(&p.a, local, sizeof(local), 0);
	fences();
	promises();
	waiting();
	target_close(&p, &t);
	pair_close(&p);
	return 0;
}
