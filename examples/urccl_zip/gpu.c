/* SPDX-License-Identifier: Apache-2.0 */
/* The codec on GPU 0: urccl_codec_encode_gpu() and urccl_codec_decode_gpu() put work on a stream;
 * the sizes come back in memory of the GPU. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <liburccl.h>
#include "gpu.h"

#define CUDA_FUNCTIONS(X)                                             \
	X(cuInit, (unsigned flags))                                   \
	X(cuDevicePrimaryCtxRetain, (void **ctx, int device))         \
	X(cuCtxSetCurrent, (void *ctx))                               \
	X(cuMemAlloc_v2, (uint64_t * to, size_t n))                   \
	X(cuMemcpyHtoD_v2, (uint64_t to, const void *from, size_t n)) \
	X(cuMemcpyDtoH_v2, (void *to, uint64_t from, size_t n))       \
	X(cuStreamCreate, (void **stream, unsigned flags))            \
	X(cuStreamSynchronize, (void *stream))                        \
	X(cuEventCreate, (void **event, unsigned flags))              \
	X(cuEventRecord, (void *event, void *stream))                 \
	X(cuEventElapsedTime, (float *ms, void *from, void *to))

#define X(name, args) static int(*name) args;
CUDA_FUNCTIONS(X)
#undef X

void *gpu_stream;
static struct urccl_codec_gpu *codec;
static uint8_t *source, *coded, *decoded;
static uint64_t *result;
static size_t coded_room;
static void *begun, *ended;

static void check(int failed, const char *what)
{
	if (!failed)
		return;
	fprintf(stderr, "urccl_zip: GPU 0: %s\n", what);
	exit(1);
}

static uint64_t number(const void *p)
{
	return (uint64_t)(uintptr_t)p;
}

void *gpu_alloc(size_t n)
{
	uint64_t p;

	check(cuMemAlloc_v2(&p, n), "memory");
	return (void *)(uintptr_t)p;
}

void gpu_put(void *dst, const void *src, size_t n)
{
	/* The copy may return before its bytes are on the GPU. */
	check(n && (cuMemcpyHtoD_v2(number(dst), src, n) || cuStreamSynchronize(NULL)), "copy");
}

void gpu_get(void *dst, const void *src, size_t n)
{
	check(n && cuMemcpyDtoH_v2(dst, number(src), n), "copy");
}

void *gpu_source(void)
{
	return source;
}

void *gpu_back(void)
{
	return decoded;
}

void gpu_begin(void)
{
	check(cuEventRecord(begun, gpu_stream), "event");
}

double gpu_end(void)
{
	float ms = 0;

	check(cuEventRecord(ended, gpu_stream) || cuStreamSynchronize(gpu_stream) ||
		      cuEventElapsedTime(&ms, begun, ended),
	      "a kernel failed");
	return ms / 1e3;
}

void gpu_open(size_t room)
{
	const char *path = getenv("URCCL_CUDA_SO");
	void *so = dlopen(path ? path : "libcuda.so.1", RTLD_NOW | RTLD_GLOBAL), *p;

	check(!so, "no CUDA driver");
#define X(name, args) check(!(p = dlsym(so, #name)), #name), memcpy(&name, &p, sizeof(p));
	CUDA_FUNCTIONS(X)
#undef X
	check(cuInit(0) || cuDevicePrimaryCtxRetain(&p, 0) || cuCtxSetCurrent(p) ||
		      cuStreamCreate(&gpu_stream, 1) || cuEventCreate(&begun, 0) ||
		      cuEventCreate(&ended, 0),
	      "none");
	check(urccl_codec_gpu_open(0, 0, &codec), urccl_errmsg());
	source = gpu_alloc(room);
	coded = gpu_alloc(room);
	decoded = gpu_alloc(room);
	result = gpu_alloc(sizeof(*result));
	coded_room = room;
}

void gpu_close(void)
{
	urccl_codec_gpu_close(codec);
}

static int64_t last_result(void)
{
	int64_t n;

	gpu_get(&n, result, sizeof(n));
	return n;
}

/* The first launch of a kernel also loads it, so each piece is done twice and timed once. */
static void encode(int kind, int dtype, size_t n)
{
	check(urccl_codec_encode_gpu(codec, kind | URCCL_CODEC_NO_CRC, dtype, source, n, coded,
				     coded_room, gpu_stream, result),
	      urccl_errmsg());
}

static void decode(int dtype, size_t size, size_t n)
{
	check(urccl_codec_decode_gpu(codec, dtype, coded, size, decoded, n, gpu_stream, result),
	      urccl_errmsg());
}

size_t gpu_piece(int kind, int dtype, const uint8_t *src, size_t n, uint8_t *chunk, uint8_t *back,
		 struct score *s)
{
	int64_t size;

	gpu_put(source, src, n);
	encode(kind, dtype, n);
	gpu_begin();
	encode(kind, dtype, n);
	s->encode += gpu_end();
	size = last_result();
	check(size < 0, "encode");
	gpu_get(chunk, coded, (size_t)size);
	decode(dtype, (size_t)size, n);
	gpu_begin();
	decode(dtype, (size_t)size, n);
	s->decode += gpu_end();
	check(last_result() != (int64_t)n, "decode");
	gpu_get(back, decoded, n);
	return (size_t)size;
}
