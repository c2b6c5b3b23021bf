/* SPDX-License-Identifier: Apache-2.0 */
/* The lanes of peers, how many chunks a peer may use, and posting to a rail. */
#include "engine/post.h"
#include "engine/stats.h"

/* 1: the peer may have one more chunk: its chunks * (1 + peers with chunks) < free ones. A single
 * peer gets a third of all, and n peers that keep their chunks leave at least one part in n + 1.
 * The threshold follows the number of free chunks, as in Choudhury and Hahne, Dynamic queue length
 * thresholds (1998). A peer without any always gets one, or earlier peers could keep all;
 * CHUNKS_ALONE are reserved for that, enough for about a thousand such peers. */
int chunk_may(const struct engine *e, const struct engine_peer *p)
{
	if (!p->chunks)
		return e->chunks_used < CHUNKS_MAX;
	return e->chunks_used < e->chunks_max &&
	       p->chunks * (1 + e->chunk_peers) < e->chunks_max - e->chunks_used;
}

/* ---- lanes ---- */

void lane_wake(struct lane *l)
{
	struct engine *e = l->peer->engine;

	if (!list_empty(&l->link))
		return;
	list_add_tail(&l->link, &e->lanes[l->number]);
	e->lanes_set |= 1u << l->number;
}

void lane_add_op(struct op *op)
{
	struct lane *l = &op->peer->lanes[op->lane];

	list_add_tail(&op->link, &l->ops);
	lane_wake(l);
}

void lane_add_chunk(struct engine_peer *p, uint32_t lane, struct chunk *c)
{
	struct lane *l = &p->lanes[lane];

	chunk_queue_add(&l->held, c);
	lane_wake(l);
}

/* Chunks that the device did not take are posted first the next time. */
static void held_put_back(struct lane *l, struct chunk **chunks, uint32_t n)
{
	while (n-- > 0)
		chunk_queue_add_first(&l->held, chunks[n]);
}

/* ---- posting ---- */

/* The transport's chunk size, or a smaller one if the setting asks for it. */
uint64_t chunk_bytes(const struct rail *rail)
{
	uint32_t most = rail->ep->dev->ops->chunk_bytes;
	uint32_t asked = rail->peer->engine->config.params->chunk_bytes;

	return asked && asked < most ? asked : most;
}

uint64_t chunk_limit(const struct rail *rail)
{
	uint64_t quarter = rail->window / 4, most = chunk_bytes(rail);

	return quarter < most ? quarter : most;
}

void rail_busy(struct engine *e, struct rail *rail)
{
	e->now = clock_now(e->config.clock); /* the last clock read may be long ago */
	rail->rate_mark_ns = e->now;
}

/* perf(1) takes a probe for an event of one name if it has one place in the library. */
__attribute__((noinline)) void chunk_posted(uint32_t peer, enum chunk_kind kind, uint64_t len)
{
	PROBE(chunk_posted, peer, kind, len);
}

uint32_t rail_post(struct engine *e, struct rail *rail, struct chunk **batch, uint32_t n)
{
	uint32_t took, i, peer = rail->peer->handle;

	took = rail->ep->dev->ops->post(rail->ep, batch, n);
	if (took && !rail->inflight) {
		rail->measured_ns = rail->measured_most = 0;
		if (rail->peer->nup > 1)
			rail_busy(e, rail);
	}
	for (i = 0; i < took; i++) {
		struct chunk *c = batch[i];

		rail->inflight_bytes += c->len;
		e->given += c->len;
		chunk_posted(peer, c->kind, c->len);
		c->taken = 1;
	}
	rail->inflight += took;
	stat_add(&e->stats->count.chunks, took);
	return took;
}

uint32_t batch_post(struct engine *e, struct lane *l, struct rail *rail, struct chunk **batch,
		    uint32_t n)
{
	uint32_t took = rail_post(e, rail, batch, n);

	if (batch[0]->kind == CHUNK_WRITE || batch[0]->kind == CHUNK_READ)
		e->served = batch[0]->op;
	held_put_back(l, batch + took, n - took);
	return took;
}
