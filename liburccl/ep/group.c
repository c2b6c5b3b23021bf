/* SPDX-License-Identifier: Apache-2.0 */
/* A group's life, and what its calls have in common. */
#include "group.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static _Thread_local char errmsg[256];

const char *urccl_ep_errmsg(void)
{
	return errmsg;
}

int ep_error(int error, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(errmsg, sizeof(errmsg), format, args);
	va_end(args);
	return error;
}

int ep_check_pointer(const void *p, bool needed, const char *name)
{
	if (needed && !p)
		return ep_error(-EINVAL, "%s is NULL", name);
	if ((uintptr_t)p % 16)
		return ep_error(-EINVAL, "%s is %p, no multiple of 16", name, p);
	return 0;
}

/* The modules of kernels.S, in its order, and the kernels in them. */
static const struct {
	const char *name;
	uint8_t module;
	uint32_t shared_bytes; /* the most that a launch asks for; 0: at most 48 KiB */
} kernels[EP_KERNELS] = {
	[EP_KERNEL_NOTIFY] = {"ep_notify", 0, 0},
	[EP_KERNEL_DISPATCH] = {"ep_dispatch", 1, EP_SMEM},
	[EP_KERNEL_COMBINE] = {"ep_combine", 2, EP_SMEM},
	[EP_KERNEL_COPY] = {"ep_copy", 2, 0},
	[EP_KERNEL_LL_DISPATCH] = {"ep_ll_dispatch", 3,
				   URCCL_EP_LL_MAX_TOKENS *(4 * EP_LL_TOPK + 1) +
					   4 * URCCL_EP_MAX_EXPERTS},
	[EP_KERNEL_LL_COMBINE] = {"ep_ll_combine", 4, 0},
};

static int cuda_error(const struct urccl_ep *ep, const char *doing, int error)
{
	return ep_error(error == 2 ? -ENOMEM : -EIO, "cannot %s: %s", doing,
			ep_driver_error(&ep->driver, error));
}

static int check_device(struct urccl_ep *ep)
{
	const struct ep_driver *cuda = &ep->driver;
	int device, major = 0, sms = 0;
	void *ctx = NULL;

	if (cuda->cuCtxGetCurrent(&ctx) || !ctx || cuda->cuCtxGetDevice(&device))
		return ep_error(-ENODEV, "this thread has no current CUDA context");
	if (cuda->cuDeviceGetAttribute(&major, CUDA_MAJOR, device) || major < 9)
		return ep_error(-ENODEV, "the kernels need compute capability 9; this GPU has %d",
				major);
	if (cuda->cuDeviceGetAttribute(&sms, CUDA_MULTIPROCESSORS, device) || sms < 1)
		return ep_error(-ENODEV, "cannot read the number of multiprocessors");
	ep->sms = ep->attr.sms && ep->attr.sms < (uint32_t)sms ? ep->attr.sms : (uint32_t)sms;
	return 0;
}

static void unload_kernels(struct urccl_ep *ep)
{
	for (int m = 0; m < EP_MODULES; m++)
		if (ep->modules[m])
			ep->driver.cuModuleUnload(ep->modules[m]);
}

/* Loads everything now: a first launch that loads code would wait for kernels that may wait for
 * that launch. */
static int load_kernels(struct urccl_ep *ep)
{
	const struct ep_driver *cuda = &ep->driver;
	int error;

	for (int m = 0; m < EP_MODULES; m++) {
		error = cuda->cuModuleLoadData(&ep->modules[m], ep_modules[m]);
		if (error) {
			unload_kernels(ep);
			return cuda_error(ep, "load the kernels", error);
		}
	}
	for (int k = 0; k < EP_KERNELS; k++) {
		error = cuda->cuModuleGetFunction(&ep->kernels[k], ep->modules[kernels[k].module],
						  kernels[k].name);
		if (!error && kernels[k].shared_bytes)
			error = cuda->cuFuncSetAttribute(ep->kernels[k], CUDA_FUNC_SHARED,
							 (int)kernels[k].shared_bytes);
		if (!error && cuda->cuFuncLoad)
			error = cuda->cuFuncLoad(ep->kernels[k]);
		if (error) {
			unload_kernels(ep);
			return cuda_error(ep, kernels[k].name, error);
		}
	}
	return 0;
}

/* The group's own memory, on the device and on the host. */
static int allocate(struct urccl_ep *ep)
{
	const struct ep_driver *cuda = &ep->driver;
	const uint64_t experts = 256 + 4 * (uint64_t)ep->attr.experts;
	const uint64_t chunks = (uint64_t)ep->attr.max_tokens / EP_CHUNK + 1;
	const uint64_t bytes = experts + chunks * EP_RANKS * 4;
	const size_t host_bytes = sizeof(struct ep_host) + EP_COUNT_SLOTS * 4 * ep->common.local;
	uint64_t host;
	void *memory;
	int error;

	_Static_assert(sizeof(struct ep_control) <= 256, "expert_counts begin after it");
	error = cuda->cuMemAlloc(&ep->memory, bytes);
	if (error)
		return cuda_error(ep, "allocate device memory", error);
	error = cuda->cuMemsetD8(ep->memory, 0, bytes);
	if (error)
		goto free_memory;
	error = cuda->cuMemHostAlloc(&memory, host_bytes, CUDA_HOST_PORTABLE_MAPPED);
	if (error)
		goto free_memory;
	memset(memory, 0, host_bytes);
	error = cuda->cuMemHostGetDevicePointer(&host, memory, 0);
	if (error)
		goto free_host;
	ep->host = memory;
	ep->expert_counts = ep->memory + 256;
	ep->chunk_counts = ep->memory + experts;
	ep->common.control = ep_pointer(ep->memory);
	ep->common.host = ep_pointer(host);
	return 0;

free_host:
	cuda->cuMemFreeHost(memory);
free_memory:
	cuda->cuMemFree(ep->memory);
	return cuda_error(ep, "prepare memory", error);
}

static void fill_common(struct urccl_ep *ep)
{
	struct ep_common *common = &ep->common;

	for (uint32_t r = 0; r < ep->attr.ranks; r++)
		common->window.base[r] = ep->attr.windows[r];
	common->timeout_ns = ep->attr.timeout_ms * UINT64_C(1000000);
	common->rank = ep->attr.rank;
	common->ranks = ep->attr.ranks;
	common->experts = ep->attr.experts;
	common->local = ep->attr.experts / ep->attr.ranks;
	common->max_recv_tokens = ep->attr.max_recv_tokens;
	common->ll_max_tokens = ep->attr.ll_max_tokens;
	ep->attr.windows = NULL;
	ep->attr.cuda_so = NULL;
}

static int check_windows(const struct urccl_ep_attr *attr)
{
	if (attr->rank >= attr->ranks || !attr->windows)
		return ep_error(-EINVAL, "rank %u of %u, or no windows", attr->rank, attr->ranks);
	for (uint32_t r = 0; r < attr->ranks; r++)
		if (!attr->windows[r] || (uintptr_t)attr->windows[r] % 256)
			return ep_error(-EINVAL, "the window of rank %u is at %p", r,
					attr->windows[r]);
	return 0;
}

int urccl_ep_create(const struct urccl_ep_attr *attr, struct urccl_ep **out)
{
	struct urccl_ep *ep;
	const char *why;
	int err;

	ep = calloc(1, sizeof(*ep));
	if (!ep)
		return ep_error(-ENOMEM, "no memory");
	err = ep_window_layout(attr, &ep->attr, &ep->common.at);
	if (!err)
		err = check_windows(attr);
	if (err)
		goto free_ep;
	err = ep_driver_load(&ep->driver, attr->cuda_so, &why);
	if (err) {
		ep_error(err, "cannot load the CUDA driver: %s", why);
		goto free_ep;
	}
	fill_common(ep);
	err = check_device(ep);
	if (!err)
		err = load_kernels(ep);
	if (err)
		goto unload_driver;
	err = allocate(ep);
	if (err)
		goto unload_kernels;
	err = ep_window_clear(ep);
	if (err)
		goto free_memory;
	*out = ep;
	return 0;

free_memory:
	ep->driver.cuMemFreeHost(ep->host);
	ep->driver.cuMemFree(ep->memory);
unload_kernels:
	unload_kernels(ep);
unload_driver:
	ep_driver_unload(&ep->driver);
free_ep:
	free(ep);
	return err;
}

void urccl_ep_destroy(struct urccl_ep *ep)
{
	if (!ep)
		return;
	ep->driver.cuCtxSynchronize();
	ep->driver.cuMemFreeHost(ep->host);
	ep->driver.cuMemFree(ep->memory);
	unload_kernels(ep);
	ep_driver_unload(&ep->driver);
	free(ep);
}

uint32_t ep_blocks(const struct urccl_ep *ep, uint64_t work, uint32_t sms)
{
	const uint64_t most = sms && sms < ep->sms ? sms : ep->sms;

	return (uint32_t)(work < 1 ? 1 : work < most ? work : most);
}

int ep_launch(const struct urccl_ep *ep, enum ep_kernel kernel, uint32_t blocks, uint32_t threads,
	      uint32_t shared_bytes, const void *args, void *stream)
{
	return ep_launch_early(ep, kernel, blocks, threads, shared_bytes, args, stream, false);
}

int ep_launch_early(const struct urccl_ep *ep, enum ep_kernel kernel, uint32_t blocks,
		    uint32_t threads, uint32_t shared_bytes, const void *args, void *stream,
		    bool early)
{
	struct ep_launch_attribute attribute = {.id = CUDA_LAUNCH_EARLY, .value = {.allowed = 1}};
	const struct ep_launch_config config = {
		.grid = {blocks, 1, 1},
		.block = {threads, 1, 1},
		.shared_bytes = shared_bytes,
		.stream = stream,
		.attributes = &attribute,
		.n = early,
	};
	void *params[] = {(void *)(uintptr_t)args};
	int error = ep->driver.cuLaunchKernelEx(&config, ep->kernels[kernel], params, NULL);

	return error ? cuda_error(ep, kernels[kernel].name, error) : 0;
}

/* ---- questions ------------------------------------------------------------------------------- */

static uint64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

int urccl_ep_query_counts(const struct urccl_ep *ep, const struct urccl_ep_handle *handle,
			  struct urccl_ep_counts *counts, uint32_t timeout_ms)
{
	const uint32_t slot = handle->call % EP_COUNT_SLOTS, local = ep->common.local;
	const uint64_t end = now_ms() + timeout_ms;

	if (counts->size != sizeof(*counts) || (counts->per_expert && counts->experts < local))
		return ep_error(-EINVAL, "counts.size is %u, counts.experts %u", counts->size,
				counts->experts);
	if (!handle->call || ep->calls - handle->call >= EP_COUNT_SLOTS - 1)
		return ep_error(-EINVAL, "the handle is of no recent dispatch");
	while (__atomic_load_n(&ep->host->call[slot], __ATOMIC_ACQUIRE) != handle->call) {
		if (__atomic_load_n(&ep->host->status, __ATOMIC_RELAXED))
			return ep_error(-ECANCELED, "the group has failed");
		if (now_ms() >= end)
			return ep_error(-EAGAIN, "the counts are not there yet");
	}
	counts->recv_tokens = ep->host->recv_tokens[slot];
	for (uint32_t l = 0; counts->per_expert && l < local; l++)
		counts->per_expert[l] = ep->host->per_expert[slot * local + l];
	return 0;
}

int urccl_ep_query_status(const struct urccl_ep *ep, struct urccl_ep_status *status)
{
	uint32_t word = __atomic_load_n(&ep->host->status, __ATOMIC_RELAXED);

	if (status->size != sizeof(*status))
		return ep_error(-EINVAL, "status.size is %u, this library's is %zu", status->size,
				sizeof(*status));
	status->res = 0;
	status->rank = word ? (word >> 8) - 1 : 0;
	if (word)
		status->res = (word & 0xff) == EP_NO_ROOM ? -ENOSPC : -ETIMEDOUT;
	status->dead = 0;
	for (uint32_t r = 0; r < ep->common.ranks; r++)
		status->dead |= (__atomic_load_n(&ep->host->dead[r], __ATOMIC_RELAXED) & 1) << r;
	return 0;
}
