/* SPDX-License-Identifier: Apache-2.0 */
/* The chunk's format, as in ../codec.h, and the arguments of the kernels. */
#ifndef CODEC_KERNELS_FORMAT_CUH
#define CODEC_KERNELS_FORMAT_CUH

#include "../kernel_args.h"

#define MAGIC	 0x5a435255u
#define THREADS	 CODEC_THREADS
#define TILE	 16384u
#define STORED	 0x8000u
#define WRITTEN	 0x8000u
#define OWN_SIZE 1u /* in second: the entry has the tile's own size, and no end yet */
#define VAR_MAX	 8192u
#define FAILED	 (1ull << 63) /* in the result word, until the last kernel */
#define RUNS	 64u
#define RUN	 16u
#define SYMBOLS	 10
#define WINDOW	 15u
#define EIO	 5
#define EBADMSG	 74

enum dtype { BYTES, BF16, FP16, FP32, E4M3, E5M2 };
enum mode { RAW = 1, CONST, FW4, N23 };

struct head {
	uint32_t magic;
	uint8_t version, dtype, mode, flags;
	uint64_t raw_bytes, coded_bytes;
	uint8_t table[16];
	uint8_t reserved[16]; /* [0], until the last kernel: the data may be constant */
	uint32_t crc_raw, crc_head;
};

struct type {
	uint32_t bytes, exp_bits, a_bits, b_bits;
};

struct layout {
	uint64_t elems, tiles, a, b, codes, index, var;
	uint32_t tail;
};

struct __align__(16) shared
{
	uint32_t row[8][32 * 20]; /* per warp: 64 bytes per thread, at intervals of 80 */
	uint32_t lut[64];	  /* bytes: what an exponent becomes */
	uint32_t pick[16];	  /* by four escape bits: a selector of bytes, and their number */
	uint32_t warp_sum[8];
	uint32_t start, tile;
	struct layout at;
	uint32_t var[TILE / 4 + 16]; /* encode: VAR_MAX bytes of it */
};

static_assert(sizeof(struct shared) <= CODEC_SHARED, "the size that the host gives");

__host__ __device__ inline struct type type_of(uint32_t dtype)
{
	switch (dtype) {
	case BF16:
		return {2, 8, 8, 0};
	case FP16:
		return {2, 5, 8, 3};
	case FP32:
		return {4, 8, 16, 8};
	case E4M3:
		return {1, 4, 4, 0};
	case E5M2:
		return {1, 5, 3, 0};
	default:
		return {1, 8, 0, 0};
	}
}

__host__ __device__ inline uint64_t aligned(uint64_t at)
{
	return (at + 15) / 16 * 16;
}

__host__ __device__ inline uint64_t tiles_of(uint64_t bytes)
{
	return (bytes + TILE - 1) / TILE;
}

__host__ __device__ inline uint64_t packed(uint64_t n, uint32_t bits)
{
	return (n * bits + 7) / 8;
}

__host__ __device__ inline struct layout lay_out(uint32_t dtype, uint32_t mode, uint64_t raw_bytes)
{
	struct type t = type_of(dtype);
	struct layout l;
	uint32_t bits = mode == N23 ? 2 : 4;

	l.elems = raw_bytes / t.bytes;
	l.tail = (uint32_t)(raw_bytes % t.bytes);
	l.tiles = tiles_of(l.elems * t.bytes);
	l.a = sizeof(struct head);
	l.b = aligned(l.a + packed(l.elems, t.a_bits));
	l.codes = aligned(l.b + packed(l.elems, t.b_bits));
	l.index = aligned(l.codes + packed(l.elems, bits));
	l.var = aligned(l.index + l.tiles * 8);
	return l;
}

/* [k][v]: the CRC of the nibble v with k nibbles of zeros behind it. */
struct crc_tables {
	uint32_t of[8][16];

	constexpr crc_tables() : of()
	{
		for (uint32_t v = 0; v < 16; v++) {
			uint32_t crc = v;

			for (uint32_t bit = 0; bit < 32; bit++) {
				crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78u : 0);
				if (bit % 4 == 3)
					of[bit / 4][v] = crc;
			}
		}
	}
};

__constant__ const crc_tables crc_by_nibble = crc_tables();

/* A word at a time, as one thread waits for each step. */
__device__ uint32_t crc32c_head(const uint32_t *words)
{
	uint32_t crc = ~0u, next, i, k;

	for (i = 0; i < 15; i++) {
		crc ^= words[i];
		next = 0;
#pragma unroll
		for (k = 0; k < 8; k++)
			next ^= crc_by_nibble.of[7 - k][crc >> 4 * k & 15];
		crc = next;
	}
	return ~crc;
}

#endif
