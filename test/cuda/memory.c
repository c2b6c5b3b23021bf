/* SPDX-License-Identifier: Apache-2.0 */
/* Device memory: of cuMemAlloc(), and of a pool. */
#include <sys/file.h>
#include "double.h"

/* Small memory does not begin at a page, as with the driver. */
static int alloc(uint64_t *to, uint64_t len, enum span_kind kind)
{
	static unsigned turn;
	uint64_t off = len < (1u << 20) ? 512 * (1 + turn++ % 7) : 0, addr = 0;
	struct block *b;
	struct span *s;

	if (!len)
		return CUDA_ERROR_INVALID_VALUE;
	lock();
	b = block_new(current()->gpu, len, 0);
	if (b && double_words.reuse)
		addr = freed_place(len);
	if (b && !addr) {
		addr = reserve(off + len, off ? PAGE : GRANULARITY);
		addr += addr ? off : 0;
	}
	if (!b || !addr) {
		if (b)
			block_put(b);
		unlock();
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	s = span_new(kind, addr, len);
	s->block = b;
	s->view = b->view;
	s->reserved = addr / PAGE * PAGE;
	s->reserved_len = round_up(addr % PAGE + len, PAGE);
	if (kind == SPAN_POOL)
		s->context = NULL;
	*to = addr;
	unlock();
	return 0;
}

EXPORT int cuMemAlloc_v2(uint64_t *to, size_t len)
{
	ENTER(CLASS_ALLOC, NEEDS_INIT | NEEDS_CONTEXT);
	return alloc(to, len, SPAN_ALLOC);
}

EXPORT int cuMemAllocAsync(uint64_t *to, size_t len, void *stream)
{
	ENTER(CLASS_ALLOC, NEEDS_INIT | NEEDS_CONTEXT);
	(void)stream;
	return alloc(to, len, SPAN_POOL);
}

static void free_memory(uint64_t addr, const char *by)
{
	struct span *s;

	lock();
	s = span_at(addr);
	if (s && s->kind == SPAN_FREED)
		die("%s: 0x%llx was freed already", by, (unsigned long long)addr);
	if (!s || s->addr != addr ||
	    (s->kind != SPAN_ALLOC && s->kind != SPAN_POOL && s->kind != SPAN_MANAGED))
		die("%s: 0x%llx is not what an allocation gave", by, (unsigned long long)addr);
	while (s->uses) /* the driver waits for the GPU as well */
		wait_moved();
	if (s->kind == SPAN_ALLOC && !double_words.stale && flock(s->block->fd, LOCK_EX | LOCK_NB))
		die("%s: another process has 0x%llx open", by, (unsigned long long)addr);
	span_free(s);
	unlock();
}

EXPORT int cuMemFree_v2(uint64_t addr)
{
	ENTER(CLASS_ALLOC, NEEDS_INIT | NEEDS_CONTEXT);
	if (addr)
		free_memory(addr, __func__);
	return 0;
}

EXPORT int cuMemFreeAsync(uint64_t addr, void *stream)
{
	ENTER(CLASS_ALLOC, NEEDS_INIT | NEEDS_CONTEXT);
	(void)stream;
	free_memory(addr, __func__);
	return 0;
}

EXPORT int cuMemGetAddressRange_v2(uint64_t *base, size_t *len, uint64_t addr)
{
	struct span *s;

	ENTER(CLASS_NONE, NEEDS_INIT | NEEDS_CONTEXT);
	lock();
	s = span_at(addr);
	if (s && s->kind == SPAN_FREED)
		s = NULL;
	if (s && base)
		*base = s->addr;
	if (s && len)
		*len = s->len;
	unlock();
	return s ? 0 : CUDA_ERROR_NOT_FOUND;
}
