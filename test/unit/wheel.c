/* SPDX-License-Identifier: Apache-2.0 */
/* The timing wheel beside a plain array: timers of every distance are set, taken back and given
 * out, never before their time, at most two ticks after the wheel was asked, and wheel_next()
 * never passes one by. */
#include "engine/timer.h"
#include "random.h"
#include "test.h"

#define TIMERS 2000u
#define TICK (1ull << WHEEL_TICK_SHIFT)

static struct timer timers[TIMERS];
static uint64_t due[TIMERS]; /* 0: not set */
static struct wheel wheel;

/* From microseconds to weeks, each distance as likely as the others. */
static uint64_t distance(uint64_t *r)
{
	return random_below(r, 1ull << (1 + random_below(r, 51)));
}

static void change(uint64_t *r, uint64_t now)
{
	uint32_t i = (uint32_t)random_below(r, TIMERS);

	if (due[i]) {
		wheel_unset(&timers[i]);
		due[i] = 0;
		return;
	}
	due[i] = now + distance(r) + 1;
	wheel_set(&wheel, &timers[i], due[i]);
}

static uint64_t earliest(void)
{
	uint64_t best = NEVER_NS;
	uint32_t i;

	for (i = 0; i < TIMERS; i++)
		if (due[i] && due[i] < best)
			best = due[i];
	return best;
}

static void collect(uint64_t now)
{
	struct timer *t;
	uint32_t i;

	while ((t = wheel_expired(&wheel, now))) {
		i = (uint32_t)(t - timers);
		CHECK(due[i] && due[i] <= now);
		due[i] = 0;
	}
	for (i = 0; i < TIMERS; i++)
		CHECK(!due[i] || due[i] + 2 * TICK > now);
}

int case_wheel(void)
{
	uint64_t r = 20260101;
	uint64_t now = 123456789, next;
	uint32_t i, round, fired = 0;

	for (i = 0; i < TIMERS; i++)
		list_init(&timers[i].link);
	wheel_init(&wheel, now);
	CHECK_EQ(wheel_next(&wheel), NEVER_NS);
	for (round = 0; round < 20000; round++) {
		for (i = 0; i < 3; i++)
			change(&r, now);
		next = wheel_next(&wheel);
		CHECK(next <= earliest() + 2 * TICK);
		if (random_below(&r, 2))
			now += distance(&r) / 64;
		else if (next != NEVER_NS && next > now)
			now = next, fired++;
		collect(now);
	}
	CHECK_GE(fired, 1000);
	return 0;
}
