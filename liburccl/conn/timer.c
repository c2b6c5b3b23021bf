/* SPDX-License-Identifier: Apache-2.0 */
#include <limits.h>

#include "conn/shared.h"

void timer_init(struct control_timer *a, void (*fire)(struct control *c, struct control_timer *a))
{
	*a = (struct control_timer){.fire = fire};
}

void timer_set(struct control *c, struct control_timer *a, uint64_t after_ns)
{
	uint64_t now = clock_ns();

	heap_del(&a->due);
	heap_add(&c->timers, &a->due, after_ns < NEVER_NS - now ? now + after_ns : NEVER_NS);
}

void timer_stop(struct control_timer *a)
{
	heap_del(&a->due);
}

static struct control_timer *timer_first(struct control *c)
{
	struct heap_node *n = heap_first(&c->timers);

	return n ? container_of(n, struct control_timer, due) : NULL;
}

void timers_run(struct control *c)
{
	struct control_timer *a = timer_first(c);
	uint64_t now;

	if (!a)
		return;
	for (now = clock_ns(); a && a->due.at <= now; a = timer_first(c)) {
		heap_del(&a->due);
		a->fire(c, a);
	}
}

int timers_wait_ms(struct control *c)
{
	const struct control_timer *a = timer_first(c);
	uint64_t now, ms;

	if (!a)
		return -1;
	now = clock_ns();
	if (a->due.at <= now)
		return 0;
	/* Rounded up: the timer is due when the thread wakes. */
	ms = (a->due.at - now + NSEC_PER_MSEC - 1) / NSEC_PER_MSEC;
	return ms > INT_MAX ? INT_MAX : (int)ms;
}
