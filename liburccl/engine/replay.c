/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Failover: the rails of a peer come and go, and its entries stay. The states of a rail:
 *
 *  connecting -> up -> broken -> closed here -> fenced (-> another of its number, connecting)
 *
 * A rail is broken at the first sign: EVENT_DOWN, a chunk with CHUNK_FAILOVER, or the control
 * thread's RAIL_CLOSE after the peer's end broke. Nothing is posted to it from then on. The control
 * threads of both sides close their ends and tell each other (peer/rails.c). RAIL_FENCED reports
 * that both ends are closed: nothing of the rail lands any more. Its chunks come out failed over,
 * and wait (engine_peer.requeued_chunks):
 *
 *  never sent, or a READ      for a rail that is up and has the keys
 *  a WRITE                    for the fence, then for such a rail
 *  of a stopped entry         for the fence, which proves it quiet, or until it is forced
 *
 * Entries with NO_REPLAY fail. A chunk that the peer's device refused breaks the rail too. It is
 * posted again in the same way; with NO_REPLAY, only if the device did nothing of it. The next rail
 * has no keys, so the peer is asked for them. Its answer tells whether it revoked the memory. A
 * peer that is gone does not answer, and is lost. Bulk that was under way several times when a rail
 * broke is posted to the rail that is up for the longest time. After REPLAYS_MAX times it fails: it
 * may be what breaks the rails.
 *
 * WRITEs that were acknowledged and not proved to be placed may be lost with the rail. Their
 * entries begin again when their chunks are back and the rail is fenced (OP_REQUEUED; they wait in
 * engine_peer.requeued_ops, in FLUSHING), as often as chunks are posted again. Messages are
 * numbered and sent again at once, including those that the rail had taken: its other end may have
 * closed without reading them. Acknowledgements and answers are sent again too. Without
 * CHUNK_FAILOVER, or with a peer that does not fence, a rail that breaks ends the peer; the control
 * thread decides that.
 */
#include "engine/post.h"
#include "engine/stats.h"

#define REPLAYS_MAX 10u

/* ---- the rails that are up ---- */

/* The rail that is up for the longest time: unstable rails are not up for long. */
struct rail *peer_steady(const struct engine_peer *p)
{
	struct rail *best = p->up[0];
	uint32_t i;

	for (i = 1; i < p->nup; i++)
		if (p->up[i]->up_ns < best->up_ns)
			best = p->up[i];
	return best;
}

/* The best rail is the one with the highest known rate. */
void peer_choose(struct engine_peer *p)
{
	struct engine_remote *r;
	uint32_t i;

	p->rail = p->nup ? p->up[0] : NULL;
	for (i = 1; i < p->nup; i++)
		if (p->up[i]->rate > p->rail->rate)
			p->rail = p->up[i];
	/* Entries that wait for keys of another rail ask again. */
	list_for_each_entry(r, &p->remotes, of_peer) {
		r->asked = r->req_out;
		if (p->rail)
			remote_waiters(r, 0);
	}
	stats_peer(p);
	replay_run(p);
}

static void rail_news_add(struct engine_peer *p, uint32_t bit)
{
	p->rails_news |= bit;
	pending_add(p);
}

void rail_joined(struct engine *e, struct rail *rail)
{
	struct engine_peer *p = rail->peer;
	uint32_t i;

	if (p->nup == RAIL_NUMBERS || (p->rails_up & rail_bit(rail)))
		return;
	p->up[p->nup++] = rail;
	p->rails_up |= rail_bit(rail);
	for (i = 0; i < p->nup; i++) /* each rail's rate is measured from now on */
		rail_busy(e, p->up[i]);
	p->cut = 0; /* cleared before the program learns of the rail, which it may then use */
	if (p->state != PEER_UP)
		return;
	rail_news_add(p, rail_bit(rail));
	if (!p->rail)
		peer_choose(p);
}

void rail_missed(struct engine *e, struct rail *rail, int res)
{
	(void)e;
	rail->peer->rail_res[rail->number] = res;
	if (rail->peer->state == PEER_UP)
		rail_news_add(rail->peer, rail_bit(rail));
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
	p->rails_up &= ~rail_bit(rail);
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

/* Chunks that no device had will be posted to another rail. */
static void unaim_held(struct engine_peer *p, const struct ep *ep)
{
	struct chunk *c;
	uint32_t i;

	for (i = 0; i < LANES; i++)
		for (c = p->lanes[i].held.head; c; c = c->next)
			if (c->ep == ep)
				c->ep = NULL;
}

static void unprove(struct op *op, struct rail *rail)
{
	if (!(op->flush_rails & rail_bit(rail)))
		return;
	op->flush_rails &= (uint8_t)~rail_bit(rail);
	if (op_reads(op) || op->state == OP_NOTING || op->state == OP_SIGNALLING)
		return;
	op->bits |= OP_REQUEUED;
	op->fence |= (uint8_t)rail_bit(rail);
}

void chunk_unproved(struct rail *rail, struct op *op)
{
	if (!rail->peer->failover)
		return;
	rail->unproved = 0;
	unprove(op, rail);
}

/* Marks all entries with unproved WRITEs on the rail. */
static void unprove_all(struct engine *e, struct rail *rail)
{
	struct engine_ring *er;
	uint32_t i;

	rail->unproved = 0;
	list_for_each_entry(er, &e->rings, link) {
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
		op->state = OP_MOVING;
		op_ready(op);
	}
}

void rail_broke(struct engine *e, struct rail *rail, int res)
{
	struct engine_peer *p = rail->peer;

	if (!rail->up)
		return;
	rail->up = 0;
	if (!p->failover && p->state == PEER_UP)
		return;
	if (!rail_leaves(rail))
		return;
	p->rail_res[rail->number] = res;
	if (!p->failover || (p->state != PEER_UP && p->state != PEER_SUSPENDED))
		return;
	p->fencing |= rail_bit(rail);
	unaim_held(p, rail->ep);
	flush_lost(rail);
	unprove_all(e, rail);
	list_del(&rail->flush_link);
	unflush(&rail->flush_wait);
	unflush(&rail->flushing);
	rail_news_add(p, rail_bit(rail));
	if (p->rail == rail)
		peer_choose(p);
	notes_requeue(p);
	atomics_requeue(p);
	relay_requeue(p);
}

/* ---- posting again ---- */

/* Binds the chunk to the rail. 1: the rail has its key. */
static int chunk_try_bind(struct chunk *c, struct rail *rail)
{
	const struct rail_key *k;
	uint32_t part;

	if (c->kind != CHUNK_SEND) {
		k = key_of(c->key);
		part = key_part(k);
		if (!(k->remote->parts[part].rails & rail_bit(rail)))
			return 0;
		c->key = &k->remote->rail_keys[rail->number][part].key;
		assert(!c->npieces || c->key->gpu);
	}
	c->ep = rail->ep;
	return 1;
}

int chunk_bind(struct chunk *c, struct rail *rail)
{
	if (chunk_try_bind(c, rail))
		return 1;
	c->ep = NULL;
	if (c->seg == RELAY_SEG_READ) {
		relay_unbound(rail->peer->engine, c);
		return 0;
	}
	c->fence = 0;
	chunk_queue_add(&rail->peer->requeued_chunks, c);
	remote_ask(key_of(c->key)->remote);
	return 0;
}

/* For a stopped entry: the fence will prove that the chunk is quiet. */
static void chunk_ends(struct rail *rail, struct chunk *c)
{
	struct op *op = c->op;

	if (c->kind == CHUNK_WRITE && !(c->flags & CHUNK_QUIET)) {
		op->bits |= OP_UNQUIET | OP_REQUEUED;
		op->fence |= (uint8_t)rail_bit(rail);
	}
	c->flags |= CHUNK_QUIET;
}

/* 1: the device refused all of it. */
static int was_refused(const struct chunk *c)
{
	const uint32_t both = CHUNK_REFUSED | CHUNK_QUIET;

	return (c->flags & both) == both;
}

int chunk_fail_over(struct engine *e, struct rail *rail, struct chunk *c)
{
	struct engine_peer *p = rail->peer;
	struct op *op = c->op;

	if (!p->failover || p->state != PEER_UP)
		return 0;
	rail_broke(e, rail, c->res);
	if (op->sqe.flags & URCCL_SQE_NO_REPLAY && !was_refused(c))
		op_fail(op, -ECONNRESET, REASON_NO_REPLAY, rail->number, 0, 0);
	else if (++c->tries == REPLAYS_MAX)
		op_fail(op, -ECONNRESET, REASON_REPLAYS, REPLAYS_MAX, 0, 0);
	if (op->bits & (OP_DECIDED | OP_ABORTED)) {
		chunk_ends(rail, c);
		return 0;
	}
	c->fence =
		c->kind == CHUNK_WRITE && !(c->flags & CHUNK_QUIET) ? (uint8_t)rail_bit(rail) : 0;
	c->ep = NULL;
	c->taken = 0;
	op->worst = c->tries > op->worst ? c->tries : op->worst;
	op->path |= URCCL_PATH_REPLAYED;
	chunk_queue_add(&p->requeued_chunks, c);
	replay_run(p);
	return 1;
}

static void requeued_drop(struct engine *e, struct chunk *c)
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
	struct chunk **at = &p->requeued_chunks.head, *c;
	int any = op->bits & OP_ABORTED || p->state != PEER_UP;

	while ((c = *at)) {
		if (c->op != op || (c->fence & p->fencing && !any)) {
			at = &c->next;
			continue;
		}
		chunk_queue_del(&p->requeued_chunks, at);
		requeued_drop(op_engine(op), c);
	}
}

/* Moves chunks that can be posted to their lanes. */
static void run_chunks(struct engine_peer *p)
{
	struct chunk *c = chunk_queue_take(&p->requeued_chunks), *next;
	struct op *op;

	for (; c; c = next) {
		struct engine_remote *r = key_of(c->key)->remote;

		next = c->next;
		op = c->op;
		if (r->failed && !(op->bits & OP_DECIDED))
			remote_fail(op, r, r->failed);
		if (c->fence & p->fencing) {
			chunk_queue_add(&p->requeued_chunks, c);
		} else if (op->bits & OP_DECIDED) {
			requeued_drop(p->engine, c);
			op_returned(op);
		} else if (!p->rail) {
			chunk_queue_add(&p->requeued_chunks, c);
		} else if ((c->tries >= TRIES_STEADY && chunk_try_bind(c, peer_steady(p))) ||
			   chunk_try_bind(c, p->rail)) {
			lane_add_chunk(p, op->lane, c);
		} else {
			chunk_queue_add(&p->requeued_chunks, c);
			remote_ask(r);
		}
	}
}

/* Continues a stopped entry after the fence. It is quiet now, except for what other rails
 * acknowledged; the broken rail's writes stay unproved. */
static void op_stay_ended(struct op *op)
{
	if (op->bits & OP_UNPROVED)
		op->first_bad = 0;
	op->bits &= ~(uint32_t)(OP_REQUEUED | OP_FLUSHED);
	if (!op->flush_rails)
		op->bits &= ~(uint32_t)OP_UNQUIET;
	op->state = OP_MOVING;
	op_ready(op);
}

/* Writes of the first attempt that other rails acknowledged may still land late: they are proved
 * together with the new ones. The break counts as a try even if nothing was under way. */
static void begin_again(struct op *op)
{
	op->bits &= ~(uint32_t)(OP_REQUEUED | OP_DONE_CURSOR | OP_FLUSHED | OP_UNPROVED);
	if (!op->flush_rails)
		op->bits &= ~(uint32_t)OP_UNQUIET;
	op->fence = 0;
	op->worst += op->worst == op->tries;
	op->tries = op->worst;
	op->placed = 0;
	op->path |= URCCL_PATH_REPLAYED;
	cursor_rewind(op);
	op->state = OP_MOVING;
	if (op->tries < REPLAYS_MAX)
		lane_add_op(op);
	else
		op_fail(op, -ECONNRESET, REASON_REPLAYS, REPLAYS_MAX, 0, 0);
}

static void run_entries(struct engine_peer *p)
{
	struct op *op;

	list_for_each_entry_safe(op, &p->requeued_ops, link) {
		if (op->fence & p->fencing)
			continue;
		list_del(&op->link);
		if (op->bits & OP_DECIDED)
			op_stay_ended(op);
		else
			begin_again(op);
	}
}

int op_requeue(struct op *op)
{
	struct engine_peer *p = op->peer;

	if (!p->failover || p->state != PEER_UP || op->bits & OP_ABORTED)
		return 0;
	if (op->sqe.flags & URCCL_SQE_NO_REPLAY && !(op->bits & OP_DECIDED))
		return 0;
	op->state = OP_FLUSHING;
	op->bits |= OP_FLUSHED;
	list_add_tail(&op->link, &p->requeued_ops);
	run_entries(p);
	return 1;
}

void replay_run(struct engine_peer *p)
{
	if (p->requeued_chunks.head)
		run_chunks(p);
	if (!list_empty(&p->requeued_ops))
		run_entries(p);
}

void rail_fenced(struct engine *e, struct engine_peer *p, uint32_t number)
{
	(void)e;
	p->fencing &= ~(1u << number);
	replay_run(p);
}
