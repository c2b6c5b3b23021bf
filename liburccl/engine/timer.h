/* SPDX-License-Identifier: Apache-2.0 */
/* Deadlines: a hierarchical timing wheel (Varghese and Lauck, 1987), O(1) to set and to take back.
 */
#ifndef TIMER_H
#define TIMER_H

#include "base/base.h"

#define WHEEL_LEVELS	 6u
#define WHEEL_BITS	 6u
#define WHEEL_SLOTS	 (1u << WHEEL_BITS)
#define WHEEL_TICK_SHIFT 14u /* a tick is 16.4 us; six levels reach 13 days */

struct timer {
	struct list link; /* empty: not set */
	uint64_t tick;	  /* at which it is due, never before its time */
	uint32_t kind;	  /* what it is part of: the owner's affair */
};

struct wheel {
	uint64_t tick;		     /* everything due before it was given out */
	uint64_t soonest;	     /* no slot has to be looked at before it */
	uint64_t busy[WHEEL_LEVELS]; /* a bit for each slot that may hold timers */
	struct list slots[WHEEL_LEVELS][WHEEL_SLOTS];
	struct list due; /* given out by wheel_expired(), oldest slot first */
	struct list *last;   /* slot of the last that was placed: of all ticks that, shifted, are */
	uint64_t last_at;    /* this, until a slot is emptied; UINT64_MAX: of none */
	uint32_t last_shift;
};

void wheel_init(struct wheel *w, uint64_t now_ns);
/* Sets t, which is not set, to be due at ns. */
void wheel_set(struct wheel *w, struct timer *t, uint64_t ns);
void wheel_unset(struct timer *t);
/* A timer that is due at now_ns, no longer set, or NULL. */
struct timer *wheel_expired(struct wheel *w, uint64_t now_ns);
/* No timer is due before this time; NEVER_NS: none is set. */
uint64_t wheel_next(const struct wheel *w);

#endif
