/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranges that devices have pinned for peers (mr_cache). Exports of the same range by the same
 * device share one pin, for any peer and any rail. The pin stays while one of them exists: a rail
 * that breaks loses its queue pairs and keeps its memory. The states of a pin:
 *
 *  pinning (exports wait for it) -> pinned -> [revoking] -> unpinning -> freed, or stuck
 *
 * No new export uses a pin once it is revoking: the adverts of its region end, its own expiry
 * passed, or its last export ended. To pin and unpin may take long, so both are work items.
 * UNREGISTER and REVOKE wait for the unpin. If the device does not unpin, they fail with that
 * reason, and the next UNREGISTER or REVOKE tries again.
 */
#include <stdlib.h>

#include "region/private.h"

/* ---- lookup ---- */

static struct pinned **pin_bucket(struct control *c, const struct grant *g)
{
	uint64_t h = (uint64_t)(uintptr_t)g->region ^ (uint64_t)(uintptr_t)g->dev << 7;

	h = (h ^ g->e.off) * 0x9e3779b97f4a7c15ull;
	h = (h ^ h >> 29 ^ g->e.len) * 0x9e3779b97f4a7c15ull;
	h = (h ^ h >> 29 ^ g->expires_ms << 3 ^ g->e.rights) * 0x9e3779b97f4a7c15ull;
	return &c->pins[(h >> 32) % PIN_HASH];
}

static struct pinned *pin_find(struct control *c, const struct grant *g)
{
	struct pinned *p = *pin_bucket(c, g);

	while (p && (p->region != g->region || p->dev != g->dev || p->pin.off != g->e.off ||
		     p->pin.len != g->e.len || p->pin.rights != g->e.rights ||
		     p->expires_ns != g->e.expires_ns))
		p = p->hash_next;
	return p;
}

static void pin_unhash(struct pinned *p)
{
	struct pinned **at = p->bucket;

	while (*at != p)
		at = &(*at)->hash_next;
	*at = p->hash_next;
}

/* ---- the end of a pin ---- */

static void pin_free(struct pinned *p)
{
	list_del(&p->of_region);
	p->region->nrevoking--;
	free(p);
}

static void pin_set_revoking(struct pinned *p)
{
	if (p->revoking)
		return;
	p->revoking = 1;
	p->region->nrevoking++;
	timer_stop(&p->expiry);
	pin_unhash(p);
}

static int pin_release(struct work *e)
{
	struct pinned *p = container_of(e, struct pinned, work);

	return p->dev->ops->unpin(p->dev, &p->pin);
}

/* When the context ends its devices close, and the pins end with them. */
static void pin_released(struct control *c, struct work *e)
{
	struct pinned *p = container_of(e, struct pinned, work);
	struct region *r = p->region;

	if (e->res)
		log_unpinned(c, p->dev, p->pin.len, e->res);
	if (e->res && !c->ending) {
		p->release_failed = 1;
		r->nrelease_failed++;
		r->release_failed = e->res;
	} else {
		c->unpinned |= e->res != 0;
		pin_free(p);
	}
	region_due(c, r);
}

static void pin_step(struct control *c, struct pinned *p)
{
	if (p->held || p->work.out || !list_empty(&p->grants))
		return;
	pin_set_revoking(p);
	if (p->made)
		work_begin(c, &p->work, WORK_UNPIN, pin_release, pin_released);
	else
		pin_free(p);
}

void pin_put(struct control *c, struct grant *g)
{
	struct pinned *p = g->pin;

	if (!p)
		return;
	g->pin = NULL;
	g->e.pin = NULL;
	list_del(&g->of_pin);
	pin_step(c, p);
}

void pins_set_revoking(struct region *r)
{
	struct list *pos;

	list_for_each(pos, &r->pins)
		pin_set_revoking(list_entry(pos, struct pinned, of_region));
}

void pins_retry(struct control *c, struct region *r)
{
	struct pinned *p;

	list_for_each_entry_safe(p, &r->pins, of_region) {
		if (!p->release_failed)
			continue;
		p->release_failed = 0;
		r->nrelease_failed--;
		pin_step(c, p);
	}
}

/* A simulated clock may be behind the timer. */
static void pin_expired(struct control *c, struct control_timer *a)
{
	struct pinned *p = container_of(a, struct pinned, expiry);
	uint64_t now = clock_now(c->config.clock);
	struct grant *g;

	if (now < p->expires_ns) {
		timer_set(c, &p->expiry, p->expires_ns - now);
		return;
	}
	pin_set_revoking(p);
	p->held = 1;
	list_for_each_entry_safe(g, &p->grants, of_pin) {
		if (g->revoking)
			continue;
		grant_set_revoking(g);
		grant_end(c, g);
	}
	p->held = 0;
	pin_step(c, p);
}

/* ---- the begin of a pin ---- */

static int pin_make(struct work *e)
{
	struct pinned *p = container_of(e, struct pinned, work);

	return p->dev->ops->pin(p->dev, &p->pin);
}

static struct grant *first_of(const struct pinned *p)
{
	return list_first(&p->grants, struct grant, of_pin);
}

/* Answers the first export that waits for the pin. res 0: it gets the pin and moves to the end of
 * the pin's list. Otherwise it leaves that list. */
static void pin_give(struct control *c, struct pinned *p, int res)
{
	struct grant *g = first_of(p);

	g->waits = 0;
	if (res) {
		pin_put(c, g);
	} else {
		list_del(&g->of_pin);
		list_add_tail(&g->of_pin, &p->grants);
	}
	grant_pinned(c, g, res);
}

static void pin_made(struct control *c, struct work *e)
{
	struct pinned *p = container_of(e, struct pinned, work);
	struct region *r = p->region;
	int res = e->res;

	p->made = !res;
	if (res)
		pin_set_revoking(p);
	p->held = 1;
	while (!list_empty(&p->grants) && first_of(p)->waits)
		pin_give(c, p, res);
	p->held = 0;
	pin_step(c, p);
	region_due(c, r);
}

static struct pinned *pin_new(struct control *c, const struct grant *g)
{
	struct pinned *p = calloc(1, sizeof(*p));
	uint64_t now = clock_now(c->config.clock);

	if (!p)
		return NULL;
	p->pin = (struct pin){.memory = g->e.memory,
			      .off = g->e.off,
			      .len = g->e.len,
			      .rights = g->e.rights};
	p->dev = g->dev;
	p->region = g->region;
	p->expires_ns = g->e.expires_ns;
	list_init(&p->grants);
	list_init(&p->work.link);
	timer_init(&p->expiry, pin_expired);
	if (p->expires_ns != NEVER_NS)
		timer_set(c, &p->expiry, p->expires_ns > now ? p->expires_ns - now : 0);
	list_add_tail(&p->of_region, &g->region->pins);
	p->bucket = pin_bucket(c, g);
	p->hash_next = *p->bucket;
	*p->bucket = p;
	work_begin(c, &p->work, WORK_PIN, pin_make, pin_made);
	return p;
}

int pin_get(struct control *c, struct grant *g)
{
	if (g->pin && g->pin->dev != g->dev)
		pin_put(c, g);
	if (g->pin)
		return 0;
	g->pin = pin_find(c, g);
	if (!g->pin)
		g->pin = pin_new(c, g);
	if (!g->pin)
		return -ENOMEM;
	g->e.pin = &g->pin->pin;
	list_add_tail(&g->of_pin, &g->pin->grants);
	g->waits = !g->pin->made;
	return g->waits ? -EINPROGRESS : 0;
}
