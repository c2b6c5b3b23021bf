/* SPDX-License-Identifier: Apache-2.0 */
/*
 * FI_THREAD_DOMAIN: one call at a time in a domain. The helper and the control thread take turns,
 * and say that they wait; the engine, where it would wait for them, finds nothing to do instead, so
 * that a call that hangs holds up no deadline. Where a provider serves threads as they come this is
 * one look at a word.
 *
 * A helper that hangs has the turn for ever. Once the context closes, who waits for it looks now
 * and then whether it has hung for too long: then it is left, nobody gets the turn any more, and
 * who has it keeps it.
 */
#include <time.h>
#include "backend/fabric_key.h"

#define LOOK_NS (20 * NSEC_PER_MSEC)

/* 1: the helper was left in a call, and may have the turn for ever. */
static int is_left(const struct fabric_device *d)
{
	return (int)load_acquire(&d->dev.left);
}

/* 1: likewise, or it is now. */
static int gives_up(struct fabric_device *d)
{
	if (fabric_helper_is_left(d))
		return 1;
	return load_acquire(&d->dev.leaving_ns) && fabric_helper_leave(d);
}

/* By the clock that sanitizers know a timed lock of: where it is set back one look comes late. */
static int lock(struct fabric_device *d, pthread_mutex_t *m)
{
	struct timespec at;

	while (pthread_mutex_trylock(m)) {
		if (gives_up(d))
			return -EBUSY;
		clock_gettime(CLOCK_REALTIME, &at);
		at.tv_nsec += (long)LOOK_NS;
		if (at.tv_nsec >= (long)NSEC_PER_SEC) {
			at.tv_nsec -= (long)NSEC_PER_SEC;
			at.tv_sec++;
		}
		if (!pthread_mutex_timedlock(m, &at))
			return 0;
	}
	return 0;
}

static void unlock(struct fabric_device *d, pthread_mutex_t *m)
{
	if (!fabric_helper_is_left(d))
		pthread_mutex_unlock(m);
}

static int try_turn(struct fabric_device *d)
{
	if (!d->turns)
		return 1;
	return !load_acquire(&d->turn_wanted) && !pthread_mutex_trylock(&d->turn);
}

static void end_turn(struct fabric_device *d)
{
	if (d->turns)
		unlock(d, &d->turn);
}

/* An engine that polls without a pause would leave none to who only waits. */
int fabric_turn_take(struct fabric_device *d)
{
	int err = d->turns ? lock(d, &d->turn_queue) : 0;

	if (err || !d->turns)
		return err;
	store_release(&d->turn_wanted, 1);
	err = lock(d, &d->turn);
	store_release(&d->turn_wanted, 0);
	if (err)
		pthread_mutex_unlock(&d->turn_queue);
	return err;
}

void fabric_turn_end(struct fabric_device *d)
{
	if (!d->turns)
		return;
	unlock(d, &d->turn);
	unlock(d, &d->turn_queue);
}

void fabric_turn_init(struct fabric_device *d)
{
	pthread_mutex_init(&d->turn, NULL);
	pthread_mutex_init(&d->turn_queue, NULL);
}

void fabric_turn_free(struct fabric_device *d)
{
	pthread_mutex_destroy(&d->turn);
	pthread_mutex_destroy(&d->turn_queue);
}

/* ---- control thread ---- */

/* 0, or -EBUSY: the helper was left in a call, and no other is made. */
static int turn_begin(struct fabric_device *d)
{
	if (is_left(d) || fabric_turn_take(d))
		return fail(-EBUSY, "libfabric: a call of the provider's does not return");
	return 0;
}

static int turn_over(struct fabric_device *d, int err)
{
	fabric_turn_end(d);
	return err;
}

int fabric_turn_reg(struct device *dev, struct extent *extent)
{
	struct fabric_device *d = fabric_device(dev);
	int err = turn_begin(d);

	return err ? err : turn_over(d, fabric_reg(dev, extent));
}

int fabric_turn_unreg(struct device *dev, struct extent *extent)
{
	struct fabric_device *d = fabric_device(dev);
	int err = turn_begin(d);

	return err ? err : turn_over(d, fabric_unreg(dev, extent));
}

int fabric_turn_pin(struct device *dev, struct pin *pin)
{
	struct fabric_device *d = fabric_device(dev);
	int err = turn_begin(d);

	return err ? err : turn_over(d, fabric_pin(dev, pin));
}

int fabric_turn_unpin(struct device *dev, struct pin *pin)
{
	struct fabric_device *d = fabric_device(dev);
	int err = turn_begin(d);

	return err ? err : turn_over(d, fabric_unpin(dev, pin));
}

int fabric_turn_ep_open(struct device *dev, struct ep **ep, void *addr, uint32_t *addr_len)
{
	struct fabric_device *d = fabric_device(dev);
	int err = turn_begin(d);

	return err ? err : turn_over(d, fabric_ep_open(dev, ep, addr, addr_len));
}

/* One whose helper was left is left with it. */
void fabric_turn_ep_free(struct ep *ep)
{
	struct fabric_device *d = fabric_device(ep->dev);

	if (turn_begin(d))
		return;
	fabric_ep_free(ep);
	fabric_turn_end(d);
}

/* ---- engine ---- */

/* It calls nothing of the provider's. */
int fabric_turn_ep_connect(struct ep *ep, const void *addr, uint32_t addr_len, int active,
			   const struct sockaddr_storage *via)
{
	if (is_left(fabric_device(ep->dev)))
		return -EBUSY;
	return fabric_ep_connect(ep, addr, addr_len, active, via);
}

int fabric_turn_import(struct ep *ep, const void *key, uint32_t key_len, uint64_t len,
		       struct rkey *rkey)
{
	struct fabric_device *d = fabric_device(ep->dev);
	int err;

	if (is_left(d))
		return -EBUSY;
	err = fabric_import(ep, key, key_len, len, rkey);
	/* What it lacks is there sooner. */
	if (!err && d->bound && try_turn(d)) {
		fabric_import_ask(ep, rkey);
		end_turn(d);
	}
	return err;
}

/* A key that the peer is to be told of, or the provider, is forgotten by a poll that has the turn,
 * if we have not. */
void fabric_turn_forget(struct ep *ep, struct rkey *rkey)
{
	struct fabric_device *d = fabric_device(ep->dev);
	int now;

	if (is_left(d)) {
		rkey->v[0] = 0;
		return;
	}
	now = try_turn(d);
	fabric_forget(ep, rkey, now);
	if (now)
		end_turn(d);
}

uint32_t fabric_turn_post(struct ep *ep, struct chunk **chunks, uint32_t n)
{
	if (is_left(fabric_device(ep->dev)))
		return fabric_post(ep, chunks, n);
	if (!try_turn(fabric_device(ep->dev)))
		return 0;
	n = fabric_post(ep, chunks, n);
	end_turn(fabric_device(ep->dev));
	return n;
}

uint32_t fabric_turn_poll(struct device *dev, struct event *events, uint32_t n)
{
	if (is_left(fabric_device(dev)))
		return fabric_poll_left(dev, events, n);
	if (!try_turn(fabric_device(dev)))
		return 0;
	n = fabric_poll(dev, events, n);
	end_turn(fabric_device(dev));
	return n;
}

int fabric_turn_arm(struct device *dev)
{
	int more;

	if (is_left(fabric_device(dev)))
		return fabric_arm_left(dev);
	if (!try_turn(fabric_device(dev)))
		return 1;
	more = fabric_arm(dev);
	end_turn(fabric_device(dev));
	return more;
}
