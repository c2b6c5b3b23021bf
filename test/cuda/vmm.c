/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that is created, and addresses that are reserved, apart; descriptors of such memory. */
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include "double.h"

struct reservation {
	struct reservation *next;
	uint64_t addr, len;
};

/* What a CUmemGenericAllocationHandle is the address of. */
struct handle {
	struct handle *next;
	struct block *block;
	int refs;
};

static struct reservation *reservations;
static struct handle *handles;

#define ENTER_VMM()                                      \
	do {                                             \
		ENTER(CLASS_VMM, NEEDS_INIT);            \
		if (words_now().novmm)                   \
			return CUDA_ERROR_NOT_SUPPORTED; \
	} while (0)

static struct reservation *reservation_at(uint64_t addr)
{
	struct reservation *r;

	for (r = reservations; r; r = r->next)
		if (addr >= r->addr && addr - r->addr < r->len)
			return r;
	return NULL;
}

int reservation_attribute(uint64_t addr, uint64_t *start, uint64_t *len)
{
	const struct reservation *r = reservation_at(addr);

	if (!r)
		return 0;
	*start = r->addr;
	*len = r->len;
	return 1;
}

static struct handle *handle_of(uint64_t value, const char *by)
{
	struct handle *h;

	for (h = handles; h && (uint64_t)(uintptr_t)h != value; h = h->next)
		;
	if (!h)
		die("%s: 0x%llx is no handle, or was released", by, (unsigned long long)value);
	return h;
}

static struct handle *handle_new(struct block *b)
{
	struct handle *h = calloc(1, sizeof(*h));

	if (!h)
		die("no memory");
	*h = (struct handle){.next = handles, .block = b, .refs = 1};
	handles = h;
	return h;
}

/* ---- memory ---- */

static int check_prop(const struct cu_prop *p)
{
	if (p->type != CU_MEM_ALLOCATION_TYPE_PINNED ||
	    p->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
		return CUDA_ERROR_INVALID_VALUE;
	if (p->location.id < 0 || p->location.id >= words_now().gpus)
		return CUDA_ERROR_INVALID_DEVICE;
	/* A fabric handle needs a daemon, which most machines lack. */
	return p->handle_types & ~CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
		       ? CUDA_ERROR_NOT_SUPPORTED
		       : 0;
}

EXPORT int cuMemGetAllocationGranularity(size_t *to, const struct cu_prop *prop, int option)
{
	int res;

	ENTER_VMM();
	res = check_prop(prop);
	(void)option;
	*to = GRANULARITY;
	return res;
}

EXPORT int cuMemCreate(uint64_t *to, size_t len, const struct cu_prop *prop, uint64_t flags)
{
	struct block *b;
	int res;

	ENTER_VMM();
	res = check_prop(prop);
	if (res)
		return res;
	if (!len || len % GRANULARITY || flags)
		return CUDA_ERROR_INVALID_VALUE;
	lock();
	b = block_new(prop->location.id, len, prop->handle_types);
	if (b)
		*to = (uint64_t)(uintptr_t)handle_new(b);
	unlock();
	return b ? 0 : CUDA_ERROR_OUT_OF_MEMORY;
}

EXPORT int cuMemRelease(uint64_t value)
{
	struct handle *h, **at;

	ENTER_VMM();
	lock();
	h = handle_of(value, "cuMemRelease");
	if (!--h->refs) {
		for (at = &handles; *at != h; at = &(*at)->next)
			;
		*at = h->next;
		block_put(h->block);
		free(h);
	}
	unlock();
	return 0;
}

EXPORT int cuMemRetainAllocationHandle(uint64_t *to, void *addr)
{
	struct span *s;
	struct handle *h = NULL;

	ENTER_VMM();
	lock();
	s = span_at((uint64_t)(uintptr_t)addr);
	if (s && s->kind == SPAN_MAPPING) {
		for (h = handles; h && h->block != s->block; h = h->next)
			;
		if (h) {
			h->refs++;
		} else {
			s->block->refs++;
			h = handle_new(s->block);
		}
		*to = (uint64_t)(uintptr_t)h;
	}
	unlock();
	return h ? 0 : CUDA_ERROR_INVALID_VALUE;
}

/* ---- descriptors ---- */

EXPORT int cuMemExportToShareableHandle(void *to, uint64_t value, int type, uint64_t flags)
{
	struct handle *h;
	int fd;

	ENTER_VMM();
	lock();
	h = handle_of(value, "cuMemExportToShareableHandle");
	unlock();
	if (flags || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR ||
	    !(h->block->handle_types & type))
		return CUDA_ERROR_INVALID_VALUE;
	fd = fcntl(h->block->fd, F_DUPFD_CLOEXEC, 0);
	if (fd < 0)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*(int *)to = fd;
	return 0;
}

EXPORT int cuMemImportFromShareableHandle(uint64_t *to, void *fd, int type)
{
	struct block *b;

	ENTER_VMM();
	if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
		return CUDA_ERROR_INVALID_VALUE;
	lock();
	b = block_of_fd((int)(intptr_t)fd);
	if (b && !b->handle_types) { /* of other memory: dma-buf */
		block_put(b);
		b = NULL;
	}
	if (b)
		*to = (uint64_t)(uintptr_t)handle_new(b);
	unlock();
	return b ? 0 : CUDA_ERROR_INVALID_VALUE;
}

/* ---- addresses ---- */

EXPORT int cuMemAddressReserve(uint64_t *to, size_t len, size_t align, uint64_t hint,
			       uint64_t flags)
{
	struct reservation *r;
	uint64_t addr;

	ENTER_VMM();
	(void)hint;
	if (!len || len % GRANULARITY || flags || align & (align - 1))
		return CUDA_ERROR_INVALID_VALUE;
	addr = reserve(len, align > GRANULARITY ? align : GRANULARITY);
	if (!addr)
		return CUDA_ERROR_OUT_OF_MEMORY;
	r = calloc(1, sizeof(*r));
	if (!r)
		die("no memory");
	lock();
	*r = (struct reservation){.next = reservations, .addr = addr, .len = len};
	reservations = r;
	unlock();
	*to = addr;
	return 0;
}

static struct span *mapping_in(uint64_t addr, uint64_t len)
{
	struct span *s;

	for (s = double_spans; s; s = s->next)
		if (s->kind == SPAN_MAPPING && s->addr < addr + len && addr < s->addr + s->len)
			return s;
	return NULL;
}

EXPORT int cuMemAddressFree(uint64_t addr, size_t len)
{
	struct reservation *r, **at;

	ENTER_VMM();
	lock();
	r = reservation_at(addr);
	if (!r || r->addr != addr || r->len != len)
		die("cuMemAddressFree: 0x%llx + %zu is not what was reserved",
		    (unsigned long long)addr, len);
	if (mapping_in(addr, len))
		die("cuMemAddressFree: 0x%llx + %zu has mappings", (unsigned long long)addr, len);
	for (at = &reservations; *at != r; at = &(*at)->next)
		;
	*at = r->next;
	munmap((void *)(uintptr_t)addr, len);
	free(r);
	unlock();
	return 0;
}

EXPORT int cuMemMap(uint64_t addr, size_t len, size_t off, uint64_t value, uint64_t flags)
{
	struct reservation *r;
	struct handle *h;
	struct span *s;
	int res = CUDA_ERROR_INVALID_VALUE;

	ENTER_VMM();
	lock();
	h = handle_of(value, "cuMemMap");
	r = reservation_at(addr);
	if (r && len && !flags && !off && !(addr % GRANULARITY) && !(len % GRANULARITY) &&
	    len <= r->addr + r->len - addr && len <= h->block->len && !mapping_in(addr, len)) {
		s = span_new(SPAN_MAPPING, addr, len);
		s->context = NULL;
		s->gpu = h->block->gpu;
		s->block = h->block;
		s->block->refs++;
		s->view = s->block->view;
		res = 0;
	}
	unlock();
	return res;
}

/* [addr, addr+len) is whole mappings; die()s otherwise. */
static void check_whole(uint64_t addr, uint64_t len, const char *by)
{
	uint64_t at = addr;
	struct span *s;

	while (at < addr + len) {
		s = span_at(at);
		if (!s || s->kind != SPAN_MAPPING || s->addr != at || s->len > addr + len - at)
			die("%s: 0x%llx + %llu is not whole mappings", by, (unsigned long long)addr,
			    (unsigned long long)len);
		at += s->len;
	}
}

EXPORT int cuMemUnmap(uint64_t addr, size_t len)
{
	struct span *s;

	ENTER_VMM();
	lock();
	check_whole(addr, len, "cuMemUnmap");
	while ((s = mapping_in(addr, len)))
		span_free(s);
	unlock();
	return 0;
}

EXPORT int cuMemSetAccess(uint64_t addr, size_t len, const struct cu_access *access, size_t n)
{
	struct span *s;
	size_t i;

	ENTER_VMM();
	for (i = 0; i < n; i++)
		if (access[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
		    (access[i].flags != CU_MEM_ACCESS_FLAGS_PROT_NONE &&
		     access[i].flags != CU_MEM_ACCESS_FLAGS_PROT_READ &&
		     access[i].flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE))
			return CUDA_ERROR_INVALID_VALUE;
	lock();
	check_whole(addr, len, "cuMemSetAccess");
	for (i = 0; i < n; i++) {
		int gpu = access[i].location.id;

		s = span_at(addr);
		if (gpu < 0 || gpu >= double_words.gpus || (gpu != s->gpu && double_words.nopeer)) {
			unlock();
			return CUDA_ERROR_INVALID_DEVICE;
		}
		for (s = double_spans; s; s = s->next)
			if (s->kind == SPAN_MAPPING && s->addr >= addr && s->addr < addr + len)
				s->access[gpu] = (uint8_t)access[i].flags;
	}
	unlock();
	return 0;
}
