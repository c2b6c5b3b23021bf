/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lossless float codec. It splits each element into its exponent and its other bits, stores the
 * other bits as they are and codes the exponents in fixed widths.
 *
 * A chunk, little-endian. Each section begins at a multiple of 16 bytes from the chunk's start; the
 * bytes between sections are 0.
 *
 *	head	64 bytes, struct codec_head
 *	a, b	planes: the bits of each element that are not its exponent
 *	codes	one code per exponent: 2 bits (N23) or 4 bits (FW4)
 *	index	8 bytes per tile, struct codec_tile
 *	var	per tile, at a multiple of 4 bytes: 3-bit codes (N23), then exponents as bytes
 *	tail	the bytes behind the last whole element
 *
 * N23 gives the exponents table[0..2] the 2-bit codes 0 to 2. Code 3 means that the next 3-bit code
 * of the tile follows: 0 to 6 are table[3..9], 7 means that the next byte is the exponent.
 * FW4 gives the exponents table[0] + 0..14 the codes 0 to 14; 15 means that the next byte is the
 * exponent. Packed codes lie in the order of the elements, the first in the lowest bits.
 *
 * A tile is 16 KiB of elements, so that one thread block of a GPU or the L1 cache holds it. A tile
 * that coding would enlarge is stored: its bytes fill its places in a, b, codes and var, in this
 * order. In mode RAW the head is followed by the data, in mode CONST by the one element that all
 * elements equal and by the tail.
 */
#ifndef CODEC_CODEC_H
#define CODEC_CODEC_H

#include <liburccl/codec.h>

#define CODEC_MAGIC	0x5a435255u /* "URCZ" */
#define CODEC_VERSION	1u
#define CODEC_BYTES_MAX (1ull << 34)
#define CODEC_ALIGN	16u
#define CODEC_TILE	16384u /* bytes of elements */
#define CODEC_GROUP	64u    /* elements that an operation takes at a time */
#define CODEC_FIRST	3u     /* symbols of N23's 2-bit codes */
#define CODEC_SECOND	7u     /* symbols of N23's 3-bit codes */
#define CODEC_WINDOW	15u    /* symbols of FW4 */
#define CODEC_STORED	0x8000u /* in codec_tile.first: the tile is not coded */
#define CODEC_WRITTEN	0x8000u /* in codec_tile.second: always set */

enum codec_mode { CODEC_RAW = 1, CODEC_CONST, CODEC_FW4, CODEC_N23, CODEC_MODES };

enum codec_head_flags { CODEC_HEAD_CRC = 1 << 0 }; /* crc_raw is the CRC32C of the raw bytes */

struct codec_head {
	uint32_t magic;
	uint8_t	 version, dtype, mode, flags;
	uint64_t raw_bytes;
	uint64_t coded_bytes;	/* of the chunk, the head included */
	uint8_t	 table[16];
	uint8_t	 reserved[16];	/* 0 */
	uint32_t crc_raw;
	uint32_t crc_head;	/* CRC32C of the bytes before it */
};

struct codec_tile {
	uint32_t end;		/* of its part of var, in units of 4 bytes */
	uint16_t first;		/* N23: 3-bit codes; FW4: exponents as bytes */
	uint16_t second;	/* N23: exponents as bytes */
};

/* The bits of an element: exponent + a + b. */
struct codec_type {
	uint8_t bytes, exp_bits, a_bits, b_bits;
};

extern const struct codec_type codec_types[];
#define CODEC_DTYPES (URCCL_DTYPE_FP8_E5M2 + 1)

/* Offsets from the chunk's start, and bytes of a whole tile's places. */
struct codec_layout {
	uint64_t elems, tiles;
	uint32_t tile_elems, a_share, b_share, code_share;
	uint64_t a, b, codes, index, var;
	uint32_t tail;	/* bytes */
};

/* Bytes of n packed values. */
static inline uint32_t codec_packed(uint32_t n, uint32_t bits)
{
	return (uint32_t)(((uint64_t)n * bits + 7) / 8);
}

/*
 * The loops over elements, in variants with the same results. n is rounded up to CODEC_GROUP:
 * inputs are readable and outputs are writable that far; rest and exps take another CODEC_GROUP.
 * Pointers need no alignment.
 */
struct codec_ops {
	const char *name;
	/* Element i of src to a[i] (FP32: 2 bytes each), b[i] and its exponent; by dtype. */
	void (*split[6])(const uint8_t *src, uint32_t n, uint8_t *a, uint8_t *b, uint8_t *exps);
	void (*join[6])(const uint8_t *a, const uint8_t *b, const uint8_t *exps, uint32_t n,
			uint8_t *dst);
	/* The 2-bit, 3-bit or 4-bit codes of exps. Exponents without a code go to rest; the result
	 * is their number. rest may be exps. */
	uint32_t (*rank2)(const uint8_t *exps, uint32_t n, const uint8_t *table, uint8_t *codes,
			  uint8_t *rest);
	uint32_t (*rank3)(const uint8_t *exps, uint32_t n, const uint8_t *table, uint8_t *codes,
			  uint8_t *rest);
	uint32_t (*rank4)(const uint8_t *exps, uint32_t n, const uint8_t *table, uint8_t *codes,
			  uint8_t *rest);
	/* The reverse. The result is the number of bytes that were taken from rest, at most n. */
	uint32_t (*unrank2)(const uint8_t *codes, uint32_t n, const uint8_t *table,
			    const uint8_t *rest, uint8_t *exps);
	uint32_t (*unrank3)(const uint8_t *codes, uint32_t n, const uint8_t *table,
			    const uint8_t *rest, uint8_t *exps);
	uint32_t (*unrank4)(const uint8_t *codes, uint32_t n, const uint8_t *table,
			    const uint8_t *rest, uint8_t *exps);
	/* BF16's split and rank2 or rank4 in one pass over whole tiles, and the reverse:
	 * optional. */
	uint32_t (*encode2)(const uint8_t *src, uint32_t n, const uint8_t *table, uint8_t *a,
			    uint8_t *codes, uint8_t *rest);
	uint32_t (*encode4)(const uint8_t *src, uint32_t n, const uint8_t *table, uint8_t *a,
			    uint8_t *codes, uint8_t *rest);
	uint32_t (*decode2)(const uint8_t *a, const uint8_t *codes, uint32_t n,
			    const uint8_t *table, const uint8_t *rest, uint8_t *dst);
	uint32_t (*decode4)(const uint8_t *a, const uint8_t *codes, uint32_t n,
			    const uint8_t *table, const uint8_t *rest, uint8_t *dst);
	/* Values of 3 and 4 bits, one a byte, to packed ones and back. */
	void (*pack3)(const uint8_t *values, uint32_t n, uint8_t *packed);
	void (*pack4)(const uint8_t *values, uint32_t n, uint8_t *packed);
	void (*unpack3)(const uint8_t *packed, uint32_t n, uint8_t *values);
	void (*unpack4)(const uint8_t *packed, uint32_t n, uint8_t *values);
};

/* Machine code of the GPU kernels; NULL: the build had no nvcc. */
extern const void *const codec_kernels;

extern const struct codec_ops codec_scalar;
/* The i-th variant that this processor runs, the fastest first; NULL: there are no more. */
const struct codec_ops *codec_variant(uint32_t i);

/* Fills the 16 bytes of the table from a sample of the elements and returns the mode to use:
 * wanted, or CODEC_RAW where that would save less than 3 %. */
enum codec_mode codec_table(enum codec_mode wanted, uint8_t dtype, const uint8_t *src,
			    uint64_t elems, uint8_t *table);

void codec_lay_out(struct codec_layout *l, uint8_t dtype, enum codec_mode mode, uint64_t raw_bytes);
/* Reads and checks all of a head but that coded_bytes are there. 0 or -EBADMSG. */
int codec_head_read(struct codec_head *h, const uint8_t *src, uint64_t n);
void codec_head_write(const struct codec_head *h, uint8_t *dst);

/* The body of urccl_codec_encode() and urccl_codec_decode() with one variant. */
int64_t codec_encode(const struct codec_ops *ops, uint32_t codec, uint8_t dtype, const uint8_t *src,
		     uint64_t n, uint8_t *dst, uint64_t room);
int64_t codec_decode(const struct codec_ops *ops, const uint8_t *src, uint64_t n, uint8_t *dst,
		     uint64_t room);

#endif
