/* SPDX-License-Identifier: Apache-2.0 */
/* Contexts of threads, streams, copies, pinned memory. */
#include "gpu/cuda_driver.h"

/* A program that records a graph forbids some calls to all threads, and such a call would end the
 * recording: not those of threads that say they have no part in it. */
static void capture_apart(const struct cuda *cuda)
{
	int mode = CUDA_CAPTURE_RELAXED;

	if (cuda->ThreadExchangeStreamCaptureMode)
		(void)cuda->ThreadExchangeStreamCaptureMode(&mode);
}

/* Threads that enter are the library's, but for contexts that are driven by hand. */
int cuda_enter(void *ctx)
{
	struct cuda_ctx *c = ctx;

	capture_apart(c->cuda);
	return c->cuda->CtxPushCurrent(c->ctx);
}

void cuda_leave(void *ctx)
{
	const struct cuda_ctx *c = ctx;
	void *old;

	(void)c->cuda->CtxPopCurrent(&old);
}

int cuda_stream_new(void *ctx, int urgent, void **stream)
{
	const struct cuda_ctx *c = ctx;

	return c->cuda->StreamCreateWithPriority(stream, CUDA_STREAM_NON_BLOCKING,
						 urgent ? c->urgent : 0);
}

void cuda_stream_free(void *ctx, void *stream)
{
	const struct cuda_ctx *c = ctx;

	(void)c->cuda->StreamDestroy(stream);
}

int cuda_copy(void *ctx, void *stream, uint64_t dst, uint64_t src, uint64_t len)
{
	const struct cuda_ctx *c = ctx;

	return c->cuda->MemcpyAsync(dst, src, len, stream);
}

int cuda_mark(void *ctx, void *stream, uint64_t *word, uint64_t value)
{
	const struct cuda_ctx *c = ctx;

	return c->cuda->StreamWriteValue64(stream, (uintptr_t)word, value, 0);
}

int cuda_query(void *ctx, void *stream)
{
	const struct cuda_ctx *c = ctx;

	return c->cuda->StreamQuery(stream);
}

int cuda_event_query(void *ctx, void *event)
{
	const struct cuda_ctx *c = ctx;

	return c->cuda->EventQuery(event);
}

int cuda_pinned_new(void *ctx, size_t len, void **memory)
{
	const struct cuda_ctx *c = ctx;

	return c->cuda->MemHostAlloc(memory, len, CUDA_HOST_PORTABLE | CUDA_HOST_MAPPED);
}

void cuda_pinned_free(void *ctx, void *memory)
{
	const struct cuda_ctx *c = ctx;

	(void)c->cuda->MemFreeHost(memory);
}

int cuda_host_register(void *ctx, uint64_t addr, uint64_t len)
{
	const struct cuda_ctx *c = ctx;

	return c->cuda->MemHostRegister((void *)(uintptr_t)addr, len,
					CUDA_HOST_PORTABLE | CUDA_HOST_MAPPED);
}

int cuda_host_unregister(void *ctx, uint64_t addr)
{
	const struct cuda_ctx *c = ctx;

	return c->cuda->MemHostUnregister((void *)(uintptr_t)addr);
}
