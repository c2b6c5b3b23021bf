/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of a GPU of b that the device of a does not reach: over shm because the owner enforces its
 * adverts. */
#ifndef API_RELAY_H
#define API_RELAY_H

#include <stdlib.h>
#include "pair.h"
#include "cuda/device.h"

struct device_target {
	uint64_t device;
	struct urccl_region region; /* b's */
	struct urccl_advert advert;
	struct urccl_remote remote; /* a's */
};

/* Memory of a, of a GPU (host NULL) or ordinary. */
struct relay_local {
	uint64_t device;
	uint8_t *host;
};

static inline void relay_options(struct pair *p, int argc, char **argv)
{
	pair_options(p, argc, argv);
	if (p->transport == URCCL_TRANSPORT_SHM)
		p->params.enforce = URCCL_ENFORCE_OWNER;
}

static inline void relay_begin(struct pair *p, int argc, char **argv)
{
	device_load();
	relay_options(p, argc, argv);
	pair_open(p);
}

static inline void device_target_open(struct pair *p, struct device_target *t, uint64_t len)
{
	const uint32_t rights = URCCL_RIGHT_READ | URCCL_RIGHT_WRITE;

	t->device = device_alloc(len, 0);
	t->region = side_register(&p->b, (void *)(uintptr_t)t->device, len, rights);
	CHECK_EQ(urccl_advertise(p->b.ctx, t->region, 0, len, rights, 0, &t->advert), 0);
	CHECK_EQ(urccl_import(p->a.ctx, p->a.peer, &t->advert, 1, &t->remote), 0);
}

static inline struct relay_local relay_device(uint64_t len)
{
	return (struct relay_local){.device = device_alloc(len, device_cuda.gpus > 1)};
}

static inline struct relay_local relay_ordinary(uint64_t len)
{
	struct relay_local m = {.host = malloc(len)};

	CHECK(m.host);
	return m;
}

static inline void *relay_at(const struct relay_local *m, uint64_t off)
{
	return m->host ? m->host + off : (void *)(uintptr_t)(m->device + off);
}

/* The pattern of the seed from place `from` on. */
static inline void relay_fill_as(const struct relay_local *m, uint64_t off, uint64_t len,
				 uint64_t from, uint64_t seed)
{
	uint64_t i;

	if (!m->host)
		device_fill(m->device + off, len, from, seed);
	for (i = 0; m->host && i < len; i++)
		m->host[off + i] = device_byte(from + i, seed);
}

static inline void relay_fill(const struct relay_local *m, uint64_t off, uint64_t len,
			      uint64_t seed)
{
	relay_fill_as(m, off, len, off, seed);
}

static inline int relay_holds_as(const struct relay_local *m, uint64_t off, uint64_t len,
				 uint64_t from, uint64_t seed)
{
	uint64_t i;

	if (!m->host)
		return device_check(m->device + off, len, from, seed);
	for (i = 0; i < len; i++)
		if (m->host[off + i] != device_byte(from + i, seed))
			return 0;
	return 1;
}

static inline int relay_holds(const struct relay_local *m, uint64_t off, uint64_t len,
			      uint64_t seed)
{
	return relay_holds_as(m, off, len, off, seed);
}

#endif
