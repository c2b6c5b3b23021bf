/* SPDX-License-Identifier: Apache-2.0 */
/* Lanes of a device ring: in these pages kernels store entries, and the engine their results. */
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "ring/ring.h"

#define SLOT_WORDS (sizeof(struct urccl_sqe) / 8)
#define LAP_FLAGS  ((uint64_t)URCCL_SQE_LAP << 16) /* in the first word of an entry, */
#define LAP	   (1ull << 63)			   /* and in those of addr, off, reserved */

/* One is unused, so that lanes are no power of two apart: their next slots would share few sets of
 * the caches. */
static uint64_t lane_slots(uint32_t entries)
{
	return (uint64_t)entries + 1;
}

int device_ring_open(uint32_t lanes, uint32_t entries, struct device_ring **out)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), words, len;
	struct device_ring *d = calloc(1, sizeof(*d) + lanes * sizeof(d->lane[0]));
	void *mem = MAP_FAILED;

	words = (lanes * sizeof(struct urccl_device_lane) + page - 1) / page * page;
	len = words + lanes * lane_slots(entries) * sizeof(struct urccl_sqe);
	len = (len + page - 1) / page * page;
	if (d)
		d->done = calloc(lanes, entries);
	if (d && d->done)
		mem = mmap(NULL, len, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (mem == MAP_FAILED || madvise(mem, len, MADV_DONTFORK)) {
		if (mem != MAP_FAILED)
			munmap(mem, len);
		if (d)
			free(d->done);
		free(d);
		return fail(-ENOMEM, "no memory for %u lanes of %u entries", lanes, entries);
	}
	d->words = mem;
	d->slots = (const uint64_t *)(const void *)((uint8_t *)mem + words);
	d->len = len;
	d->lanes = lanes;
	d->entries = entries;
	for (d->records = entries; d->records < lanes * entries && d->records < RING_ENTRIES_MAX;)
		d->records *= 2;
	d->share = d->records / lanes < entries ? d->records / lanes : entries;
	*out = d;
	return 0;
}

void device_ring_close(struct device_ring *d)
{
	munmap(d->words, d->len);
	free(d->done);
	free(d);
}

/* No branch per lane, so that the loads, one cache line each, overlap. */
int device_ring_is_empty(const struct device_ring *d)
{
	uint64_t found = 0, slot;
	uint32_t i;

	for (i = 0; i < d->lanes; i++) {
		slot = i * lane_slots(d->entries) + (d->lane[i].taken & (d->entries - 1));
		found |= load_relaxed(&d->slots[slot * SLOT_WORDS]) ^
			 (d->lane[i].taken & d->entries ? ~0ull : 0);
	}
	return !(found & LAP_FLAGS);
}

/* Loads words with lap bits first: the other word of their 16 bytes is stored no later. */
int device_lane_take(struct device_ring *d, uint32_t lane, struct urccl_sqe *sqe)
{
	struct device_lane *l = &d->lane[lane];
	uint64_t slot = lane * lane_slots(d->entries) + (l->taken & (d->entries - 1));
	uint64_t lap = l->taken & d->entries ? 0 : ~0ull, w[SLOT_WORDS];
	const uint64_t *at = d->slots + slot * SLOT_WORDS;

	w[0] = load_acquire(&at[0]);
	if ((w[0] ^ lap) & LAP_FLAGS)
		return 0;
	w[3] = load_acquire(&at[3]);
	w[5] = load_acquire(&at[5]);
	w[7] = load_acquire(&at[7]);
	if (((w[3] ^ lap) | (w[5] ^ lap) | (w[7] ^ lap)) & LAP)
		return 0;
	w[0] &= ~LAP_FLAGS;
	w[1] = load_relaxed(&at[1]);
	w[2] = load_relaxed(&at[2]);
	w[3] = (uint64_t)((int64_t)(w[3] << 1) >> 1); /* sign-extend an addend of 63 bits */
	w[4] = load_relaxed(&at[4]);
	w[5] &= ~LAP;
	w[6] = load_relaxed(&at[6]);
	w[7] &= ~LAP;
	memcpy(sqe, w, sizeof(*sqe));
	l->taken++;
	return 1;
}

void device_lane_failed(struct device_ring *d, uint32_t lane, uint32_t index, int64_t res)
{
	uint64_t ended = d->lane[lane].ended, i = ended + (uint32_t)(index - (uint32_t)ended);

	store_release(&d->words[lane].failed, (i + 1) << 16 | (uint16_t)-res);
}

void device_lane_ended(struct device_ring *d, uint32_t lane, uint32_t index)
{
	uint8_t *done = d->done + (uint64_t)lane * d->entries;
	struct device_lane *l = &d->lane[lane];
	uint32_t mask = d->entries - 1;

	for (done[index & mask] = 1; done[l->ended & mask]; l->ended++)
		done[l->ended & mask] = 0;
	store_release(&d->words[lane].ended, l->ended);
}
