/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The simulated clock of INLINE contexts. Its time moves when there is nothing to do before a later
 * one: when all members have said so since anything last happened, or one many times over while
 * others were not called, or, for one that sleeps, at once. While somebody outside of it (a control
 * thread) is at work it stands still, so that it does not matter how long that takes, and if it
 * takes long, moves no faster than the wall clock, so that what is awaited is not late by ages. Nor
 * does it move in the turns in which the program may hear of what that brought: how many there are
 * hangs on the moment at which it came.
 */
#include "base/base.h"

#define PATIENCE 64u	      /* idle turns of one member that the others are waited for */
#define STILL_NS NSEC_PER_SEC /* for which it stands still */
#define NEWS	 16u	      /* idle turns of one member in which its program may go on */

void clock_init(struct clock *c)
{
	memset(c, 0, sizeof(*c));
	pthread_mutex_init(&c->lock, NULL);
	list_init(&c->members);
	c->now = NSEC_PER_SEC; /* no time at which anything begins is 0 */
}

void clock_fini(struct clock *c)
{
	assert(list_empty(&c->members));
	pthread_mutex_destroy(&c->lock);
}

void clock_join(struct clock *c, struct clock_member *m)
{
	m->next = NEVER_NS;
	m->idle = 0;
	pthread_mutex_lock(&c->lock);
	list_add_tail(&m->link, &c->members);
	pthread_mutex_unlock(&c->lock);
}

void clock_leave(struct clock *c, struct clock_member *m)
{
	pthread_mutex_lock(&c->lock);
	list_del(&m->link);
	pthread_mutex_unlock(&c->lock);
}

/* ---- its time: under the lock ---- */

/* How far it may go now. */
static uint64_t limit(const struct clock *c)
{
	uint64_t passed;

	if (!c->held)
		return NEVER_NS;
	passed = clock_ns() - c->held_since;
	return c->held_at + (passed > STILL_NS ? passed - STILL_NS : 0);
}

/* 1: it is there. */
static int move(struct clock *c, uint64_t to)
{
	if (to == NEVER_NS || to > limit(c))
		return 0;
	if (to > c->now)
		store_release(&c->now, to);
	c->happened++;
	c->news = 0;
	return 1;
}

void clock_hold(struct clock *c)
{
	pthread_mutex_lock(&c->lock);
	if (!c->held++) {
		c->held_at = c->now;
		c->held_since = clock_ns();
	}
	pthread_mutex_unlock(&c->lock);
}

void clock_release(struct clock *c)
{
	pthread_mutex_lock(&c->lock);
	assert(c->held);
	c->held--;
	c->happened++;
	c->news = 1;
	pthread_mutex_unlock(&c->lock);
}

void clock_busy(struct clock *c)
{
	pthread_mutex_lock(&c->lock);
	c->happened++;
	pthread_mutex_unlock(&c->lock);
}

void clock_taken(struct clock *c)
{
	pthread_mutex_lock(&c->lock);
	c->news = 0;
	pthread_mutex_unlock(&c->lock);
}

void clock_idle(struct clock *c, struct clock_member *m, uint64_t next)
{
	const struct clock_member *other;
	uint64_t to = NEVER_NS;
	struct list *pos;
	int absent = 0;

	pthread_mutex_lock(&c->lock);
	m->turns = m->idle == c->happened ? m->turns + 1 : 0;
	m->idle = c->happened;
	m->next = next;
	list_for_each(pos, &c->members) {
		other = list_entry(pos, struct clock_member, link);
		if (other->idle == c->happened)
			to = other->next < to ? other->next : to;
		else
			absent = 1;
	}
	if (m->turns >= PATIENCE || (!absent && (!c->news || m->turns >= NEWS)))
		move(c, to);
	pthread_mutex_unlock(&c->lock);
}

int clock_sleep(struct clock *c, uint64_t until)
{
	int there;

	pthread_mutex_lock(&c->lock);
	there = move(c, until);
	pthread_mutex_unlock(&c->lock);
	return there;
}
