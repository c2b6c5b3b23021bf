/* SPDX-License-Identifier: Apache-2.0 */
/* N(0, 1) in bf16 becomes smaller by the ratio that the design promises; random bits grow by less
 * than 0.2 %, also where the sample promises more than there is; equal elements take 64 bytes and
 * one. */
#include "codec_data.h"

#define BYTES (4u << 20)

static uint8_t data[BYTES + 3];

static double ratio(int codec, uint8_t dtype, size_t n)
{
	return (double)n / (double)there_and_back(codec, dtype, data, n);
}

static void at_least(double is, double least, const char *what)
{
	printf("%s: %.4f\n", what, is);
	CHECK(is >= least);
}

static void random_bits(uint8_t dtype)
{
	fill_random(data, BYTES, 77);
	CHECK(ratio(URCCL_CODEC_POLICY, dtype, BYTES) > 1 / 1.002);
	CHECK(ratio(URCCL_CODEC_FW4, dtype, BYTES) > 1 / 1.002);
	CHECK_LE(urccl_codec_bound(dtype, BYTES), BYTES + BYTES / 500);
}

/* Where the sample is taken there are usual values, and random bits everywhere else. */
static void misled(uint8_t dtype)
{
	uint64_t elems = BYTES / codec_types[dtype].bytes, i;
	uint32_t k, v;
	uint64_t seed = 1;

	fill_random(data, BYTES, 78);
	for (i = 0; i < 64; i++)
		for (k = 0; k < 16; k++) {
			v = element(dtype, normal(&seed));
			memcpy(data + ((elems - 16) * i / 63 + k) * codec_types[dtype].bytes, &v,
			       codec_types[dtype].bytes);
		}
	CHECK(ratio(URCCL_CODEC_N23, dtype, BYTES) > 1 / 1.002);
	CHECK(ratio(URCCL_CODEC_FW4, dtype, BYTES) > 1 / 1.002);
}

int case_codec_ratio(void)
{
	uint8_t dtype;

	fill_normal(data, BYTES, URCCL_DTYPE_BF16, 5);
	at_least(ratio(URCCL_CODEC_N23, URCCL_DTYPE_BF16, BYTES), 1.48, "N23, bf16");
	at_least(ratio(URCCL_CODEC_FW4, URCCL_DTYPE_BF16, BYTES), 1.33, "FW4, bf16");
	fill_normal(data, BYTES, URCCL_DTYPE_FP16, 5);
	at_least(ratio(URCCL_CODEC_N23, URCCL_DTYPE_FP16, BYTES), 1.15, "N23, fp16");
	fill_normal(data, BYTES, URCCL_DTYPE_FP32, 5);
	at_least(ratio(URCCL_CODEC_N23, URCCL_DTYPE_FP32, BYTES), 1.19, "N23, fp32");
	fill_normal(data, BYTES, URCCL_DTYPE_FP8_E4M3, 5);
	at_least(ratio(URCCL_CODEC_N23, URCCL_DTYPE_FP8_E4M3, BYTES), 1.16, "N23, e4m3");
	fill_normal(data, BYTES, URCCL_DTYPE_FP8_E5M2, 5);
	at_least(ratio(URCCL_CODEC_N23, URCCL_DTYPE_FP8_E5M2, BYTES), 1.34, "N23, e5m2");
	for (dtype = URCCL_DTYPE_BF16; dtype < CODEC_DTYPES; dtype++) {
		random_bits(dtype);
		misled(dtype);
		memset(data, 0x42, BYTES + 3);
		CHECK_LE(there_and_back(URCCL_CODEC_POLICY, dtype, data, BYTES + 3), 64 + 7);
	}
	return 0;
}
