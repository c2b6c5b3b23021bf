/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A peer's rails come and go; entries stay. A rail:
 *
 *	connecting -> up -> broken -> closed here -> fenced (-> another of its number, connecting)
 *
 * It is broken at the first sign: EVENT_DOWN, a chunk with CHUNK_UNDONE, or the control thread's
 * RAIL_CLOSE as the peer's end broke. From then on nothing is posted to it; the control threads of
 * both ends close theirs and tell each other (control/rails.c), and RAIL_FENCED says that both are:
 * nothing of it lands any more. Its chunks come out undone and wait (engine_peer.undone):
 *
 *	never sent, or a READ	for a rail that is up and has the keys
 *	a WRITE			for the fence, and then for that
 *	of an entry that stops	for the fence, as a proof that they are quiet, or until it is forced
 *
 * and entries with NO_REPLAY fail. What the peer's device refused breaks the rail as well, and goes
 * again likewise, of NO_REPLAY too as far as nothing of it was done: the rail that is made anew has
 * no keys, so that the peer is asked for them, and says whether it took the memory back; one that
 * is no more says nothing, and is lost. Bulk that was on its way a few times when its rail broke
 * goes by the one that is up for the longest; what was REPLAYS_MAX times fails: it may be what
 * breaks them.
 * WRITEs that were acknowledged, and not proved to be placed, may be lost with the rail: their
 * entries begin again once their chunks are out and the rail is fenced (OP_AGAIN; they wait in
 * engine_peer.again, FLUSHING), as often as chunks go again. Messages are numbered and go again at
 * once, also those that the rail took: its other end may have closed without looking at them; so do
 * acknowledgements and answers. Without CHUNK_UNDONE, or a peer that knows of fences, a rail that
 * breaks is the peer's end, as the control thread says.
 */
#include "engine/private.h"

#define REPLAYS_MAX 10u

/* ---- which rails there are ---- */

static uint32_t bit_of(const struct rail *rail)
{
	return 1u << rail->number;
}

/* Those that break again and again are not up for long. */
struct rail *peer_steady(const struct engine_peer *p)
{
	struct rail *best = p->up[0];
	uint32_t i;

	for (i = 1; i < p->nup; i++)
		if (p->up[i]->up_ns < best->up_ns)
			best = p->up[i];
	return best;
}

/* Best is who carries most, as far as that is known. */
void peer_choose(struct engine_peer *p)
{
	struct list *pos;
	uint32_t i;

	p->rail = p->nup ? p->up[0] : NULL;
	for (i = 1; i < p->nup; i++)
		if (p->up[i]->rate > p->rail->rate)
			p->rail = p->up[i];
	/* What waits for keys of another one asks again. */
	list_for_each(pos, &p->remotes) {
		struct engine_remote *r = list_entry(pos, struct engine_remote, of_peer);

		r->asked = r->req_out;
		if (p->rail)
			remote_waiters(r, 0);
	}
	tell_peer(p);
	replay_run(p);
}

static void news(struct engine_peer *p, uint32_t bit)
{
	p->rails_news |= bit;
	pending_add(p);
}

void rail_joined(struct engine *e, struct rail *rail)
{
	struct engine_peer *p = rail->peer;
	uint32_t i;

	if (p->nup == RAIL_NUMBERS || (p->rails_up & bit_of(rail)))
		return;
	p->up[p->nup++] = rail;
	p->rails_up |= bit_of(rail);
	for (i = 0; i < p->nup; i++) /* what one carries is measured from now on */
		rail_busy(e, p->up[i]);
	p->cut = 0; /* whoever is told of the rail may use it at once */
	if (p->state != PEER_UP)
		return;
	news(p, bit_of(rail));
	if (!p->rail)
		peer_choose(p);
}

void rail_missed(struct engine *e, struct rail *rail, int res)
{
	(void)e;
	rail->peer->rail_res[rail->number] = res;
	if (rail->peer->state == PEER_UP)
		news(rail->peer, bit_of(rail));
}

int rail_leaves(struct rail *rail)
{
	struct engine_peer *p = rail->peer;
	uint32_t i;

	for (i = 0; i < p->nup && p->up[i] != rail;)
		i++;
	if (i == p->nup)
		return 0;
	p->up[i] = p->up[--p->nup];
	p->rails_up &= ~bit_of(rail);
	return 1;
}

void rails_of(struct engine_peer *p, const struct backend *ops)
{
	uint32_t i;

	for (i = p->nup; i; i--)
		if (p->up[i - 1]->ep->dev->ops != ops)
			rail_leaves(p->up[i - 1]);
	for (i = 0; i < RAILS_MAX; i++)
		if (p->rails[i] && p->rails[i]->up && p->rails[i]->ep->dev->ops == ops)
			rail_joined(p->engine, p->rails[i]);
}

/* ---- a rail breaks ---- */

/* Those that no device had go by another. */
static void unaim_held(struct engine_peer *p, const struct ep *ep)
{
	struct chunk *c;
	uint32_t i;

	for (i = 0; i < LANES; i++)
		for (c = p->lanes[i].held; c; c = c->next)
			if (c->ep == ep)
				c->ep = NULL;
}

static void unprove(struct op *op, struct rail *rail)
{
	if (!(op->flush_rails & bit_of(rail)))
		return;
	op->flush_rails &= (uint8_t)~bit_of(rail);
	if (op_reads(op) || op->state == OP_NOTING || op->state == OP_SIGNALLING)
		return;
	op->bits |= OP_AGAIN;
	op->fence |= (uint8_t)bit_of(rail);
}

void chunk_unproved(struct rail *rail, struct op *op)
{
	if (!rail->peer->replays)
		return;
	rail->unproved = 0;
	unprove(op, rail);
}

/* Whatever was acknowledged by it and not proved. */
static void unprove_all(struct engine *e, struct rail *rail)
{
	struct list *pos;
	uint32_t i;

	rail->unproved = 0;
	list_for_each(pos, &e->rings) {
		struct engine_ring *er = list_entry(pos, struct engine_ring, link);

		for (i = 0; i < er->entries; i++)
			if (er->ops[i].state != OP_FREE && er->ops[i].peer == rail->peer &&
			    op_is_data(&er->ops[i]))
				unprove(&er->ops[i], rail);
	}
}

static void unflush(struct list *waiting)
{
	struct op *op;

	while (!list_empty(waiting)) {
		op = list_first(waiting, struct op, link);
		list_del(&op->link);
		op_set_state(op, OP_MOVING);
		op_check(op);
	}
}

void rail_broke(struct engine *e, struct rail *rail, int res)
{
	struct engine_peer *p = rail->peer;

	if (!rail->up)
		return;
	rail->up = 0;
	if (!p->replays && p->state == PEER_UP)
		return;
	if (!rail_leaves(rail))
		return;
	p->rail_res[rail->number] = res;
	if (!p->replays || (p->state != PEER_UP && p->state != PEER_COLD))
		return;
	p->fencing |= bit_of(rail);
	unaim_held(p, rail->ep);
	flush_lost(rail);
	unprove_all(e, rail);
	list_del(&rail->flush_link);
	unflush(&rail->flush_wait);
	unflush(&rail->flushing);
	news(p, bit_of(rail));
	if (p->rail == rail)
		peer_choose(p);
	notes_again(p);
	atomics_again(p);
	relay_again(p);
}

/* ---- what goes again ---- */

/* Which part of the remote it is a key for. */
static uint32_t part_of(const struct rail_key *k)
{
	const struct engine_remote *r = k->remote;
	uint32_t i;

	for (i = 0; i < RAIL_NUMBERS; i++)
		if (r->rail_keys[i] && k >= r->rail_keys[i] && k < r->rail_keys[i] + r->nparts)
			return (uint32_t)(k - r->rail_keys[i]);
	assert(0);
	return 0;
}

uint32_t key_grant(const struct rkey *key)
{
	const struct rail_key *k = key_of(key);

	return k->remote->parts[part_of(k)].grant;
}

static void undone_add(struct engine_peer *p, struct chunk *c)
{
	c->next = NULL;
	*p->undone_tail = c;
	p->undone_tail = &c->next;
}

/* 1: it may be posted to the rail. */
static int aim(struct chunk *c, struct rail *rail)
{
	const struct rail_key *k;
	uint32_t part;

	if (c->kind != CHUNK_SEND) {
		k = key_of(c->key);
		part = part_of(k);
		if (!(k->remote->parts[part].rails & bit_of(rail)))
			return 0;
		c->key = &k->remote->rail_keys[rail->number][part].key;
		assert(!c->npieces || c->key->gpu);
	}
	c->ep = rail->ep;
	return 1;
}

int chunk_aim(struct chunk *c, struct rail *rail)
{
	if (aim(c, rail))
		return 1;
	c->ep = NULL;
	if (c->seg == RELAY_SEG_READ) {
		relay_unaimed(rail->peer->engine, c);
		return 0;
	}
	c->fence = 0;
	undone_add(rail->peer, c);
	remote_ask(key_of(c->key)->remote);
	return 0;
}

/* Of an entry that stops: the fence will prove that it is quiet. */
static void chunk_ends(struct rail *rail, struct chunk *c)
{
	struct op *op = c->op;

	if (c->kind == CHUNK_WRITE && !(c->flags & CHUNK_QUIET)) {
		op->bits |= OP_UNQUIET | OP_AGAIN;
		op->fence |= (uint8_t)bit_of(rail);
	}
	c->flags |= CHUNK_QUIET;
}

/* All of it. */
static int was_refused(const struct chunk *c)
{
	const uint32_t both = CHUNK_REFUSED | CHUNK_QUIET;

	return (c->flags & both) == both;
}

int chunk_undone(struct engine *e, struct rail *rail, struct chunk *c)
{
	struct engine_peer *p = rail->peer;
	struct op *op = c->op;

	if (!p->replays || p->state != PEER_UP)
		return 0;
	rail_broke(e, rail, c->res);
	if (op->sqe.flags & URCCL_SQE_NO_REPLAY && !was_refused(c))
		op_fail(op, -ECONNRESET, REASON_NO_REPLAY, rail->number, 0, 0);
	else if (++c->tries == REPLAYS_MAX)
		op_fail(op, -ECONNRESET, REASON_REPLAYS, REPLAYS_MAX, 0, 0);
	if (op->bits & (OP_DECIDED | OP_FORCED)) {
		chunk_ends(rail, c);
		return 0;
	}
	c->fence = c->kind == CHUNK_WRITE && !(c->flags & CHUNK_QUIET) ? (uint8_t)bit_of(rail) : 0;
	c->ep = NULL;
	c->taken = 0;
	op->worst = c->tries > op->worst ? c->tries : op->worst;
	op->path |= URCCL_PATH_REPLAYED;
	undone_add(p, c);
	replay_run(p);
	return 1;
}

static void drop(struct engine *e, struct chunk *c)
{
	struct op *op = c->op;

	op->inflight--;
	if (c->seg < op->first_bad)
		op->first_bad = c->seg;
	if (c->fence & op->peer->fencing)
		op->bits |= OP_UNQUIET;
	chunk_free(e, c);
}

void replay_drop(struct op *op)
{
	struct engine_peer *p = op->peer;
	struct chunk **at = &p->undone, *c;

	p->undone_tail = &p->undone;
	while ((c = *at)) {
		if (c->op == op &&
		    (!(c->fence & p->fencing) || op->bits & OP_FORCED || p->state != PEER_UP)) {
			*at = c->next;
			drop(op_engine(op), c);
			continue;
		}
		p->undone_tail = &c->next;
		at = &c->next;
	}
}

/* What can go is held by its lane from now on; that only names the rail again. */
static void run_chunks(struct engine_peer *p)
{
	struct chunk *c = p->undone, *next;
	struct op *op;

	p->undone = NULL;
	p->undone_tail = &p->undone;
	for (; c; c = next) {
		struct engine_remote *r = key_of(c->key)->remote;

		next = c->next;
		op = c->op;
		if (r->failed && !(op->bits & OP_DECIDED))
			remote_fail(op, r, r->failed);
		if (c->fence & p->fencing) {
			undone_add(p, c);
		} else if (op->bits & OP_DECIDED) {
			drop(p->engine, c);
			op_check(op);
		} else if (!p->rail) {
			undone_add(p, c);
		} else if ((c->tries >= TRIES_STEADY && aim(c, peer_steady(p))) ||
			   aim(c, p->rail)) {
			lane_add_chunk(p, op->lane, c);
		} else {
			undone_add(p, c);
			remote_ask(r);
		}
	}
}

/* One that was stopped is quiet now, but for what another rail acknowledged; what this one did is
 * never proved. */
static void ends(struct op *op)
{
	if (op->bits & OP_UNPROVED)
		op->first_bad = 0;
	op->bits &= ~(uint32_t)(OP_AGAIN | OP_FLUSHED);
	if (!op->flush_rails)
		op->bits &= ~(uint32_t)OP_UNQUIET;
	op_set_state(op, OP_MOVING);
	op_check(op);
}

/* What rails that are up have acknowledged of the first time may land late all the same: it is
 * proved with what goes now. That a rail broke counts, also where nothing was under way. */
static void begin_again(struct op *op)
{
	op->bits &= ~(uint32_t)(OP_AGAIN | OP_DONE_CURSOR | OP_FLUSHED | OP_UNPROVED);
	if (!op->flush_rails)
		op->bits &= ~(uint32_t)OP_UNQUIET;
	op->fence = 0;
	op->worst += op->worst == op->tries;
	op->tries = op->worst;
	op->placed = 0;
	op->path |= URCCL_PATH_REPLAYED;
	cursor_again(op);
	op_set_state(op, OP_MOVING);
	if (op->tries < REPLAYS_MAX)
		lane_add_op(op);
	else
		op_fail(op, -ECONNRESET, REASON_REPLAYS, REPLAYS_MAX, 0, 0);
}

static void run_entries(struct engine_peer *p)
{
	struct list *pos, *tmp;

	list_for_each_safe(pos, tmp, &p->again) {
		struct op *op = list_entry(pos, struct op, link);

		if (op->fence & p->fencing)
			continue;
		list_del(&op->link);
		if (op->bits & OP_DECIDED)
			ends(op);
		else
			begin_again(op);
	}
}

int op_again(struct op *op)
{
	struct engine_peer *p = op->peer;

	if (!p->replays || p->state != PEER_UP || op->bits & OP_FORCED)
		return 0;
	if (op->sqe.flags & URCCL_SQE_NO_REPLAY && !(op->bits & OP_DECIDED))
		return 0;
	op_set_state(op, OP_FLUSHING);
	op->bits |= OP_FLUSHED;
	list_add_tail(&op->link, &p->again);
	run_entries(p);
	return 1;
}

void replay_run(struct engine_peer *p)
{
	if (p->undone)
		run_chunks(p);
	if (!list_empty(&p->again))
		run_entries(p);
}

void rail_fenced(struct engine *e, struct engine_peer *p, uint32_t number)
{
	(void)e;
	p->fencing &= ~(1u << number);
	replay_run(p);
}
