/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device memory for tests, of the stand-in or of a GPU. Include it in one file of a test, link with
 * dl, and give the test the environment of meson's cuda_env:
 *
 *	URCCL_TEST_CUDA_SO	the library; otherwise libcuda.so.1
 *	URCCL_TEST_CUDA		faults of the stand-in: see control.h
 *
 * device_load() loads the library for all of the process and makes it known as libcuda.so.1, under
 * which liburccl looks for it: leave cuda_so alone. It skips the test where there is no CUDA. Each
 * process that uses device memory calls it, after fork(). Any thread may make the calls.
 */
#ifndef CUDA_DEVICE_H
#define CUDA_DEVICE_H

#include <dlfcn.h>
#include "test.h"
#include "abi.h"

#define DEVICE_GPUS 8
#define DEVICE_PART (64u << 10)

static struct {
	void *so;
	int gpus;
	void *contexts[DEVICE_GPUS]; /* primary ones */
	int (*push)(void *context);
	int (*pop)(void **context);
	int (*alloc)(uint64_t *addr, size_t len);
	int (*free)(uint64_t addr);
	int (*pin)(void **to, size_t len, unsigned flags);
	int (*put)(uint64_t addr, const void *from, size_t len);
	int (*get)(void *to, uint64_t addr, size_t len);
	int (*sync)(void *stream);
	int (*set)(const char *words);
	unsigned long (*calls)(const char *thread, const char *function);
} device_cuda;

/* The function of that name; required ones end the test when they lack. */
static inline void *device_symbol(const char *name, int required)
{
	void *p = dlsym(device_cuda.so, name);

	if (!p && required) {
		fprintf(stderr, "libcuda has no %s\n", name);
		test_end(1);
	}
	return p;
}

#define DEVICE_SYMBOL(to, name, required)                       \
	do {                                                    \
		void *device_p = device_symbol(name, required); \
		memcpy(&(to), &device_p, sizeof(device_p));     \
	} while (0)

static inline void device_load(void)
{
	const char *path = getenv("URCCL_TEST_CUDA_SO");
	int (*init)(unsigned flags), (*count)(int *n), (*retain)(void **context, int device);

	device_cuda.so = dlopen(path ? path : "libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
	if (!device_cuda.so)
		SKIP("no libcuda.so.1");
	DEVICE_SYMBOL(init, "cuInit", 1);
	DEVICE_SYMBOL(count, "cuDeviceGetCount", 1);
	DEVICE_SYMBOL(retain, "cuDevicePrimaryCtxRetain", 1);
	DEVICE_SYMBOL(device_cuda.push, "cuCtxPushCurrent_v2", 1);
	DEVICE_SYMBOL(device_cuda.pop, "cuCtxPopCurrent_v2", 1);
	DEVICE_SYMBOL(device_cuda.alloc, "cuMemAlloc_v2", 1);
	DEVICE_SYMBOL(device_cuda.free, "cuMemFree_v2", 1);
	DEVICE_SYMBOL(device_cuda.pin, "cuMemHostAlloc", 1);
	DEVICE_SYMBOL(device_cuda.put, "cuMemcpyHtoD_v2", 1);
	DEVICE_SYMBOL(device_cuda.get, "cuMemcpyDtoH_v2", 1);
	DEVICE_SYMBOL(device_cuda.sync, "cuStreamSynchronize", 1);
	DEVICE_SYMBOL(device_cuda.set, "cuda_double_set", 0);
	DEVICE_SYMBOL(device_cuda.calls, "cuda_double_calls", 0);
	if (init(0) || count(&device_cuda.gpus) || !device_cuda.gpus)
		SKIP("no GPU");
	if (device_cuda.gpus > DEVICE_GPUS)
		device_cuda.gpus = DEVICE_GPUS;
	for (int i = 0; i < device_cuda.gpus; i++)
		CHECK_EQ(retain(&device_cuda.contexts[i], i), 0);
}

/* Skips a test that needs n GPUs. */
static inline void device_needs_gpus(int n)
{
	if (device_cuda.gpus < n)
		SKIP("too few GPUs");
}

/* Applies words of control.h; skips the test on a GPU. */
static inline void device_set(const char *words)
{
	if (!device_cuda.set)
		SKIP("not the stand-in for libcuda");
	CHECK_EQ(device_cuda.set(words), 0);
}

/* Calls of CUDA by threads whose name begins so, NULL: all; 0 on a GPU. */
static inline unsigned long device_calls(const char *thread, const char *function)
{
	return device_cuda.calls ? device_cuda.calls(thread, function) : 0;
}

/* The GPU's context is current until device_leave(). */
static inline void device_enter(int gpu)
{
	CHECK_EQ(device_cuda.push(device_cuda.contexts[gpu]), 0);
}

static inline void device_leave(void)
{
	void *context;

	CHECK_EQ(device_cuda.pop(&context), 0);
}

/* By cuMemAlloc(): a legacy handle shares it. */
static inline uint64_t device_alloc(uint64_t len, int gpu)
{
	uint64_t addr;

	device_enter(gpu);
	CHECK_EQ(device_cuda.alloc(&addr, len), 0);
	device_leave();
	return addr;
}

static inline void device_free(uint64_t addr)
{
	device_enter(0);
	CHECK_EQ(device_cuda.free(addr), 0);
	device_leave();
}

/* Memory of the first GPU, for programs that have not loaded the driver yet. */
static inline void *device_memory(uint64_t len)
{
	device_load();
	return (void *)(uintptr_t)device_alloc(len, 0);
}

/* Pinned memory of the host. */
static inline void *device_pinned(uint64_t len)
{
	void *p;

	device_enter(0);
	CHECK_EQ(device_cuda.pin(&p, len, CU_MEMHOSTALLOC_PORTABLE), 0);
	device_leave();
	return p;
}

/* device_map_handles() rounds lengths up so. */
static inline uint64_t device_whole(uint64_t len)
{
	return (len + (2u << 20) - 1) >> 21 << 21;
}

/* Lets all GPUs that reach memory of that GPU use it. */
static inline void device_share(uint64_t addr, uint64_t len, int gpu)
{
	int (*set_access)(uint64_t addr, size_t len, const struct cu_access *access, size_t n);
	int (*can_access)(int *can, int device, int peer);

	DEVICE_SYMBOL(set_access, "cuMemSetAccess", 1);
	DEVICE_SYMBOL(can_access, "cuDeviceCanAccessPeer", 1);
	for (int i = 0; i < device_cuda.gpus; i++) {
		struct cu_access rw = {{CU_MEM_LOCATION_TYPE_DEVICE, i},
				       CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
		int can = 1;

		if (i != gpu)
			CHECK_EQ(can_access(&can, i, gpu), 0);
		if (can)
			CHECK_EQ(set_access(addr, len, &rw, 1), 0);
	}
}

/* By cuMemCreate(): the memory has no context and no legacy handle; a descriptor shares it. n
 * handles of len bytes are mapped one behind the other. */
static inline uint64_t device_map_handles(uint64_t len, uint32_t n, int gpu)
{
	const struct cu_prop prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
				     .handle_types = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
				     .location = {CU_MEM_LOCATION_TYPE_DEVICE, gpu}};
	int (*create)(uint64_t * to, size_t len, const struct cu_prop *prop, uint64_t flags);
	int (*reserve)(uint64_t * to, size_t len, size_t align, uint64_t hint, uint64_t flags);
	int (*map)(uint64_t addr, size_t len, size_t off, uint64_t handle, uint64_t flags);
	int (*release)(uint64_t handle);
	uint64_t addr, handle, at;

	DEVICE_SYMBOL(create, "cuMemCreate", 1);
	DEVICE_SYMBOL(reserve, "cuMemAddressReserve", 1);
	DEVICE_SYMBOL(map, "cuMemMap", 1);
	DEVICE_SYMBOL(release, "cuMemRelease", 1);
	len = device_whole(len);
	CHECK_EQ(reserve(&addr, n * len, 0, 0, 0), 0);
	for (at = addr; at < addr + n * len; at += len) {
		CHECK_EQ(create(&handle, len, &prop, 0), 0);
		CHECK_EQ(map(at, len, 0, handle, 0), 0);
		CHECK_EQ(release(handle), 0);
	}
	device_share(addr, n * len, gpu);
	return addr;
}

static inline void device_unmap(uint64_t addr, uint64_t len)
{
	int (*unmap)(uint64_t addr, size_t len), (*address_free)(uint64_t addr, size_t len);

	DEVICE_SYMBOL(unmap, "cuMemUnmap", 1);
	DEVICE_SYMBOL(address_free, "cuMemAddressFree", 1);
	CHECK_EQ(unmap(addr, device_whole(len)), 0);
	CHECK_EQ(address_free(addr, device_whole(len)), 0);
}

/* Copies that the caller waits for. */
static inline void device_put(uint64_t addr, const void *from, uint64_t len)
{
	device_enter(0);
	CHECK_EQ(device_cuda.put(addr, from, len), 0);
	CHECK_EQ(device_cuda.sync(NULL), 0);
	device_leave();
}

/* The bytes may come later, unless the memory is registered. */
static inline void device_put_early(uint64_t addr, const void *from, uint64_t len)
{
	device_enter(0);
	CHECK_EQ(device_cuda.put(addr, from, len), 0);
	device_leave();
}

static inline void device_get(void *to, uint64_t addr, uint64_t len)
{
	device_enter(0);
	CHECK_EQ(device_cuda.get(to, addr, len), 0);
	device_leave();
}

static inline uint8_t device_byte(uint64_t at, uint64_t seed)
{
	return (uint8_t)((at * 0x9e3779b97f4a7c15u + seed * 0xd6e8feb86659fd93u) >> 40);
}

/* Writes the pattern of `seed`, whose first byte is that of place `from`. */
static inline void device_fill(uint64_t addr, uint64_t len, uint64_t from, uint64_t seed)
{
	static __thread uint8_t part[DEVICE_PART];
	uint64_t at, i, n;

	for (at = 0; at < len; at += n) {
		n = len - at < sizeof(part) ? len - at : sizeof(part);
		for (i = 0; i < n; i++)
			part[i] = device_byte(from + at + i, seed);
		device_put(addr + at, part, n);
	}
}

/* 1: the pattern is there; otherwise it prints the first byte that differs, and is 0. */
static inline int device_check(uint64_t addr, uint64_t len, uint64_t from, uint64_t seed)
{
	static __thread uint8_t part[DEVICE_PART];
	uint64_t at, i, n;

	for (at = 0; at < len; at += n) {
		n = len - at < sizeof(part) ? len - at : sizeof(part);
		device_get(part, addr + at, n);
		for (i = 0; i < n; i++) {
			if (part[i] == device_byte(from + at + i, seed))
				continue;
			fprintf(stderr, "byte %llu of %llu differs\n", (unsigned long long)(at + i),
				(unsigned long long)len);
			return 0;
		}
	}
	return 1;
}

#endif
