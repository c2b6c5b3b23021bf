/* SPDX-License-Identifier: Apache-2.0 */
/* A thousand entries that wait, each for a word of its own: every store lets one of them go, in
 * whatever order they come; and a ring that is full of them closes at once. */
#include "pair.h"

#define N     1000u
#define LEN   64u
#define STEP  373u /* the order in which the words come: it has no divisor in common with N */
#define CLOSE (2000000000ull + PAIR_SLOW * 4000000000ull)

static struct pair p;
static struct target t;
static uint64_t words[N];
static uint8_t local[N * LEN];

static void submit(void)
{
	struct urccl_sqe *sqe;
	uint32_t i;

	for (i = 0; i < N; i++) {
		sqe = side_sqe(&p.a);
		urccl_prep_write(sqe, t.remote, local + i * LEN, LEN, i * LEN);
		urccl_sqe_set_data64(sqe, i);
		urccl_sqe_set_wait(p.a.ring, sqe, &words[i], 1);
	}
	CHECK_EQ(urccl_submit(p.a.ring), N);
}

static void store(uint32_t i)
{
	settle();
	__atomic_store_n(&words[i], 1, __ATOMIC_RELEASE);
}

static void one_by_one(void)
{
	uint32_t k, i;

	for (k = 0; k < N / 2; k++) {
		i = k * STEP % N;
		store(i);
		CHECK_EQ(pair_end(&p, &p.a, i).res, LEN);
		CHECK(pattern_holds(t.bytes + i * LEN, LEN, i, 1));
	}
}

/* The rest, in one go. */
static void together(void)
{
	uint8_t ended[N] = {0};
	struct urccl_cqe cqe;
	uint32_t k;

	for (k = N / 2; k < N; k++)
		store(k * STEP % N);
	for (k = N / 2; k < N; k++) {
		side_take(&p.a, &p.b, &cqe, NULL);
		CHECK_EQ(cqe.res, LEN);
		CHECK(cqe.user_data < N && !ended[cqe.user_data]++);
	}
}

int main(int argc, char **argv)
{
	uint64_t start;
	uint32_t i;

	pair_options(&p, argc, argv);
	p.ring_params.entries = 1024;
	pair_open(&p);
	target_open(&p, &t, N * LEN, 0);
	side_register(&p.a, local, sizeof(local), 0);
	side_register(&p.a, words, sizeof(words), URCCL_RIGHT_READ);
	for (i = 0; i < N; i++)
		pattern_fill(local + i * LEN, LEN, i, 1);
	submit();
	one_by_one();
	together();
	for (i = 0; i < N; i++)
		CHECK(pattern_holds(t.bytes + i * LEN, LEN, i, 1));
	memset(words, 0, sizeof(words));
	submit();
	start = now_ns();
	urccl_ring_close(p.a.ring);
	CHECK(!is_late(start + CLOSE));
	p.a.ring = NULL;
	target_close(&p, &t);
	pair_close(&p);
	return 0;
}
