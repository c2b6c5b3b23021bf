/* SPDX-License-Identifier: Apache-2.0 */
/* A thread that takes entries of lanes as an engine would. */
#include "lanes.h"

#include <atomic>
#include <cstring>
#include <pthread.h>

struct raw_taker {
	struct urccl_device_ring ring;
	uint32_t copy;
	char *to;
	std::atomic<int> stopping;
	pthread_t thread;
};

#define LAP 1ull << 63

static int raw_take(struct raw_taker *t, uint64_t *at, uint64_t lap, uint64_t w[8])
{
	w[0] = __atomic_load_n(&at[0], __ATOMIC_ACQUIRE);
	w[3] = __atomic_load_n(&at[3], __ATOMIC_ACQUIRE);
	w[5] = __atomic_load_n(&at[5], __ATOMIC_ACQUIRE);
	w[7] = __atomic_load_n(&at[7], __ATOMIC_ACQUIRE);
	if (((w[0] << (63 - 29)) ^ lap) & LAP || ((w[3] ^ lap) | (w[5] ^ lap) | (w[7] ^ lap)) & LAP)
		return 0;
	w[1] = at[1];
	w[2] = at[2];
	w[4] = at[4];
	w[6] = at[6];
	if (t->copy)
		memcpy(t->to, (const void *)(uintptr_t)((w[3] << 1) >> 1), t->copy);
	return 1;
}

static void *raw_taker_main(void *arg)
{
	struct raw_taker *t = (struct raw_taker *)arg;
	const struct urccl_device_ring *r = &t->ring;
	uint64_t *taken = (uint64_t *)calloc(r->lanes, 8), w[8], was, slot;
	static volatile uint64_t sum; /* that the loads are not left out */
	uint32_t i;

	while (!t->stopping) {
		for (i = 0; i < r->lanes; i++) {
			for (was = taken[i]; taken[i] - was < 32; taken[i]++) {
				slot = i * (r->entries + 1ull) + (taken[i] & (r->entries - 1));
				if (!raw_take(t, (uint64_t *)&r->slots[slot],
					      taken[i] & r->entries ? 0 : ~0ull, w))
					break;
				sum = w[1] + w[2] + w[4] + w[6];
			}
			if (taken[i] != was)
				__atomic_store_n(&r->words[i].ended, taken[i], __ATOMIC_RELEASE);
		}
	}
	free(taken);
	return NULL;
}

struct raw_taker *raw_taker_start(uint32_t lanes, uint32_t entries, uint32_t copy,
				  struct urccl_device_ring *ring)
{
	struct raw_taker *t = new raw_taker();

	t->ring.slots = (struct urccl_sqe *)host_alloc(64ull * lanes * (entries + 1));
	t->ring.words = (struct urccl_device_lane *)host_alloc(sizeof(*t->ring.words) * lanes);
	t->ring.lanes = lanes;
	t->ring.entries = entries;
	t->copy = copy;
	t->to = (char *)calloc(1, copy + 1);
	t->stopping = 0;
	*ring = t->ring;
	if (pthread_create(&t->thread, NULL, raw_taker_main, t))
		exit(1);
	return t;
}

void raw_taker_stop(struct raw_taker *t)
{
	t->stopping = 1;
	pthread_join(t->thread, NULL);
	CUDA(cudaFreeHost(t->ring.slots));
	CUDA(cudaFreeHost(t->ring.words));
	free(t->to);
	delete t;
}
