/* SPDX-License-Identifier: Apache-2.0 */
/* A context of the room gpu over the driver that URCCL_TEST_CUDA_SO names: the stand-in of
 * test/cuda/, or a real one. The case is the program that uses CUDA. */
#ifndef GPU_RIG_H
#define GPU_RIG_H

#include <dlfcn.h>
#include <stdlib.h>
#include <gpu/gpu.h>
#include <test.h>

#define RIG_FUNCTIONS(X)                                                                           \
	X(cuInit, (unsigned flags))                                                                \
	X(cuDeviceGetCount, (int *n))                                                              \
	X(cuDevicePrimaryCtxRetain, (void **ctx, int device))                                      \
	X(cuCtxCreate_v2, (void **ctx, unsigned flags, int device))                                \
	X(cuCtxSetCurrent, (void *ctx))                                                            \
	X(cuCtxGetCurrent, (void **ctx))                                                           \
	X(cuMemAlloc_v2, (uint64_t *ptr, size_t len))                                              \
	X(cuMemFree_v2, (uint64_t ptr))                                                            \
	X(cuMemAllocManaged, (uint64_t *ptr, size_t len, unsigned flags))                          \
	X(cuMemHostAlloc, (void **memory, size_t len, unsigned flags))                             \
	X(cuMemFreeHost, (void *memory))                                                           \
	X(cuEventCreate, (void **event, unsigned flags))                                           \
	X(cuEventRecord, (void *event, void *stream))                                              \
	X(cuMemcpyHtoD_v2, (uint64_t dst, const void *src, size_t len))                            \
	X(cuStreamSynchronize, (void *stream))                                                     \
	X(cuMemcpyDtoH_v2, (void *dst, uint64_t src, size_t len))                                  \
	X(cuMemCreate, (uint64_t *handle, size_t len, const void *prop, uint64_t flags))           \
	X(cuMemAddressReserve, (uint64_t *ptr, size_t len, size_t align, uint64_t at,              \
				uint64_t flags))                                                   \
	X(cuMemMap, (uint64_t ptr, size_t len, size_t off, uint64_t handle, uint64_t flags))       \
	X(cuMemSetAccess, (uint64_t ptr, size_t len, const void *access, size_t n))

struct gpu_rig {
	const char *so;
	void *lib;
	struct gpu *gpu;
	int ngpus;
	void *ctx[2];			/* primary ones */
#define X(name, args) int(*name) args;
	RIG_FUNCTIONS(X)
#undef X
	/* The stand-in's; NULL: a real driver. */
	int (*set)(const char *words);
	unsigned long (*calls)(const char *thread, const char *function);
	unsigned long (*calls_here)(void);
};

static inline const char *rig_so(void)
{
	const char *so = getenv("URCCL_TEST_CUDA_SO");

	return so ? so : "libcuda.so.1";
}

static inline void rig_find(struct gpu_rig *r, const char *name, void *function, int optional)
{
	void *found = dlsym(r->lib, name);

	CHECK(found || optional);
	memcpy(function, &found, sizeof(found));
}

/* The program loads the driver, and does not start it. */
static inline void rig_load(struct gpu_rig *r)
{
	memset(r, 0, sizeof(*r));
	r->so = rig_so();
	r->lib = dlopen(r->so, RTLD_NOW);
	if (!r->lib)
		SKIP("this machine has no CUDA driver");
#define X(name, args) rig_find(r, #name, &r->name, 0);
	RIG_FUNCTIONS(X)
#undef X
	rig_find(r, "cuda_double_set", &r->set, 1);
	rig_find(r, "cuda_double_calls", &r->calls, 1);
	rig_find(r, "cuda_double_calls_here", &r->calls_here, 1);
}

static inline void rig_words(struct gpu_rig *r, const char *words)
{
	if (!r->set)
		SKIP("a real driver makes no such fault");
	CHECK_EQ(r->set(words), 0);
}

/* The bytes are in the GPU: from memory that is not pinned the call alone returns before. */
static inline void rig_put(struct gpu_rig *r, uint64_t to, const void *from, size_t len)
{
	CHECK_EQ(r->cuMemcpyHtoD_v2(to, from, len), 0);
	CHECK_EQ(r->cuStreamSynchronize(NULL), 0);
}

static inline void rig_gpu_sms(struct gpu_rig *r, int by_hand, int32_t sms)
{
	struct gpu_config config = {
		.so = r->so, .sms = sms, .by_hand = (uint32_t)by_hand, .spin_ns = 20000};

	CHECK_EQ(gpu_open(&config, &r->gpu), 0);
}

static inline void rig_gpu(struct gpu_rig *r, int by_hand)
{
	rig_gpu_sms(r, by_hand, 0);
}

/* The program starts the primary contexts of n GPUs at most; the first is current. */
static inline void rig_start(struct gpu_rig *r, int n)
{
	int i;

	if (r->cuInit(0) || r->cuDeviceGetCount(&r->ngpus) || !r->ngpus)
		SKIP("this machine has no GPU");
	r->ngpus = r->ngpus < n ? r->ngpus : n;
	for (i = 0; i < r->ngpus; i++)
		CHECK_EQ(r->cuDevicePrimaryCtxRetain(&r->ctx[i], i), 0);
	CHECK_EQ(r->cuCtxSetCurrent(r->ctx[0]), 0);
}

static inline void rig_open(struct gpu_rig *r, int by_hand)
{
	rig_load(r);
	rig_gpu(r, by_hand);
	rig_start(r, 2);
}

static inline struct gpu_dev *rig_dev(struct gpu_rig *r, uint32_t index)
{
	struct gpu_dev *dev;
	int code;

	CHECK_EQ(gpu_dev_get(r->gpu, index, &dev, &code), 0);
	CHECK_EQ(code, 0);
	CHECK(gpu_dev_find(r->gpu, index) == dev);
	return dev;
}

static inline uint64_t rig_alloc(struct gpu_rig *r, uint32_t gpu, size_t len)
{
	uint64_t ptr;

	CHECK_EQ(r->cuCtxSetCurrent(r->ctx[gpu]), 0);
	CHECK_EQ(r->cuMemAlloc_v2(&ptr, len), 0);
	CHECK_EQ(r->cuCtxSetCurrent(r->ctx[0]), 0);
	return ptr;
}

static inline uint8_t *rig_pinned(struct gpu_rig *r, size_t len)
{
	void *memory;

	CHECK_EQ(r->cuMemHostAlloc(&memory, len, 1), 0);
	return memory;
}

static inline struct gpu_job rig_job(enum gpu_lane lane, uint64_t dst, uint64_t src, uint64_t len)
{
	return (struct gpu_job){.kind = GPU_COPY, .lane = (uint8_t)lane, .dst = dst, .src = src,
				.len = len};
}

static inline uint64_t rig_addr(const void *p)
{
	return (uint64_t)(uintptr_t)p;
}

/* Until the job has ended, as a sleeping engine does it. */
static inline int rig_wait(struct gpu_rig *r, struct gpu_job *job)
{
	uint64_t ns;

	while (!gpu_job_done(job)) {
		ns = gpu_sleep_ns(r->gpu, clock_ns());
		CHECK_GE(ns, 20000);
		CHECK_LE(ns, 20000000);
		usleep((useconds_t)(ns / 1000));
	}
	return job->res;
}

static inline struct gpu_job rig_gather(struct gpu_pieces *t)
{
	return (struct gpu_job){.kind = GPU_GATHER, .lane = GPU_KERNEL, .pieces = t};
}

/* Kernels are loaded, by a job of another lane at the latest. */
static inline void rig_ready(struct gpu_rig *r, struct gpu_dev *dev)
{
	uint64_t ptr = rig_alloc(r, gpu_about(dev)->index, 16);
	struct gpu_job job = rig_job(GPU_PEER, ptr, ptr + 8, 8);

	CHECK_EQ(gpu_submit(dev, &job), 1);
	CHECK_EQ(rig_wait(r, &job), 0);
}

/* The caller passes it to gpu_unimport(). */
static inline struct gpu_import *rig_import(struct gpu_dev *dev, const struct gpu_share *share)
{
	struct gpu_import *imp = calloc(1, sizeof(*imp));

	CHECK(imp);
	imp->share = *share;
	gpu_import(dev, imp);
	while (!gpu_import_done(imp))
		usleep(100);
	return imp;
}

static inline void rig_import_refused(struct gpu_dev *dev, const struct gpu_share *share)
{
	struct gpu_import *imp = rig_import(dev, share);

	CHECK(imp->res < 0);
	CHECK_EQ(imp->addr, 0);
	gpu_unimport(dev, imp);
}

static inline void rig_copy(struct gpu_rig *r, struct gpu_dev *dev, enum gpu_lane lane,
			    uint64_t dst, uint64_t src, uint64_t len)
{
	struct gpu_job job = rig_job(lane, dst, src, len);

	CHECK_EQ(gpu_submit(dev, &job), 1);
	CHECK_EQ(rig_wait(r, &job), 0);
}

#endif
