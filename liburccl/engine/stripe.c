/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stripes bulk over several rails. Each chunk goes to the rail that will finish it first, as the
 * rate of each rail and its bytes under way suggest. If that rail is full, another rail gets the
 * chunk only if it finishes before the other rails could have moved the rest of the entry. A slow
 * rail thus helps with long entries, and leaves their end to the fast ones.
 *
 * The rate of a rail starts as the speed of its port. Later it is bytes divided by the time with
 * bytes under way. While a rail has only few bytes under way, and no large piece, this quotient
 * shows the demand and not the rate: it then counts only if it is higher than the rate before. A
 * rail that has carried nothing for PROBE_NS gets one chunk as a probe, and its measurement starts
 * afresh: a rail that recovers is used again.
 */
#include "engine/post.h"

/* Older measurements are halved after this much busy time. */
#define RATE_NS (50 * NSEC_PER_MSEC)
/* Busy time without which a quotient is not used. */
#define RATE_MIN_NS  (50 * NSEC_PER_USEC)
#define LOADED_BYTES (256u << 10) /* bytes under way that are enough to measure the rate */
#define PROBE_NS     NSEC_PER_SEC
#define QUEUE_NS     (20 * NSEC_PER_MSEC) /* a rail has at most this much time's bytes under way */
#define PIECE_MIN    (16u << 10)
#define GATHERED     8u /* chunks per rail, posted together */

/* The state of one call for a lane. */
struct stripe {
	struct engine *e;
	struct lane *lane;
	struct engine_peer *peer;
	uint32_t keyless;	/* rails without a key for the entry, one bit each */
	uint32_t full;		/* rails whose device takes no more in this iteration */
	const struct op *waits; /* the first entry that waits for a rail, since a chunk was cut */
	uint32_t work;
	uint32_t n[RAIL_NUMBERS];
	struct rail *rails[RAIL_NUMBERS];
	struct chunk *chunks[RAIL_NUMBERS][GATHERED];
};

/* ---- the rate of a rail ---- */

/* 1: the rail had enough bytes under way, including the len bytes that came out just now: a slow
 * rail may have no more at a time. */
static int is_loaded(const struct rail *rail, uint32_t len)
{
	uint64_t enough = rail->window / 8;

	return rail->inflight_bytes + len >= (enough < LOADED_BYTES ? enough : LOADED_BYTES);
}

static uint64_t a_second(uint64_t bytes, uint64_t ns)
{
	return 1 + (uint64_t)((double)bytes * NSEC_PER_SEC / (double)ns);
}

void rail_carried(const struct engine *e, struct rail *rail, uint32_t len)
{
	uint64_t ns = e->now - rail->rate_mark_ns, rate;

	rail->rate_bytes += len;
	rail->rate_busy_ns += ns;
	rail->rate_loaded_ns += is_loaded(rail, len) ? ns : 0;
	rail->rate_mark_ns = e->now;
	if (rail->rate_busy_ns < RATE_MIN_NS)
		return;
	rate = a_second(rail->rate_bytes, rail->rate_busy_ns);
	if (rate > rail->rate || 2 * rail->rate_loaded_ns >= rail->rate_busy_ns)
		rail->rate = rate;
	if (rail->rate_busy_ns < RATE_NS)
		return;
	rail->rate_busy_ns /= 2; /* older measurements count less */
	rail->rate_loaded_ns /= 2;
	rail->rate_bytes /= 2;
}

/* ---- the choice of a rail ---- */

static uint64_t rail_outstanding(const struct rail *rail)
{
	return rail->inflight_bytes + rail->gathered_bytes;
}

/* The time in seconds until len more bytes have come out. */
static double rail_finish_time(const struct rail *rail, uint64_t len)
{
	return (double)(rail_outstanding(rail) + len) / (double)rail->rate;
}

/* The time in seconds for all other rails together to finish their bytes and `left` more. */
static double finish_others(const struct stripe *s, const struct rail *but, uint64_t left)
{
	double bytes = (double)left, rate = 1;
	uint32_t i;

	for (i = 0; i < s->peer->nup; i++) {
		const struct rail *rail = s->peer->up[i];

		if (rail == but || s->keyless & rail_bit(rail))
			continue;
		bytes += (double)rail_outstanding(rail);
		rate += (double)rail->rate;
	}
	return bytes / rate;
}

/* The bytes that it carries in QUEUE_NS. */
static double queue_bytes(const struct rail *rail)
{
	return (double)rail->rate * QUEUE_NS / NSEC_PER_SEC;
}

/* A rail without a measurement yet may be far slower than its port. */
static int rail_has_room(const struct stripe *s, const struct rail *rail)
{
	if (!rail->rate_busy_ns && rail_outstanding(rail) >= LOADED_BYTES)
		return 0;
	if ((s->keyless | s->full) & rail_bit(rail) || rail_outstanding(rail) >= rail->window)
		return 0;
	return (double)rail_outstanding(rail) <= queue_bytes(rail);
}

/* A rail that has carried nothing for PROBE_NS, or NULL. Its measurement starts afresh. */
static struct rail *rail_to_probe(const struct stripe *s)
{
	uint32_t i;

	for (i = 0; i < s->peer->nup; i++) {
		struct rail *rail = s->peer->up[i];

		if (rail_outstanding(rail) || s->e->now - rail->rate_mark_ns < PROBE_NS ||
		    !rail_has_room(s, rail))
			continue;
		rail->rate_bytes = rail->rate_busy_ns = rail->rate_loaded_ns = 0;
		return rail;
	}
	return NULL;
}

/* The largest piece: a device retransmits if a piece takes longer than its acknowledgement
 * timeout. */
static uint64_t piece_limit(const struct rail *rail)
{
	uint64_t most = chunk_limit(rail);
	double queue = queue_bytes(rail);

	if (queue >= (double)most)
		return most;
	if (queue > PIECE_MIN)
		return (uint64_t)queue & ~4095ull;
	return PIECE_MIN < most ? PIECE_MIN : most;
}

/* NULL: waiting is better. */
static struct rail *rail_for(const struct stripe *s, uint64_t left)
{
	struct rail *first = NULL, *best = rail_to_probe(s), *rail;
	uint64_t most = chunk_limit(s->peer->rail), len = left < most ? left : most;
	uint32_t i;

	if (best)
		return best;
	for (i = 0; i < s->peer->nup; i++) {
		rail = s->peer->up[i];
		if (s->keyless & rail_bit(rail))
			continue;
		if (!first || rail_finish_time(rail, len) < rail_finish_time(first, len))
			first = rail;
		if (rail_has_room(s, rail) &&
		    (!best || rail_finish_time(rail, len) < rail_finish_time(best, len)))
			best = rail;
	}
	if (best == first || !best || rail_finish_time(best, len) <= finish_others(s, best, left))
		return best;
	return NULL;
}

/* NULL: likewise. */
static struct rail *rail_for_op(const struct stripe *s, const struct op *op, uint64_t left)
{
	struct rail *rail;

	if (op->tries < TRIES_STEADY)
		return rail_for(s, left);
	rail = peer_steady(s->peer);
	if (s->keyless & rail_bit(rail))
		return rail_for(s, left);
	return rail_has_room(s, rail) ? rail : NULL;
}

/* ---- one call ---- */

static void stripe_post(struct stripe *s, uint32_t number)
{
	struct rail *rail = s->rails[number];
	uint32_t n = s->n[number], took;

	if (!n)
		return;
	s->n[number] = 0;
	rail->gathered_bytes = 0;
	took = batch_post(s->e, s->lane, rail, s->chunks[number], n);
	s->work += took;
	s->full |= took < n ? rail_bit(rail) : 0;
}

static void gather(struct stripe *s, struct rail *rail, struct chunk *c)
{
	s->rails[rail->number] = rail;
	s->chunks[rail->number][s->n[rail->number]++] = c;
	rail->gathered_bytes += c->len;
	if (s->n[rail->number] == GATHERED)
		stripe_post(s, rail->number);
}

static struct rail *rail_of(const struct engine_peer *p, const struct chunk *c)
{
	uint32_t i;

	for (i = 0; i < p->nup; i++)
		if (p->up[i]->ep == c->ep)
			return p->up[i];
	return NULL;
}

/* Posts chunks again that a device refused, to the same device. Chunks of other devices do not
 * wait. */
static void post_held(struct stripe *s)
{
	struct chunk *c, *next;
	struct rail *rail;

	for (c = chunk_queue_take(&s->lane->held); c; c = next) {
		next = c->next;
		rail = rail_of(s->peer, c);
		if (!rail && !chunk_bind(c, s->peer->rail))
			continue;
		if (!rail)
			rail = s->peer->rail;
		if (s->full & rail_bit(rail) || !rail_post(s->e, rail, &c, 1)) {
			s->full |= rail_bit(rail);
			chunk_queue_add(&s->lane->held, c);
			continue;
		}
		s->work++;
	}
}

static int is_first(const struct lane *l, const struct op *op)
{
	return !list_empty(&l->ops) && list_first(&l->ops, struct op, link) == op;
}

/* Returns the bytes cut, or 1; 0: nothing more can be posted now. */
static uint64_t stripe_next(struct stripe *s)
{
	struct op *op = list_first(&s->lane->ops, struct op, link);
	uint64_t left = cursor_left(op), len;
	struct rail *rail = rail_for_op(s, op, left);
	struct chunk *c;

	if (!rail && op->tries < TRIES_STEADY)
		return 0;
	if (!rail) { /* it waits for that rail; others need not */
		if (s->waits == op)
			return 0;
		s->waits = s->waits ? s->waits : op;
		s->keyless = 0;
		list_del(&op->link);
		list_add_tail(&op->link, &s->lane->ops);
		return 1;
	}
	c = op_chunk(s->e, op, rail, piece_limit(rail));
	if (!c) { /* it waits or has ended, or the rail has no key for it */
		if (!is_first(s->lane, op))
			s->keyless = 0;
		else if (rail != s->peer->rail)
			s->keyless |= rail_bit(rail);
		return 1;
	}
	s->keyless = 0;
	s->waits = NULL;
	list_del(&op->link);
	if (op_exhausted(op))
		op->bits |= OP_DONE_CURSOR;
	else
		list_add_tail(&op->link, &s->lane->ops);
	len = c->len;
	if (!s->e->gpus || stage_chunk(s->e, c))
		gather(s, rail, c);
	return len;
}

uint32_t lane_stripe(struct engine *e, struct lane *l)
{
	struct stripe s = {.e = e, .lane = l, .peer = l->peer};
	uint64_t budget = 2 * s.peer->nup * chunk_bytes(s.peer->rail), len = 1;
	uint32_t i, turns;

	post_held(&s);
	for (turns = 0; turns < POST_BATCH && len && budget && s.peer->rail; turns++) {
		if (list_empty(&l->ops) || !chunk_may(e, s.peer))
			break;
		len = stripe_next(&s);
		budget -= len < budget ? len : budget;
	}
	for (i = 0; i < RAIL_NUMBERS; i++)
		stripe_post(&s, i);
	return s.work;
}
