/* SPDX-License-Identifier: Apache-2.0 */
/* Contexts and their access to each other. */
#include "double.h"

#define STACK_MAX 32

static struct context *contexts, *ended_contexts; /* streams that hang keep the latter */
static struct context *primary[GPUS_MAX];
static __thread struct context *stack[STACK_MAX];
static __thread int depth;

struct context *current(void)
{
	return depth ? stack[depth - 1] : NULL;
}

struct context *context_of(void *handle)
{
	struct context *c;

	for (c = contexts; c && c != handle; c = c->next)
		;
	if (!c)
		die("%p is no context, or was destroyed", handle);
	return c;
}

void context_break(struct context *c, int error)
{
	if (!c->sticky)
		c->sticky = error;
}

static struct context *context_new(int gpu, bool is_primary)
{
	struct context *c = calloc(1, sizeof(*c));

	if (!c)
		die("no memory");
	*c = (struct context){.gpu = gpu, .primary = is_primary, .next = contexts};
	contexts = c;
	return c;
}

/* Its memory, streams and the error that stuck to it go. */
static void context_end(struct context *c)
{
	struct context **at;

	context_streams_end(c);
	context_frees(c);
	for (at = &contexts; *at != c; at = &(*at)->next)
		;
	*at = c->next;
	c->next = ended_contexts;
	ended_contexts = c;
}

EXPORT int cuDevicePrimaryCtxRetain(void **context, int device)
{
	ENTER_DEVICE(device);
	lock();
	if (!primary[device])
		primary[device] = context_new(device, true);
	primary[device]->refs++;
	*context = primary[device];
	unlock();
	return 0;
}

EXPORT int cuDevicePrimaryCtxRelease_v2(int device)
{
	ENTER_DEVICE(device);
	lock();
	if (!primary[device])
		die("cuDevicePrimaryCtxRelease: GPU %d's context was not retained", device);
	if (!--primary[device]->refs) {
		context_end(primary[device]);
		primary[device] = NULL;
	}
	unlock();
	return 0;
}

EXPORT int cuDevicePrimaryCtxGetState(int device, unsigned *flags, int *active)
{
	ENTER_DEVICE(device);
	lock();
	*flags = 0;
	*active = !!primary[device];
	unlock();
	return 0;
}

EXPORT int cuCtxCreate_v2(void **context, unsigned flags, int device)
{
	(void)flags;
	ENTER_DEVICE(device);
	if (depth == STACK_MAX)
		die("cuCtxCreate: the stack of contexts is full");
	lock();
	*context = stack[depth++] = context_new(device, false);
	unlock();
	return 0;
}

EXPORT int cuCtxDestroy_v2(void *context)
{
	ENTER(CLASS_NONE, NEEDS_INIT);
	lock();
	if (context_of(context)->primary)
		die("cuCtxDestroy: it is a primary context");
	context_end(context);
	unlock();
	if (current() == context)
		depth--;
	return 0;
}

EXPORT int cuCtxPushCurrent_v2(void *context)
{
	ENTER(CLASS_NONE, NEEDS_INIT);
	lock();
	context_of(context);
	unlock();
	if (depth == STACK_MAX)
		die("cuCtxPushCurrent: the stack of contexts is full");
	stack[depth++] = context;
	return 0;
}

EXPORT int cuCtxPopCurrent_v2(void **context)
{
	ENTER(CLASS_NONE, NEEDS_INIT);
	if (!depth)
		return CUDA_ERROR_INVALID_CONTEXT;
	depth--;
	if (context)
		*context = stack[depth];
	return 0;
}

EXPORT int cuCtxSetCurrent(void *context)
{
	ENTER(CLASS_NONE, NEEDS_INIT);
	if (context) {
		lock();
		context_of(context);
		unlock();
	}
	if (depth)
		depth--;
	if (context)
		stack[depth++] = context;
	return 0;
}

EXPORT int cuCtxGetCurrent(void **context)
{
	ENTER(CLASS_NONE, NEEDS_INIT);
	*context = current();
	return 0;
}

EXPORT int cuCtxGetDevice(int *device)
{
	ENTER(CLASS_NONE, NEEDS_INIT | NEEDS_CONTEXT | PASSES_STICKY);
	*device = current()->gpu;
	return 0;
}

EXPORT int cuCtxGetStreamPriorityRange(int *least, int *greatest)
{
	ENTER(CLASS_NONE, NEEDS_INIT | NEEDS_CONTEXT);
	if (least)
		*least = 0;
	if (greatest)
		*greatest = -5;
	return 0;
}

EXPORT int cuCtxSynchronize(void)
{
	int res;

	ENTER(CLASS_STREAM, NEEDS_INIT | NEEDS_CONTEXT);
	lock();
	streams_wait(current(), false);
	res = current()->sticky;
	unlock();
	return res;
}

EXPORT int cuThreadExchangeStreamCaptureMode(int *mode)
{
	int old = capture_mode;

	ENTER(CLASS_NONE, NEEDS_INIT);
	if (*mode < 0 || *mode > CU_STREAM_CAPTURE_MODE_RELAXED)
		return CUDA_ERROR_INVALID_VALUE;
	capture_mode = *mode;
	*mode = old;
	return 0;
}

EXPORT int cuFlushGPUDirectRDMAWrites(int target, int scope)
{
	ENTER(CLASS_NONE, NEEDS_INIT | NEEDS_CONTEXT);
	if (target || (scope != CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER &&
		       scope != CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_ALL_DEVICES))
		return CUDA_ERROR_INVALID_VALUE;
	return 0;
}

/* ---- peer access ---- */

EXPORT int cuDeviceCanAccessPeer(int *can, int device, int peer)
{
	ENTER_DEVICE(device);
	if (peer < 0 || peer >= words_now().gpus)
		return CUDA_ERROR_INVALID_DEVICE;
	*can = device != peer && !words_now().nopeer;
	return 0;
}

static int peer_access(void *peer, bool on)
{
	struct context *c = current(), *p;

	if (peer == c)
		return CUDA_ERROR_INVALID_CONTEXT;
	p = context_of(peer);
	if (on && (double_words.nopeer || p->gpu == c->gpu))
		return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
	if (c->peers[p->gpu] == on)
		return on ? CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED
			  : CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
	c->peers[p->gpu] = on;
	return 0;
}

EXPORT int cuCtxEnablePeerAccess(void *peer, unsigned flags)
{
	int res;

	ENTER(CLASS_NONE, NEEDS_INIT | NEEDS_CONTEXT);
	if (flags)
		return CUDA_ERROR_INVALID_VALUE;
	lock();
	res = peer_access(peer, true);
	unlock();
	return res;
}

EXPORT int cuCtxDisablePeerAccess(void *peer)
{
	int res;

	ENTER(CLASS_NONE, NEEDS_INIT | NEEDS_CONTEXT);
	lock();
	res = peer_access(peer, false);
	unlock();
	return res;
}
