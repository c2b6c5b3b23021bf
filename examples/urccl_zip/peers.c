/* SPDX-License-Identifier: Apache-2.0 */
/* zstd and lz4, if their libraries are on this machine: nothing is needed to build. */
#include <dlfcn.h>
#include <math.h>
#include "zip.h"

static size_t (*zstd_bound)(size_t n);
static size_t (*zstd_compress)(void *dst, size_t room, const void *src, size_t n, int level);
static size_t (*zstd_decompress)(void *dst, size_t room, const void *src, size_t n);
static unsigned (*zstd_is_error)(size_t code);
static int (*lz4_bound)(int n);
static int (*lz4_compress)(const char *src, char *dst, int n, int room);
static int (*lz4_decompress)(const char *src, char *dst, int n, int room);

static size_t zstd_encode(const void *src, size_t n, void *dst, size_t room)
{
	size_t size = zstd_compress(dst, room, src, n, 1);

	return zstd_is_error(size) ? 0 : size;
}

static size_t zstd_decode(const void *src, size_t n, void *dst, size_t room)
{
	size_t size = zstd_decompress(dst, room, src, n);

	return zstd_is_error(size) ? 0 : size;
}

static size_t lz4_room(size_t n)
{
	return (size_t)lz4_bound((int)n);
}

static size_t lz4_encode(const void *src, size_t n, void *dst, size_t room)
{
	int size = lz4_compress(src, dst, (int)n, (int)room);

	return size < 0 ? 0 : (size_t)size;
}

static size_t lz4_decode(const void *src, size_t n, void *dst, size_t room)
{
	int size = lz4_decompress(src, dst, (int)n, (int)room);

	return size < 0 ? 0 : (size_t)size;
}

/* 1: the function was found. */
static int find(void *library, const char *name, void *function)
{
	void *found = library ? dlsym(library, name) : NULL;

	*(void **)function = found;
	return !!found;
}

static const struct peer *find_zstd(void)
{
	static struct peer zstd = {.name = "zstd -1", .encode = zstd_encode, .decode = zstd_decode};
	void *library = dlopen("libzstd.so.1", RTLD_NOW);

	if (!find(library, "ZSTD_compressBound", &zstd_bound) ||
	    !find(library, "ZSTD_compress", &zstd_compress) ||
	    !find(library, "ZSTD_decompress", &zstd_decompress) ||
	    !find(library, "ZSTD_isError", &zstd_is_error))
		return NULL;
	zstd.bound = zstd_bound;
	return &zstd;
}

static const struct peer *find_lz4(void)
{
	static const struct peer lz4 = {"lz4", lz4_room, lz4_encode, lz4_decode};
	void *library = dlopen("liblz4.so.1", RTLD_NOW);

	if (!find(library, "LZ4_compressBound", &lz4_bound) ||
	    !find(library, "LZ4_compress_default", &lz4_compress) ||
	    !find(library, "LZ4_decompress_safe", &lz4_decompress))
		return NULL;
	return &lz4;
}

const struct peer *peer_find(uint32_t i)
{
	const struct peer *zstd = find_zstd(), *lz4 = find_lz4();

	if (i == 0)
		return zstd ? zstd : lz4;
	return i == 1 && zstd ? lz4 : NULL;
}

static uint32_t exponent(int dtype, const uint8_t *p)
{
	switch (dtype) {
	case URCCL_DTYPE_BF16:
		return (p[1] << 1 | p[0] >> 7) & 255;
	case URCCL_DTYPE_FP16:
		return p[1] >> 2 & 31;
	case URCCL_DTYPE_FP32:
		return (p[3] << 1 | p[2] >> 7) & 255;
	case URCCL_DTYPE_FP8_E4M3:
		return p[0] >> 3 & 15;
	default:
		return p[0] >> 2 & 31;
	}
}

double entropy_limit(int dtype, const uint8_t *data, uint64_t len)
{
	static const uint32_t exp_bits[] = {0, 8, 5, 8, 4, 5};
	uint64_t counts[256] = {0}, n = len / dtype_bytes(dtype), i;
	double bits = 8 * dtype_bytes(dtype), entropy = 0, p;

	if (dtype == URCCL_DTYPE_BYTES || !n)
		return 1;
	for (i = 0; i < n; i++)
		counts[exponent(dtype, data + i * dtype_bytes(dtype))]++;
	for (i = 0; i < 256; i++) {
		p = (double)counts[i] / (double)n;
		entropy -= counts[i] ? p * log2(p) : 0;
	}
	return bits / (bits - exp_bits[dtype] + entropy);
}
