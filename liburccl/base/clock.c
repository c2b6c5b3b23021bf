/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The simulated clock of INLINE contexts. The time moves to the earliest time at which a member has
 * something to do, in one of three cases: all members have said, since the last event, that they
 * have nothing to do before then; one member has said so IDLE_TURNS times while others were not
 * called; or a caller of clock_sleep() wants to reach that time.
 *
 * While a control thread works for a member (clock_hold() to clock_release()), the time stands
 * still, so the duration of that work does not matter. If the work lasts longer than STILL_NS, the
 * time moves on, but no faster than the wall clock, so that timers of the simulation do not expire
 * long before the work ends. After clock_release() the time also stands still for NEWS idle turns,
 * in which the program may learn the result and submit entries. The number of turns that a program
 * needs depends on the real moment at which the result came; without this pause the simulated time
 * would depend on it too.
 */
#include "base/base.h"

/* Idle turns of one member after which the time moves without the members that were not called. */
#define IDLE_TURNS 64u
/* Real time for which a held clock stands still. */
#define STILL_NS NSEC_PER_SEC
/* Idle turns of one member in which its program may react to clock_release(). */
#define NEWS 16u

void clock_init(struct clock *c)
{
	memset(c, 0, sizeof(*c));
	pthread_mutex_init(&c->lock, NULL);
	list_init(&c->members);
	/* Starts above 0, because no event may begin at time 0. */
	c->now = NSEC_PER_SEC;
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

/* ---- moving the time: the caller holds the lock ---- */

/* Returns the latest time to which the clock may move now. */
static uint64_t limit(const struct clock *c)
{
	uint64_t passed;

	if (!c->held)
		return NEVER_NS;
	passed = clock_ns() - c->held_since;
	return c->held_at + (passed > STILL_NS ? passed - STILL_NS : 0);
}

/* Moves the clock to the given time, unless limit() forbids it. Returns 1 if the time is
 * reached. */
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
	int absent = 0;

	pthread_mutex_lock(&c->lock);
	m->turns = m->idle == c->happened ? m->turns + 1 : 0;
	m->idle = c->happened;
	m->next = next;
	list_for_each_entry(other, &c->members, link) {
		if (other->idle == c->happened)
			to = other->next < to ? other->next : to;
		else
			absent = 1;
	}
	if (m->turns >= IDLE_TURNS || (!absent && (!c->news || m->turns >= NEWS)))
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
