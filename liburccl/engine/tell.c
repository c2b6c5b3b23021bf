/* SPDX-License-Identifier: Apache-2.0 */
/* What an engine tells of itself to any thread and process, also when its own is stuck: single
 * words, each whole, not together. */
#include <stdio.h>
#include "engine/private.h"

_Static_assert((int)OP_WAITING == (int)SEGMENT_WAITING && (int)OP_MOVING == (int)SEGMENT_MOVING &&
		       (int)OP_FLUSHING == (int)SEGMENT_FLUSHING &&
		       (int)OP_NOTING == (int)SEGMENT_NOTING &&
		       (int)OP_ATOMIC == (int)SEGMENT_ATOMIC &&
		       (int)OP_ASKING == (int)SEGMENT_ASKING &&
		       (int)OP_PARKED == (int)SEGMENT_PARKED &&
		       (int)OP_STATES == (int)SEGMENT_STATES,
	       "readers know these states");
_Static_assert(OP_DECIDED == 1, "it is told as a byte");

/* Slots of handles that were used too often are retired, so that there are more than peers. */
#define PEERS_MORE(n) ((n) + (n) / 4)

int tell_open(struct engine *e)
{
	struct segment_params p = {
		.incarnation = e->config.incarnation,
		.is_inline = e->config.is_inline,
		.npeers = PEERS_MORE(e->config.params->max_peers),
	};
	struct segment_head *h;
	uint32_t i;

	e->segment = segment_open(&p);
	if (!e->segment)
		return -ENOMEM;
	e->told = &segment_of(e->segment)->engine;
	h = &segment_of(e->segment)->head;
	for (i = 0; i < e->config.ndevices && i < SEGMENT_DEVICES; i++) {
		const struct backend *ops = e->config.devices[i]->ops;

		snprintf(h->devices[i].name, sizeof(h->devices[i].name), "%s", ops->name);
		h->devices[i].transport = ops->transport;
	}
	h->ndevices = i;
	if (e->config.left_out)
		snprintf(h->left_out, sizeof(h->left_out), "%s", e->config.left_out);
	return 0;
}

/* ---- the engine's thread ---- */

struct segment_entry *tell_record(const struct engine_ring *er, uint32_t i)
{
	return &segment_of(er->engine->segment)->entries[er->told->first + i];
}

void tell_peer(const struct engine_peer *p)
{
	uint32_t state = p->state == PEER_CONNECTING ? URCCL_PEER_CONNECTING
			 : p->state == PEER_UP	     ? URCCL_PEER_UP
						     : URCCL_PEER_LOST;

	if (!URCCL_TELLS)
		return;
	if (p->rail)
		store_relaxed(&p->told->transport, p->rail->ep->dev->ops->transport);
	store_relaxed(&p->told->state, state);
}

void tell_look(struct engine *e)
{
	struct list *pos;

	if (!URCCL_TELLS)
		return;
	e->look_ns = e->now + LOOK_NS;
	list_for_each(pos, &e->rings) {
		struct engine_ring *er = list_entry(pos, struct engine_ring, link);
		struct ring *r = er->ring;

		store_relaxed(&er->told->waiting, ring_submitted(r));
		store_relaxed(&er->told->unseen,
			      r->own.tail - load_relaxed(&r->consumer_line.cq_head));
	}
	store_relaxed(&e->told->chunks, e->chunks_used);
	tell(&e->told->turned_ns, e->now);
	tell(&e->told->count.turns, e->turns);
}

void tell_asleep(struct engine *e, uint64_t ns)
{
	if (!URCCL_TELLS)
		return;
	tell_look(e);
	tell(&e->told->wake_at_ns, ns < NEVER_NS - e->now ? e->now + ns : NEVER_NS);
	tell_add(&e->told->count.sleeps, 1);
	store_relaxed(&e->told->state, SEGMENT_SLEEPS);
}

/* ---- any thread ---- */

const struct failures *engine_failures(const struct engine *e)
{
	return &e->failures;
}

void engine_stats(const struct engine *e, struct urccl_stats *stats)
{
	segment_stats(segment_of(e->segment), stats);
}

int engine_dump(const struct engine *e, int fd)
{
	struct segment_view v = segment_view_own(e->segment);

	return segment_text(&v, clock_ns(), fd);
}
