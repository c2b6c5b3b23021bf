/* SPDX-License-Identifier: Apache-2.0 */
/* Deadlines: a hierarchical timing wheel (Varghese and Lauck, 1987). Setting and unsetting take
 * O(1). */
#ifndef TIMER_H
#define TIMER_H

#include "base/base.h"

#define WHEEL_LEVELS	 6u
#define WHEEL_BITS	 6u
#define WHEEL_SLOTS	 (1u << WHEEL_BITS)
#define WHEEL_TICK_SHIFT 14u /* a tick is 16.4 us; six levels reach 13 days */

struct timer {
	struct list link; /* empty: not set */
	uint64_t tick;	  /* when it is due; never earlier than its time */
	uint32_t kind;	  /* kind of the object that it is part of, for the owner */
};

struct wheel {
	uint64_t tick;		     /* all timers due before it were returned */
	uint64_t soonest;	     /* no slot needs processing before it */
	uint64_t busy[WHEEL_LEVELS]; /* one bit for each slot that may hold timers */
	struct list slots[WHEEL_LEVELS][WHEEL_SLOTS];
	struct list due; /* to be returned by wheel_expired(), oldest slot first */
	/* The slot used last. It is right for each tick with tick >> last_shift == last_at.
	 * last_at UINT64_MAX: no slot, since one was emptied. */
	struct list *last;
	uint64_t last_at;
	uint32_t last_shift;
};

void wheel_init(struct wheel *w, uint64_t now_ns);
/* Makes t, which must not be set, due at ns. */
void wheel_set(struct wheel *w, struct timer *t, uint64_t ns);
void wheel_unset(struct timer *t);
/* Returns a timer that is due at now_ns, no longer set, or NULL. */
struct timer *wheel_expired(struct wheel *w, uint64_t now_ns);
/* No timer is due before the returned time; NEVER_NS: none is set. */
uint64_t wheel_next(const struct wheel *w);

#endif
