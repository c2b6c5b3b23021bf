/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory: what is made known to the device, what peers may touch of it, and what we may of theirs.
 * An exposure has a region of libfabric's own, with its range and rights and a random key, for each
 * of the pieces of memory that it covers; closing them takes it back.
 *
 * A key: version u8, rights u8, pieces u16, id u32, bytes u64, its owner's clock at which it
 * expires u64, in how long that is u64, what names that clock u64, SipHash of all with the
 * owner's cookie [16] the pieces' parts. Little-endian.
 */
#include <endian.h>
#include <stdlib.h>
#include "backend/fabric_key.h"

struct key_head {
	uint8_t version, rights;
	uint16_t n;
	uint32_t id;
	uint64_t len, expires, left, boot;
	uint8_t mac[16];
	uint64_t way;
};

/* ---- for the peer's ---- */

static uint64_t access_of(uint32_t rights)
{
	return (rights & URCCL_RIGHT_READ ? FI_REMOTE_READ : 0) |
	       (rights & URCCL_RIGHT_WRITE ? FI_REMOTE_WRITE : 0);
}

static uint32_t count_pieces(const struct exposure *x)
{
	uint64_t off = x->off, end = x->off + x->len, run;
	uint32_t n;

	for (n = 0; off < end; n++) {
		memory_at(x->memory, off, &run);
		off += run;
	}
	return n;
}

int fabric_grant_close(struct fabric_grant *g)
{
	for (; g->n; g->n--)
		if (fabric_fid_close(&g->mr[g->n - 1]->fid))
			return -FI_EBUSY;
	return 0;
}

/* The piece at off, and how much of it is the exposure's. */
static void *piece_at(const struct fabric_grant *g, uint64_t off, uint64_t *run)
{
	uint64_t left = g->off + g->len - off;
	void *at = memory_at(g->memory, off, run);

	if (*run > left)
		*run = left;
	return at;
}

int fabric_grant_fill(struct fabric_device *d, struct fabric_grant *g)
{
	uint64_t off, run;
	uint32_t i = 0;
	int err;

	if (g->n == g->pieces)
		return 0;
	for (off = g->off; off < g->off + g->len; off += run, i++) {
		void *at = piece_at(g, off, &run);

		if (i < g->n)
			continue;
		err = fabric_region_open(d, &g->ep->way, at, run, access_of(g->rights),
					 &g->mr[g->n]);
		if (err)
			return err;
		g->n++;
	}
	return 0;
}

int fabric_grant_parts(const struct fabric_device *d, const struct fabric_grant *g, uint32_t first,
		       uint32_t n, uint8_t *to)
{
	uint64_t off, run;
	uint32_t i = 0;
	int err = 0;

	for (off = g->off; i < first + n && !err; off += run, i++) {
		void *at = piece_at(g, off, &run);

		if (i < first)
			continue;
		err = fabric_part_put(d, g->n ? g->mr[i] : NULL, at, run, to);
		to += fabric_part_bytes(d);
	}
	return err;
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
		.version = FABRIC_VERSION,
		.rights = (uint8_t)x->rights,
		.n = htole16((uint16_t)n),
		.id = htole32(g->id),
		.len = htole64(x->len),
		.expires = htole64(x->expires_ns),
		.left = htole64(left),
		.boot = htole64(d->boot),
		.way = htole64(g->n ? g->ep->number : 0),
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
	if (g->none || expires_at(g) == NEVER_NS)
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
	if (g->failed)
		grant_free(g);
}

int fabric_expose(struct exposure *x, void *key, uint32_t key_max)
{
	struct fabric_ep *e = fabric_ep(x->ep);
	struct fabric_device *d = fabric_ep_device(e);
	uint32_t n = access_of(x->rights) ? count_pieces(x) : 0;
	struct fabric_grant *g;
	int err = 0;

	x->scratch = 0;
	if (key_max < KEY_MAX || n > (KEY_MAX - sizeof(struct key_head)) / fabric_part_bytes(d))
		return -E2BIG;
	if (e->ending)
		return -ENOTCONN; /* its peer asks by another, or later */
	if (e->state == EP_NEW)
		return -ECONNRESET;
	g = calloc(1, sizeof(*g) + n * sizeof(g->mr[0]));
	if (!g)
		return -ENOMEM;
	g->ep = e;
	g->id = ++e->next_id;
	g->expires_ns = x->expires_ns;
	g->none = !n;
	g->pieces = n;
	g->memory = x->memory;
	g->off = x->off;
	g->len = x->len;
	g->rights = x->rights;
	/* Of a way that is made anew regions are made when they are asked for. */
	if (n && (!d->bound || e->way_state == WAY_READY))
		err = fabric_grant_fill(d, g);
	if (!err)
		err = fabric_grant_parts(d, g, 0, n, (uint8_t *)key + sizeof(struct key_head));
	list_add_tail(&g->link, &e->grants);
	list_init(&g->expiring);
	if (err) {
		g->failed = 1;
		grant_job(g);
		return err;
	}
	expire_at(d, g);
	x->scratch = (uint64_t)(uintptr_t)g;
	return key_put(d, g, x, n, key);
}

/* Not said before the next poll: an ep that is closed at once tells its peer that alone. The time
 * runs also where the word has no slot, as with a peer that is frozen. */
static void grant_ask(struct fabric_grant *g)
{
	struct fabric_ep *e = g->ep;

	if (g->deadline_ns || e->state != EP_UP)
		return;
	g->ways = e->ways_closed;
	g->deadline_ns = clock_ns() + REVOKE_NS;
	fabric_ep_device(e)->revoking++;
	e->wants |= WANT_REVOKE;
}

void fabric_grants_ask(struct fabric_ep *e)
{
	struct list *pos;

	e->wants &= ~(uint32_t)WANT_REVOKE;
	list_for_each(pos, &e->grants) {
		struct fabric_grant *g = list_entry(pos, struct fabric_grant, link);

		if (!g->deadline_ns || g->asked)
			continue;
		g->asked = (uint8_t)fabric_say(e, MESSAGE_REVOKE, g->id, NULL, 0);
		if (!g->asked)
			e->wants |= WANT_REVOKE;
	}
}

/* Before the next way is opened: on that one they are not to be reached, whoever has heard. */
void fabric_grants_close(struct fabric_ep *e)
{
	struct list *pos;

	list_for_each(pos, &e->grants) {
		struct fabric_grant *g = list_entry(pos, struct fabric_grant, link);

		if (g->deadline_ns)
			grant_job(g);
	}
}

/* Nothing of the peer's lands there any more, once the regions are closed. */
static int grant_is_quiet(struct fabric_grant *g)
{
	struct fabric_ep *e = g->ep;

	if (g->answered || (g->deadline_ns && e->ways_closed != g->ways))
		return 1;
	grant_ask(g);
	if (g->deadline_ns && clock_ns() >= g->deadline_ns) {
		grant_job(g);
		fabric_ep_break(e);
	}
	return 0;
}

int fabric_unexpose(struct exposure *x)
{
	struct fabric_grant *g = (struct fabric_grant *)(uintptr_t)x->scratch;
	int quiet;

	if (!g)
		return 0;
	if ((g->ep->ending && !g->ep->ended) || g->leaves || (g->ep->ended && g->job_out))
		return -EINPROGRESS;
	if (!g->ep->ended) {
		/* Of one that has expired the regions may be closed, and a write still land. */
		quiet = g->none || g->ep->state == EP_CONNECTING || grant_is_quiet(g);
		if (quiet)
			grant_job(g);
		if (!quiet || !g->closed)
			return -EINPROGRESS;
	}
	grant_free(g);
	x->scratch = 0;
	return 0;
}

void fabric_grant_revoked(struct fabric_ep *e, uint32_t id)
{
	struct list *pos;

	list_for_each(pos, &e->grants) {
		struct fabric_grant *g = list_entry(pos, struct fabric_grant, link);

		if (g->id == id && g->asked)
			g->answered = 1;
	}
}

/* Those whose importers have stopped by themselves for a while. */
void fabric_grants_tick(struct fabric_device *d)
{
	uint64_t now = clock_ns();
	struct list *pos, *tmp;

	if (now < d->expire_ns)
		return;
	d->expire_ns = NEVER_NS;
	list_for_each_safe(pos, tmp, &d->expiring) {
		struct fabric_grant *g = list_entry(pos, struct fabric_grant, expiring);
		uint64_t at = expires_at(g);

		/* An ep that ends closes them all. */
		if (g->ep->ending)
			continue;
		if (at <= now)
			grant_job(g);
		else if (at < d->expire_ns)
			d->expire_ns = at;
	}
}

/* ---- the peer's memory ---- */

static void key_free(const struct fabric_device *d, struct fabric_key *k)
{
	while (k->n)
		fabric_part_free(d, &k->parts[--k->n]);
	free(k);
}

/* Its n parts as they are in a key, checked: 0 or -errno; k->n of them are read. */
static int parts_read(const struct fabric_device *d, struct fabric_key *k, uint32_t n,
		      const uint8_t *from)
{
	uint64_t end = 0;
	int err;

	for (; k->n < n; from += fabric_part_bytes(d)) {
		struct fabric_part *p = &k->parts[k->n];

		err = fabric_part_read(d, from, p);
		if (err)
			return err;
		k->n++;
		if (!p->len || __builtin_add_overflow(end, p->len, &end))
			return -EINVAL;
		p->len = end;
	}
	return n && end != k->len ? -EINVAL : 0;
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
	return h->version == FABRIC_VERSION ? 0 : -EPROTONOSUPPORT;
}

/* By our clock. Of another machine's we know what was left when the key was made. */
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
	int err = key_check(e, key, key_len, &h);

	if (err)
		return err;
	if (le64toh(h.len) != len)
		return -EINVAL;
	k = calloc(1, sizeof(*k) + le16toh(h.n) * sizeof(k->parts[0]));
	if (!k)
		return -ENOMEM;
	k->id = le32toh(h.id);
	k->rights = le16toh(h.n) ? h.rights : 0;
	k->len = len;
	k->expires_ns = expires_here(d, &h);
	k->way = (uint32_t)le64toh(h.way);
	err = parts_read(d, k, le16toh(h.n), (const uint8_t *)key + sizeof(h));
	if (err) {
		key_free(d, k);
		return err;
	}
	list_add_tail(&k->link, &e->keys);
	*rkey = (struct rkey){.v = {(uint64_t)(uintptr_t)k}};
	return 0;
}

/* Whoever asks about a key that is gone learns what he knows already. */
static void answer(struct fabric_ep *e, uint32_t id)
{
	if (e->way_state == WAY_READY && e->state == EP_UP)
		fabric_say(e, MESSAGE_REVOKED, id, NULL, 0);
}

void fabric_key_free(struct fabric_ep *e, struct fabric_key *k)
{
	list_del(&k->link);
	key_free(fabric_ep_device(e), k);
}

void fabric_forget(struct ep *ep, struct rkey *rkey)
{
	struct fabric_key *k = (struct fabric_key *)(uintptr_t)rkey->v[0];

	rkey->v[0] = 0;
	if (!k)
		return;
	if (fabric_ep(ep)->state == EP_UP && !fabric_move_prove(fabric_ep(ep))) {
		k->forgotten = 1;
		return;
	}
	if (k->unanswered)
		answer(fabric_ep(ep), k->id);
	fabric_key_free(fabric_ep(ep), k);
}

void fabric_key_revoke(struct fabric_ep *e, uint32_t id)
{
	struct list *pos;
	int found = 0;

	list_for_each(pos, &e->keys) {
		struct fabric_key *k = list_entry(pos, struct fabric_key, link);

		if (k->id != id)
			continue;
		k->revoked = k->unanswered = 1;
		found = 1;
	}
	if (found)
		e->wants |= WANT_REVOKED;
	else
		answer(e, id);
}

/* 1: there is nothing more to be said of it. */
static int key_answer(struct fabric_ep *e, struct fabric_key *k)
{
	if (k->unanswered && !fabric_say(e, MESSAGE_REVOKED, k->id, NULL, 0))
		return 0;
	k->unanswered = 0;
	if (k->forgotten)
		fabric_key_free(e, k);
	return 1;
}

/* While the way is not ready something of the old one may still be on its way. */
void fabric_keys_answer(struct fabric_ep *e)
{
	struct list *pos, *tmp;

	e->wants &= ~(uint32_t)WANT_REVOKED;
	if (e->way_state != WAY_READY)
		return;
	list_for_each_safe(pos, tmp, &e->keys) {
		struct fabric_key *k = list_entry(pos, struct fabric_key, link);

		if ((!k->unanswered && !k->forgotten) || k->out)
			continue;
		/* What proves it wants to answer when it is through. */
		if (!fabric_move_prove(e))
			return;
		if (!key_answer(e, k))
			e->wants |= WANT_REVOKED;
	}
}
