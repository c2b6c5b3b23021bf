/* SPDX-License-Identifier: Apache-2.0 */
/*
 * LINK, DRAIN and FENCE. When an entry that must wait is taken, it counts the unfinished entries
 * before it. Each of them, when it ends, decrements the counters of all later waiters; of FENCE
 * only that of the next, which counts from the FENCE before it on. Entries that nobody waits for
 * thus cost one counter, and no list of entries is searched.
 */
#include <stdlib.h>
#include "engine/post.h"

static int behind(const struct op *waiter, const struct op *op)
{
	return waiter->seq > op->seq;
}

/* ---- scopes ---- */

static struct scope **scope_bucket(struct engine_ring *er, const struct engine_peer *p,
				   uint32_t group, uint32_t all)
{
	uint32_t h = (p->handle * 0x9e3779b1u) ^ (group * 0x85ebca6bu) ^ all;

	return &er->scope_hash[(h ^ h >> 15) & er->scope_mask];
}

static void scope_unhash(struct engine_ring *er, struct scope *s)
{
	struct scope **at = scope_bucket(er, s->peer, s->group, s->all);

	while (*at != s)
		at = &(*at)->hash_next;
	*at = s->hash_next;
	s->peer = NULL;
	if (er->last_scope == s)
		er->last_scope = NULL;
}

/* A live entry, a kept failure and a scope with unproved entries need at most two scopes each. The
 * ring has records for all of these, so one is always idle. */
static struct scope *scope_new(struct engine_ring *er, struct engine_peer *p, uint32_t group,
			       uint32_t all)
{
	struct scope **bucket = scope_bucket(er, p, group, all);
	struct scope *s;

	do { /* a scope that is used again stays in the list: it is skipped here */
		assert(!list_empty(&er->scopes_idle));
		s = list_first(&er->scopes_idle, struct scope, idle);
		list_del(&s->idle);
	} while (s->unfinished || s->failed || s->unproved);
	if (s->peer)
		scope_unhash(er, s);
	s->peer = p;
	s->group = group;
	s->all = all;
	s->lost_at = 0;
	s->hash_next = *bucket;
	*bucket = s;
	return s;
}

__attribute__((noinline)) static struct scope *
scope_get(struct engine_ring *er, struct engine_peer *p, uint32_t group, uint32_t all)
{
	struct scope *s = *scope_bucket(er, p, group, all);

	while (s && (s->peer != p || s->group != group || s->all != all))
		s = s->hash_next;
	return s ? s : scope_new(er, p, group, all);
}

/* The scope of all groups is the same for most consecutive entries. */
static struct scope *scope_of_peer(struct engine_ring *er, struct engine_peer *p)
{
	if (!er->last_scope || er->last_scope->peer != p)
		er->last_scope = scope_get(er, p, 0, 1);
	return er->last_scope;
}

/* Idle scopes stay in the hash until another entry needs the record. A scope with waiters is not
 * idle: it has unfinished entries. */
static void scope_settle(struct engine_ring *er, struct scope *s)
{
	if (list_empty(&s->idle) && !s->unfinished && !s->failed && !s->unproved)
		list_add_tail(&s->idle, &er->scopes_idle);
}

struct scope *order_scope_all(struct scope *s)
{
	return s->all ? s : scope_get(s->er, s->peer, 0, 1);
}

void order_settle(struct scope *s)
{
	scope_settle(s->er, s);
}

static struct op *waiter_at(struct list *pos)
{
	return list_entry(pos, struct op, fence_link);
}

/* The first waiter behind the entry, or NULL. Looks from both ends: entries end in about the order
 * in which they were taken, or soon after they were. */
static struct op *waiter_behind(const struct scope *s, const struct op *op)
{
	struct list *first = s->waiting.next, *last = s->waiting.prev;

	for (; !behind(waiter_at(first), op); first = first->next, last = last->prev)
		if (!behind(waiter_at(last), op))
			return last->next == &s->waiting ? NULL : waiter_at(last->next);
	return waiter_at(first);
}

__attribute__((noinline)) static void waiters_count(struct scope *s, const struct op *op)
{
	struct op *w = waiter_behind(s, op);

	if (!w)
		return;
	w->left--;
	s->counted--;
	while (!list_empty(&s->waiting) &&
	       !(w = list_first(&s->waiting, struct op, fence_link))->left) {
		list_del(&w->fence_link);
		op_unblock(w);
	}
}

/* The entries that it waited for are the next waiter's. */
void order_leave_fence(struct op *op)
{
	struct scope *s = op_scope(op);
	struct list *next = op->fence_link.next;

	if (list_empty(&op->fence_link))
		return;
	if (next != &s->waiting)
		waiter_at(next)->left += op->left;
	else
		s->counted -= op->left;
	list_del(&op->fence_link);
}

uint32_t order_waits_for(const struct op *op)
{
	const struct scope *s = op_scope(op);
	uint32_t n = op->left;
	struct list *pos;

	for (pos = op->fence_link.prev; pos != &s->waiting; pos = pos->prev)
		n += waiter_at(pos)->left;
	return n;
}

/* An entry of the scope ended: updates its waiters. */
static void scope_left(struct scope *s, const struct op *op)
{
	if (!list_empty(&s->waiting))
		waiters_count(s, op);
	scope_settle(op->er, s);
}

/* Fails each FENCE that waits for the entry. 1: there was one. */
static int scope_failed(struct scope *s, const struct op *op)
{
	struct op *w;
	int notified = 0;

	list_for_each_entry_safe(w, &s->waiting, fence_link) {
		if (!behind(w, op))
			continue;
		op_block_failed(w, REASON_FENCE, 1);
		notified = 1;
	}
	return notified;
}

/* ---- failures that no FENCE was told of ---- */

/* lost: bytes of an entry that had ended are lost. */
static void failure_keep(struct scope *all, struct scope *group, uint32_t lost)
{
	struct engine_ring *er = all->er;

	if (er->failures_kept == er->entries) {
		all->peer->fence_lost[er->index / 64] |= 1ull << (er->index % 64);
		return;
	}
	er->failures_kept++;
	all->failed++;
	all->lost |= lost;
	if (!group)
		return;
	group->failed++;
	group->lost |= lost;
}

void order_lost(struct scope *s)
{
	failure_keep(order_scope_all(s), s->all ? NULL : s, 1);
}

static void failures_forget(struct engine_ring *er, struct scope *s)
{
	er->failures_kept -= s->failed;
	s->failed = s->lost = 0;
	scope_settle(er, s);
}

/* Forgets the failures of one group, or all of the peer's. The scope of all groups counts those of
 * each group too. */
static void failures_reported(struct op *fence)
{
	struct engine_ring *er = fence->er;
	struct scope *group = fence->scope_group, *all = fence->scope_all, *s;
	uint32_t i;

	if (group) {
		all->failed -= group->failed;
		failures_forget(er, group);
		return;
	}
	failures_forget(er, all);
	for (i = 0; i < er->nscopes; i++) {
		s = &er->scopes[i];
		if (s->peer == fence->peer && s->failed) {
			s->failed = s->lost = 0;
			scope_settle(er, s);
		}
	}
}

/* ---- entering ---- */

/* Joins the chain. Returns the errno of the failed entry before it, or 0. */
static uint32_t enter_chain(struct op *op)
{
	struct engine_ring *er = op->er;
	uint32_t failed = 0;

	op->bits |= OP_CHAINED;
	if (er->chain_open) {
		if (er->chain_prev) {
			er->chain_prev->linked = op;
			op->linked_to = er->chain_prev;
			op->blockers++;
		} else {
			failed = er->chain_failed;
		}
	}
	er->chain_open = op->sqe.flags & URCCL_SQE_LINK;
	er->chain_prev = er->chain_open ? op : NULL;
	return failed;
}

/* The entry waits for all taken entries except itself and multishot ones. */
static void enter_drain(struct op *op)
{
	struct engine_ring *er = op->er;

	op->drain_left = er->entries - er->nfree - er->multishots - !(op->bits & OP_MULTISHOT);
	if (!op->drain_left)
		return;
	list_add_tail(&op->drain_link, &er->drains);
	er->watched = 1;
	op->blockers++;
}

static void enter_peer(struct op *op)
{
	op->peer->unfinished++;
	store_relaxed(&op->peer->used, op_engine(op)->iterations);
	op->scope_all = scope_of_peer(op->er, op->peer);
	op->scope_all->unfinished++;
	if (!op->sqe.group)
		return;
	op->scope_group = scope_get(op->er, op->peer, op->sqe.group, 0);
	op->scope_group->unfinished++;
}

/* Returns the reason for which the FENCE fails at once, or 0. *n: the number of failures, for the
 * record. */
static uint32_t enter_fence(struct op *op, uint32_t *n)
{
	struct engine_ring *er = op->er;
	uint64_t *lost = &op->peer->fence_lost[er->index / 64], bit = 1ull << (er->index % 64);
	struct scope *s = op_scope(op);
	uint32_t reason;

	op->acked_losses = op->peer->acked_losses;
	if (*lost & bit) {
		*lost &= ~bit;
		return REASON_FENCE_LOST;
	}
	if (s->failed) {
		reason = s->lost ? REASON_FENCE_LOST : REASON_FENCE;
		*n = s->failed;
		failures_reported(op);
		return reason;
	}
	if (s->unfinished > 1) {
		op->left = s->unfinished - 1 - s->counted;
		s->counted += op->left;
		list_add_tail(&op->fence_link, &s->waiting);
		op->blockers++;
	}
	return 0;
}

/* The entry has LINK, DRAIN or FENCE, or follows a LINK, or has words; or its ring is closing. */
__attribute__((noinline)) static int enter_ordered(struct op *op)
{
	uint32_t broke = 0, fence = 0, n = 0;

	if (op->er->chain_open || op->sqe.flags & URCCL_SQE_LINK)
		broke = enter_chain(op);
	if (op->sqe.flags & URCCL_SQE_DRAIN)
		enter_drain(op);
	if (op->sqe.flags & URCCL_SQE_FENCE && op->scope_all)
		fence = enter_fence(op, &n);
	if (fence)
		op->bits |= OP_FORGIVEN;
	if (broke)
		op_fail(op, -ECANCELED, REASON_CHAIN, broke, 0, 0);
	else if (fence)
		op_fail(op, -ECANCELED, fence, n, 0, 0);
	else if (op->er->closing)
		op_fail(op, -ESHUTDOWN, REASON_CLOSING, 0, 0, 0);
	else if (op->bits & (OP_AWAITS | OP_SIGNALS))
		sync_enter(op);
	return op->bits & OP_DECIDED;
}

int order_enter(struct op *op)
{
	struct engine_ring *er = op->er;

	op->seq = er->seq++;
	if (op->bits & OP_MULTISHOT)
		er->multishots++;
	else if (op->peer)
		enter_peer(op);
	if (er->chain_open | er->closing |
	    (op->sqe.flags & (URCCL_SQE_LINK | URCCL_SQE_DRAIN | URCCL_SQE_FENCE | URCCL_SQE_EXT)))
		return enter_ordered(op);
	return 0;
}

/* ---- leaving ---- */

void order_outcome(struct op *op, int failed)
{
	struct engine_ring *er = op->er;
	struct op *next = op->linked;
	int notified;

	if (er->chain_prev == op) {
		er->chain_prev = NULL;
		er->chain_failed = failed ? (uint32_t)-op->res : 0;
	}
	op->linked = NULL;
	if (next)
		next->linked_to = NULL;
	if (next && failed)
		op_block_failed(next, REASON_CHAIN, (uint64_t)-op->res);
	else if (next)
		op_unblock(next);
	if (!failed || !op->scope_all || (op->bits & OP_FORGIVEN))
		return;
	notified = scope_failed(op->scope_all, op);
	if (op->scope_group)
		notified |= scope_failed(op->scope_group, op);
	if (!notified)
		failure_keep(op->scope_all, op->scope_group, 0);
}

__attribute__((noinline)) static void leave_scopes(const struct op *op)
{
	scope_left(op->scope_all, op);
	if (!op->scope_group)
		return;
	op->scope_group->unfinished--;
	scope_left(op->scope_group, op);
}

/* Nobody waits for most entries, and their scope stays in use or is idle already. */
void order_leave_peer(struct op *op)
{
	struct scope *s = op->scope_all;

	op->peer->unfinished--;
	s->unfinished--;
	if (op->scope_group || !list_empty(&s->waiting) || (!s->unfinished && list_empty(&s->idle)))
		leave_scopes(op);
}

static void leave_drains(struct op *op)
{
	struct op *w;

	list_for_each_entry_safe(w, &op->er->drains, drain_link) {
		if (!behind(w, op) || --w->drain_left)
			continue;
		list_del(&w->drain_link);
		op_unblock(w);
	}
}

void order_leave(struct op *op)
{
	struct engine_ring *er = op->er;

	if (op->linked_to)
		op->linked_to->linked = NULL;
	op->linked_to = NULL;
	if (op->bits & OP_MULTISHOT)
		er->multishots--;
	else
		leave_drains(op);
}

/* ---- per ring ---- */

int order_ring_init(struct engine_ring *er)
{
	uint32_t i, buckets = 1;

	er->nscopes = 4 * er->entries + 2 * ACKED_KEPT(er->entries);
	while (buckets < er->nscopes)
		buckets *= 2;
	er->scope_mask = buckets - 1;
	er->scopes = calloc(er->nscopes, sizeof(*er->scopes));
	er->scope_hash = calloc(buckets, sizeof(*er->scope_hash));
	if (!er->scopes || !er->scope_hash) {
		order_ring_fini(er);
		return -ENOMEM;
	}
	list_init(&er->drains);
	list_init(&er->scopes_idle);
	for (i = 0; i < er->nscopes; i++) {
		er->scopes[i].er = er;
		list_init(&er->scopes[i].waiting);
		list_init(&er->scopes[i].acked_link);
		list_add_tail(&er->scopes[i].idle, &er->scopes_idle);
	}
	return 0;
}

void order_ring_fini(struct engine_ring *er)
{
	free(er->scopes);
	free(er->scope_hash);
	er->scopes = NULL;
	er->scope_hash = NULL;
}

void order_ring_quiet(struct engine_ring *er)
{
	uint32_t i;

	for (i = 0; i < er->nscopes; i++)
		acked_forget(&er->scopes[i]);
}

/* The peer's entries have ended, and its handle is stale: no FENCE can learn of kept failures. */
void order_forget_peer(struct engine_ring *er, struct engine_peer *p)
{
	struct scope *s;
	uint32_t i;

	while (!list_empty(&p->acked_scopes))
		acked_forget(list_first(&p->acked_scopes, struct scope, acked_link));
	for (i = 0; i < er->nscopes; i++) {
		s = &er->scopes[i];
		if (s->peer != p)
			continue;
		if (s->all)
			er->failures_kept -= s->failed;
		s->failed = s->lost = 0;
		scope_settle(er, s);
		scope_unhash(er, s);
	}
}
