/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The domain lock, for FI_THREAD_DOMAIN: one call at a time in a domain. The helper thread and the
 * control thread wait for the lock, and announce that. The engine never waits: without the lock it
 * does nothing, so that a call that hangs delays no deadline. With FI_THREAD_SAFE this costs one
 * load.
 */
#include "backend/fabric/key.h"

static int domain_trylock(struct fabric_device *d)
{
	if (!d->serialized)
		return 1;
	return !load_acquire(&d->lock_wanted) && !pthread_mutex_trylock(&d->lock);
}

static void domain_unlock(struct fabric_device *d)
{
	if (d->serialized)
		pthread_mutex_unlock(&d->lock);
}

/* lock_wanted makes room for the waiting thread: an engine that polls without a pause would leave
 * none. */
void fabric_domain_lock(struct fabric_device *d)
{
	if (!d->serialized)
		return;
	pthread_mutex_lock(&d->lock_queue);
	store_release(&d->lock_wanted, 1);
	pthread_mutex_lock(&d->lock);
	store_release(&d->lock_wanted, 0);
}

void fabric_domain_unlock(struct fabric_device *d)
{
	if (!d->serialized)
		return;
	pthread_mutex_unlock(&d->lock);
	pthread_mutex_unlock(&d->lock_queue);
}

void fabric_lock_init(struct fabric_device *d)
{
	pthread_mutex_init(&d->lock, NULL);
	pthread_mutex_init(&d->lock_queue, NULL);
}

void fabric_lock_free(struct fabric_device *d)
{
	pthread_mutex_destroy(&d->lock);
	pthread_mutex_destroy(&d->lock_queue);
}

/* ---- control thread ---- */

int fabric_locked_ep_open(struct device *dev, struct ep **ep, void *addr, uint32_t *addr_len)
{
	struct fabric_device *d = fabric_device(dev);
	int err;

	fabric_domain_lock(d);
	err = fabric_ep_open(dev, ep, addr, addr_len);
	fabric_domain_unlock(d);
	return err;
}

void fabric_locked_ep_free(struct ep *ep)
{
	struct fabric_device *d = fabric_device(ep->dev);

	fabric_domain_lock(d);
	fabric_ep_free(ep);
	fabric_domain_unlock(d);
}

/* ---- engine ---- */

int fabric_locked_import(struct ep *ep, const void *key, uint32_t key_len, uint64_t len,
			 struct rkey *rkey)
{
	struct fabric_device *d = fabric_device(ep->dev);
	int err = fabric_import(ep, key, key_len, len, rkey);

	/* Requests the keys now, so that the first operation need not wait for them. */
	if (!err && d->bound && domain_trylock(d)) {
		fabric_import_ask(ep, rkey);
		domain_unlock(d);
	}
	return err;
}

/* If the lock is taken, a later poll forgets a key that needs a message or a call of the
 * provider. */
void fabric_locked_forget(struct ep *ep, struct rkey *rkey)
{
	struct fabric_device *d = fabric_device(ep->dev);
	int now = domain_trylock(d);

	fabric_forget(ep, rkey, now);
	if (now)
		domain_unlock(d);
}

uint32_t fabric_locked_post(struct ep *ep, struct chunk **chunks, uint32_t n)
{
	if (!domain_trylock(fabric_device(ep->dev)))
		return 0;
	n = fabric_post(ep, chunks, n);
	domain_unlock(fabric_device(ep->dev));
	return n;
}

uint32_t fabric_locked_poll(struct device *dev, struct event *events, uint32_t n)
{
	if (!domain_trylock(fabric_device(dev)))
		return 0;
	n = fabric_poll(dev, events, n);
	domain_unlock(fabric_device(dev));
	return n;
}

int fabric_locked_arm(struct device *dev)
{
	int more;

	if (!domain_trylock(fabric_device(dev)))
		return 1;
	more = fabric_arm(dev);
	domain_unlock(fabric_device(dev));
	return more;
}
