/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bulk by several rails. Each chunk goes where it will be out first, by what each rail was seen to
 * carry and has on its way. Where that rail is full, another has the chunk only if it will be done
 * with it before the others could have done all that is left of the entry: so a slow rail helps
 * with what is long and leaves the end of it to the fast ones. What a rail carries is not known
 * before it has carried something: it gets so small a piece of an entry that little is lost, or a
 * piece that would have to wait.
 */
#include "engine/private.h"

#define RATE_NS	  (50 * NSEC_PER_MSEC) /* of being busy count for what a rail carries, */
#define FIRST_NS  (50 * NSEC_PER_USEC) /* and so long at least */
#define QUEUE_NS  (20 * NSEC_PER_MSEC) /* on its way, by that */
#define TRY_SHARE 8u		       /* of what is left a rail that is not known has this part, */
#define TRY_BYTES (16u << 10)	       /* and so much at least */

void rail_busy(const struct engine *e, struct rail *rail)
{
	rail->rate_mark_ns = e->now;
}

void rail_carried(const struct engine *e, struct rail *rail, uint32_t len)
{
	rail->rate_bytes += len;
	rail->rate_busy_ns += e->now - rail->rate_mark_ns;
	rail->rate_mark_ns = e->now;
	if (rail->rate_busy_ns < FIRST_NS)
		return;
	rail->rate = 1 + (uint64_t)((double)rail->rate_bytes * NSEC_PER_SEC /
				    (double)rail->rate_busy_ns);
	if (rail->rate_busy_ns < RATE_NS)
		return;
	rail->rate_busy_ns /= 2; /* what is older counts less */
	rail->rate_bytes /= 2;
}

/* When len bytes more would be out, in seconds. */
static double finish(const struct rail *rail, uint64_t len)
{
	return (double)(rail->inflight_bytes + len) / (double)rail->rate;
}

/* All that others have and all that is left, by all of them together. */
static double finish_others(const struct engine_peer *p, const struct rail *but, uint64_t left,
			    uint32_t full)
{
	double bytes = (double)left, rate = 1;
	uint32_t i;

	for (i = 0; i < p->nup; i++) {
		if (p->up[i] == but || !p->up[i]->rate || full >> p->up[i]->number & 1)
			continue;
		bytes += (double)p->up[i]->inflight_bytes;
		rate += (double)p->up[i]->rate;
	}
	return bytes / rate;
}

static int has_room(const struct rail *rail, uint32_t full)
{
	double most = rail->rate ? (double)rail->rate * QUEUE_NS / NSEC_PER_SEC : 1e18;

	if (full >> rail->number & 1 || rail->inflight_bytes >= rail->window)
		return 0;
	return (double)rail->inflight_bytes <= most;
}

/* One that is not known, and may have a piece to show itself. */
static struct rail *rail_to_try(const struct engine_peer *p, uint64_t left, uint32_t full)
{
	uint32_t i;

	if (!p->rail->rate)
		return has_room(p->rail, full) ? p->rail : NULL;
	if (left < TRY_SHARE * TRY_BYTES && has_room(p->rail, full))
		return NULL;
	for (i = 0; i < p->nup; i++)
		if (!p->up[i]->rate && !p->up[i]->inflight_bytes && has_room(p->up[i], full))
			return p->up[i];
	return NULL;
}

static uint64_t piece_limit(const struct engine_peer *p, const struct rail *rail, uint64_t left)
{
	uint64_t most = chunk_limit(rail), share = left / TRY_SHARE & ~4095ull;

	if (rail->rate || rail == p->rail)
		return most;
	share = share > TRY_BYTES ? share : TRY_BYTES;
	return share < most ? share : most;
}

/* full: those that have no key. NULL: it is best to wait. */
static struct rail *rail_for(const struct engine_peer *p, uint64_t left, uint64_t len,
			     uint32_t full)
{
	struct rail *first = NULL, *best = rail_to_try(p, left, full);
	uint32_t i;

	if (best || !p->rail->rate)
		return best;
	for (i = 0; i < p->nup; i++) {
		struct rail *rail = p->up[i];

		if (!rail->rate || full >> rail->number & 1)
			continue;
		if (!first || finish(rail, len) < finish(first, len))
			first = rail;
		if (has_room(rail, full) && (!best || finish(rail, len) < finish(best, len)))
			best = rail;
	}
	if (best == first || !best || finish(best, len) <= finish_others(p, best, left, full))
		return best;
	return NULL;
}

uint32_t lane_stripe(struct engine *e, struct lane *l)
{
	struct engine_peer *p = l->peer;
	uint64_t most = chunk_limit(p->rail), left, len;
	uint32_t work = 0, full = 0, budget = 2 * p->nup;
	struct rail *rail;
	struct chunk *c;
	struct op *op;

	while (!list_empty(&l->ops) && e->chunk_free && p->rail && budget) {
		op = list_first(&l->ops, struct op, link);
		left = cursor_left(op);
		len = left < most ? left : most;
		rail = rail_for(p, left, len, full);
		if (!rail)
			break;
		c = op_chunk(e, op, rail, piece_limit(p, rail, left));
		if (!c) { /* it waits or has ended, or the rail has no key for it */
			full |= rail == p->rail ? 0 : 1u << rail->number;
			continue;
		}
		list_del(&op->link);
		if (op_exhausted(op))
			op->bits |= OP_DONE_CURSOR;
		else
			list_add_tail(&op->link, &l->ops);
		work++;
		budget--;
		if (!batch_post(e, l, rail, &c, 1))
			break;
	}
	return work;
}
