/* SPDX-License-Identifier: Apache-2.0 */
/* A device of transport ib that notes what is registered and deregistered. */
#ifndef VERBS_DEVICE_H
#define VERBS_DEVICE_H

#include <errno.h>
#include "backend/verbs/verbs.h"
#include "test.h"

#define PAGE  4096ull
#define BASE  0x7f0000001000ull
#define CALLS 64u
#define GIB   (1ull << 30)

static struct verbs_device d;
static struct verbs_ep e;
static struct mr {
	struct ibv_mr mr;
	uint64_t addr, len, iova;
	unsigned int access;
	int live;
} mrs[CALLS];
static uint32_t nregs, nderegs;
static int dereg_fails;	    /* errno */
static int refuses_relaxed; /* errno */

static inline struct ibv_mr *reg(struct ibv_pd *pd, void *addr, size_t len, uint64_t iova,
				 unsigned int access)
{
	struct mr *m = &mrs[nregs];

	(void)pd;
	CHECK(nregs < CALLS);
	if (refuses_relaxed && access & IBV_ACCESS_RELAXED_ORDERING) {
		errno = refuses_relaxed;
		return NULL;
	}
	*m = (struct mr){.addr = (uintptr_t)addr, .len = len, .iova = iova, .access = access};
	m->mr.rkey = m->mr.lkey = 100 + nregs++;
	m->live = 1;
	return &m->mr;
}

static inline struct ibv_mr *reg_dmabuf(struct ibv_pd *pd, uint64_t off, size_t len, uint64_t iova,
					int fd, int access)
{
	CHECK_EQ(fd, 77);
	return reg(pd, (void *)(uintptr_t)off, len, iova, (unsigned int)access);
}

static inline int dereg(struct ibv_mr *mr)
{
	nderegs++;
	if (dereg_fails)
		return dereg_fails;
	CHECK(((struct mr *)mr)->live);
	((struct mr *)mr)->live = 0;
	return 0;
}

static inline uint32_t live(void)
{
	uint32_t i, n = 0;

	for (i = 0; i < nregs; i++)
		n += (uint32_t)mrs[i].live;
	return n;
}

static inline void begin(uint64_t max_mr_size)
{
	static const struct urccl_params params;
	const struct device_config config = {.params = &params};

	memset(&d, 0, sizeof(d));
	memset(&e, 0, sizeof(e));
	verbs_device_init(&d, &config);
	d.lib.reg_mr_iova2 = reg;
	d.lib.reg_dmabuf_mr = reg_dmabuf;
	d.lib.dereg_mr = dereg;
	d.port.attr.max_mr_size = max_mr_size;
	e.ep.dev = &d.dev;
	list_init(&e.keys);
	nregs = nderegs = 0;
	dereg_fails = refuses_relaxed = 0;
}

static inline struct memory *memory(struct extent *x, uint64_t addr, uint64_t len)
{
	struct memory *m = calloc(1, sizeof(*m) + sizeof(m->spans[0]));

	CHECK(m);
	*x = (struct extent){.addr = addr, .len = len, .fd = -1, .read = EXTENT_READ};
	m->nspans = 1;
	m->len = len;
	m->spans[0] = (struct span){.addr = addr, .len = len, .fd = -1, .extent = x};
	return m;
}

#endif
