/* SPDX-License-Identifier: Apache-2.0 */
/* What peers may touch for a while, 100,000 times, with lives of every length in any order: each
 * costs as much as one of a few does, and all end when their time has come. */
#include <time.h>

#include "engine_rig.h"
#include "random.h"

#define ENTRIES 16
#define SLOTS	4
#define FEW	2000u
#define MANY	100000u
#define LIFE_NS (200 * NSEC_PER_MSEC)

enum order { RISING, FALLING, MIXED, ORDERS };

static struct engine_rig rig;
static struct clock clk;
static struct exposure all[MANY];
static uint32_t ended;

static int unexpose(struct exposure *x)
{
	CHECK(clock_now(&clk) > x->expires_ns);
	ended++;
	return 0;
}

static uint64_t cpu_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * NSEC_PER_SEC + (uint64_t)ts.tv_nsec;
}

static uint64_t life(enum order how, uint32_t i, uint32_t n, uint64_t *r)
{
	if (how == MIXED)
		return random_below(r, LIFE_NS);
	return (how == RISING ? i : n - i) * (LIFE_NS / n);
}

/* Nanoseconds that each of n took. */
static uint64_t cost(uint32_t n, enum order how)
{
	uint64_t begin, added, end = clock_now(&clk) + NSEC_PER_SEC + LIFE_NS, r = 7;
	uint8_t key[KEY_MAX];
	uint32_t i;

	for (i = 0; i < n; i++) {
		all[i] = (struct exposure){.rights = URCCL_RIGHT_READ, .len = RIG_BYTES};
		list_init(&all[i].link);
		list_init(&all[i].expired);
		all[i].ep = &rig.ep[0];
		all[i].peer = rig.peer;
		all[i].memory = rig.memory;
		all[i].expires_ns = end - LIFE_NS + life(how, i, n, &r);
	}
	ended = 0;
	begin = cpu_ns();
	for (i = 0; i < n; i++)
		CHECK_EQ(exposure_begin(rig.e, &all[i], &rig.rail[0], key), 1);
	added = cpu_ns() - begin;
	CHECK_EQ(ended, 0);
	rig_clock_add(&clk, 2 * NSEC_PER_SEC);
	while (ended < n)
		rig_turns(&rig);
	for (i = 0; i < n; i++)
		CHECK_EQ(exposure_end(rig.e, &all[i]), 0);
	CHECK_EQ(exposures_next(rig.e), NEVER_NS);
	return added / n;
}

int case_engine_expiring(void)
{
	struct backend ops = rig_backend;
	uint32_t how;

	ops.expose = rig_expose;
	ops.unexpose = unexpose;
	clock_init(&clk);
	rig_engine_open_by(&rig, &clk, -1, ENTRIES, SLOTS);
	rig.dev.ops = &ops;
	rig.dev.caps |= CAP_ACCESS_OUTLIVES_KEY;
	rig_peer_open(&rig);
	for (how = 0; how < ORDERS; how++) {
		uint64_t few = cost(FEW, how), many = cost(MANY, how);

		fprintf(stderr, "%llu ns each of %u, %llu of %u\n", (unsigned long long)few, FEW,
			(unsigned long long)many, MANY);
		CHECK_LE(many, 4 * few + 2000);
	}
	rig_peer_close(&rig);
	rig_engine_close(&rig);
	clock_fini(&clk);
	return 0;
}
