/* SPDX-License-Identifier: Apache-2.0 */
/* An entry whose word never comes ends all the same, once, and moves nothing: cancelled, at its
 * deadline, with the region of a word or of its buffer, with the remote or its peer. */
#include "lateness.h"
#include "pair.h"

#define LEN	    4096u
#define DEADLINE_US 100000u
#define SLACK_NS    ((PAIR_SLOW ? 3 : 1) * 50000000ull)

static struct pair p;
static struct target t;
static uint64_t word, other;
static uint8_t local[LEN];

static struct urccl_sqe *waiting(uint64_t data, const uint64_t *at)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);

	urccl_prep_write(sqe, t.remote, local, LEN, 0);
	urccl_sqe_set_data64(sqe, data);
	urccl_sqe_set_wait(p.a.ring, sqe, at, 1);
	return sqe;
}

/* It has been taken, and waits. */
static void taken(void)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);

	urccl_prep_nop(sqe);
	urccl_sqe_set_data64(sqe, 99);
	CHECK_EQ(pair_run(&p, &p.a, sqe).res, 0);
}

static void ends(uint64_t data, int res, const char *why)
{
	struct urccl_cqe cqe = pair_end(&p, &p.a, data);

	CHECK_EQ(cqe.res, res);
	CHECK(cqe.flags & URCCL_CQE_REMOTE_QUIET);
	check_sentence(&p.a, &cqe, why);
}

static void cancelled(void)
{
	struct urccl_sqe *sqe;

	waiting(1, &word);
	taken();
	sqe = side_sqe(&p.a);
	urccl_prep_cancel(sqe, URCCL_CANCEL_BY_USER_DATA, 1);
	urccl_sqe_set_data64(sqe, 2);
	urccl_submit(p.a.ring);
	ends(1, -ECANCELED, "cancelled");
	CHECK_EQ(pair_end(&p, &p.a, 2).res, 1);
}

/* What follows it hears of it. */
static void late(void)
{
	struct urccl_sqe *sqe = waiting(1, &word);
	uint64_t start = now_ns();

	canary_reset();
	urccl_sqe_set_deadline_us(sqe, DEADLINE_US);
	urccl_sqe_add_flags(sqe, URCCL_SQE_LINK);
	waiting(2, &word);
	urccl_submit(p.a.ring);
	ends(1, -ETIMEDOUT, "100000 us");
	check_within(start, DEADLINE_US * 1000ull + SLACK_NS);
	ends(2, -ECANCELED, "chain");
}

static void unregistered(void)
{
	struct urccl_region region;

	region = side_register(&p.a, &other, sizeof(other), URCCL_RIGHT_READ);
	waiting(1, &other);
	taken();
	CHECK_EQ(urccl_unregister(p.a.ctx, region), 0);
	ends(1, -ECANCELED, "unregistered");
	region = side_register(&p.a, &other, sizeof(other), URCCL_RIGHT_READ | URCCL_RIGHT_WRITE);
	urccl_sqe_set_signal(p.a.ring, waiting(1, &word), &other, 1);
	taken();
	CHECK_EQ(urccl_unregister(p.a.ctx, region), 0);
	ends(1, -ECANCELED, "unregistered");
	CHECK_EQ(other, 0);
}

static void forgotten(void)
{
	struct urccl_remote remote = t.remote;

	CHECK_EQ(urccl_import(p.a.ctx, p.a.peer, &t.advert, 1, &t.remote), 0);
	waiting(1, &word);
	taken();
	CHECK_EQ(urccl_unimport(p.a.ctx, t.remote), 0);
	ends(1, -ECANCELED, "urccl_unimport");
	t.remote = remote;
}

static void lost(void)
{
	struct urccl_cqe cqe;
	int64_t res = 0;

	waiting(1, &word);
	taken();
	side_close(&p.b);
	do {
		CHECK(side_take_within(&p.a, NULL, PAIR_LATE_NS, &cqe, NULL));
		if (cqe.user_data == 1)
			res = cqe.res;
	} while (!res);
	CHECK_EQ(res, -ECONNRESET);
}

int main(int argc, char **argv)
{
	struct urccl_region region;

	pair_begin(&p, argc, argv);
	canary_start();
	target_open(&p, &t, LEN, 0);
	memset(t.bytes, 0x33, LEN);
	region = side_register(&p.a, local, LEN, 0);
	side_register(&p.a, &word, sizeof(word), URCCL_RIGHT_READ);
	cancelled();
	late();
	unregistered();
	forgotten();
	waiting(1, &word);
	taken();
	CHECK_EQ(urccl_unregister(p.a.ctx, region), 0);
	ends(1, -ECANCELED, "unregistered");
	side_register(&p.a, local, LEN, 0);
	settle();
	CHECK(t.bytes[0] == 0x33 && t.bytes[LEN - 1] == 0x33);
	lost();
	pair_close(&p);
	return 0;
}
