/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Old bytes never return. A rail delays packets for long and breaks in the middle of writes, which
 * go again by another; once they have ended, their places are written anew. What the broken rail
 * still carried must not land after that: both of its ends are closed before anything goes again,
 * also where the other side is long about it.
 * --rounds=N
 */
#include <stdlib.h>
#include "pair.h"

#define LEN    (512u << 10)
#define DEPTH  4u
#define TURNS  60000u /* enough for all of them */
#define FAULTS "clock=simulated,rails=2,delay=1us..20us,delay@1=1us..3s,rate=16m,rate@1=100m"

static struct pair p;
static struct target t;
static uint8_t *local;
static uint64_t rounds = 40, replayed;

static void put(uint32_t i, uint64_t version)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);
	uint64_t off = (uint64_t)i * LEN;

	pattern_fill(local + off, LEN, off, version);
	urccl_prep_write(sqe, t.remote, local + off, LEN, off);
	sqe->user_data = i;
}

static void turns(uint32_t n)
{
	while (n--) {
		side_turn(&p.a);
		side_turn(&p.b);
	}
}

static void ends(uint32_t n)
{
	struct urccl_cqe cqe;

	while (n--) {
		side_take(&p.a, &p.b, &cqe, NULL);
		CHECK_EQ(cqe.res, LEN);
		replayed += !!(cqe.path & URCCL_PATH_REPLAYED);
	}
}

static void check(uint64_t version)
{
	uint32_t i;

	for (i = 0; i < DEPTH; i++)
		CHECK(pattern_holds(t.bytes + (uint64_t)i * LEN, LEN, (uint64_t)i * LEN, version));
}

static void wait_rails(void)
{
	uint64_t late = now_ns() + PAIR_LATE_NS;
	struct urccl_cqe cqe;

	while (p.a.rails_down || p.b.rails_down || p.a.rails_told < 1) {
		CHECK(!is_late(late));
		CHECK(!side_take_within(&p.b, &p.a, 0, &cqe, NULL));
		CHECK(!side_take_within(&p.a, &p.b, 0, &cqe, NULL));
	}
	urccl_prep_warm(side_sqe(&p.a), p.a.peer); /* with keys they are used at once */
	CHECK_EQ(urccl_submit(p.a.ring), 1);
	side_take(&p.a, &p.b, &cqe, NULL);
	CHECK_EQ(cqe.res, 0);
}

/* While b stands still: its end of the broken rail is open. How many ended. */
static uint32_t end_alone(void)
{
	struct urccl_cqe cqe;
	uint32_t n = 0, i;

	for (i = 0; i < TURNS && n < DEPTH; i++) {
		side_turn(&p.a);
		if (!side_take_within(&p.a, NULL, 0, &cqe, NULL))
			continue;
		CHECK_EQ(cqe.res, LEN);
		replayed += !!(cqe.path & URCCL_PATH_REPLAYED);
		n++;
	}
	return n;
}

/* All that is on its way gets its time, while b stands still: an end of b's that is open now lets
 * it land. */
static void rest_alone(void)
{
	uint64_t until = now_ns() + PAIR_LATE_NS;
	struct urccl_cqe cqe;

	urccl_prep_timeout(side_sqe(&p.a), 6000000000, 0, 0);
	CHECK_EQ(urccl_submit(p.a.ring), 1);
	while (!side_take_within(&p.a, NULL, 0, &cqe, NULL)) {
		CHECK(!is_late(until));
		side_turn(&p.a);
	}
	CHECK_EQ(cqe.res, -ETIME);
}

/* Both rails carry something when one goes. */
static void one(uint64_t round)
{
	uint32_t i;

	for (i = 0; i < DEPTH; i++)
		put(i, 2 * round);
	CHECK_EQ(urccl_submit(p.a.ring), DEPTH);
	turns(2 + (uint32_t)(round % 64));
	pair_pull(&p, 1, 1);
	ends(DEPTH - end_alone());
	check(2 * round);
	for (i = 0; i < DEPTH; i++)
		put(i, 2 * round + 1);
	CHECK_EQ(urccl_submit(p.a.ring), DEPTH);
	ends(DEPTH - end_alone());
	rest_alone();
	check(2 * round + 1);
	pair_pull(&p, 1, 0);
	wait_rails();
}

int main(int argc, char **argv)
{
	uint64_t round;
	int i, n = 1;

	for (i = 1; i < argc; i++) {
		if (!strncmp(argv[i], "--rounds=", 9))
			rounds = strtoull(argv[i] + 9, NULL, 10);
		else
			argv[n++] = argv[i];
	}
	pair_options(&p, n, argv);
	p.params.flags |= URCCL_OPEN_INLINE;
	p.faults = FAULTS;
	pair_open(&p);
	target_open(&p, &t, (uint64_t)DEPTH * LEN, 0);
	local = malloc((size_t)DEPTH * LEN);
	CHECK(local);
	side_register(&p.a, local, (uint64_t)DEPTH * LEN, 0);
	wait_rails();
	for (round = 1; round <= rounds; round++)
		one(round);
	printf("%llu rounds, %llu entries went again\n", (unsigned long long)rounds,
	       (unsigned long long)replayed);
	CHECK_GE(replayed, rounds / 4);
	target_close(&p, &t);
	pair_close(&p);
	free(local);
	return 0;
}
