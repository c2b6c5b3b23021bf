/* SPDX-License-Identifier: Apache-2.0 */
#include <limits.h>

#include "control/private.h"

void alarm_init(struct alarm *a, void (*fire)(struct control *c, struct alarm *a))
{
	list_init(&a->link);
	a->fire = fire;
}

/* Looks from the end: an alarm that is set is nearly always the latest. */
void alarm_set(struct control *c, struct alarm *a, uint64_t after_ns)
{
	struct list *pos = c->alarms.prev;

	a->at = clock_ns() + after_ns;
	list_del(&a->link);
	for (pos = c->alarms.prev; pos != &c->alarms; pos = pos->prev)
		if (list_entry(pos, struct alarm, link)->at <= a->at)
			break;
	list_add_tail(&a->link, pos->next);
}

void alarm_stop(struct alarm *a)
{
	list_del(&a->link);
}

void alarms_run(struct control *c)
{
	uint64_t now;

	if (list_empty(&c->alarms))
		return;
	now = clock_ns();
	while (!list_empty(&c->alarms)) {
		struct alarm *a = list_first(&c->alarms, struct alarm, link);

		if (a->at > now)
			return;
		list_del(&a->link);
		a->fire(c, a);
	}
}

int alarms_wait_ms(const struct control *c)
{
	uint64_t now, ms;

	if (list_empty(&c->alarms))
		return -1;
	now = clock_ns();
	if (list_first(&c->alarms, struct alarm, link)->at <= now)
		return 0;
	/* Rounded up, so that it is due when the thread wakes. */
	ms = (list_first(&c->alarms, struct alarm, link)->at - now + NSEC_PER_MSEC - 1) /
	     NSEC_PER_MSEC;
	return ms > INT_MAX ? INT_MAX : (int)ms;
}
