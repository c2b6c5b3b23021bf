/* SPDX-License-Identifier: Apache-2.0 */
/* The entry records of a ring. */
#include <stdlib.h>
#include "engine/op.h"

static void init_ops(struct engine_ring *er)
{
	uint32_t i, n = er->entries;

	for (i = 0; i < n; i++) {
		struct op *op = &er->ops[i];

		er->free[n - 1 - i] = op;
		op->er = er;
		op->timer.kind = TIMER_OP;
		list_init(&op->timer.link);
		list_init(&op->link);
		list_init(&op->drain_link);
		list_init(&op->fence_link);
		list_init(&er->syncs[i].link);
		er->syncs[i].op = op;
	}
}

/* Gets the ring's records in the segment, or private ones if the segment has none left. */
static int ring_open_ops(struct engine_ring *er)
{
	void *ops = NULL;

	er->stats = segment_ring_take(er->engine->segment, er->ring->pub.id, er->entries, &ops);
	if (!er->stats)
		er->stats = &er->own_stats;
	er->ring->prepared = &er->stats->prepared;
	if (!ops)
		ops = er->own_ops = calloc(er->entries, sizeof(*er->own_ops));
	er->ops = ops;
	return ops ? 0 : -ENOMEM;
}

int engine_ring_new(struct engine *e, struct ring *ring, struct engine_ring **out)
{
	struct engine_ring *er = calloc(1, sizeof(*er));
	uint32_t n = ring->pub.entries;

	if (!er)
		return fail(-ENOMEM, "no memory for a ring");
	er->ring = ring;
	er->engine = e;
	er->entries = er->nfree = n;
	er->index = RINGS_MAX;
	list_init(&er->link);
	list_init(&er->timeouts);
	list_init(&er->cancels);
	list_init(&er->messages);
	list_init(&er->messages_link);
	list_init(&er->device_link);
	er->asks = calloc(n, sizeof(*er->asks));
	er->syncs = calloc(n, sizeof(*er->syncs));
	er->free = calloc(n, sizeof(*er->free));
	if (!er->asks || !er->syncs || !er->free || order_ring_init(er) || ring_open_ops(er)) {
		engine_ring_free(er);
		return fail(-ENOMEM, "no memory for a ring of %u entries", n);
	}
	init_ops(er);
	*out = er;
	return 0;
}

void engine_ring_free(struct engine_ring *er)
{
	if (!er)
		return;
	order_ring_fini(er);
	if (er->stats != &er->own_stats)
		segment_ring_give(er->engine->segment, er->stats);
	free(er->own_ops);
	free(er->asks);
	free(er->syncs);
	free(er->free);
	free(er);
}
