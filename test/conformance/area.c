/* SPDX-License-Identifier: Apache-2.0 */
/* Memory with known bytes, and what peers may touch of it. */
#include <sys/mman.h>
#include "rig.h"

#define GAP 192u /* between spans: they never touch */

static void *pages(uint64_t len)
{
	void *p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK(p != MAP_FAILED);
	return p;
}

/* Span k lies at place (k * 5 + 3) mod n: every place once, as 5 does not divide n. */
static void lay_spans(struct area *area, uint64_t len, uint32_t n)
{
	uint64_t each = (len + n - 1) / n, start = 0;
	uint64_t base = area->extent.addr;
	uint32_t k;

	for (k = 0; k < n; k++) {
		struct span *s = &area->memory->spans[k];
		uint64_t place = n == 1 ? 0 : (k * 5 + 3) % n;

		s->start = start;
		s->len = len - start < each ? len - start : each;
		s->fd_off = place * (each + GAP);
		s->addr = base + s->fd_off;
		s->fd = area->allocation ? area->allocation->fd : -1;
		s->kind = area->extent.kind;
		s->gpu_index = area->extent.gpu_index;
		s->extent = &area->extent;
		start += s->len;
	}
	CHECK_EQ(start, len);
}

void area_open_spans(struct node *node, struct area *area, uint64_t len, uint32_t n)
{
	uint64_t size = len + (uint64_t)n * (GAP + 1);

	CHECK(n == 1 || n % 5);
	*area = (struct area){.node = node};
	area->memory = calloc(1, sizeof(*area->memory) + n * sizeof(struct span));
	CHECK(area->memory);
	area->extent = (struct extent){.len = size, .fd = -1};
	if (node->gpu) {
		gpu_area_open(area, size);
	} else if (node->rig->settings->shared) {
		CHECK_EQ(memory_alloc(size, &area->allocation), 0);
		area->extent.addr = area->allocation->addr;
		area->extent.fd = area->allocation->fd;
	} else {
		area->bytes = pages(size);
		area->extent.addr = (uintptr_t)area->bytes;
	}
	area->memory->rights = URCCL_RIGHT_READ | URCCL_RIGHT_WRITE;
	area->memory->len = len;
	area->memory->nspans = n;
	lay_spans(area, len, n);
	CHECK_EQ(node->dev->ops->reg(node->dev, &area->extent), 0);
}

void area_open(struct node *node, struct area *area, uint64_t len)
{
	area_open_spans(node, area, len, 1);
}

void area_close(struct area *area)
{
	const struct memory *m = area->memory;

	area->node->dev->ops->unreg(area->node->dev, &area->extent);
	if (area->device)
		gpu_area_close(area);
	else if (area->allocation)
		memory_free(area->allocation);
	else
		munmap(area->bytes, m->len + (uint64_t)m->nspans * (GAP + 1));
	free(area->memory);
}

void *area_at(const struct area *area, uint64_t off, uint64_t len)
{
	uint64_t run;
	void *p = memory_at(area->memory, off, &run);

	CHECK(run >= len);
	return p;
}

static uint8_t *view_of(const struct area *area, void *at)
{
	if (!area->device)
		return at;
	return area->bytes + ((uintptr_t)at - area->device);
}

void *area_view(const struct area *area, uint64_t off, uint64_t len)
{
	return view_of(area, area_at(area, off, len));
}

/* ---- patterns ---- */

#define BLOCK 512u

/* n <= BLOCK bytes from byte at on. */
static void pattern_bytes(uint8_t *to, uint64_t n, uint64_t pattern, uint64_t at)
{
	uint64_t words[BLOCK / 8 + 1], i;

	for (i = 0; i * 8 < n + at % 8; i++)
		words[i] = (at / 8 + i + pattern * 0x9e3779b97f4a7c15ull) * 0xd6e8feb86659fd93ull;
	memcpy(to, (uint8_t *)words + at % 8, n);
}

/* Bytes at off that are in one span and one block, at most len. */
static uint64_t area_run(const struct area *area, uint64_t off, uint64_t len, uint8_t **p)
{
	uint64_t run;

	*p = view_of(area, memory_at(area->memory, off, &run));
	run = run < len ? run : len;
	return run < BLOCK ? run : BLOCK;
}

void area_fill(struct area *area, uint64_t off, uint64_t len, uint64_t pattern, uint64_t at)
{
	uint8_t block[BLOCK], *p;
	uint64_t run;

	for (; len; off += run, at += run, len -= run) {
		run = area_run(area, off, len, &p);
		pattern_bytes(block, run, pattern, at);
		memcpy(p, block, run);
	}
}

int area_is(const struct area *area, uint64_t off, uint64_t len, uint64_t pattern, uint64_t at)
{
	uint8_t block[BLOCK], *p;
	uint64_t run;

	for (; len; off += run, at += run, len -= run) {
		run = area_run(area, off, len, &p);
		pattern_bytes(block, run, pattern, at);
		if (memcmp(p, block, run))
			return 0;
	}
	return 1;
}

/* ---- grants ---- */

void grant_unpin(struct grant *g)
{
	struct device *dev = g->exposure.ep->dev;

	if (dev->caps & CAP_PIN)
		CHECK_EQ(dev->ops->unpin(dev, &g->pin), 0);
}

int grant_try(struct grant *g, struct end *owner, struct end *importer, struct area *area,
	      uint64_t off, uint64_t len, uint32_t rights, uint64_t expires_ns)
{
	const struct backend *b = owner->node->dev->ops;
	int n;

	*g = (struct grant){.importer = importer};
	g->exposure = (struct exposure){.ep = owner->ep,
					.memory = area->memory,
					.off = off,
					.len = len,
					.rights = rights,
					.expires_ns = expires_ns};
	g->pin = (struct pin){.memory = area->memory, .off = off, .len = len, .rights = rights};
	g->exposure.pin = &g->pin;
	if (g->exposure.ep->dev->caps & CAP_PIN)
		CHECK_EQ(b->pin(g->exposure.ep->dev, &g->pin), 0);
	n = b->expose(&g->exposure, g->key, sizeof(g->key));
	if (n < 0) {
		grant_unpin(g);
		return n;
	}
	CHECK_GE(n, 1);
	CHECK_LE(n, KEY_MAX);
	g->key_len = (uint32_t)n;
	if (!importer)
		return 0;
	WAIT(owner->node->rig,
	     (n = b->import(importer->ep, g->key, g->key_len, len, &g->rkey)) != -EINPROGRESS);
	CHECK_EQ(n, 0);
	return 0;
}

void grant_open_until(struct grant *g, struct end *owner, struct end *importer, struct area *area,
		      uint64_t off, uint64_t len, uint32_t rights, uint64_t expires_ns)
{
	CHECK_EQ(grant_try(g, owner, importer, area, off, len, rights, expires_ns), 0);
}

void grant_open(struct grant *g, struct end *owner, struct end *importer, struct area *area,
		uint64_t off, uint64_t len, uint32_t rights)
{
	grant_open_until(g, owner, importer, area, off, len, rights, NEVER_NS);
}

void grant_withdraw(struct rig *rig, struct grant *g)
{
	int err;

	WAIT(rig, (err = rig->backend->unexpose(&g->exposure)) != -EINPROGRESS);
	CHECK_EQ(err, 0);
	grant_unpin(g);
}

void grant_close(struct rig *rig, struct grant *g)
{
	if (g->importer)
		rig->backend->forget(g->importer->ep, &g->rkey);
	grant_withdraw(rig, g);
}
