/* SPDX-License-Identifier: Apache-2.0 */
/* Every bit pattern of an element comes back as it was: NaN payloads, denormals, zeros of both
 * signs, infinities; among usual values, so that coded tiles hold them. */
#include "codec_data.h"

#define COUNT 65536u

static uint8_t data[COUNT * 16];

/* Each pattern once, in an order without runs, with usual elements between. */
static void all_patterns(uint8_t dtype, uint32_t usual)
{
	uint32_t bytes = codec_types[dtype].bytes, patterns = bytes == 1 ? 256 : COUNT, i, k, v;
	uint64_t seed = 7;
	uint8_t *p = data;

	for (i = 0; i < patterns; i++) {
		v = bytes == 4 ? (uint32_t)random_next(&seed) : i * 40503u;
		memcpy(p, &v, bytes);
		p += bytes;
		for (k = 0; k < usual; k++, p += bytes) {
			v = element(dtype, normal(&seed));
			memcpy(p, &v, bytes);
		}
	}
	for (i = 0; i < CODECS; i++)
		there_and_back(codec_all[i], dtype, data, (size_t)(p - data));
}

static void special_fp32(void)
{
	static const uint32_t special[] = {0,	       0x80000000, 1,	       0x807fffff,
					   0x7f800000, 0xff800000, 0x7f800001, 0xffc12345,
					   0x00800000, 0x7f7fffff};
	uint64_t seed = 3;
	uint32_t i, v;

	for (i = 0; i < COUNT; i++) {
		v = i % 9 ? element(URCCL_DTYPE_FP32, normal(&seed)) : special[i / 9 % 10];
		memcpy(data + 4 * i, &v, 4);
	}
	for (i = 0; i < CODECS; i++)
		there_and_back(codec_all[i], URCCL_DTYPE_FP32, data, 4 * COUNT);
}

int case_codec_patterns(void)
{
	uint8_t dtype;

	for (dtype = URCCL_DTYPE_BF16; dtype < CODEC_DTYPES; dtype++) {
		all_patterns(dtype, 0);
		all_patterns(dtype, 1);
		all_patterns(dtype, 3);
	}
	special_fp32();
	return 0;
}
