/* SPDX-License-Identifier: Apache-2.0 */
/* Proof that acknowledged WRITEs are placed: one flush covers all WRITEs of a rail that came out
 * before it was posted. */
#include "engine/post.h"

#define FLUSH_TRIES 3u

static void flush_wake(struct engine *e, struct rail *rail)
{
	if (list_empty(&rail->flush_link))
		slow_list_add(e, &rail->flush_link, &e->flushes);
}

/* A rail that the entry still needs a flush of, or NULL. */
static struct rail *rail_of(const struct op *op)
{
	uint32_t i;

	for (i = 0; i < RAILS_MAX; i++) {
		struct rail *rail = op->peer->rails[i];

		if (rail && (rail->up || !op->peer->failover) &&
		    op->flush_rails >> rail->number & 1)
			return rail;
	}
	return NULL;
}

int flush_begin(struct op *op)
{
	struct rail *rail = rail_of(op);

	if (!rail)
		return 0;
	op->bits |= OP_FLUSHED;
	op->state = OP_FLUSHING;
	list_add_tail(&op->link, &rail->flush_wait);
	if (!rail->flush_busy)
		flush_wake(op_engine(op), rail);
	return 1;
}

/* Any key that the rail has for the remote, or NULL. */
static const struct rkey *key_in(const struct engine_remote *r, const struct rail *rail)
{
	uint32_t i;

	for (i = 0; i < r->nparts && r->nkeys[rail->number]; i++)
		if (r->parts[i].rails >> rail->number & 1 &&
		    !r->rail_keys[rail->number][i].key.relay)
			return &r->rail_keys[rail->number][i].key;
	return NULL;
}

/* A key for the flush. The key of the entry's last write may belong to another rail. NULL: the
 * entry itself wrote nothing. */
static const struct rkey *flush_key(const struct op *op, const struct rail *rail)
{
	const struct rkey *key = op->flush_key;
	const struct list *pos;

	if (!op->peer->failover || !key)
		return key;
	key = key_in(key_of(key)->remote, rail);
	list_for_each(pos, &op->peer->remotes)
		if (!key)
			key = key_in(list_entry(pos, struct engine_remote, of_peer), rail);
	return key ? key : op->flush_key;
}

/* 0: the device is full. */
static int flush_post(struct engine *e, struct rail *rail)
{
	struct chunk *c = &rail->flush;
	struct op *op;

	if (rail->flush_busy || list_empty(&rail->flush_wait) || !rail->up)
		return 1;
	op = list_first(&rail->flush_wait, struct op, link);
	*c = (struct chunk){.ep = rail->ep,
			    .kind = CHUNK_FLUSH,
			    .cls = URCCL_CLASS_LATENCY,
			    .key = flush_key(op, rail),
			    .op = rail};
	if (!rail_post(e, rail, &c, 1))
		return 0;
	while (!list_empty(&rail->flush_wait)) {
		struct list *l = rail->flush_wait.next;

		list_del(l);
		list_add_tail(l, &rail->flushing);
	}
	rail->flush_busy = 1;
	rail->proving = rail->unproved;
	rail->acked_proving = rail->acked;
	rail->proving_seq = rail->peer->acked_seq;
	return 1;
}

/* ---- entries that a FENCE follows ---- */

static int is_deferred(const struct rail *rail)
{
	return rail->acked && rail->unproved;
}

void acked_forget(struct scope *s)
{
	struct scope *all;

	if (list_empty(&s->acked_link))
		return;
	all = order_scope_all(s);
	list_del(&s->acked_link);
	s->acked_rails = 0;
	s->er->acked_kept--;
	all->unproved--;
	order_settle(all);
	if (s != all) {
		s->unproved = 0;
		order_settle(s);
	}
}

/* Settles the entries up to the least number that all rails with unproved ones have proved. */
static void acked_settle(struct engine_peer *p)
{
	uint64_t upto = UINT64_MAX;
	struct scope *s;
	uint32_t i;

	for (i = 0; i < p->nup; i++)
		if (is_deferred(p->up[i]) && p->up[i]->proved_seq < upto)
			upto = p->up[i]->proved_seq;
	while (!list_empty(&p->acked_scopes)) {
		s = list_first(&p->acked_scopes, struct scope, acked_link);
		if (s->acked_seq > upto)
			return;
		acked_forget(s);
	}
}

/* Makes FENCEs fail: the next one of this group, the next one of all groups, and each of these that
 * was taken before and has not ended. */
static void acked_lose(struct engine_peer *p, struct scope *s)
{
	s->lost_at = p->acked_losses;
	order_scope_all(s)->lost_at = p->acked_losses;
	order_lost(s);
}

int flush_may_wait(const struct op *op)
{
	return !list_empty(&op_scope(op)->acked_link) ||
	       op->er->acked_kept < ACKED_KEPT(op->er->entries);
}

void flush_defer(struct op *op)
{
	struct engine_peer *p = op->peer;
	struct scope *s = op_scope(op);
	uint32_t i;

	if (list_empty(&s->acked_link)) {
		op->er->acked_kept++;
		op->scope_all->unproved++;
		s->unproved += s != op->scope_all;
	}
	list_del(&s->acked_link);
	list_add_tail(&s->acked_link, &p->acked_scopes);
	s->acked_seq = ++p->acked_seq;
	s->acked_rails |= op->flush_rails;
	for (i = 0; i < p->nup; i++)
		p->up[i]->acked += op->flush_rails >> p->up[i]->number & 1;
	if (op->bits & OP_REQUEUED) { /* its rail broke */
		p->acked_losses++;
		acked_lose(p, s);
		if (!s->acked_rails)
			acked_forget(s);
	}
}

/* Begins flushes on the rails that acknowledged something for the peer. */
static int fence_ask(struct op *op)
{
	struct engine_peer *p = op->peer;
	uint32_t i;

	op->bits |= OP_PROVED;
	for (i = 0; i < p->nup; i++)
		if (is_deferred(p->up[i]))
			op->flush_rails |= (uint8_t)(1u << p->up[i]->number);
	if (!op->flush_rails) /* flushes of others have proved all of it */
		acked_settle(p);
	return op->flush_rails && flush_begin(op);
}

/* A notification after a FENCE waits until the bytes of entries before it that ended early (ACKED)
 * are placed. 1: it waits, or has failed. */
int flush_fenced(struct op *op)
{
	struct scope *s = op_scope(op);

	if (!(op->sqe.flags & URCCL_SQE_FENCE))
		return 0;
	if (s->lost_at > op->acked_losses) {
		op->bits |= OP_FORGIVEN;
		op_fail(op, -ECANCELED, REASON_FENCE_LOST, 0, 0, 0);
		return 1;
	}
	if (op->bits & OP_PROVED)
		return op->flush_rails && flush_begin(op);
	return s->unproved && fence_ask(op);
}

void flush_lost(struct rail *rail)
{
	struct engine_peer *p = rail->peer;
	struct scope *s;

	p->acked_losses += (uint32_t)is_deferred(rail);
	list_for_each_entry_safe(s, &p->acked_scopes, acked_link) {
		if (!(s->acked_rails >> rail->number & 1))
			continue;
		if (is_deferred(rail) && s->acked_seq > rail->proved_seq)
			acked_lose(p, s);
		s->acked_rails &= ~(1u << rail->number);
		if (!s->acked_rails)
			acked_forget(s);
	}
	rail->acked = 0;
}

/* ---- end ---- */

static void proved(struct op *op, const struct rail *rail)
{
	op->flush_rails &= (uint8_t) ~(1u << rail->number);
	if (op->flush_rails && flush_begin(op))
		return;
	if (!(op->bits & OP_REQUEUED) &&
	    !op->flush_rails) /* otherwise a rail broke while the peer was
							 * being lost */
		op->bits &= ~(uint32_t)(OP_UNQUIET | OP_UNPROVED);
	op->state = OP_MOVING;
	op_ready(op);
}

void flush_out(struct engine *e, struct chunk *c)
{
	struct rail *rail = c->op;
	struct op *op;
	int again;

	/* If the rail broke, no entry waits for it any more. */
	again = c->res && rail->up && rail->peer->state == PEER_UP &&
		++rail->flush_tries < FLUSH_TRIES;

	rail->flush_busy = 0;
	if (!c->res && rail->up) { /* otherwise rail_broke() settled them */
		rail->unproved -= rail->proving;
		rail->acked -= rail->acked_proving;
		rail->proved_seq = rail->proving_seq;
		acked_settle(rail->peer);
	}
	while (!list_empty(&rail->flushing)) {
		op = list_first(&rail->flushing, struct op, link);
		list_del(&op->link);
		if (again) {
			list_add_tail(&op->link, &rail->flush_wait);
		} else if (!c->res) {
			proved(op, rail);
		} else {
			op->state = OP_MOVING;
			op_fail_device(op, c->res, c->flags & CHUNK_CODED ? c->scratch[0] : 0);
			op_ready(op);
		}
	}
	if (!again)
		rail->flush_tries = 0;
	if (!list_empty(&rail->flush_wait))
		flush_wake(e, rail);
}

/* Runs once per iteration, so that the entries of one batch share a flush. */
void flush_all(struct engine *e)
{
	struct list *pos, *tmp;

	e->flush_full = 0;
	list_for_each_safe(pos, tmp, &e->flushes) {
		if (flush_post(e, list_entry(pos, struct rail, flush_link)))
			list_del(pos);
		else
			e->flush_full = 1;
	}
}
