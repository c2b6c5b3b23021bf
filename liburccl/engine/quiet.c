/* SPDX-License-Identifier: Apache-2.0 */
/* Taking things back: what a region, a remote or a ring waits for before nothing touches it any
 * more. */
#include "engine/private.h"

/* Ends soon, also where the peer does not answer: a call of the program waits for it. */
static void stop_soon(struct op *op, int res, uint32_t reason)
{
	op_stop(op, res, reason, 0);
	op_hurry(op);
}

/* ---- rings ----------------------------------------------------------------------------------- */

void ring_stop(struct engine_ring *er)
{
	uint32_t i;

	er->closing = 1;
	for (i = 0; i < er->entries; i++)
		stop_soon(&er->ops[i], -ESHUTDOWN, REASON_CLOSING);
	msg_ring_gone(er);
}

int ring_is_quiet(struct engine *e, struct engine_ring *er)
{
	struct list *pos;

	/* Entries that were taken in this turn are still listed, also where they have ended. */
	if (er->nfree != er->entries || e->fresh)
		return 0;
	tell_ring_gone(er);
	list_for_each(pos, &e->peers)
		list_entry(pos, struct engine_peer, link)->fence_lost[er->index / 64] &=
			~(1ull << (er->index % 64));
	list_del(&er->link);
	e->ring_index[er->index] = NULL;
	er->index = RINGS_MAX;
	return 1;
}

/* ---- regions and remotes --------------------------------------------------------------------- */

static int chunk_on(const struct engine *e, const struct chunk *c, const void *what)
{
	const struct memory *m = what;

	(void)e;
	return c->memory == m;
}

static int chunk_of(const struct engine *e, const struct chunk *c, const void *what)
{
	const struct engine_remote *r = what;

	(void)e;
	return c->key >= &r->parts[0].key && c->key <= &r->parts[r->nparts - 1].key;
}

/* Stops the entries of chunks that match; returns whether there are any. */
static int chunks_stop(struct engine *e,
		       int (*match)(const struct engine *, const struct chunk *, const void *),
		       const void *what, int res, uint32_t reason)
{
	int found = 0;
	uint32_t i;

	for (i = 0; i < CHUNKS_MAX && e->chunks_used; i++) {
		struct chunk *c = &e->chunks[i];

		if (!c->op || !match(e, c, what))
			continue;
		found = 1;
		stop_soon(c->op, res, reason);
	}
	return found;
}

static int region_in(const struct op *op, const void *what)
{
	return op->memory == what || (op->cursor.cur.len && op->cursor.cur.memory == what) ||
	       (op->cursor.element.pos < op->cursor.element.len &&
		op->cursor.element.memory == what);
}

static int remote_in(const struct op *op, const void *what)
{
	const struct engine_remote *r = what;

	return op->remote == what || (op->cursor.cur.len && op->cursor.cur.remote == what) ||
	       (op->cursor.element.pos < op->cursor.element.len &&
		op->cursor.element.remote == what) ||
	       (op->flush_key >= &r->parts[0].key && op->flush_key <= &r->parts[r->nparts - 1].key);
}

static int ops_stop(struct engine *e, int (*match)(const struct op *, const void *),
		    const void *what, int res, uint32_t reason)
{
	struct list *pos;
	int found = 0;
	uint32_t i;

	list_for_each(pos, &e->rings) {
		struct engine_ring *er = list_entry(pos, struct engine_ring, link);

		for (i = 0; i < er->entries; i++) {
			struct op *op = &er->ops[i];

			if (op->state == OP_FREE || !(op_is_data(op) || op_is_atomic(op)) ||
			    !match(op, what))
				continue;
			stop_soon(op, res, reason);
			found |= op->state != OP_FREE;
		}
	}
	return found;
}

/* 1: nothing of ours and no peer touches it any more. */
int region_is_quiet(struct engine *e, struct memory *m)
{
	struct list *pos, *tmp;
	struct exposure *x;
	int busy = 0;

	list_for_each_safe(pos, tmp, &e->exposures) {
		x = list_entry(pos, struct exposure, link);
		if (x->memory != m)
			continue;
		if (exposure_end(e, x))
			busy = 1;
	}
	busy |= ops_stop(e, region_in, m, -ECANCELED, REASON_UNREGISTERED);
	return !(chunks_stop(e, chunk_on, m, -ECANCELED, REASON_UNREGISTERED) | busy);
}

static int remote_is_busy(struct engine *e, struct engine_remote *r, int res, uint32_t reason)
{
	int busy = ops_stop(e, remote_in, r, res, reason);

	busy |= chunks_stop(e, chunk_of, r, res, reason);
	if (r->peer->flush_busy)
		busy |= r->peer->flush.key >= &r->parts[0].key &&
			r->peer->flush.key <= &r->parts[r->nparts - 1].key;
	return busy;
}

static void remote_forget_keys(struct engine_remote *r)
{
	struct ep *ep = r->peer->rail ? r->peer->rail->ep : NULL;
	uint32_t i;

	for (i = 0; i < r->nparts; i++) {
		if (r->parts[i].resolved && ep && r->peer->state <= PEER_LOSING)
			ep->dev->ops->forget(ep, &r->parts[i].key);
		r->parts[i].resolved = 0;
	}
}

/* The next entry asks for them again. */
void remote_cool(struct engine_remote *r)
{
	uint32_t i;

	remote_forget_keys(r);
	if (r->revoked)
		return;
	r->failed = 0;
	store_relaxed(&r->mapped, 0);
	store_release(&r->keys, 0);
	for (i = 0; i < r->nparts; i++)
		r->parts[i].has_key = 0;
	r->asked = 0;
}

int remote_is_quiet(struct engine *e, struct engine_remote *r)
{
	r->deleting = 1;
	if (remote_is_busy(e, r, -ECANCELED, REASON_FORGOTTEN) || r->req_out)
		return 0;
	remote_forget_keys(r);
	list_del(&r->of_peer);
	if (HANDLE_SLOT(r->handle) < e->nremotes)
		e->remotes[HANDLE_SLOT(r->handle)] = NULL;
	return 1;
}

/* Entries that begin from now on find no keys, and ask the owner why. */
void remote_revoke(struct engine_remote *r)
{
	uint32_t i;

	r->revoked = 1;
	r->asked = r->req_out; /* what was asked for before is not going to be answered */
	store_relaxed(&r->mapped, 0);
	store_release(&r->keys, 0);
	for (i = 0; i < r->nparts; i++)
		r->parts[i].has_key = 0;
	remote_waiters(r, -EACCES);
}

int remote_is_revoked(struct engine *e, struct engine_remote *r)
{
	if (remote_is_busy(e, r, -EACCES, REASON_REVOKED))
		return 0;
	remote_forget_keys(r);
	return 1;
}
