/* SPDX-License-Identifier: Apache-2.0 */
/* Exports: memory of ours that a peer may access. A device knows each one, and the engine has a
 * handle for it, for atomics that it executes itself. */
#include "engine/peer.h"

/* Interval of tries to end expired exports that peers still have mapped. */
#define EXPIRED_NS (100 * NSEC_PER_MSEC)

static void expiring_del(struct exposure *x)
{
	heap_del(&x->expiring);
	list_del(&x->expired);
}

static void expiring_add(struct engine *e, struct exposure *x)
{
	expiring_del(x);
	if (x->expires_ns != NEVER_NS && x->ep->dev->caps & CAP_ACCESS_OUTLIVES_KEY)
		heap_add(&e->expiring, &x->expiring, x->expires_ns);
}

/* Exposes the memory by the device. Returns the bytes of the key, or -errno. GPU memory can also be
 * relayed, since the peer may fail to import it. If the device does not reach it, the key has 0
 * bytes and the peer must use the relay. With bounce=no the relay refuses such requests. */
static int expose(struct engine *e, struct exposure *x, void *key)
{
	int gpu = memory_has_gpu(x->memory), n = -EOPNOTSUPP;

	if (gpu && relay_make(x->peer))
		return -ENOMEM;
	e->gpus |= (uint32_t)gpu;
	if (device_reaches(x->ep->dev, x->memory))
		n = x->ep->dev->ops->expose(x, key, KEY_MAX);
	x->exposed = n >= 0;
	if (gpu && n == -EOPNOTSUPP && e->config.params->bounce != URCCL_ALLOW_NO)
		return 0;
	return n;
}

struct exposure *exposure_find(const struct engine *e, const struct engine_peer *p, uint32_t grant,
			       uint32_t right)
{
	struct exposure *x = handles_get(&e->grants, grant);

	if (!x || x->peer != p || !(x->rights & right) ||
	    (x->expires_ns != NEVER_NS && clock_now(e->config.clock) > x->expires_ns))
		return NULL;
	return x;
}

int exposure_begin(struct engine *e, struct exposure *x, const struct rail *rail, void *key)
{
	uint32_t slot = HANDLE_SLOT(x->memory->handle);
	int n, fresh;

	if (slot >= e->nregions || e->regions[slot].memory != x->memory)
		return -EACCES;
	if (rail->ending)
		return -ENOTCONN;
	/* An export whose rail has closed, and that now has another rail, keeps its number even if
	 * the new rail refuses it. */
	fresh = list_empty(&x->link);
	if (fresh)
		x->grant = handles_add(&e->grants, x);
	if (!x->grant)
		return -ENOSPC;
	n = expose(e, x, key);
	if (n < 0 && fresh)
		handles_del(&e->grants, x->grant);
	if (n < 0)
		return n;
	if (x->exposed && x->rights & URCCL_RIGHT_WRITE) {
		x->peer->unflushed |= (uint32_t)memory_has_device(x->memory);
		if (x->ep->dev->caps & CAP_GPU_DIRECT)
			direct_exposed(e, x);
	}
	if (fresh)
		list_add_tail(&x->link, &e->exposures);
	expiring_add(e, x);
	return n;
}

static void exposure_leave(struct exposure *x)
{
	list_del(&x->link);
	expiring_del(x);
}

int exposure_end(struct engine *e, struct exposure *x)
{
	int res = 0;

	/* The field stays, since the control thread may read it. It names nothing any more. */
	handles_del(&e->grants, x->grant);
	if (x->exposed)
		res = x->ep->dev->ops->unexpose(x);
	x->exposed = !!res;
	if (x->copies && !relay_copies_stop(e, x))
		res = -EINPROGRESS;
	if (!res)
		exposure_leave(x);
	return res;
}

void exposure_drop(struct engine *e, struct exposure *x)
{
	if (exposure_end(e, x))
		x->maybe_mapped = x->ep->dev->ops->importer != NULL;
	x->exposed = 0;
	exposure_leave(x);
}

void exposures_detach(struct engine *e, struct ep *ep, int closed)
{
	struct exposure *x;

	list_for_each_entry(x, &e->exposures, link) {
		if (!x->exposed || x->ep != ep)
			continue;
		x->exposed = !!ep->dev->ops->unexpose(x);
		if (!x->exposed || !closed)
			continue;
		x->maybe_mapped = ep->dev->ops->importer != NULL;
		x->exposed = 0;
	}
}

void exposures_end(struct engine *e, struct engine_peer *p)
{
	struct exposure *x;

	list_for_each_entry_safe(x, &e->exposures, link) {
		if (x->peer == p && !x->exposed)
			exposure_drop(e, x);
	}
}

/* The export keeps its number: atomics check the expiry of each export themselves. */
static int expire(struct exposure *x)
{
	if (x->exposed && x->ep->dev->ops->unexpose(x))
		return 0;
	x->exposed = 0;
	if (x->copies)
		return 0;
	expiring_del(x);
	return 1;
}

/* Ends expired exports that peers had mapped and were asked to unmap. Nobody waits for that. A peer
 * that is stopped, or whose program computes, may take long. */
static void expired_ask(struct engine *e, uint64_t now)
{
	struct list *pos, *tmp;

	list_for_each_safe(pos, tmp, &e->expired)
		expire(list_entry(pos, struct exposure, expired));
	e->expired_ns = list_empty(&e->expired) ? NEVER_NS : now + EXPIRED_NS;
}

static struct exposure *expiring_first(struct engine *e)
{
	struct heap_node *n = heap_first(&e->expiring);

	return n ? container_of(n, struct exposure, expiring) : NULL;
}

void exposures_expire(struct engine *e)
{
	uint64_t now = clock_now(e->config.clock);
	struct exposure *x;

	if (now >= e->expired_ns)
		expired_ask(e, now);
	while ((x = expiring_first(e)) && now > x->expires_ns) {
		if (expire(x))
			continue;
		heap_del(&x->expiring);
		list_add_tail(&x->expired, &e->expired);
		if (e->expired_ns == NEVER_NS)
			e->expired_ns = now + EXPIRED_NS;
	}
}

uint64_t exposures_next(struct engine *e)
{
	const struct exposure *x = expiring_first(e);

	return !x || e->expired_ns <= x->expires_ns ? e->expired_ns : x->expires_ns + 1;
}
