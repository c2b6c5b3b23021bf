/* SPDX-License-Identifier: Apache-2.0 */
/* Data and checks for tests of the codec. */
#ifndef CODEC_DATA_H
#define CODEC_DATA_H

#include "codec/codec.h"
#include "random.h"
#include "test.h"

static const int codec_all[] = {URCCL_CODEC_POLICY, URCCL_CODEC_OFF, URCCL_CODEC_FW4,
				URCCL_CODEC_N23};
#define CODECS 4

/* About N(0, 1): the sum of 12 uniform numbers. */
static inline float normal(uint64_t *state)
{
	float sum = -6;
	int i;

	for (i = 0; i < 12; i++)
		sum += (float)(random_next(state) >> 40) / (float)(1 << 24);
	return sum;
}

/* The nearest value of a type with these bits, for values in its normal range; else 0. */
static inline uint32_t rounded(float value, uint32_t exp_bits, uint32_t mantissa_bits)
{
	uint32_t v, drop = 23 - mantissa_bits, bias = 127 - ((1u << (exp_bits - 1)) - 1), sign;

	memcpy(&v, &value, 4);
	sign = v >> 31;
	v &= 0x7fffffff;
	v += (1u << drop >> 1) - !!drop;
	if (v >> 23 <= bias)
		return sign << (exp_bits + mantissa_bits);
	return (v - (bias << 23)) >> drop | sign << (exp_bits + mantissa_bits);
}

static inline uint32_t element(uint8_t dtype, float value)
{
	switch (dtype) {
	case URCCL_DTYPE_BF16:
		return rounded(value, 8, 7);
	case URCCL_DTYPE_FP16:
		return rounded(value, 5, 10);
	case URCCL_DTYPE_FP8_E4M3:
		return rounded(value, 4, 3);
	case URCCL_DTYPE_FP8_E5M2:
		return rounded(value, 5, 2);
	default:
		return rounded(value, 8, 23);
	}
}

/* n bytes of N(0, 1) in dtype; the last bytes are part of an element. */
static inline void fill_normal(uint8_t *p, size_t n, uint8_t dtype, uint64_t seed)
{
	size_t bytes = codec_types[dtype].bytes, i;
	uint32_t v;

	for (i = 0; i < n; i += bytes) {
		v = element(dtype, normal(&seed));
		memcpy(p + i, &v, n - i < bytes ? n - i : bytes);
	}
}

static inline void fill_random(uint8_t *p, size_t n, uint64_t seed)
{
	size_t i;

	for (i = 0; i < n; i++)
		p[i] = (uint8_t)(random_next(&seed) >> 32);
}

/* The data comes back, into exactly its room, from exactly the chunk; returns the chunk's bytes. */
static inline int64_t there_and_back(int codec, int dtype, const uint8_t *src, size_t n)
{
	size_t bound = urccl_codec_bound(dtype, n);
	uint8_t *chunk = malloc(bound), *exact, *back = malloc(n ? n : 1);
	int64_t size = urccl_codec_encode(codec, dtype, src, n, chunk, bound);

	CHECK(chunk && back);
	CHECK_GE(size, 64);
	exact = malloc((size_t)size);
	CHECK(exact);
	memcpy(exact, chunk, (size_t)size);
	CHECK_EQ(urccl_codec_decode(exact, (size_t)size, back, n), (int64_t)n);
	CHECK(!n || !memcmp(back, src, n));
	free(chunk);
	free(exact);
	free(back);
	return size;
}

#endif
