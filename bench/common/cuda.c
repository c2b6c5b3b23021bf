/* SPDX-License-Identifier: Apache-2.0 */
#include "cuda.h"
#include "common.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

enum { GPUS_MAX = 32, ERROR_OUT_OF_MEMORY = 2, STREAM_NON_BLOCKING = 1, LAZY_PEER_ACCESS = 1 };

/* Name, the suffix of the version that has these arguments, and the arguments. */
#define FUNCTIONS(X)                                                               \
	X(Init, "", (unsigned int flags))                                          \
	X(GetErrorName, "", (int error, const char **name))                        \
	X(DeviceGetCount, "", (int *n))                                            \
	X(DevicePrimaryCtxRetain, "", (void **context, int device))                \
	X(CtxSetCurrent, "", (void *context))                                      \
	X(CtxSynchronize, "", (void))                                              \
	X(CtxEnablePeerAccess, "", (void *context, unsigned int flags))            \
	X(MemAlloc, "_v2", (uint64_t * addr, size_t len))                          \
	X(MemFree, "_v2", (uint64_t addr))                                         \
	X(MemHostAlloc, "", (void **memory, size_t len, unsigned int flags))       \
	X(MemFreeHost, "", (void *memory))                                         \
	X(MemsetD8, "_v2", (uint64_t addr, unsigned char byte, size_t len))        \
	X(Memcpy, "", (uint64_t to, uint64_t from, size_t len))                    \
	X(MemcpyAsync, "", (uint64_t to, uint64_t from, size_t len, void *stream)) \
	X(StreamCreate, "", (void **stream, unsigned int flags))                   \
	X(StreamWriteValue64, "_v2",                                               \
	  (void *stream, uint64_t addr, uint64_t value, unsigned int flags))       \
	X(IpcGetMemHandle, "", (struct cuda_handle * handle, uint64_t addr))       \
	X(IpcOpenMemHandle, "_v2",                                                 \
	  (uint64_t * addr, struct cuda_handle handle, unsigned int flags))        \
	X(IpcCloseMemHandle, "", (uint64_t addr))

static struct {
#define X(name, version, args) int(*name) args;
	FUNCTIONS(X)
#undef X
	void *contexts[GPUS_MAX];
	int gpus; /* 0: not loaded yet */
} cuda;

static void check(int error, const char *call)
{
	const char *name = NULL;

	if (!error)
		return;
	if (cuda.GetErrorName(error, &name) || !name)
		name = "an unknown error";
	bench_die("%s: CUDA error %d, %s", call, error, name);
}

static uint64_t address(const void *p)
{
	return (uintptr_t)p;
}

static void load(void)
{
	const char *so = getenv("URCCL_CUDA_SO");
	void *lib = dlopen(so && *so ? so : "libcuda.so.1", RTLD_NOW), *function;

	if (!lib)
		bench_die("there is no CUDA driver: %s", dlerror());
#define X(name, version, args)                                              \
	function = dlsym(lib, "cu" #name version);                          \
	if (!function)                                                      \
		bench_die("the CUDA driver has no %s", "cu" #name version); \
	memcpy(&cuda.name, &function, sizeof(function));
	FUNCTIONS(X)
#undef X
	check(cuda.Init(0), "cuInit");
	check(cuda.DeviceGetCount(&cuda.gpus), "cuDeviceGetCount");
	if (!cuda.gpus)
		bench_die("there is no GPU");
	cuda.gpus = cuda.gpus < GPUS_MAX ? cuda.gpus : GPUS_MAX;
}

int cuda_gpus(void)
{
	if (!cuda.gpus)
		load();
	return cuda.gpus;
}

static void *context(int gpu)
{
	if (gpu >= cuda_gpus())
		bench_die("there is no GPU %d: %d GPUs", gpu, cuda.gpus);
	if (!cuda.contexts[gpu])
		check(cuda.DevicePrimaryCtxRetain(&cuda.contexts[gpu], gpu),
		      "cuDevicePrimaryCtxRetain");
	return cuda.contexts[gpu];
}

void cuda_use(int gpu)
{
	void *c = context(gpu); /* loads the driver */

	check(cuda.CtxSetCurrent(c), "cuCtxSetCurrent");
}

void *cuda_alloc(int gpu, size_t len)
{
	uint64_t addr;
	int error;

	cuda_use(gpu);
	error = cuda.MemAlloc(&addr, len);
	if (error == ERROR_OUT_OF_MEMORY)
		return NULL;
	check(error, "cuMemAlloc");
	check(cuda.MemsetD8(addr, 1, len), "cuMemsetD8");
	check(cuda.CtxSynchronize(), "cuCtxSynchronize");
	return (void *)(uintptr_t)addr;
}

void *cuda_alloc_host(int gpu, size_t len)
{
	void *memory;
	int error;

	cuda_use(gpu);
	error = cuda.MemHostAlloc(&memory, len, 0);
	if (error == ERROR_OUT_OF_MEMORY)
		return NULL;
	check(error, "cuMemHostAlloc");
	memset(memory, 1, len);
	return memory;
}

void cuda_free(int gpu, void *p)
{
	cuda_use(gpu);
	check(cuda.MemFree(address(p)), "cuMemFree");
}

void cuda_free_host(int gpu, void *p)
{
	cuda_use(gpu);
	check(cuda.MemFreeHost(p), "cuMemFreeHost");
}

void cuda_copy(int gpu, void *to, const void *from, size_t len)
{
	cuda_use(gpu);
	check(cuda.Memcpy(address(to), address(from), len), "cuMemcpy");
	/* Between two places of GPUs cuMemcpy() may return before the bytes are there. */
	check(cuda.CtxSynchronize(), "cuCtxSynchronize");
}

void *cuda_stream(void)
{
	void *stream;

	check(cuda.StreamCreate(&stream, STREAM_NON_BLOCKING), "cuStreamCreate");
	return stream;
}

void cuda_copy_async(void *stream, void *to, const void *from, size_t len)
{
	check(cuda.MemcpyAsync(address(to), address(from), len, stream), "cuMemcpyAsync");
}

void cuda_mark(void *stream, uint64_t *word, uint64_t value)
{
	check(cuda.StreamWriteValue64(stream, address(word), value, 0), "cuStreamWriteValue64");
}

void cuda_export(void *p, struct cuda_handle *handle)
{
	check(cuda.IpcGetMemHandle(handle, address(p)), "cuIpcGetMemHandle");
}

void *cuda_import(const struct cuda_handle *handle)
{
	uint64_t addr;

	check(cuda.IpcOpenMemHandle(&addr, *handle, LAZY_PEER_ACCESS), "cuIpcOpenMemHandle");
	return (void *)(uintptr_t)addr;
}

void cuda_unmap(void *p)
{
	check(cuda.IpcCloseMemHandle(address(p)), "cuIpcCloseMemHandle");
}

void cuda_reach(int gpu)
{
	void *c = context(gpu);

	check(cuda.CtxEnablePeerAccess(c, 0), "cuCtxEnablePeerAccess");
}
