/* SPDX-License-Identifier: Apache-2.0 */
/* TIMEOUT: by time with -ETIME, by completions with 0, whichever comes first, and once; its time
 * runs while it waits for its turn; its end by time breaks a chain, unless a flag says that this is
 * a success; it can be cancelled. */
#include "pair.h"

#define HOUR_NS 3600000000000ull
#define SOON_NS 5000000ull

static struct pair p;

static void timeout_as(uint64_t how, uint64_t ns, uint64_t count, uint64_t data, uint32_t flags)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);

	urccl_prep_timeout(sqe, ns, count, how);
	urccl_sqe_set_data64(sqe, data);
	urccl_sqe_add_flags(sqe, flags);
}

static void timeout(uint64_t ns, uint64_t count, uint64_t data, uint32_t flags)
{
	timeout_as(0, ns, count, data, flags);
}

static void nop(uint64_t data, uint32_t flags)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);

	urccl_prep_nop(sqe);
	urccl_sqe_set_data64(sqe, data);
	urccl_sqe_add_flags(sqe, flags);
}

static void cancel(uint64_t key, uint64_t data)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);

	urccl_prep_cancel(sqe, URCCL_CANCEL_BY_USER_DATA, key);
	urccl_sqe_set_data64(sqe, data);
}

static void expect(uint64_t data, int64_t res)
{
	CHECK_EQ(pair_end(&p, &p.a, data).res, res);
}

/* The ends of first..last, in any order. */
static void expect_all(uint64_t first, uint64_t last, const int64_t *res)
{
	uint64_t seen = 0, i;
	struct urccl_cqe cqe;

	for (i = first; i <= last; i++) {
		side_take(&p.a, &p.b, &cqe, NULL);
		CHECK(cqe.user_data >= first && cqe.user_data <= last);
		CHECK_EQ(cqe.res, res[cqe.user_data - first]);
		CHECK(!(seen & 1ull << cqe.user_data));
		seen |= 1ull << cqe.user_data;
	}
}

static void nothing_more(void)
{
	struct urccl_cqe cqe;

	CHECK(!side_take_within(&p.a, &p.b, 2 * SOON_NS, &cqe, NULL));
}

static void by_count(void)
{
	uint32_t i;

	timeout(HOUR_NS, 3, 10, 0);
	timeout(UINT64_MAX, 4, 11, 0); /* the first one's end counts for it */
	timeout(UINT64_MAX, UINT64_MAX, 12, 0);
	for (i = 0; i < 3; i++)
		nop(i, 0);
	urccl_submit(p.a.ring);
	for (i = 0; i < 3; i++)
		expect(i, 0);
	expect(10, 0);
	expect(11, 0);
	cancel(12, 99);
	urccl_submit(p.a.ring);
	expect(12, -ECANCELED);
	expect(99, 1);
}

/* What would have counted for it comes when it is over. */
static void by_time(void)
{
	uint32_t i;

	timeout(SOON_NS, 3, 10, 0);
	nop(1, 0);
	urccl_submit(p.a.ring);
	expect(1, 0);
	expect(10, -ETIME);
	for (i = 0; i < 8; i++)
		nop(i, 0);
	urccl_submit(p.a.ring);
	for (i = 0; i < 8; i++)
		expect(i, 0);
	nothing_more();
}

/* Silent ends are no completions. */
static void silent(void)
{
	timeout(SOON_NS, 1, 10, 0);
	nop(1, URCCL_SQE_SKIP_SUCCESS);
	urccl_submit(p.a.ring);
	expect(10, -ETIME);
}

static void waiting(void)
{
	timeout(HOUR_NS, 0, 1, URCCL_SQE_LINK);
	timeout_as(URCCL_TIMEOUT_ETIME_SUCCESS, SOON_NS, 1, 2, URCCL_SQE_LINK);
	nop(3, URCCL_SQE_LINK);
	timeout(2 * SOON_NS, 0, 4, URCCL_SQE_DRAIN);
	urccl_submit(p.a.ring);
	expect_all(2, 4, (const int64_t[]){-ETIME, 0, -ETIME});
	nop(7, URCCL_SQE_DRAIN);
	cancel(1, 8);
	urccl_submit(p.a.ring);
	expect(1, -ECANCELED);
	expect_all(7, 8, (const int64_t[]){0, 1});
	nothing_more();
}

static void chained(uint64_t how, uint64_t ns, uint32_t flags)
{
	timeout_as(how, ns, 0, 1, URCCL_SQE_LINK | flags);
	nop(2, URCCL_SQE_LINK);
	nop(3, 0);
}

/* As in io_uring. */
static void chains(void)
{
	struct urccl_cqe cqe;
	uint32_t i;

	chained(0, SOON_NS, 0);
	urccl_submit(p.a.ring);
	expect(1, -ETIME);
	cqe = pair_end(&p, &p.a, 2);
	CHECK_EQ(cqe.res, -ECANCELED);
	check_sentence(&p.a, &cqe, "ETIME");
	expect(3, -ECANCELED);
	chained(0, SOON_NS, URCCL_SQE_SKIP_SUCCESS);
	urccl_submit(p.a.ring);
	expect(1, -ETIME);
	expect(2, -ECANCELED);
	expect(3, -ECANCELED);
	chained(URCCL_TIMEOUT_ETIME_SUCCESS, SOON_NS, 0);
	urccl_submit(p.a.ring);
	expect(1, -ETIME);
	expect(2, 0);
	expect(3, 0);
	chained(URCCL_TIMEOUT_ETIME_SUCCESS, SOON_NS, URCCL_SQE_SKIP_SUCCESS);
	urccl_submit(p.a.ring);
	expect(2, 0);
	expect(3, 0);
	chained(URCCL_TIMEOUT_ETIME_SUCCESS, HOUR_NS, 0);
	cancel(1, 99);
	urccl_submit(p.a.ring);
	expect(1, -ECANCELED);
	for (i = 0; i < 3; i++) {
		side_take(&p.a, &p.b, &cqe, NULL);
		CHECK_EQ(cqe.res, cqe.user_data == 99 ? 1 : -ECANCELED);
	}
	nothing_more();
}

int main(int argc, char **argv)
{
	pair_options(&p, argc, argv);
	p.ring_params.entries = 32;
	pair_open(&p);
	by_count();
	by_time();
	silent();
	waiting();
	chains();
	pair_close(&p);
	return 0;
}
