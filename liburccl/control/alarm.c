/* SPDX-License-Identifier: Apache-2.0 */
#include <limits.h>

#include "control/private.h"

void alarm_init(struct alarm *a, void (*fire)(struct control *c, struct alarm *a))
{
	*a = (struct alarm){.fire = fire};
}

void alarm_set(struct control *c, struct alarm *a, uint64_t after_ns)
{
	uint64_t now = clock_ns();

	heap_del(&a->due);
	heap_add(&c->alarms, &a->due, after_ns < NEVER_NS - now ? now + after_ns : NEVER_NS);
}

void alarm_stop(struct alarm *a)
{
	heap_del(&a->due);
}

static struct alarm *first(struct control *c)
{
	struct heap_node *n = heap_first(&c->alarms);

	return n ? container_of(n, struct alarm, due) : NULL;
}

void alarms_run(struct control *c)
{
	struct alarm *a = first(c);
	uint64_t now;

	if (!a)
		return;
	for (now = clock_ns(); a && a->due.at <= now; a = first(c)) {
		heap_del(&a->due);
		a->fire(c, a);
	}
}

int alarms_wait_ms(struct control *c)
{
	const struct alarm *a = first(c);
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
