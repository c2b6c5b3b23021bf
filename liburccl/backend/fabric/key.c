/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Exports of our memory to a peer, and keys of the peer's memory. An export consists of the memory
 * regions of a range (see pin.c). Closing the regions revokes the export.
 *
 * A key: version u8, rights and KEY_DEVICE u8, pieces u16, id u32, bytes u64, the time when it
 * expires by its owner's clock u64, the time left until then u64, the identity of that clock u64,
 * SipHash of all under the owner's cookie [16], then the parts of the pieces. Little-endian.
 */
#include <endian.h>
#include <stdlib.h>
#include "backend/fabric/key.h"

#define KEY_DEVICE 0x80u /* some of the memory is of a GPU */

struct key_head {
	uint8_t version, rights;
	uint16_t n;
	uint32_t id;
	uint64_t len, expires, left, boot;
	uint8_t mac[16];
	uint64_t reserved;
};

/* ---- exports ---- */

uint32_t fabric_key_pieces(const struct fabric_device *d)
{
	return (KEY_MAX - (uint32_t)sizeof(struct key_head)) / fabric_part_bytes(d);
}

/* The endpoint that its regions belong to. */
static struct fabric_endpoint *grant_endpoint(struct fabric_grant *g)
{
	struct fabric_device *d = fabric_ep_device(g->ep);

	return d->shared ? &d->target : &g->ep->endpoint;
}

int fabric_grant_fill(struct fabric_device *d, struct fabric_grant *g)
{
	int err = 0;

	if (g->n < g->pieces)
		err = fabric_range_open(d, grant_endpoint(g), &g->range, g->mr, &g->n, g->n + 1);
	return err ? err : g->n < g->pieces;
}

int fabric_grant_close(struct fabric_grant *g)
{
	return g->pin ? fabric_pin_close(g->pin) : fabric_range_close(g->mr, &g->n);
}

static void key_seal(const uint8_t *cookie, uint8_t *key, uint32_t len, uint8_t mac[16])
{
	memset(key + offsetof(struct key_head, mac), 0, 16);
	siphash128(cookie, key, len, mac);
}

static int key_put(const struct fabric_device *d, const struct fabric_grant *g,
		   const struct exposure *x, uint32_t n, uint8_t *key)
{
	uint32_t len = (uint32_t)sizeof(struct key_head) + n * fabric_part_bytes(d);
	uint64_t now = clock_ns(), left = 0;
	struct key_head h;

	if (x->expires_ns == NEVER_NS)
		left = NEVER_NS;
	else if (x->expires_ns > now)
		left = x->expires_ns - now;
	h = (struct key_head){
		.version = fabric_version(d),
		.rights = (uint8_t)(x->rights | (memory_is_device(x->memory) ? KEY_DEVICE : 0)),
		.n = htole16((uint16_t)n),
		.id = htole32(g->id),
		.len = htole64(x->len),
		.expires = htole64(x->expires_ns),
		.left = htole64(left),
		.boot = htole64(d->boot),
	};
	memcpy(key, &h, sizeof(h));
	key_seal(g->ep->ours, key, len, h.mac);
	memcpy(key + offsetof(struct key_head, mac), h.mac, sizeof(h.mac));
	return (int)len;
}

static uint64_t expires_at(const struct fabric_grant *g)
{
	return g->expires_ns < NEVER_NS - EXPIRED_NS ? g->expires_ns + EXPIRED_NS : NEVER_NS;
}

static void expire_at(struct fabric_device *d, struct fabric_grant *g)
{
	/* Pins are left out: the control thread ends them at their expiry. */
	if (g->none || g->pin || expires_at(g) == NEVER_NS)
		return;
	list_add_tail(&g->expiring, &d->expiring);
	if (expires_at(g) < d->expire_ns)
		d->expire_ns = expires_at(g);
}

static void grant_job(struct fabric_grant *g)
{
	struct fabric_device *d = fabric_ep_device(g->ep);

	if (g->job_out || g->closed)
		return;
	g->job_out = 1;
	g->ep->keys_out++;
	g->job.type = JOB_KEY;
	g->job.reply = &d->from_helper;
	list_del(&g->expiring);
	mailbox_post(&d->to_helper, &g->job);
}

static void grant_free(struct fabric_grant *g)
{
	fabric_ep_device(g->ep)->revoking -= g->deadline_ns != 0;
	list_del(&g->expiring);
	list_del(&g->link);
	free(g);
}

void fabric_grant_closed(struct fabric_grant *g)
{
	g->job_out = 0;
	g->closed = 1;
	g->ep->keys_out--;
}

static struct fabric_grant *grant_new(struct fabric_ep *e, const struct exposure *x,
				      const struct pin *range, uint32_t pieces)
{
	uint32_t own = fabric_ep_device(e)->bound ? pieces : 0;
	struct fabric_grant *g = calloc(1, sizeof(*g) + own * sizeof(g->mr[0]));

	if (!g)
		return NULL;
	g->ep = e;
	g->id = ++e->next_id;
	g->expires_ns = x->expires_ns;
	g->none = !pieces;
	g->pin = fabric_ep_device(e)->bound ? NULL : x->pin->mr;
	g->range = *range;
	g->pieces = pieces;
	list_init(&g->expiring);
	list_add_tail(&g->link, &e->grants);
	return g;
}

/* Without a pin, the lengths only: the helper thread makes the regions, and the importer asks for
 * their keys. */
static void parts_put(struct fabric_device *d, struct fabric_grant *g, uint8_t *to)
{
	if (g->pin)
		memcpy(to, fabric_pin_parts(g->pin), (size_t)g->pieces * fabric_part_bytes(d));
	else
		fabric_range_parts(d, &g->range, NULL, 0, g->pieces, to);
}

int fabric_expose(struct exposure *x, void *key, uint32_t key_max)
{
	struct pin range = {.memory = x->memory, .off = x->off, .len = x->len, .rights = x->rights};
	struct fabric_ep *e = fabric_ep(x->ep);
	struct fabric_device *d = fabric_ep_device(e);
	uint32_t n = d->bound ? fabric_range_pieces(&range) : fabric_pin_pieces(x->pin->mr);
	struct fabric_grant *g;

	x->scratch = 0;
	if (key_max < KEY_MAX || n > fabric_key_pieces(d))
		return -E2BIG;
	if (e->ending)
		return -ENOTCONN; /* the peer asks for another rail, or later */
	if (e->state == EP_NEW)
		return -ECONNRESET;
	g = grant_new(e, x, &range, n);
	if (!g)
		return -ENOMEM;
	parts_put(d, g, (uint8_t *)key + sizeof(struct key_head));
	expire_at(d, g);
	if (d->bound)
		fabric_bound_fill(g);
	x->scratch = (uint64_t)(uintptr_t)g;
	return key_put(d, g, x, n, key);
}

/* Asks the importer to stop. The next poll sends the message; an ep that is closed before sends
 * only MESSAGE_BYE. The importer's time to answer starts now, even if a frozen peer leaves no slot
 * free for the message. */
static void grant_ask(struct fabric_grant *g)
{
	struct fabric_ep *e = g->ep;

	if (g->deadline_ns || e->state != EP_UP)
		return;
	g->endpoints = e->endpoints_closed;
	g->deadline_ns = clock_ns() + REVOKE_NS;
	fabric_ep_device(e)->revoking++;
	e->due |= DUE_REVOKE;
}

void fabric_grants_ask(struct fabric_ep *e)
{
	struct fabric_grant *g;

	e->due &= ~(uint32_t)DUE_REVOKE;
	list_for_each_entry(g, &e->grants, link) {
		if (!g->deadline_ns || g->asked)
			continue;
		g->asked = (uint8_t)fabric_send(e, MESSAGE_REVOKE, g->id, NULL, 0);
		if (!g->asked)
			e->due |= DUE_REVOKE;
	}
}

/* Closes revoked exports before the next data endpoint is opened, even if the peer has not
 * answered: they must not be reachable by that endpoint. */
void fabric_grants_close(struct fabric_ep *e)
{
	struct fabric_grant *g;

	list_for_each_entry(g, &e->grants, link) {
		if (g->deadline_ns)
			grant_job(g);
	}
}

/* 1: the regions may be closed, since the peer has no operation on them. If a pin has expired, or
 * its importer does not answer, its regions are closed without waiting. This affects all importers
 * of the pin, for which it is revoked too. */
static int grant_is_quiet(struct fabric_grant *g)
{
	struct fabric_ep *e = g->ep;
	uint64_t now;

	if (g->answered || (g->deadline_ns && e->endpoints_closed != g->endpoints))
		return 1;
	grant_ask(g);
	now = clock_ns();
	if (g->pin && now >= expires_at(g))
		grant_job(g);
	if (g->deadline_ns && now >= g->deadline_ns) {
		grant_job(g);
		fabric_ep_break(e);
	}
	return 0;
}

/* 1: the regions are closed. Only for an ep that goes on. */
static int grant_is_over(struct fabric_grant *g)
{
	/* The regions of an expired export may be closed already, and a write may still land. */
	if (!g->none && g->ep->state != EP_CONNECTING && !grant_is_quiet(g))
		return 0;
	if (g->pin)
		return !g->job_out;
	grant_job(g);
	return g->closed;
}

int fabric_unexpose(struct exposure *x)
{
	struct fabric_grant *g = (struct fabric_grant *)(uintptr_t)x->scratch;
	struct fabric_ep *e;

	if (!g)
		return 0;
	e = g->ep;
	if ((e->ending && !e->ended) || g->leaves || (e->ended && g->job_out))
		return -EINPROGRESS;
	if (!e->ended && !grant_is_over(g))
		return -EINPROGRESS;
	grant_free(g);
	x->scratch = 0;
	return 0;
}

void fabric_grant_revoked(struct fabric_ep *e, uint32_t id)
{
	struct fabric_grant *g;

	list_for_each_entry(g, &e->grants, link) {
		if (g->id == id && g->asked)
			g->answered = 1;
	}
}

/* Closes the regions of exports that expired EXPIRED_NS ago: importers have stopped by
 * themselves. */
void fabric_grants_tick(struct fabric_device *d)
{
	uint64_t now = clock_ns();
	struct fabric_grant *g;

	if (now < d->expire_ns)
		return;
	d->expire_ns = NEVER_NS;
	list_for_each_entry_safe(g, &d->expiring, expiring) {
		uint64_t at = expires_at(g);

		/* An ep that ends closes all of them. */
		if (g->ep->ending)
			continue;
		if (at <= now)
			grant_job(g);
		else if (at < d->expire_ns)
			d->expire_ns = at;
	}
}

/* ---- the peer's memory ---- */

int fabric_key_map(const struct fabric_device *d, struct fabric_key *k)
{
	int err = 0;

	for (; k->mapped < k->n && !err; k->mapped += !err)
		err = fabric_part_map(d, k->raw + k->mapped * d->raw, &k->parts[k->mapped]);
	return err;
}

/* Reads and checks the parts of a key. 0 or -errno. */
static int parts_read(const struct fabric_device *d, struct fabric_key *k, const uint8_t *from)
{
	uint64_t end = 0;
	uint32_t i;

	for (i = 0; i < k->n; i++, from += fabric_part_bytes(d)) {
		struct fabric_part *p = &k->parts[i];

		fabric_part_read(from, p);
		memcpy(k->raw + i * d->raw, fabric_part_raw(from), d->raw);
		if (!p->len || __builtin_add_overflow(end, p->len, &end))
			return -EINVAL;
		p->len = end;
	}
	return k->n && end != k->len ? -EINVAL : 0;
}

static int key_check(const struct fabric_ep *e, const uint8_t *bytes, uint32_t len,
		     struct key_head *h)
{
	uint8_t copy[KEY_MAX], mac[16];

	if (len < sizeof(*h) || len > KEY_MAX)
		return -EINVAL;
	memcpy(h, bytes, sizeof(*h));
	if (len != sizeof(*h) + le16toh(h->n) * fabric_part_bytes(fabric_ep_device(e)))
		return -EINVAL;
	memcpy(copy, bytes, len);
	key_seal(e->theirs, copy, len, mac);
	if (!equal_const_time(mac, h->mac, sizeof(mac)))
		return -EINVAL;
	return h->version == fabric_version(fabric_ep_device(e)) ? 0 : -EPROTONOSUPPORT;
}

/* The expiry by our clock. For another machine's clock it is computed from the time that was left
 * when the key was made. */
static uint64_t expires_here(const struct fabric_device *d, const struct key_head *h)
{
	uint64_t left = le64toh(h->left);

	if (left == NEVER_NS)
		return NEVER_NS;
	return le64toh(h->boot) == d->boot ? le64toh(h->expires) : clock_ns() + left;
}

int fabric_import(struct ep *ep, const void *key, uint32_t key_len, uint64_t len, struct rkey *rkey)
{
	struct fabric_ep *e = fabric_ep(ep);
	struct fabric_device *d = fabric_ep_device(e);
	struct fabric_key *k;
	struct key_head h;
	uint32_t n;
	int err = key_check(e, key, key_len, &h);

	if (err)
		return err;
	if (le64toh(h.len) != len)
		return -EINVAL;
	n = le16toh(h.n);
	k = calloc(1, sizeof(*k) + n * (sizeof(k->parts[0]) + d->raw));
	if (!k)
		return -ENOMEM;
	k->n = n;
	k->raw = (uint8_t *)&k->parts[n];
	k->id = le32toh(h.id);
	k->rights = n ? h.rights & ~KEY_DEVICE : 0;
	k->device = !!(h.rights & KEY_DEVICE);
	k->len = len;
	k->expires_ns = expires_here(d, &h);
	err = parts_read(d, k, (const uint8_t *)key + sizeof(h));
	if (err) {
		free(k);
		return err;
	}
	list_add_tail(&k->link, &e->keys);
	*rkey = (struct rkey){.v = {(uint64_t)(uintptr_t)k}};
	return 0;
}

/* Answers MESSAGE_REVOKE for a key that no operation uses. */
static void answer(struct fabric_ep *e, uint32_t id)
{
	if (e->endpoint_state == ENDPOINT_READY && e->state == EP_UP)
		fabric_send(e, MESSAGE_REVOKED, id, NULL, 0);
}

void fabric_key_free(struct fabric_ep *e, struct fabric_key *k)
{
	list_del(&k->link);
	while (k->mapped)
		fabric_part_free(fabric_ep_device(e), &k->parts[--k->mapped]);
	free(k);
}

void fabric_import_ask(struct ep *ep, struct rkey *rkey)
{
	struct fabric_ep *e = fabric_ep(ep);

	if (e->state == EP_UP)
		fabric_bound_ready(e, (struct fabric_key *)(uintptr_t)rkey->v[0]);
}

void fabric_forget(struct ep *ep, struct rkey *rkey, int now)
{
	struct fabric_key *k = (struct fabric_key *)(uintptr_t)rkey->v[0];
	struct fabric_ep *e = fabric_ep(ep);

	rkey->v[0] = 0;
	if (!k)
		return;
	/* Cannot be freed now: a later poll frees it, or the end of the ep does. */
	if ((!now && (e->state == EP_UP || k->mapped)) ||
	    (e->state == EP_UP && !fabric_move_prove(e))) {
		k->forgotten = 1;
		e->due |= now ? 0 : DUE_REVOKED;
		return;
	}
	if (k->unanswered)
		answer(e, k->id);
	fabric_key_free(e, k);
}

void fabric_key_revoke(struct fabric_ep *e, uint32_t id)
{
	struct fabric_key *k;
	int found = 0;

	list_for_each_entry(k, &e->keys, link) {
		if (k->id != id)
			continue;
		k->revoked = k->unanswered = 1;
		found = 1;
	}
	if (found)
		e->due |= DUE_REVOKED;
	else
		answer(e, id);
}

/* 1: nothing more is to be sent about it. */
static int key_answer(struct fabric_ep *e, struct fabric_key *k)
{
	if (k->unanswered && !fabric_send(e, MESSAGE_REVOKED, k->id, NULL, 0))
		return 0;
	k->unanswered = 0;
	if (k->forgotten)
		fabric_key_free(e, k);
	return 1;
}

/* Until the data endpoint is ready, operations of the old one may still land. */
void fabric_keys_answer(struct fabric_ep *e)
{
	struct fabric_key *k;

	e->due &= ~(uint32_t)DUE_REVOKED;
	if (e->endpoint_state != ENDPOINT_READY)
		return;
	list_for_each_entry_safe(k, &e->keys, link) {
		if ((!k->unanswered && !k->forgotten) || k->out)
			continue;
		/* fabric_move_proved() sets DUE_REVOKED again. */
		if (!fabric_move_prove(e))
			return;
		if (!key_answer(e, k))
			e->due |= DUE_REVOKED;
	}
}
