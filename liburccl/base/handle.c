/* SPDX-License-Identifier: Apache-2.0 */
/* Tables that map 32-bit handles to objects. A handle stays invalid after its object is gone,
 * because each new use of a slot has another generation. */
#include <stdlib.h>

#include "base/base.h"

#define NO_SLOT	    UINT32_MAX
#define SLOTS_FIRST 64u
#define SLOTS_LIMIT (1u << HANDLE_SLOT_BITS)
/* Generations start at 1, so that slot 0 never gives the handle 0. */
#define GENERATION_ONE (1u << HANDLE_SLOT_BITS)

int handles_init(struct handles *h, uint32_t max, enum handle_kind kind)
{
	memset(h, 0, sizeof(*h));
	h->kind = kind;
	h->max = max < SLOTS_LIMIT ? max : SLOTS_LIMIT;
	h->free = NO_SLOT;
	h->size = h->max < SLOTS_FIRST ? h->max : SLOTS_FIRST;
	h->slots = calloc(h->size ? h->size : 1, sizeof(*h->slots));
	return h->slots ? 0 : -ENOMEM;
}

void handles_fini(struct handles *h)
{
	free(h->slots);
	memset(h, 0, sizeof(*h));
	h->free = NO_SLOT;
}

static int handles_grow(struct handles *h)
{
	uint32_t size = h->size <= SLOTS_LIMIT / 2 ? h->size * 2 : SLOTS_LIMIT;
	struct handle_slot *slots;

	if (size == h->size)
		return -ENOMEM;
	slots = realloc(h->slots, size * sizeof(*slots));
	if (!slots)
		return -ENOMEM;
	memset(slots + h->size, 0, (size - h->size) * sizeof(*slots));
	h->slots = slots;
	h->size = size;
	return 0;
}

/* Takes a slot that was never used. Retired slots do not count against max: fresh slots replace
 * them. */
static uint32_t handles_fresh(struct handles *h)
{
	uint32_t slot = h->used;

	if (slot - h->retired >= h->max)
		return NO_SLOT;
	if (slot == h->size && handles_grow(h))
		return NO_SLOT;
	h->used++;
	h->slots[slot].handle = HANDLE_OF_KIND(h->kind) | GENERATION_ONE | slot;
	return slot;
}

uint32_t handles_add(struct handles *h, void *object)
{
	uint32_t slot = h->free;

	assert(object);
	if (slot != NO_SLOT)
		h->free = h->slots[slot].next;
	else
		slot = handles_fresh(h);
	if (slot == NO_SLOT)
		return 0;
	h->slots[slot].object = object;
	return h->slots[slot].handle;
}

void *handles_get(const struct handles *h, uint32_t handle)
{
	uint32_t slot = HANDLE_SLOT(handle);

	if (slot >= h->used || h->slots[slot].handle != handle)
		return NULL;
	return h->slots[slot].object;
}

static int is_last_generation(const struct handles *h, uint32_t handle)
{
	uint32_t next = handle + GENERATION_ONE;

	return next < handle || (h->kind && HANDLE_KIND(next) != h->kind);
}

void handles_del(struct handles *h, uint32_t handle)
{
	uint32_t slot = HANDLE_SLOT(handle);
	struct handle_slot *s;

	if (!handles_get(h, handle))
		return;
	s = &h->slots[slot];
	s->object = NULL;
	if (is_last_generation(h, handle)) {
		s->handle = 0;
		h->retired++;
		return;
	}
	s->handle = handle + GENERATION_ONE;
	s->next = h->free;
	h->free = slot;
}

struct handle_error handle_error(uint32_t handle, enum handle_kind wanted, uint32_t stale)
{
	if (!handle && wanted)
		return (struct handle_error){-EINVAL, REASON_HANDLE_NONE, {HANDLE_OF_KIND(wanted)}};
	if (HANDLE_KIND(handle) != wanted)
		return (struct handle_error){-EINVAL,
					     REASON_HANDLE_KIND,
					     {handle, HANDLE_OF_KIND(wanted)}};
	return (struct handle_error){-ESTALE, stale, {handle}};
}

int fail_handle(uint32_t handle, enum handle_kind wanted, uint32_t stale)
{
	struct handle_error e = handle_error(handle, wanted, stale);
	uint64_t arg[3] = {e.arg[0], e.arg[1]};

	return fail_reason(e.res, e.reason, arg);
}
