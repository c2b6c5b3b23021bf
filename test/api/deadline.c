/* SPDX-License-Identifier: Apache-2.0 */
/* A peer that does nothing (an INLINE context that nobody drives): the outcome of every entry to it
 * is known by its deadline, it ends once, with -ETIMEDOUT, and its buffer is left alone from then
 * on, also when the peer comes back to life. */
#include "lateness.h"
#include "pair.h"

#define N	    50u
#define LEN	    (256u << 10)
#define DEADLINE_US 100000u
#define TRIES	    5u /* a thread may have had no processor for long */
#define SLACK_NS    ((PAIR_SLOW ? 3 : 1) * 50000000ull)
#define AWAY_NS	    200000000ull /* of the best of them, whatever the machine did */

static struct pair p;
static struct target t;
static uint8_t *local;

static void submit_all(void)
{
	struct urccl_sqe *sqe;
	uint32_t i;

	for (i = 0; i < N; i++) {
		sqe = side_sqe(&p.a);
		if (i % 5 == 4)
			urccl_prep_notify(sqe, p.a.peer, i, NULL, 0);
		else if (i % 2)
			urccl_prep_write(sqe, t.remote, local + i * LEN, LEN, i * LEN);
		else
			urccl_prep_read(sqe, t.remote, local + i * LEN, LEN, i * LEN);
		urccl_sqe_set_data64(sqe, i);
		urccl_sqe_set_deadline_us(sqe, DEADLINE_US);
	}
	CHECK_EQ(urccl_submit(p.a.ring), N);
}

static uint64_t promised_ns(void)
{
	return DEADLINE_US * 1000ull + SLACK_NS + emulated_ns();
}

/* b works only while it is needed to connect: here nobody turns it. */
static uint32_t take_all(uint64_t start, uint64_t *took_ns)
{
	uint32_t seen[N] = {0}, told[N] = {0}, i, known = 0, ended = 0, failed = 0;
	struct urccl_cqe cqe;

	while (ended < N) {
		CHECK(side_take_within(&p.a, NULL, PAIR_LATE_NS, &cqe, NULL));
		CHECK(cqe.user_data < N);
		known += !told[cqe.user_data];
		if (!told[cqe.user_data]++ && known == N)
			*took_ns = check_within(start, promised_ns());
		if (pair_is_outcome(&p, &cqe))
			continue;
		ended++;
		CHECK_EQ(cqe.flags & URCCL_CQE_MORE, 0);
		CHECK(!seen[cqe.user_data]++);
		if (cqe.res >= 0)
			continue;
		failed++;
		CHECK_EQ(cqe.res, -ETIMEDOUT);
		check_sentence(&p.a, &cqe, "100000 us");
	}
	for (i = 0; i < N; i++)
		CHECK_EQ(seen[i], 1);
	return failed;
}

/* What was given back is not written again, whatever the peer now sends. */
static void check_quiet(void)
{
	struct urccl_cqe cqe;
	uint32_t i;

	memset(local, 0x5a, (size_t)N * LEN);
	for (i = 0; i < 2000; i++)
		side_take_within(&p.a, &p.b, 10000, &cqe, NULL);
	for (i = 0; i < N * LEN; i++)
		CHECK_EQ(local[i], 0x5a);
}

int main(int argc, char **argv)
{
	uint64_t took_ns = UINT64_MAX;
	uint32_t tries;

	pair_begin_idle(&p, argc, argv);
	local = malloc((size_t)N * LEN);
	CHECK(local);
	memset(local, 1, (size_t)N * LEN);
	side_register(&p.a, local, (uint64_t)N * LEN, 0);
	target_open(&p, &t, (uint64_t)N * LEN, 0);
	{
		/* The keys come while b still works. */
		struct urccl_sqe *sqe = side_sqe(&p.a);

		urccl_prep_write(sqe, t.remote, local, 1, 0);
		CHECK_EQ(pair_run(&p, &p.a, sqe).res, 1);
	}
	canary_start();
	for (tries = 1; took_ns > promised_ns() + AWAY_NS; tries++) {
		CHECK_LE(tries, TRIES);
		canary_reset();
		submit_all();
		CHECK_GE(take_all(now_ns(), &took_ns), 1);
		check_quiet();
	}
	target_close(&p, &t);
	pair_close(&p);
	return 0;
}
