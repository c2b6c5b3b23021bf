/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of a GPU, or of the host as CUDA pins it, by the CUDA driver, which is loaded when it is
 * first asked for. URCCL_CUDA_SO names another library than libcuda.so.1. A process uses one GPU.
 */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include "pusher.h"

#define FUNCTIONS(X)                                                         \
	X(Init, "", (unsigned int flags))                                    \
	X(DeviceGetCount, "", (int *n))                                      \
	X(DevicePrimaryCtxRetain, "", (void **context, int device))          \
	X(CtxSetCurrent, "", (void *context))                                \
	X(CtxSynchronize, "", (void))                                        \
	X(MemAlloc, "_v2", (uint64_t * addr, size_t len))                    \
	X(MemHostAlloc, "", (void **memory, size_t len, unsigned int flags)) \
	X(MemcpyHtoD, "_v2", (uint64_t to, const void *from, size_t len))    \
	X(MemcpyDtoH, "_v2", (void *to, uint64_t from, size_t len))

static struct {
#define X(name, version, args) int(*name) args;
	FUNCTIONS(X)
#undef X
} cuda;

static int load(struct problem *why)
{
	const char *so = getenv("URCCL_CUDA_SO");
	void *lib = dlopen(so && *so ? so : "libcuda.so.1", RTLD_NOW), *function;

	if (!lib)
		return problem(why, "there is no CUDA driver: %s", dlerror());
#define X(name, version, args)                                                        \
	function = dlsym(lib, "cu" #name version);                                    \
	if (!function)                                                                \
		return problem(why, "the CUDA driver has no %s", "cu" #name version); \
	memcpy(&cuda.name, &function, sizeof(function));
	FUNCTIONS(X)
#undef X
	return 0;
}

/* Prefill takes the first GPU and decode the second, if there is one. */
static int choose(struct memory *m, bool is_decode, struct problem *why)
{
	int gpus = 0;

	if (cuda.Init(0) || cuda.DeviceGetCount(&gpus) || !gpus)
		return problem(why, "CUDA has no GPU");
	if (m->gpu == GPU_ANY)
		m->gpu = is_decode && gpus > 1;
	if (m->gpu >= (uint32_t)gpus)
		return problem(why, "--device: there is no GPU %u, but %d of them", m->gpu, gpus);
	return 0;
}

void *gpu_alloc(struct memory *m, bool is_decode, uint64_t len, struct problem *why)
{
	void *context, *memory = NULL;
	uint64_t addr = 0;
	int error;

	if (load(why) || choose(m, is_decode, why))
		return NULL;
	error = cuda.DevicePrimaryCtxRetain(&context, (int)m->gpu);
	if (!error)
		error = cuda.CtxSetCurrent(context);
	if (!error && m->kind == MEMORY_PINNED)
		error = cuda.MemHostAlloc(&memory, len, 0);
	else if (!error)
		error = cuda.MemAlloc(&addr, len);
	if (error) {
		problem(why, "no memory of %.2f GiB: CUDA error %d", (double)len / (1u << 30),
			error);
		return NULL;
	}
	return memory ? memory : (void *)(uintptr_t)addr;
}

static void need(int error)
{
	if (!error)
		return;
	fprintf(stderr, "kvcache_pusher: a copy between host and GPU failed: CUDA error %d\n",
		error);
	exit(EXIT_FAILED);
}

void gpu_put(void *to, const void *from, size_t len)
{
	need(cuda.MemcpyHtoD((uintptr_t)to, from, len));
}

void gpu_wait(void)
{
	need(cuda.CtxSynchronize());
}

void gpu_get(void *to, const void *from, size_t len)
{
	need(cuda.MemcpyDtoH(to, (uintptr_t)from, len));
}
