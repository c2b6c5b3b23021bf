/* SPDX-License-Identifier: Apache-2.0 */
/* Every variant writes the bytes of the scalar one and reads them back: for every dtype, odd
 * lengths, every alignment of both buffers, and data of several kinds. */
#include "codec_data.h"

#define MOST 70000u

static uint8_t data[MOST + 64], reference[MOST * 2], chunk[MOST * 2 + 64], back[MOST + 64];

enum kind { NORMAL, RANDOM, EQUAL, FEW, APART, MIXED, KINDS };

static void fill(enum kind kind, uint8_t *p, size_t n, uint8_t dtype)
{
	size_t i;

	switch (kind) {
	case NORMAL:
		fill_normal(p, n, dtype, n + 1);
		break;
	case RANDOM:
		fill_random(p, n, n + 1);
		break;
	case EQUAL:
		memset(p, 0x3f, n);
		break;
	case FEW:
		for (i = 0; i < n; i++)
			p[i] = (uint8_t)(0x3c + (i * i >> 4 & 3));
		break;
	case APART:
		/* Exponents of bf16 that differ by 64. */
		fill_normal(p, n, dtype, n + 1);
		for (i = 1; i < n; i += 6)
			p[i] ^= 0x20;
		break;
	default:
		/* The sample finds what is usual; some tiles have nothing of it. */
		fill_normal(p, n, dtype, n + 1);
		if (n > 40000)
			fill_random(p + 16384, 20000, 5);
	}
}

static void compare(const struct codec_ops *ops, int codec, uint8_t dtype, const uint8_t *src,
		    size_t n, uint32_t align)
{
	uint64_t bound = urccl_codec_bound(dtype, n);
	int64_t size =
		codec_encode(&codec_scalar, (uint32_t)codec, dtype, src, n, reference, bound);

	CHECK_GE(size, 64);
	memset(chunk, 0xa5, sizeof(chunk));
	CHECK_EQ(codec_encode(ops, (uint32_t)codec, dtype, src, n, chunk + align, bound), size);
	CHECK(!memcmp(chunk + align, reference, (size_t)size));
	CHECK_EQ(chunk[align + bound], 0xa5);
	memset(back, 0x5a, sizeof(back));
	CHECK_EQ(codec_decode(ops, chunk + align, (uint64_t)size, back + align, n), (int64_t)n);
	CHECK(!memcmp(back + align, src, n));
	CHECK_EQ(back[align + n], 0x5a);
}

static void every_length(const struct codec_ops *ops, uint8_t dtype)
{
	static const size_t lengths[] = {0,	1,     2,     3,     63,    64,	   65,
					 127,	200,   1001,  4096,  8190,  16383, 16384,
					 16385, 16448, 32768, 49153, 65533, 69999};
	uint32_t i, k, codec;

	for (i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++)
		for (k = 0; k < KINDS; k++) {
			fill((enum kind)k, data + i % 3, lengths[i], dtype);
			for (codec = 0; codec < CODECS; codec++)
				compare(ops, codec_all[codec], dtype, data + i % 3, lengths[i], 0);
		}
}

static void every_alignment(const struct codec_ops *ops, uint8_t dtype)
{
	uint32_t align;

	for (align = 0; align < 64; align++) {
		fill_normal(data + align, 17011, dtype, align + 1);
		compare(ops, URCCL_CODEC_N23, dtype, data + align, 17011, 63 - align);
		compare(ops, URCCL_CODEC_FW4 | URCCL_CODEC_NO_CRC, dtype, data + align, 17011,
			align);
	}
}

int case_codec_variants(void)
{
	const struct codec_ops *ops;
	uint32_t i;
	uint8_t dtype;

	for (i = 0; (ops = codec_variant(i)); i++) {
		printf("%s\n", ops->name);
		for (dtype = URCCL_DTYPE_BYTES; dtype < CODEC_DTYPES; dtype++) {
			every_length(ops, dtype);
			every_alignment(ops, dtype);
		}
	}
	CHECK_GE(i, 1);
	return 0;
}
