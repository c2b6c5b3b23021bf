/* SPDX-License-Identifier: Apache-2.0 */
/* What peers may touch of our memory: given to a device, and known to the engine by a handle of its
 * own, for what it does for peers itself. */
#include "engine/private.h"

int exposure_begin(struct engine *e, struct exposure *x, void *key)
{
	uint32_t slot = HANDLE_SLOT(x->memory->handle);
	int n;

	if (slot >= e->nregions || e->regions[slot].memory != x->memory)
		return -EACCES;
	x->grant = handles_add(&e->grants, x);
	if (!x->grant)
		return -ENOSPC;
	n = x->ep->dev->ops->expose(x, key, KEY_MAX);
	if (n < 0)
		handles_del(&e->grants, x->grant);
	else
		list_add_tail(&x->link, &e->exposures);
	return n;
}

int exposure_end(struct engine *e, struct exposure *x)
{
	int res;

	/* The number itself stays: the control thread may read it. It names nothing any more. */
	handles_del(&e->grants, x->grant);
	res = x->ep->dev->ops->unexpose(x);
	if (!res)
		list_del(&x->link);
	return res;
}

/* A peer that was given up, and is perhaps not gone, may write to it when it goes on. */
static void memory_strange(const struct memory *m)
{
	uint32_t i;

	for (i = 0; i < m->nspans; i++)
		store_release(&m->spans[i].extent->strange, 1);
}

void exposure_drop(struct engine *e, struct exposure *x)
{
	if (exposure_end(e, x))
		memory_strange(x->memory);
	list_del(&x->link);
}

static int memory_is_moving(const struct memory *m)
{
	uint32_t i;

	for (i = 0; i < m->nspans; i++)
		if (load_acquire(&m->spans[i].extent->moving) == EXTENT_MOVING)
			return 1;
	return 0;
}

void exposures_move(struct engine *e)
{
	struct list *pos;

	list_for_each(pos, &e->exposures) {
		struct exposure *x = list_entry(pos, struct exposure, link);

		if (memory_is_moving(x->memory))
			x->ep->dev->ops->unmap(x);
	}
}
