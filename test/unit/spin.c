/* SPDX-License-Identifier: Apache-2.0 */
/* How long who waits spins before it sleeps, by the statistics: not at all, for a time, or for
 * ever; a progress thread, the program in urccl_wait(), and one that drives the context itself. */
#include <liburccl.h>
#include <time.h>

#include "test.h"

#define WAITS	 5u
#define WAIT_NS	 10000000ull
#define SPIN_NS	 100000000ull
#define LATE_NS	 20000000000ull
#define FOR_EVER UINT32_MAX

static struct urccl *ctx;
static struct urccl_ring *ring;

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ull + (uint64_t)ts.tv_nsec;
}

static void begin(uint32_t flags, uint32_t spin_us)
{
	struct urccl_params p = {.size = sizeof(p)};

	urccl_params_init(&p);
	p.flags = flags;
	p.spin_us = spin_us;
	CHECK_EQ(urccl_open(&p, &ctx), 0);
	CHECK_EQ(urccl_ring_open(ctx, NULL, &ring), 0);
}

static struct urccl_stats stats(void)
{
	struct urccl_stats s = {.size = sizeof(s)};

	CHECK_EQ(urccl_get_stats(ctx, &s), 0);
	return s;
}

/* Waits for a few TIMEOUTs, one after the other; what was counted meanwhile. */
static struct urccl_stats waits(uint32_t flags, uint32_t spin_us)
{
	struct urccl_wait_args args = {.size = sizeof(args), .min_n = 1, .timeout_ns = ~0ull};
	struct urccl_stats before, after;
	struct urccl_cqe *cqe;
	uint32_t i;

	begin(flags, spin_us);
	before = stats();
	for (i = 0; i < WAITS; i++) {
		urccl_prep_timeout(urccl_get_sqe(ring), WAIT_NS, 0, 0);
		CHECK_EQ(urccl_submit(ring), 1);
		CHECK_EQ(urccl_wait(ring, &cqe, &args), 1);
		CHECK_EQ(cqe->res, -ETIME);
		urccl_cqe_seen(ring, cqe);
	}
	after = stats();
	urccl_close(ctx);
	after.sleeps -= before.sleeps;
	after.wakes -= before.wakes;
	after.turns -= before.turns;
	printf("flags %u spin_us %u: %llu sleeps %llu wakes %llu turns\n", flags, spin_us,
	       (unsigned long long)after.sleeps, (unsigned long long)after.wakes,
	       (unsigned long long)after.turns);
	return after;
}

/* Each wait takes a sleep or two, and a wake-up of who sleeps in urccl_wait(). On a machine that
 * was away a wait may be over before anybody got to sleep. */
static void never(uint32_t flags)
{
	struct urccl_stats s = waits(flags, 0);

	CHECK_GE(s.sleeps, 1);
	CHECK_LE(s.sleeps, 10 * WAITS);
	CHECK_GE(s.wakes, flags ? 0 : 1);
	CHECK_LE(s.wakes, flags ? 0 : WAITS);
}

static void always(uint32_t flags)
{
	struct urccl_stats s = waits(flags, FOR_EVER);

	CHECK_EQ(s.sleeps, 0);
	CHECK_EQ(s.wakes, 0);
}

/* Then it sleeps, and not before. */
static void a_while(void)
{
	uint64_t start = now_ns();

	begin(0, SPIN_NS / 1000);
	while (!stats().sleeps) {
		CHECK_LE(now_ns() - start, LATE_NS);
		usleep(1000);
	}
	CHECK_GE(now_ns() - start, SPIN_NS);
	urccl_close(ctx);
}

int case_spin(void)
{
	never(0);
	never(URCCL_OPEN_INLINE);
	always(0);
	always(URCCL_OPEN_INLINE);
	a_while();
	return 0;
}
