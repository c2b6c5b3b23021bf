/* SPDX-License-Identifier: Apache-2.0 */
/* Pinned and managed host memory, and the attributes of pointers. */
#include <errno.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>
#include "double.h"

/* ---- host memory ---- */

static int host_alloc(void **to, size_t len, unsigned flags, enum span_kind kind)
{
	struct span *s;
	size_t all = (len + PAGE - 1) / PAGE * PAGE;
	void *p;

	if (!len)
		return CUDA_ERROR_INVALID_VALUE;
	p = mmap(NULL, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED)
		return CUDA_ERROR_OUT_OF_MEMORY;
	lock();
	s = span_new(kind, (uint64_t)(uintptr_t)p, len);
	s->reserved = s->addr;
	s->reserved_len = all;
	s->flags = flags;
	unlock();
	*to = p;
	return 0;
}

EXPORT int cuMemHostAlloc(void **to, size_t len, unsigned flags)
{
	ENTER(CLASS_HOST, NEEDS_INIT | NEEDS_CONTEXT);
	return flags > 7 ? CUDA_ERROR_INVALID_VALUE : host_alloc(to, len, flags, SPAN_HOST);
}

EXPORT int cuMemAllocManaged(uint64_t *to, size_t len, unsigned flags)
{
	void *p;
	int res;

	ENTER(CLASS_ALLOC, NEEDS_INIT | NEEDS_CONTEXT);
	if (flags != CU_MEM_ATTACH_GLOBAL && flags != 2)
		return CUDA_ERROR_INVALID_VALUE;
	res = host_alloc(&p, len, flags, SPAN_MANAGED);
	if (!res)
		*to = (uint64_t)(uintptr_t)p;
	return res;
}

EXPORT int cuMemFreeHost(void *p)
{
	struct span *s;

	ENTER(CLASS_HOST, NEEDS_INIT | NEEDS_CONTEXT);
	lock();
	s = span_at((uint64_t)(uintptr_t)p);
	if (!s || s->kind != SPAN_HOST || s->addr != (uint64_t)(uintptr_t)p)
		die("cuMemFreeHost: %p is not what cuMemHostAlloc() gave, or was freed", p);
	span_free(s);
	unlock();
	return 0;
}

/* The process has pages there that it may read. */
static bool is_there(uint64_t addr, uint64_t len)
{
	uint64_t at;
	char byte;

	for (at = addr; at < addr + len; at = (at / PAGE + 1) * PAGE) {
		struct iovec to = {&byte, 1}, from = {(void *)(uintptr_t)at, 1};

		if (process_vm_readv(getpid(), &to, 1, &from, 1, 0) < 0 && errno == EFAULT)
			return false;
	}
	return true;
}

EXPORT int cuMemHostRegister_v2(void *p, size_t len, unsigned flags)
{
	uint64_t addr = (uint64_t)(uintptr_t)p;
	struct span *s;

	ENTER(CLASS_HOST, NEEDS_INIT | NEEDS_CONTEXT);
	if (!len || flags > 15 || !is_there(addr, len))
		return CUDA_ERROR_INVALID_VALUE;
	lock();
	for (s = double_spans; s; s = s->next)
		if (addr < s->addr + s->len && s->addr < addr + len && s->kind != SPAN_FREED)
			break;
	if (!s)
		span_new(SPAN_REGISTERED, addr, len)->flags = flags;
	unlock();
	return s ? CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED : 0;
}

EXPORT int cuMemHostUnregister(void *p)
{
	struct span *s;
	int res = CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;

	ENTER(CLASS_HOST, NEEDS_INIT | NEEDS_CONTEXT);
	lock();
	s = span_at((uint64_t)(uintptr_t)p);
	if (s && s->kind == SPAN_REGISTERED && s->addr == (uint64_t)(uintptr_t)p) {
		span_free(s);
		res = 0;
	}
	unlock();
	return res;
}

/* Flags, or -1: CUDA does not know that memory. */
static int host_flags(const void *p)
{
	struct span *s;
	int flags = -1;

	lock();
	s = span_at((uint64_t)(uintptr_t)p);
	if (s && (s->kind == SPAN_HOST || s->kind == SPAN_REGISTERED))
		flags = (int)s->flags;
	unlock();
	return flags;
}

EXPORT int cuMemHostGetDevicePointer_v2(uint64_t *to, void *p, unsigned flags)
{
	ENTER(CLASS_NONE, NEEDS_INIT | NEEDS_CONTEXT);
	if (flags || host_flags(p) < 0)
		return CUDA_ERROR_INVALID_VALUE;
	*to = (uint64_t)(uintptr_t)p;
	return 0;
}

EXPORT int cuMemHostGetFlags(unsigned *flags, void *p)
{
	ENTER(CLASS_NONE, NEEDS_INIT | NEEDS_CONTEXT);
	if (host_flags(p) < 0)
		return CUDA_ERROR_INVALID_VALUE;
	*flags = (unsigned)host_flags(p);
	return 0;
}

/* ---- attributes ---- */

/* Which attributes the driver knows, and how many bytes each has. */
static size_t attribute_size(int attribute)
{
	static const uint8_t sizes[] = {
		[CU_POINTER_ATTRIBUTE_CONTEXT] = 8,
		[CU_POINTER_ATTRIBUTE_MEMORY_TYPE] = 4,
		[CU_POINTER_ATTRIBUTE_DEVICE_POINTER] = 8,
		[CU_POINTER_ATTRIBUTE_HOST_POINTER] = 8,
		[CU_POINTER_ATTRIBUTE_SYNC_MEMOPS] = 4,
		[CU_POINTER_ATTRIBUTE_BUFFER_ID] = 8,
		[CU_POINTER_ATTRIBUTE_IS_MANAGED] = 4,
		[CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL] = 4,
		[CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE] = 4,
		[CU_POINTER_ATTRIBUTE_RANGE_START_ADDR] = 8,
		[CU_POINTER_ATTRIBUTE_RANGE_SIZE] = 8,
		[CU_POINTER_ATTRIBUTE_MAPPED] = 4,
		[CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES] = 8,
		[CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE] = 4,
		[CU_POINTER_ATTRIBUTE_ACCESS_FLAGS] = 4,
		[CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE] = 8,
		[CU_POINTER_ATTRIBUTE_MAPPING_SIZE] = 8,
		[CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR] = 8,
		[CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID] = 8,
	};

	if (attribute <= 0 || (size_t)attribute >= sizeof(sizes) || !sizes[attribute])
		die("pointer attribute %d has no value here: add it", attribute);
	return sizes[attribute];
}

static uint64_t attribute_of(const struct span *s, int attribute, uint64_t addr)
{
	uint64_t start = s->addr, len = s->len;

	reservation_attribute(addr, &start, &len);
	switch (attribute) {
	case CU_POINTER_ATTRIBUTE_CONTEXT:
		return (uint64_t)(uintptr_t)s->context;
	case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
		return is_device(s) || s->kind == SPAN_MANAGED ? CU_MEMORYTYPE_DEVICE
							       : CU_MEMORYTYPE_HOST;
	case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
		return addr;
	case CU_POINTER_ATTRIBUTE_HOST_POINTER:
		return is_device(s) ? 0 : addr;
	case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
		return is_synchronous(s);
	case CU_POINTER_ATTRIBUTE_BUFFER_ID:
		return s->id;
	case CU_POINTER_ATTRIBUTE_IS_MANAGED:
		return s->kind == SPAN_MANAGED;
	case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
		return (uint64_t)s->gpu;
	case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
		return s->kind == SPAN_ALLOC && !double_words.nolegacy;
	case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
		return start;
	case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
		return len;
	case CU_POINTER_ATTRIBUTE_MAPPED:
		return 1;
	case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
		return s->kind == SPAN_MAPPING ? (uint64_t)s->block->handle_types : 0;
	case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
		return is_device(s) && !double_words.nodmabuf;
	case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
		return s->kind == SPAN_MAPPING ? s->access[s->gpu] : 3;
	case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
		return s->kind == SPAN_POOL; /* some handle */
	case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
		return s->len;
	case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
		return s->addr;
	default: /* CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID */
		return s->block ? s->block->id : s->id;
	}
}

/* With the lock; of memory that CUDA knows, or NULL. Reserved addresses have a range alone. */
static void put_attribute(const struct span *s, int attribute, uint64_t addr, void *to)
{
	size_t size = attribute_size(attribute);
	uint64_t value = 0, start = 0, len = 0;

	if (s)
		value = attribute_of(s, attribute, addr);
	else if (attribute == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL)
		value = (uint64_t)-2;
	else if (reservation_attribute(addr, &start, &len))
		value = attribute == CU_POINTER_ATTRIBUTE_RANGE_START_ADDR ? start
			: attribute == CU_POINTER_ATTRIBUTE_RANGE_SIZE	   ? len
									   : 0;
	memcpy(to, &value, size);
}

static struct span *known(uint64_t addr)
{
	struct span *s = span_at(addr);

	return s && s->kind != SPAN_FREED ? s : NULL;
}

/* Of memory that CUDA does not know it gives zeros. */
EXPORT int cuPointerGetAttributes(unsigned n, int *attributes, void **data, uint64_t addr)
{
	unsigned i;

	ENTER(CLASS_NONE, NEEDS_INIT);
	lock();
	for (i = 0; i < n; i++)
		put_attribute(known(addr), attributes[i], addr, data[i]);
	unlock();
	return 0;
}

EXPORT int cuPointerGetAttribute(void *data, int attribute, uint64_t addr)
{
	uint64_t start, len;
	bool fine;

	ENTER(CLASS_NONE, NEEDS_INIT);
	lock();
	fine = known(addr) || reservation_attribute(addr, &start, &len);
	if (fine)
		put_attribute(known(addr), attribute, addr, data);
	unlock();
	return fine ? 0 : CUDA_ERROR_INVALID_VALUE;
}

EXPORT int cuPointerSetAttribute(const void *value, int attribute, uint64_t addr)
{
	struct span *s;

	ENTER(CLASS_NONE, NEEDS_INIT);
	if (attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS)
		return CUDA_ERROR_INVALID_VALUE;
	lock();
	s = known(addr);
	if (s && is_device(s))
		s->flags =
			*(const unsigned *)value ? s->flags | SYNC_MEMOPS : s->flags & ~SYNC_MEMOPS;
	unlock();
	return s && is_device(s) ? 0 : CUDA_ERROR_INVALID_VALUE;
}
