/* SPDX-License-Identifier: Apache-2.0 */
/* Exports of regions to peers (struct grant), from the first KEY_REQ to their end. */
#include <stdlib.h>

#include "region/private.h"

uint64_t owner_ms(const struct control *c)
{
	return (clock_now(c->config.clock) - c->start_ns) / NSEC_PER_MSEC;
}

static uint32_t grant_hash(const struct peer *p, const struct region *r,
			   const struct urccl_advert *a)
{
	uint64_t h = (uint64_t)(uintptr_t)p ^ (uint64_t)(uintptr_t)r << 7;

	h = (h ^ a->offset) * 0x9e3779b97f4a7c15ull;
	h = (h ^ h >> 29 ^ a->length) * 0x9e3779b97f4a7c15ull;
	h = (h ^ h >> 29 ^ a->expires_ms << 3 ^ a->rights) * 0x9e3779b97f4a7c15ull;
	return (uint32_t)(h >> 32);
}

static struct grant *grant_find(struct control *c, const struct path *path, const struct region *r,
				const struct urccl_advert *a, uint32_t hash)
{
	const struct peer *p = path->peer;
	struct grant *g = c->grants ? c->grants[hash & c->grants_mask] : NULL;

	while (g && (g->peer != p || g->region != r || g->rail != path->rail.number ||
		     g->e.off != a->offset || g->e.len != a->length || g->e.rights != a->rights ||
		     g->expires_ms != a->expires_ms || g->revoking || g->e.maybe_mapped))
		g = g->hash_next;
	return g;
}

static int grants_grow(struct control *c)
{
	uint32_t size = c->grants ? 2 * (c->grants_mask + 1) : 64, i;
	struct grant **table, *g;

	if (c->grants && c->ngrants <= c->grants_mask)
		return 0;
	table = calloc(size, sizeof(struct grant *));
	if (!table)
		return c->grants ? 0 : -ENOMEM;
	for (i = 0; c->grants && i <= c->grants_mask; i++) {
		while ((g = c->grants[i])) {
			c->grants[i] = g->hash_next;
			g->hash_next = table[g->hash & (size - 1)];
			table[g->hash & (size - 1)] = g;
		}
	}
	free(c->grants);
	c->grants = table;
	c->grants_mask = size - 1;
	return 0;
}

static struct grant *grant_new(struct control *c, struct path *path, struct region *r,
			       const struct urccl_advert *a, uint32_t hash)
{
	struct peer *p = path->peer;
	struct grant *g = calloc(1, sizeof(*g));

	if (!g || grants_grow(c)) {
		free(g);
		return NULL;
	}
	g->peer = p;
	g->region = r;
	g->hash = hash;
	g->expires_ms = a->expires_ms;
	list_init(&g->e.link);
	list_init(&g->e.expired);
	list_init(&g->revoke_unacked);
	g->rail = (uint8_t)path->rail.number;
	g->e.memory = r->memory;
	g->e.off = a->offset;
	g->e.len = a->length;
	g->e.rights = a->rights;
	g->e.expires_ns = a->expires_ms ? c->start_ns + a->expires_ms * NSEC_PER_MSEC : NEVER_NS;
	g->hash_next = c->grants[hash & c->grants_mask];
	c->grants[hash & c->grants_mask] = g;
	c->ngrants++;
	list_add_tail(&g->of_peer, &p->grants);
	list_add_tail(&g->of_region, &r->grants);
	p->ngrants++;
	return g;
}

/* The engine has its command, or it waits for the pin. */
int grant_busy(const struct grant *g)
{
	return g->cmd.out || g->waits;
}

/* A command uses it, or an importer may still have it mapped. */
static int grant_held(const struct grant *g)
{
	return grant_busy(g) || g->e.maybe_mapped;
}

static void grant_free(struct control *c, struct grant *g)
{
	struct grant **at = &c->grants[g->hash & c->grants_mask];

	assert(!grant_busy(g));
	pin_put(c, g);
	while (*at != g)
		at = &(*at)->hash_next;
	*at = g->hash_next;
	c->ngrants--;
	g->peer->ngrants--;
	list_del(&g->of_peer);
	list_del(&g->of_region);
	g->region->nrevoke_unacked -= !list_empty(&g->revoke_unacked);
	list_del(&g->revoke_unacked);
	free(g->key);
	free(g);
}

/* Frees the exports that this importer keeps (NULL: those that none keeps). 1:
 * some are still in use. */
static int grants_free_of(struct control *c, struct peer *p, const struct path *importer)
{
	struct grant *g;
	int busy = 0;

	list_for_each_entry_safe(g, &p->grants, of_peer) {
		struct region *r = g->region;

		if (g->importer != importer)
			continue;
		if (importer)
			g->e.maybe_mapped = 0;
		g->importer = NULL;
		if (grant_held(g)) {
			busy = 1;
			continue;
		}
		grant_free(c, g);
		region_due(c, r);
	}
	return busy;
}

int grants_free_peer(struct control *c, struct peer *p)
{
	return grants_free_of(c, p, NULL);
}

void grants_keep(struct path *path)
{
	struct grant *g;

	list_for_each_entry(g, &path->peer->grants, of_peer) {
		if (!g->e.maybe_mapped || g->importer)
			continue;
		g->e.maybe_mapped = path->importer >= 0;
		g->importer = g->e.maybe_mapped ? path : NULL;
	}
}

void grants_free_kept(struct control *c, struct path *path)
{
	(void)grants_free_of(c, path->peer, path);
}

static void grants_free(struct control *c, struct list *grants)
{
	struct grant *g;

	list_for_each_entry_safe(g, grants, of_region) {
		if (!grant_held(g))
			grant_free(c, g);
	}
}

void grants_free_region(struct control *c, struct region *r)
{
	grants_free(c, &r->grants);
	grants_free(c, &r->revoking_grants);
}

void grant_set_revoking(struct grant *g)
{
	g->revoking = 1;
	list_del(&g->of_region);
	list_add_tail(&g->of_region, &g->region->revoking_grants);
}

void key_answer(struct control *c, struct peer *p, uint64_t id, int status, const struct grant *g)
{
	struct wire_key_rep rep = {.id = id, .status = status};

	if (!status) {
		rep.grant = g->e.grant;
		rep.len = g->key_len;
		rep.key = g->key;
	}

	if (p->stage == STAGE_UP)
		conn_send(c, p->conn, c->tx, wire_put_key_rep(c->tx, &rep));
}

static void grant_answer(struct control *c, struct grant *g, int status)
{
	uint32_t i;

	for (i = 0; i < g->nids; i++)
		key_answer(c, g->peer, g->ids[i], status, g);
	g->peer->asked -= g->nids;
	g->nids = 0;
}

/* The peer and the region may both be waiting for its end. */
static void grant_gone(struct control *c, struct grant *g)
{
	struct region *r = g->region;
	struct peer *p = g->peer;

	grant_free(c, g);
	region_due(c, r);
	peer_due(c, p);
}

/* The engine has carried out the command. */
static void grant_settled(struct control *c, struct grant *g)
{
	struct peer *p = g->peer;

	/* Revoked meanwhile: end it now, unless the region still waits for peers to confirm a
	 * REVOKE. It then ends together with the others. */
	if (g->revoking && !g->region->ending && !g->region->nrevoke_unacked)
		grant_end(c, g);
	region_due(c, g->region);
	if (p->stage == STAGE_DOWN)
		peer_due(c, p);
}

/* Its rail closed meanwhile: the pinned range stays for the next rail. */
static int grant_detaches(const struct grant *g, int err)
{
	return err == -ENOTCONN && g->pin && !g->revoking && g->peer->stage == STAGE_UP &&
	       g->peer->failover;
}

/* The peer learns what this side lacks, and asks again with each of its entries: log it once. */
static void grant_short(struct control *c, const struct grant *g, int err)
{
	if (err == -ENOTCONN || key_refused(err) || g->region->short_logged)
		return;
	g->region->short_logged = 1;
	log_short(c, g->dev, g->e.len, err);
}

/* An export that was live on an earlier rail stays too: atomics still use it. */
static void grant_failed(struct control *c, struct grant *g, int err)
{
	grant_short(c, g, err);
	grant_answer(c, g, err);
	if (!g->live && !grant_detaches(g, err)) {
		grant_gone(c, g);
		return;
	}
	g->detached = 1;
	grant_settled(c, g);
}

static void grant_exposed(struct control *c, struct cmd *cmd)
{
	struct grant *g = container_of(cmd, struct grant, cmd);
	int rc = cmd->e.msg.res;
	uint8_t *key;

	if (rc) {
		grant_failed(c, g, rc);
		return;
	}
	g->live = 1;
	g->detached = 0;
	g->region->short_logged = 0;
	assert(cmd->e.len <= KEY_MAX);
	g->key_len = cmd->e.len;
	/* Keys are short and kept: give back the rest of KEY_MAX. */
	key = realloc(g->key, g->key_len ? g->key_len : 1);
	if (key)
		g->key = key;
	grant_answer(c, g, g->revoking ? -EACCES : 0);
	grant_settled(c, g);
}

static void grant_unexposed(struct control *c, struct cmd *cmd)
{
	struct grant *g = container_of(cmd, struct grant, cmd);

	if (!grant_held(g))
		grant_gone(c, g);
}

/* A grant in use is ended later, when its command or pin is done. */
void grant_end(struct control *c, struct grant *g)
{
	if (grant_busy(g))
		return;
	if (!g->live) {
		grant_free(c, g);
		return;
	}
	g->cmd.e.exposure = &g->e;
	cmd_post(c, &g->cmd, ENGINE_UNEXPOSE, grant_unexposed);
}

/* Ends expired exports once every 1,024 new ones, so that short-lived adverts do not fill the
 * table. */
static void grants_sweep(struct control *c, struct peer *p)
{
	uint64_t now = owner_ms(c);
	struct grant *g;

	if (p->ngrants < p->grants_sweep)
		return;
	list_for_each_entry(g, &p->grants, of_peer) {
		if (!g->live || grant_busy(g) || g->revoking || !g->expires_ms ||
		    g->expires_ms > now)
			continue;
		grant_set_revoking(g);
		grant_end(c, g);
	}
	p->grants_sweep = p->ngrants + 1024;
}

/* 0, or -ENOMEM. */
static int grant_post(struct control *c, struct grant *g, struct path *path)
{
	uint8_t *key = realloc(g->key, KEY_MAX);

	if (!key)
		return -ENOMEM;
	g->key = key;
	g->e.ep = path->rail.ep;
	g->cmd.e.exposure = &g->e;
	g->cmd.e.peer = g->peer->engine;
	g->cmd.e.rail = &path->rail;
	g->cmd.e.data = g->key;
	g->cmd.e.len = KEY_MAX;
	cmd_post(c, &g->cmd, ENGINE_EXPOSE, grant_exposed);
	return 0;
}

/* The rail may have closed meanwhile, or the advert may have been revoked. */
void grant_pinned(struct control *c, struct grant *g, int rc)
{
	struct path *path = rail_path(g->peer, g->rail);

	if (!rc && g->revoking)
		rc = -EACCES;
	if (!rc && (g->peer->stage != STAGE_UP || !path || path->closing || !path->posted ||
		    path->rail.ep->dev != g->dev))
		rc = -ENOTCONN;
	if (!rc)
		rc = grant_post(c, g, path);
	if (rc)
		grant_failed(c, g, rc);
}

static int grant_expose(struct control *c, struct grant *g, struct path *path)
{
	int rc = 0;

	g->dev = path->rail.ep->dev;
	/* Memory that peers reach only through our engine needs no pin. */
	if (g->dev->caps & CAP_PIN && device_reaches(g->dev, g->region->memory))
		rc = pin_get(c, g);
	if (rc == -EINPROGRESS)
		return 0;
	return rc ? rc : grant_post(c, g, path);
}

void grants_detach(struct peer *p, uint32_t number)
{
	struct grant *g;

	list_for_each_entry(g, &p->grants, of_peer) {
		if (g->rail == number)
			g->detached = 1;
	}
}

/* The export for this advert and rail: a live one, or one that is made (again). NULL with
 * *status. */
struct grant *grant_for(struct control *c, struct path *path, struct region *r,
			const struct urccl_advert *a, int *status)
{
	uint32_t hash = grant_hash(path->peer, r, a);
	struct grant *g = grant_find(c, path, r, a, hash);

	if (g && (!g->detached || grant_busy(g)))
		return g;
	if (!g) {
		grants_sweep(c, path->peer);
		*status = -ENOSPC;
		if (path->peer->ngrants >= GRANTS_MAX)
			return NULL;
		g = grant_new(c, path, r, a, hash);
	}
	*status = -ENOMEM;
	if (!g || !grant_expose(c, g, path))
		return g;
	if (!g->live)
		grant_free(c, g);
	return NULL;
}

void region_due(struct control *c, struct region *r)
{
	if (list_empty(&r->due))
		list_add_tail(&r->due, &c->due_regions);
}
