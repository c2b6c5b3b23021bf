/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/timer.h"

#define SLOT_MASK (WHEEL_SLOTS - 1u)

void wheel_init(struct wheel *w, uint64_t now_ns)
{
	uint32_t l, s;

	w->tick = now_ns >> WHEEL_TICK_SHIFT;
	w->soonest = UINT64_MAX;
	w->last_at = UINT64_MAX;
	w->last_shift = 0;
	list_init(&w->due);
	for (l = 0; l < WHEEL_LEVELS; l++) {
		w->busy[l] = 0;
		for (s = 0; s < WHEEL_SLOTS; s++)
			list_init(&w->slots[l][s]);
	}
}

/* A tick is a number with one digit for each level. The level of a timer is the highest digit in
 * which its tick differs from the wheel's tick. So all timers of a level are ahead of the wheel by
 * less than one round, and one bit scan finds the first of them. */
static void wheel_place(struct wheel *w, struct timer *t)
{
	uint64_t differ = t->tick ^ w->tick, at, ahead;
	uint32_t level = differ ? (63u - (uint32_t)__builtin_clzll(differ)) / WHEEL_BITS : 0;
	uint32_t slot;

	if (level >= WHEEL_LEVELS) /* in another round of the top level, or beyond the next one */
		level = WHEEL_LEVELS - 1;
	at = w->tick >> (level * WHEEL_BITS);
	ahead = (t->tick >> (level * WHEEL_BITS)) - at;
	at += ahead < SLOT_MASK ? ahead : SLOT_MASK;
	slot = (uint32_t)at & SLOT_MASK;
	w->last = &w->slots[level][slot];
	w->last_at = at;
	w->last_shift = level * WHEEL_BITS;
	list_add_tail(&t->link, w->last);
	w->busy[level] |= 1ull << slot;
	at <<= level * WHEEL_BITS;
	if (at < w->soonest)
		w->soonest = at;
}

void wheel_set(struct wheel *w, struct timer *t, uint64_t ns)
{
	t->tick = (ns >> WHEEL_TICK_SHIFT) + 1;
	if (t->tick < w->tick)
		t->tick = w->tick;
	if (t->tick >> w->last_shift == w->last_at) /* as for most, since their times are similar */
		list_add_tail(&t->link, w->last);
	else
		wheel_place(w, t);
}

void wheel_unset(struct timer *t)
{
	list_del(&t->link);
}

/* The first tick from the current one at which a slot of the level may have to be processed;
 * UINT64_MAX: none. */
static uint64_t level_next(const struct wheel *w, uint32_t level)
{
	uint32_t shift = level * WHEEL_BITS;
	uint32_t at = (uint32_t)(w->tick >> shift) & SLOT_MASK;
	uint64_t busy = w->busy[level], base = w->tick >> shift;
	uint64_t ahead;

	if (!busy)
		return UINT64_MAX;
	ahead = at ? (busy >> at) | (busy << (WHEEL_SLOTS - at)) : busy;
	base += (uint32_t)__builtin_ctzll(ahead);
	base <<= shift;
	return base < w->tick ? w->tick : base;
}

static uint64_t next_tick(const struct wheel *w)
{
	uint64_t best = UINT64_MAX, t;
	uint32_t l;

	for (l = 0; l < WHEEL_LEVELS; l++) {
		t = level_next(w, l);
		best = t < best ? t : best;
	}
	return best;
}

/* Empties the current slots, top level first: each timer moves to its new place. */
static void wheel_turn(struct wheel *w)
{
	uint32_t l = WHEEL_LEVELS, slot;
	struct list *head, moving;
	struct timer *t;

	while (l-- > 0) {
		slot = (uint32_t)(w->tick >> (l * WHEEL_BITS)) & SLOT_MASK;
		if (!(w->busy[l] & (1ull << slot)))
			continue;
		w->busy[l] &= ~(1ull << slot);
		head = &w->slots[l][slot];
		if (list_empty(head))
			continue;
		moving = *head;
		moving.next->prev = moving.prev->next = &moving;
		list_init(head);
		while (!list_empty(&moving)) {
			t = list_first(&moving, struct timer, link);
			list_del(&t->link);
			if (t->tick <= w->tick)
				list_add_tail(&t->link, &w->due);
			else
				wheel_place(w, t);
		}
	}
	w->last_at = UINT64_MAX;
}

struct timer *wheel_expired(struct wheel *w, uint64_t now_ns)
{
	uint64_t now = now_ns >> WHEEL_TICK_SHIFT, next;
	struct timer *t;

	while (list_empty(&w->due)) {
		next = now < w->soonest ? w->soonest : next_tick(w);
		w->soonest = next;
		if (next > now) {
			/* Timers may still be set for the tick after `now`, so the wheel moves no
			 * further than `now`. */
			if (now > w->tick)
				w->tick = now;
			return NULL;
		}
		w->tick = next;
		wheel_turn(w);
	}
	t = list_first(&w->due, struct timer, link);
	list_del(&t->link);
	return t;
}

uint64_t wheel_next(const struct wheel *w)
{
	uint64_t tick;

	if (!list_empty(&w->due))
		return 0;
	tick = next_tick(w);
	return tick == UINT64_MAX ? NEVER_NS : tick << WHEEL_TICK_SHIFT;
}
