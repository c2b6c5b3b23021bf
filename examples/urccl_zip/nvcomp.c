/* SPDX-License-Identifier: Apache-2.0 */
/* nvCOMP's ANS beside the codec, if libnvcomp.so is on this machine: nothing is needed to build.
 * The declarations are those of nvCOMP 6.0's C interface. */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include "gpu.h"

#define CHUNK  (64u << 10)
#define CHUNKS (PIECE_GPU / CHUNK)

enum nvcomp_type { NVCOMP_CHAR = 0, NVCOMP_E4M3 = 9, NVCOMP_FLOAT16 = 10, NVCOMP_FLOAT32 = 11 };

struct compress_options {
	int algorithm, type;
	uint8_t others[56]; /* 0: the defaults */
};

struct decompress_options {
	int backend, type;
	uint8_t others[56];
};

#define NVCOMP_FUNCTIONS(X)                                                                        \
	X(nvcompBatchedANSCompressGetTempSize,                                                     \
	  (size_t n, size_t chunk, struct compress_options o, size_t * temp, size_t all, void *s)) \
	X(nvcompBatchedANSCompressGetMaxOutputChunkSize,                                           \
	  (size_t chunk, struct compress_options o, size_t * most))                                \
	X(nvcompBatchedANSCompressAsync,                                                           \
	  (const void *in, const void *in_n, size_t chunk, size_t n, void *temp, size_t ntemp,     \
	   void *out, void *out_n, struct compress_options o, void *status, void *s))              \
	X(nvcompBatchedANSDecompressGetTempSize,                                                   \
	  (size_t n, size_t chunk, struct decompress_options o, size_t * temp, size_t all,         \
	   void *s))                                                                               \
	X(nvcompBatchedANSDecompressAsync,                                                         \
	  (const void *in, const void *in_n, const void *room, void *out_n, size_t n, void *temp,  \
	   size_t ntemp, const void *out, struct decompress_options o, void *status, void *s))

#define X(name, args) static int(*name) args;
NVCOMP_FUNCTIONS(X)
#undef X

/* Arrays on the GPU, one element a chunk. */
static struct {
	size_t room, temp_len;
	void *temp, *in, *in_n, *coded, *coded_n, *out, *out_n, *status;
	uint64_t host[CHUNKS];
} b;

static int is_found(void)
{
	static int state; /* 1: found, -1: not */
	const char *const names[] = {"libnvcomp.so.6", "libnvcomp.so"};
	void *so = NULL, *p = NULL;
	size_t i;

	for (i = 0; !state && !so && i < 2; i++)
		so = dlopen(names[i], RTLD_NOW);
	if (state)
		return state > 0;
	state = so ? 1 : -1;
#define X(name, args)                     \
	p = so ? dlsym(so, #name) : NULL; \
	memcpy(&name, &p, sizeof(p));     \
	state = p ? state : -1;
	NVCOMP_FUNCTIONS(X)
#undef X
	return state > 0;
}

static int type_of(int dtype, size_t n)
{
	static const int types[] = {NVCOMP_CHAR,    NVCOMP_FLOAT16, NVCOMP_FLOAT16,
				    NVCOMP_FLOAT32, NVCOMP_E4M3,    NVCOMP_CHAR};

	return n % dtype_bytes(dtype) ? NVCOMP_CHAR : types[dtype];
}

/* 0: it fails. */
static int prepare(struct compress_options c, struct decompress_options d)
{
	size_t a = 0, e = 0;
	uint8_t *coded;
	uint64_t i;

	if (nvcompBatchedANSCompressGetMaxOutputChunkSize(CHUNK, c, &b.room) ||
	    nvcompBatchedANSCompressGetTempSize(CHUNKS, CHUNK, c, &a, PIECE_GPU, gpu_stream) ||
	    nvcompBatchedANSDecompressGetTempSize(CHUNKS, CHUNK, d, &e, PIECE_GPU, gpu_stream))
		return 0;
	b.room = (b.room + 255) / 256 * 256;
	b.temp_len = a > e ? a : e;
	b.temp = gpu_alloc(b.temp_len + 16);
	b.in = gpu_alloc(sizeof(b.host));
	b.in_n = gpu_alloc(sizeof(b.host));
	b.coded = gpu_alloc(sizeof(b.host));
	b.coded_n = gpu_alloc(sizeof(b.host));
	b.out = gpu_alloc(sizeof(b.host));
	b.out_n = gpu_alloc(sizeof(b.host));
	b.status = gpu_alloc(sizeof(b.host));
	coded = gpu_alloc(b.room * CHUNKS);
	for (i = 0; i < CHUNKS; i++)
		b.host[i] = (uint64_t)(uintptr_t)coded + i * b.room;
	gpu_put(b.coded, b.host, sizeof(b.host));
	return 1;
}

static void put_addresses(void *to, const void *from, size_t chunks)
{
	size_t i;

	for (i = 0; i < chunks; i++)
		b.host[i] = (uint64_t)(uintptr_t)from + i * CHUNK;
	gpu_put(to, b.host, 8 * chunks);
}

/* As in gpu.c, timed at the second time. 0: it fails. */
static int code(size_t chunks, struct compress_options c, struct decompress_options d,
		struct score *s)
{
	double encode = 0, decode = 0;
	int i;

	for (i = 0; i < 2; i++) {
		gpu_begin();
		if (nvcompBatchedANSCompressAsync(b.in, b.in_n, CHUNK, chunks, b.temp, b.temp_len,
						  b.coded, b.coded_n, c, b.status, gpu_stream))
			return 0;
		encode = gpu_end();
		gpu_begin();
		if (nvcompBatchedANSDecompressAsync(b.coded, b.coded_n, b.in_n, b.out_n, chunks,
						    b.temp, b.temp_len, b.out, d, b.status,
						    gpu_stream))
			return 0;
		decode = gpu_end();
	}
	s->encode += encode;
	s->decode += decode;
	return 1;
}

int nvcomp_piece(int dtype, size_t n, uint8_t *back, struct score *s)
{
	struct compress_options c = {.type = type_of(dtype, n)};
	struct decompress_options d = {.type = type_of(dtype, n)};
	size_t chunks = (n + CHUNK - 1) / CHUNK, i;

	if (!n || !is_found() || (!b.temp && !prepare(c, d)))
		return 0;
	put_addresses(b.in, gpu_source(), chunks);
	put_addresses(b.out, gpu_back(), chunks);
	for (i = 0; i < chunks; i++)
		b.host[i] = n - i * CHUNK < CHUNK ? n - i * CHUNK : CHUNK;
	gpu_put(b.in_n, b.host, 8 * chunks);
	if (!code(chunks, c, d, s))
		return 0;
	gpu_get(b.host, b.coded_n, 8 * chunks);
	for (i = 0; i < chunks; i++)
		s->coded += b.host[i];
	s->raw += n;
	gpu_get(back, gpu_back(), n);
	return 1;
}
