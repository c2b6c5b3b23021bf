/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The domain lock, for FI_THREAD_DOMAIN: one call at a time in a domain. The helper thread and the
 * control thread wait for the lock, and announce that. The engine never waits: without the lock it
 * does nothing, so that a call that hangs delays no deadline. With FI_THREAD_SAFE this costs one
 * load.
 */
#include "backend/fabric_key.h"

static int try_turn(struct fabric_device *d)
{
	if (!d->turns)
		return 1;
	return !load_acquire(&d->turn_wanted) && !pthread_mutex_trylock(&d->turn);
}

static void end_turn(struct fabric_device *d)
{
	if (d->turns)
		pthread_mutex_unlock(&d->turn);
}

/* turn_wanted makes room for the waiting thread: an engine that polls without a pause would leave
 * none. */
void fabric_turn_take(struct fabric_device *d)
{
	if (!d->turns)
		return;
	pthread_mutex_lock(&d->turn_queue);
	store_release(&d->turn_wanted, 1);
	pthread_mutex_lock(&d->turn);
	store_release(&d->turn_wanted, 0);
}

void fabric_turn_end(struct fabric_device *d)
{
	if (!d->turns)
		return;
	pthread_mutex_unlock(&d->turn);
	pthread_mutex_unlock(&d->turn_queue);
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

int fabric_turn_reg(struct device *dev, struct extent *extent)
{
	struct fabric_device *d = fabric_device(dev);
	int err;

	fabric_turn_take(d);
	err = fabric_reg(dev, extent);
	fabric_turn_end(d);
	return err;
}

int fabric_turn_unreg(struct device *dev, struct extent *extent)
{
	struct fabric_device *d = fabric_device(dev);
	int err;

	fabric_turn_take(d);
	err = fabric_unreg(dev, extent);
	fabric_turn_end(d);
	return err;
}

int fabric_turn_pin(struct device *dev, struct pin *pin)
{
	struct fabric_device *d = fabric_device(dev);
	int err;

	fabric_turn_take(d);
	err = fabric_pin(dev, pin);
	fabric_turn_end(d);
	return err;
}

int fabric_turn_unpin(struct device *dev, struct pin *pin)
{
	struct fabric_device *d = fabric_device(dev);
	int err;

	fabric_turn_take(d);
	err = fabric_unpin(dev, pin);
	fabric_turn_end(d);
	return err;
}

int fabric_turn_ep_open(struct device *dev, struct ep **ep, void *addr, uint32_t *addr_len)
{
	struct fabric_device *d = fabric_device(dev);
	int err;

	fabric_turn_take(d);
	err = fabric_ep_open(dev, ep, addr, addr_len);
	fabric_turn_end(d);
	return err;
}

void fabric_turn_ep_free(struct ep *ep)
{
	struct fabric_device *d = fabric_device(ep->dev);

	fabric_turn_take(d);
	fabric_ep_free(ep);
	fabric_turn_end(d);
}

/* ---- engine ---- */

int fabric_turn_import(struct ep *ep, const void *key, uint32_t key_len, uint64_t len,
		       struct rkey *rkey)
{
	struct fabric_device *d = fabric_device(ep->dev);
	int err = fabric_import(ep, key, key_len, len, rkey);

	/* Asking now saves time later. */
	if (!err && d->bound && try_turn(d)) {
		fabric_import_ask(ep, rkey);
		end_turn(d);
	}
	return err;
}

/* If the lock is taken, a later poll forgets a key that needs a message or a call of the
 * provider. */
void fabric_turn_forget(struct ep *ep, struct rkey *rkey)
{
	struct fabric_device *d = fabric_device(ep->dev);
	int now = try_turn(d);

	fabric_forget(ep, rkey, now);
	if (now)
		end_turn(d);
}

uint32_t fabric_turn_post(struct ep *ep, struct chunk **chunks, uint32_t n)
{
	if (!try_turn(fabric_device(ep->dev)))
		return 0;
	n = fabric_post(ep, chunks, n);
	end_turn(fabric_device(ep->dev));
	return n;
}

uint32_t fabric_turn_poll(struct device *dev, struct event *events, uint32_t n)
{
	if (!try_turn(fabric_device(dev)))
		return 0;
	n = fabric_poll(dev, events, n);
	end_turn(fabric_device(dev));
	return n;
}

int fabric_turn_arm(struct device *dev)
{
	int more;

	if (!try_turn(fabric_device(dev)))
		return 1;
	more = fabric_arm(dev);
	end_turn(fabric_device(dev));
	return more;
}
