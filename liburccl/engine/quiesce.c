/* SPDX-License-Identifier: Apache-2.0 */
/* The end of rings, regions and remotes: stops the entries that use one, and reports when no entry,
 * device or peer uses it any more. */
#include "engine/post.h"
#include "engine/stats.h"

/* Stops an entry while a call of the program waits for its end: its wait for the peer is
 * shortened. */
static void stop_soon(struct op *op, int res, uint32_t reason, uint64_t arg)
{
	op_stop(op, res, reason, arg);
	op_shorten_deadline(op);
}

/* ---- rings ----------------------------------------------------------------------------------- */

void ring_stop(struct engine_ring *er)
{
	uint32_t i;

	er->closing = 1;
	for (i = 0; i < er->entries; i++)
		stop_soon(&er->ops[i], -ESHUTDOWN, REASON_CLOSING, 0);
	msg_ring_gone(er);
	watches_gone(er);
}

int ring_is_quiet(struct engine *e, struct engine_ring *er)
{
	struct engine_peer *p;

	/* Entries taken in this iteration are still listed, even if they have ended. */
	if (er->nfree != er->entries || e->fresh)
		return 0;
	stats_ring_closed(er);
	order_ring_quiet(er);
	list_for_each_entry(p, &e->peers, link)
		p->fence_lost[er->index / 64] &= ~(1ull << (er->index % 64));
	list_del(&er->link);
	list_del(&er->device_link);
	e->ring_index[er->index] = NULL;
	er->index = RINGS_MAX;
	return 1;
}

/* ---- regions and remotes --------------------------------------------------------------------- */

static int chunk_on(const struct engine *e, const struct chunk *c, const void *what)
{
	return (e->gpus && stage_has(&e->stage, c) ? stage_memory(e, c) : c->memory) == what;
}

static int chunk_of(const struct engine *e, const struct chunk *c, const void *what)
{
	const struct engine_remote *r = what;

	const struct op *op = c->op;

	return key_of(e->gpus ? relay_entry_key(op->peer, c) : c->key)->remote == r;
}

/* Stops the entries whose chunks match; handle goes into the record. 1: there were some. */
static int chunks_stop(struct engine *e,
		       int (*match)(const struct engine *, const struct chunk *, const void *),
		       const void *what, int res, uint32_t reason, uint32_t handle)
{
	int found = 0;
	uint32_t i;

	for (i = 0; i < CHUNKS_MAX && e->chunks_used; i++) {
		struct chunk *c = &e->chunks[i];

		if (!c->op || !match(e, c, what))
			continue;
		found = 1;
		stop_soon(c->op, res, reason, handle);
	}
	return found;
}

static int region_in(const struct op *op, const void *what)
{
	return op->memory == what || (op->cursor.cur.len && op->cursor.cur.memory == what) ||
	       (op->cursor.element.pos < op->cursor.element.len &&
		op->cursor.element.memory == what) ||
	       sync_in(op, what);
}

static int remote_in(const struct op *op, const void *what)
{
	const struct engine_remote *r = what;

	return op->remote == what || (op->cursor.cur.len && op->cursor.cur.remote == what) ||
	       (op->cursor.element.pos < op->cursor.element.len &&
		op->cursor.element.remote == what) ||
	       (op->flush_key && key_of(op->flush_key)->remote == r);
}

static int ops_stop(struct engine *e, int (*match)(const struct op *, const void *),
		    const void *what, int res, uint32_t reason, uint32_t handle)
{
	struct engine_ring *er;
	int found = 0;
	uint32_t i;

	list_for_each_entry(er, &e->rings, link) {
		for (i = 0; i < er->entries; i++) {
			struct op *op = &er->ops[i];

			if (op->state == OP_FREE || !(op_is_data(op) || op_is_atomic(op)) ||
			    !match(op, what))
				continue;
			stop_soon(op, res, reason, handle);
			found |= op->state != OP_FREE;
		}
	}
	return found;
}

/* 1: neither an entry nor a peer uses it any more. The control thread releases memory that devices
 * have pinned for peers. */
int region_is_quiet(struct engine *e, struct memory *m)
{
	struct exposure *x;
	int busy = 0;

	list_for_each_entry_safe(x, &e->exposures, link) {
		if (x->memory != m)
			continue;
		if (exposure_end(e, x))
			busy = 1;
	}
	busy |= ops_stop(e, region_in, m, -ECANCELED, REASON_UNREGISTERED, m->handle);
	busy |= chunks_stop(e, chunk_on, m, -ECANCELED, REASON_UNREGISTERED, m->handle);
	return !busy;
}

static int remote_is_busy(struct engine *e, struct engine_remote *r, int res, uint32_t reason)
{
	int busy = ops_stop(e, remote_in, r, res, reason, r->handle);
	uint32_t i;

	busy |= chunks_stop(e, chunk_of, r, res, reason, r->handle);
	busy |= relay_source_busy(r);
	for (i = 0; i < RAILS_MAX; i++) {
		const struct rail *rail = r->peer->rails[i];

		if (rail && rail->flush_busy && rail->flush.key)
			busy |= key_of(rail->flush.key)->remote == r;
	}
	return busy;
}

/* The rail forgets its key of the part. With the last key the part counts as unknown, and the next
 * entry asks for a key again. */
static void part_loses(struct engine_remote *r, uint32_t i, uint32_t number)
{
	struct remote_part *part = &r->parts[i];
	uint32_t bit = 1u << number;

	if (!(part->rails & bit))
		return;
	part->rails &= ~bit;
	r->nkeys[number]--;
	if (part->rails)
		return;
	store_relaxed(&r->mapped, r->mapped - !!r->rail_keys[number][i].key.mapped);
	store_release(&r->keys, r->keys - 1);
}

void remote_forget_keys(struct engine_remote *r, struct rail *rail)
{
	struct rail_key *keys = r->rail_keys[rail->number];
	uint32_t i;

	for (i = 0; keys && i < r->nparts; i++) {
		if (!keys[i].resolved || keys[i].rail != rail)
			continue;
		part_loses(r, i, rail->number);
		if (r->peer->state <= PEER_LOSING && !keys[i].key.relay)
			rail->ep->dev->ops->forget(rail->ep, &keys[i].key);
		keys[i].resolved = 0;
	}
}

static void forget_all(struct engine_remote *r)
{
	uint32_t i;

	for (i = 0; i < RAILS_MAX; i++)
		if (r->peer->rails[i])
			remote_forget_keys(r, r->peer->rails[i]);
}

static void lose_all(struct engine_remote *r)
{
	uint32_t i;

	store_relaxed(&r->mapped, 0);
	store_release(&r->keys, 0);
	memset(r->nkeys, 0, sizeof(r->nkeys));
	for (i = 0; i < r->nparts; i++)
		r->parts[i].rails = r->parts[i].grant = 0;
}

/* The next entry requests the keys again. */
void remote_suspend(struct engine_remote *r)
{
	forget_all(r);
	if (r->revoked)
		return;
	r->failed = 0;
	lose_all(r);
	r->asked = 0;
}

int remote_is_quiet(struct engine *e, struct engine_remote *r)
{
	r->deleting = 1;
	if (remote_is_busy(e, r, -ECANCELED, REASON_FORGOTTEN) || r->req_out || r->importing)
		return 0;
	forget_all(r);
	list_del(&r->of_peer);
	if (HANDLE_SLOT(r->handle) < e->nremotes)
		e->remotes[HANDLE_SLOT(r->handle)] = NULL;
	return 1;
}

/* Entries that start from now on find no keys, and ask the owner for the reason. */
void remote_revoke(struct engine_remote *r)
{
	r->revoked = 1;
	r->asked = r->req_out; /* earlier requests will get no answer */
	lose_all(r);
	remote_waiters(r, -EACCES);
	replay_run(r->peer);
}

int remote_is_revoked(struct engine *e, struct engine_remote *r)
{
	if (remote_is_busy(e, r, -EACCES, REASON_REVOKED) || r->has_address)
		return 0;
	forget_all(r);
	return 1;
}
