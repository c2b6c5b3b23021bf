/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct {
	int (*cuInit)(unsigned);
	int (*cuDeviceGetCount)(int *);
	int (*cuDeviceGetAttribute)(int *, int, int);
	int (*cuDevicePrimaryCtxRetain)(void **, int);
	int (*cuCtxSetCurrent)(void *);
	int (*cuCtxEnablePeerAccess)(void *, unsigned);
	int (*cuCtxSynchronize)(void);
	int (*cuStreamCreate)(void **, unsigned);
	int (*cuStreamDestroy_v2)(void *);
	int (*cuStreamSynchronize)(void *);
	int (*cuMemAlloc_v2)(uint64_t *, size_t);
	int (*cuMemFree_v2)(uint64_t);
	int (*cuMemsetD8_v2)(uint64_t, unsigned char, size_t);
	int (*cuMemsetD8Async)(uint64_t, unsigned char, size_t, void *);
	int (*cuMemcpyHtoD_v2)(uint64_t, const void *, size_t);
	int (*cuMemcpyDtoH_v2)(void *, uint64_t, size_t);
	int (*cuMemcpyDtoDAsync_v2)(uint64_t, uint64_t, size_t, void *);
	int (*cuStreamBeginCapture_v2)(void *, int);
	int (*cuStreamEndCapture)(void *, void **);
	int (*cuGraphInstantiateWithFlags)(void **, void *, unsigned long long);
	int (*cuGraphLaunch)(void *, void *);
	int (*cuGraphDestroy)(void *);
	int (*cuGraphExecDestroy)(void *);
	int (*cuEventCreate)(void **, unsigned);
	int (*cuEventRecord)(void *, void *);
	int (*cuEventElapsedTime)(float *, void *, void *);
	int (*cuEventDestroy_v2)(void *);
	int (*cuModuleLoadData)(void **, const void *);
	int (*cuModuleUnload)(void *);
	int (*cuModuleGetFunction)(void **, void *, const char *);
	int (*cuLaunchKernel)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
			      unsigned, void *, void **, void **);
} cuda;

/* In the order of the members. */
static const char *const names[] = {
	"cuInit",
	"cuDeviceGetCount",
	"cuDeviceGetAttribute",
	"cuDevicePrimaryCtxRetain",
	"cuCtxSetCurrent",
	"cuCtxEnablePeerAccess",
	"cuCtxSynchronize",
	"cuStreamCreate",
	"cuStreamDestroy_v2",
	"cuStreamSynchronize",
	"cuMemAlloc_v2",
	"cuMemFree_v2",
	"cuMemsetD8_v2",
	"cuMemsetD8Async",
	"cuMemcpyHtoD_v2",
	"cuMemcpyDtoH_v2",
	"cuMemcpyDtoDAsync_v2",
	"cuStreamBeginCapture_v2",
	"cuStreamEndCapture",
	"cuGraphInstantiateWithFlags",
	"cuGraphLaunch",
	"cuGraphDestroy",
	"cuGraphExecDestroy",
	"cuEventCreate",
	"cuEventRecord",
	"cuEventElapsedTime",
	"cuEventDestroy_v2",
	"cuModuleLoadData",
	"cuModuleUnload",
	"cuModuleGetFunction",
	"cuLaunchKernel",
};

_Static_assert(sizeof(cuda) == sizeof(names), "a name for each function");

static void *contexts[URCCL_EP_MAX_RANKS];
static int gpus;

static void check(int error, const char *call)
{
	if (!error)
		return;
	fprintf(stderr, "%s: CUDA error %d\n", call, error);
	exit(1);
}

void gpu_ok(int res, const char *call)
{
	if (res >= 0)
		return;
	fprintf(stderr, "%s: %d: %s\n", call, res, urccl_ep_errmsg());
	exit(1);
}

static const char *load(void)
{
	void *so = dlopen("libcuda.so.1", RTLD_NOW);

	if (!so)
		return "no CUDA driver";
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		void *function = dlsym(so, names[i]);

		if (!function)
			return names[i];
		memcpy((char *)&cuda + i * sizeof(function), &function, sizeof(function));
	}
	return NULL;
}

int gpu_start(int most, const char **why)
{
	int major = 0;

	/* Each rank's stream has a queue of its own: kernels wait for one another. */
	setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 1);
	*why = load();
	if (*why)
		return 0;
	*why = "no GPU";
	if (cuda.cuInit(0) || cuda.cuDeviceGetCount(&gpus) || !gpus)
		return 0;
	*why = "the GPU has no compute capability 9";
	if (cuda.cuDeviceGetAttribute(&major, 75, 0) || major != 9)
		return 0;
	if (gpus > URCCL_EP_MAX_RANKS)
		gpus = URCCL_EP_MAX_RANKS;
	if (most && gpus > most)
		gpus = most;
	for (int i = 0; i < gpus; i++)
		check(cuda.cuDevicePrimaryCtxRetain(&contexts[i], i), "cuDevicePrimaryCtxRetain");
	for (int i = 0; i < gpus; i++) {
		check(cuda.cuCtxSetCurrent(contexts[i]), "cuCtxSetCurrent");
		for (int j = 0; j < gpus; j++)
			if (i != j)
				check(cuda.cuCtxEnablePeerAccess(contexts[j], 0),
				      "cuCtxEnablePeerAccess");
	}
	return gpus;
}

struct gpu_rank *gpu_use(struct gpu_group *g, uint32_t r)
{
	check(cuda.cuCtxSetCurrent(g->rank[r].ctx), "cuCtxSetCurrent");
	return &g->rank[r];
}

void gpu_group_open(struct gpu_group *g, const struct urccl_ep_attr *attr)
{
	uint64_t bytes;

	memset(g, 0, sizeof(*g));
	g->attr = *attr;
	gpu_ok(urccl_ep_window_bytes(attr, &bytes), "urccl_ep_window_bytes");
	for (uint32_t r = 0; r < attr->ranks; r++) {
		g->rank[r].ctx = contexts[r % (uint32_t)gpus];
		gpu_use(g, r);
		g->windows[r] = gpu_alloc(bytes);
		check(cuda.cuStreamCreate(&g->rank[r].stream, 1), "cuStreamCreate");
	}
	g->attr.windows = g->windows;
	for (uint32_t r = 0; r < attr->ranks; r++) {
		g->attr.rank = r;
		gpu_use(g, r);
		gpu_ok(urccl_ep_create(&g->attr, &g->rank[r].ep), "urccl_ep_create");
		g->rank[r].parts.size = sizeof(g->rank[r].parts);
		gpu_ok(urccl_ep_window_parts(g->rank[r].ep, &g->rank[r].parts), "parts");
	}
}

void gpu_group_wait(struct gpu_group *g)
{
	for (uint32_t r = 0; r < g->attr.ranks; r++)
		check(cuda.cuStreamSynchronize(gpu_use(g, r)->stream), "cuStreamSynchronize");
}

void gpu_group_close(struct gpu_group *g)
{
	gpu_group_wait(g);
	for (uint32_t r = 0; r < g->attr.ranks; r++)
		urccl_ep_destroy(gpu_use(g, r)->ep);
	for (uint32_t r = 0; r < g->attr.ranks; r++) {
		gpu_use(g, r);
		gpu_free(g->windows[r]);
		cuda.cuStreamDestroy_v2(g->rank[r].stream);
	}
}

void gpu_current(uint32_t rank)
{
	check(cuda.cuCtxSetCurrent(contexts[rank % (uint32_t)gpus]), "cuCtxSetCurrent");
}

void *gpu_stream_new(void)
{
	void *stream;

	check(cuda.cuStreamCreate(&stream, 1), "cuStreamCreate");
	return stream;
}

void gpu_stream_wait(void *stream)
{
	check(cuda.cuStreamSynchronize(stream), "cuStreamSynchronize");
}

void *gpu_alloc(size_t bytes)
{
	uint64_t address;

	bytes = bytes < 16 ? 16 : bytes;
	check(cuda.cuMemAlloc_v2(&address, bytes), "cuMemAlloc");
	check(cuda.cuMemsetD8_v2(address, 0xcd, bytes), "cuMemsetD8");
	check(cuda.cuCtxSynchronize(), "cuCtxSynchronize");
	return (void *)(uintptr_t)address;
}

void *gpu_copy_of(const void *from, size_t bytes)
{
	void *p = gpu_alloc(bytes);

	gpu_upload(p, from, bytes);
	return p;
}

void gpu_free(void *p)
{
	if (p)
		check(cuda.cuMemFree_v2((uintptr_t)p), "cuMemFree");
}

void gpu_fill(void *p, int byte, size_t bytes)
{
	if (bytes)
		check(cuda.cuMemsetD8_v2((uintptr_t)p, (unsigned char)byte, bytes), "cuMemsetD8");
	check(cuda.cuCtxSynchronize(), "cuCtxSynchronize");
}

void gpu_upload(void *to, const void *from, size_t bytes)
{
	if (bytes)
		check(cuda.cuMemcpyHtoD_v2((uintptr_t)to, from, bytes), "cuMemcpyHtoD");
}

void gpu_download(void *to, const void *from, size_t bytes)
{
	if (bytes)
		check(cuda.cuMemcpyDtoH_v2(to, (uintptr_t)from, bytes), "cuMemcpyDtoH");
}

void gpu_copy_async(void *to, const void *from, size_t bytes, void *stream)
{
	check(cuda.cuMemcpyDtoDAsync_v2((uintptr_t)to, (uintptr_t)from, bytes, stream),
	      "cuMemcpyDtoDAsync");
}

void gpu_fill_async(void *to, int byte, size_t bytes, void *stream)
{
	check(cuda.cuMemsetD8Async((uintptr_t)to, (unsigned char)byte, bytes, stream),
	      "cuMemsetD8Async");
}

void gpu_capture_begin(void *stream)
{
	check(cuda.cuStreamBeginCapture_v2(stream, 2 /* relaxed */), "cuStreamBeginCapture");
}

void *gpu_capture_end(void *stream)
{
	void *graph, *exec;

	check(cuda.cuStreamEndCapture(stream, &graph), "cuStreamEndCapture");
	check(cuda.cuGraphInstantiateWithFlags(&exec, graph, 0), "cuGraphInstantiate");
	cuda.cuGraphDestroy(graph);
	return exec;
}

void gpu_graph_launch(void *graph, void *stream)
{
	check(cuda.cuGraphLaunch(graph, stream), "cuGraphLaunch");
}

void gpu_graph_free(void *graph)
{
	cuda.cuGraphExecDestroy(graph);
}

void *gpu_event_new(void)
{
	void *event;

	check(cuda.cuEventCreate(&event, 0), "cuEventCreate");
	return event;
}

void gpu_event_record(void *event, void *stream)
{
	check(cuda.cuEventRecord(event, stream), "cuEventRecord");
}

void *gpu_module_new(const char *ptx)
{
	void *module;

	check(cuda.cuModuleLoadData(&module, ptx), "cuModuleLoadData");
	return module;
}

void gpu_module_free(void *module)
{
	cuda.cuModuleUnload(module);
}

void *gpu_kernel(void *module, const char *name)
{
	void *kernel;

	check(cuda.cuModuleGetFunction(&kernel, module, name), name);
	return kernel;
}

void gpu_launch(void *kernel, uint32_t blocks, uint32_t threads, void **params, void *stream)
{
	check(cuda.cuLaunchKernel(kernel, blocks, 1, 1, threads, 1, 1, 0, stream, params, NULL),
	      "cuLaunchKernel");
}

double gpu_event_us(void *from, void *to)
{
	float ms;

	check(cuda.cuEventElapsedTime(&ms, from, to), "cuEventElapsedTime");
	return 1000.0 * ms;
}

void gpu_event_free(void *event)
{
	cuda.cuEventDestroy_v2(event);
}
