/* SPDX-License-Identifier: Apache-2.0 */
/* The kind of a pointer. CUDA answers for any address, and without a current context. */
#include "gpu/cuda_driver.h"

struct answer {
	void *ctx;
	uint64_t id, start, mapping_start;
	size_t size, mapping_size;
	uint32_t type, managed, legacy;
	int device;
	uint64_t types;
};

static int pointer_ask(const struct cuda *cuda, uint64_t addr, struct answer *a)
{
	static const int attributes[] = {
		CUDA_POINTER_CONTEXT,	    CUDA_POINTER_MEMORY_TYPE,  CUDA_POINTER_BUFFER_ID,
		CUDA_POINTER_IS_MANAGED,    CUDA_POINTER_DEVICE,       CUDA_POINTER_IS_LEGACY_IPC,
		CUDA_POINTER_RANGE_START,   CUDA_POINTER_RANGE_SIZE,   CUDA_POINTER_HANDLE_TYPES,
		CUDA_POINTER_MAPPING_START, CUDA_POINTER_MAPPING_SIZE,
	};
	void *to[] = {&a->ctx,	  &a->type,	     &a->id,	      &a->managed,
		      &a->device, &a->legacy,	     &a->start,	      &a->size,
		      &a->types,  &a->mapping_start, &a->mapping_size};

	memset(a, 0, sizeof(*a));
	return cuda->PointerGetAttributes(ARRAY_SIZE(attributes), attributes, to, addr);
}

/* Memory that is mapped by hand has a handle. */
static int is_vmm(const struct cuda *cuda, uint64_t addr, const struct answer *a)
{
	uint64_t handle;

	if (a->legacy || cuda->MemRetainAllocationHandle(&handle, (void *)(uintptr_t)addr))
		return 0;
	(void)cuda->MemRelease(handle);
	return 1;
}

/* Memory that is of no context is reached from the primary one. */
static int is_primary(struct cuda *cuda, const struct answer *a)
{
	void *ctx = load_acquire(&cuda->primary[a->device]);

	if (ctx)
		return !a->ctx || a->ctx == ctx;
	if (cuda_primary(cuda, a->device, &ctx) || !ctx)
		return 0;
	(void)cuda->DevicePrimaryCtxRelease(a->device);
	return !a->ctx || a->ctx == ctx;
}

/* cudaMemcpy() and cudaMemset() of the program may return before the bytes are in the memory, and
 * our copies do not wait for its streams. This makes such calls wait. VMM memory may refuse it. */
static void make_synchronous(const struct cuda *cuda, uint64_t addr, const struct answer *a)
{
	void *ctx = a->ctx ? a->ctx : load_acquire(&cuda->primary[a->device]);
	unsigned int on = 1;

	if (ctx && cuda->CtxPushCurrent(ctx))
		return;
	(void)cuda->PointerSetAttribute(&on, CUDA_POINTER_SYNC_MEMOPS, addr);
	if (ctx)
		(void)cuda->CtxPopCurrent(&ctx);
}

/* CUDA was not started, or knows nothing of the address. */
static int is_unknown(int code)
{
	return code == CUDA_NOT_INITIALIZED || code == CUDA_DEINITIALIZED ||
	       code == CUDA_INVALID_CONTEXT || code == CUDA_INVALID_VALUE;
}

int cuda_range(struct cuda *cuda, uint64_t addr, struct cuda_range *out)
{
	struct gpu_pointer *p = &out->pointer;
	struct answer a;
	int code = pointer_ask(cuda, addr, &a);

	*out = (struct cuda_range){.pointer = {.kind = GPU_MEMORY_HOST, .base = addr}};
	if (code || !a.type || a.managed || a.device < 0 || a.device >= (int)GPUS_MAX)
		return is_unknown(code) ? 0 : code;
	p->id = a.id;
	p->base = a.start ? a.start : addr;
	p->end = p->base + a.size;
	p->index = (uint32_t)a.device;
	p->is_primary = (uint32_t)is_primary(cuda, &a);
	if (a.type != CUDA_MEMORY_DEVICE) {
		p->kind = GPU_MEMORY_PINNED;
		return 0;
	}
	p->kind = GPU_MEMORY_DEVICE;
	p->is_legacy_ipc = a.legacy != 0;
	p->is_vmm = (uint32_t)is_vmm(cuda, addr, &a);
	out->types = (uint32_t)a.types;
	make_synchronous(cuda, addr, &a);
	if (p->is_vmm && a.mapping_size) {
		p->base = a.mapping_start;
		p->end = a.mapping_start + a.mapping_size;
	}
	return 0;
}

int cuda_pointer(void *lib, uint64_t addr, uint64_t len, struct gpu_pointer *out)
{
	struct cuda *cuda = lib;
	struct cuda_range first, next;
	int code = cuda_range(cuda, addr, &first);

	if (code || first.pointer.kind == GPU_MEMORY_HOST)
		return code; /* as the caller filled it */
	*out = first.pointer;
	while (out->is_vmm && out->end < addr + len) {
		code = cuda_range(cuda, out->end, &next);
		if (code || !next.pointer.is_vmm || next.pointer.index != out->index)
			break;
		out->end = next.pointer.end;
	}
	if (out->end > addr + len || out->end <= addr)
		out->end = addr + len;
	return 0;
}
