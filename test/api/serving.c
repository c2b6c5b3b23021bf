/* SPDX-License-Identifier: Apache-2.0 */
/* An engine whose peer moves bytes stays awake for spin_us after the last of them, though its own
 * program gets no event, and sleeps after that. */
#include <unistd.h>
#include "pair.h"

#define SPIN_NS	  500000000ull
#define SERVE_NS  (3 * SPIN_NS)
#define GAP_NS	  (SPIN_NS / 4) /* between two writes at most, or nothing was shown */
#define TURNS_FEW 1000u		/* of an engine that sleeps: one that spins makes millions */

static struct pair p;
static struct target t;
static uint8_t bytes[4096];

/* Writes one after the other. Returns the longest time between two. */
static uint64_t writes(void)
{
	uint64_t begin = now_ns(), last = begin, now = begin, gap = 0;
	struct urccl_sqe *sqe;

	while (now - begin < SERVE_NS) {
		sqe = side_sqe(&p.a);
		urccl_prep_write(sqe, t.remote, bytes, sizeof(bytes), 0);
		CHECK_EQ(pair_run(&p, &p.a, sqe).res, sizeof(bytes));
		now = now_ns();
		gap = now - last > gap ? now - last : gap;
		last = now;
	}
	return gap;
}

/* It sleeps, if not at once: an event makes it spin again. */
static void sleeps_after(uint64_t sleeps)
{
	uint64_t begin = now_ns(), turns;

	do {
		CHECK_LE(now_ns() - begin, PAIR_LATE_NS);
		turns = side_stats(&p.b).turns;
		usleep((useconds_t)(SPIN_NS / 2000));
	} while (side_stats(&p.b).sleeps == sleeps || side_stats(&p.b).turns - turns > TURNS_FEW);
}

int main(int argc, char **argv)
{
	struct urccl_sqe *sqe;
	uint64_t sleeps, gap;

	pair_options(&p, argc, argv);
	p.params.spin_us = SPIN_NS / 1000;
	pair_open(&p);
	target_open(&p, &t, sizeof(bytes), 0);
	side_register(&p.a, bytes, sizeof(bytes), URCCL_RIGHT_READ);
	sqe = side_sqe(&p.a);
	urccl_prep_write(sqe, t.remote, bytes, sizeof(bytes), 0);
	CHECK_EQ(pair_run(&p, &p.a, sqe).res, sizeof(bytes));
	sleeps = side_stats(&p.b).sleeps;
	gap = writes();
	if (gap <= GAP_NS) {
		CHECK_EQ(side_stats(&p.b).sleeps, sleeps);
		sleeps_after(sleeps);
	}
	pair_close(&p);
	if (gap > GAP_NS) {
		printf("skipped: the machine was away for %llu ms\n",
		       (unsigned long long)(gap / 1000000));
		return 77;
	}
	return 0;
}
