/* SPDX-License-Identifier: Apache-2.0 */
/* The codec's loops for NEON. Only looking up, comparing and packing is done by vectors: NEON
 * cannot move the bytes that a mask selects. */
#include <arm_neon.h>
#include "codec/groups.h"

/* The code of each exponent; the number of symbols stands for none. */
static inline uint8x16_t code_of(uint8x16_t exps, const uint8_t *table, uint32_t symbols)
{
	uint8x16_t code = vdupq_n_u8((uint8_t)symbols);
	uint32_t i;

	/* The first of equal symbols is taken last, and so counts. */
	for (i = symbols; i-- > 0;)
		code = vbslq_u8(vceqq_u8(exps, vdupq_n_u8(table[i])), vdupq_n_u8((uint8_t)i), code);
	return code;
}

static inline uint8x16_t code_in_window(uint8x16_t exps, uint8_t base)
{
	return vminq_u8(vsubq_u8(exps, vdupq_n_u8(base)), vdupq_n_u8(CODEC_WINDOW));
}

/* Appends the exponents whose code is escape. */
static inline uint32_t compress(const uint8_t *exps, uint8x16_t code, uint8_t escape, uint8_t *rest)
{
	uint8x16_t escapes = vceqq_u8(code, vdupq_n_u8(escape));
	uint32_t i, nrest = 0;
	uint8_t mask[16];

	if (!vmaxvq_u8(escapes))
		return 0;
	vst1q_u8(mask, escapes);
	for (i = 0; i < 16; i++) {
		rest[nrest] = exps[i];
		nrest += mask[i] & 1;
	}
	return nrest;
}

/* Puts the next bytes of rest in the places whose code is escape. */
static inline uint32_t expand(uint8x16_t values, uint8x16_t code, uint8_t escape,
			      const uint8_t *rest, uint8_t *exps)
{
	uint8x16_t escapes = vceqq_u8(code, vdupq_n_u8(escape));
	uint32_t i, nrest = 0;
	uint8_t mask[16];

	vst1q_u8(exps, values);
	if (!vmaxvq_u8(escapes))
		return 0;
	vst1q_u8(mask, escapes);
	for (i = 0; i < 16; i++) {
		exps[i] = mask[i] ? rest[nrest] : exps[i];
		nrest += mask[i] & 1;
	}
	return nrest;
}

/* 64 codes of 2 bits: each fourth one in a vector of its own by the load. */
static inline void pack2_group(const uint8_t *values, uint8_t *packed)
{
	uint8x16x4_t v = vld4q_u8(values);
	uint8x16_t low = vsliq_n_u8(v.val[0], v.val[1], 2);

	vst1q_u8(packed, vsliq_n_u8(low, vsliq_n_u8(v.val[2], v.val[3], 2), 4));
}

static inline void unpack2_group(const uint8_t *packed, uint8_t *values)
{
	const uint8x16_t three = vdupq_n_u8(3);
	uint8x16_t p = vld1q_u8(packed);
	uint8x16x4_t v;

	v.val[0] = vandq_u8(p, three);
	v.val[1] = vandq_u8(vshrq_n_u8(p, 2), three);
	v.val[2] = vandq_u8(vshrq_n_u8(p, 4), three);
	v.val[3] = vshrq_n_u8(p, 6);
	vst4q_u8(values, v);
}

static inline void pack4_group(const uint8_t *values, uint8_t *packed)
{
	uint8x16x2_t v;
	uint32_t i;

	for (i = 0; i < 2; i++) {
		v = vld2q_u8(values + 32 * i);
		vst1q_u8(packed + 16 * i, vsliq_n_u8(v.val[0], v.val[1], 4));
	}
}

static inline void unpack4_group(const uint8_t *packed, uint8_t *values)
{
	uint8x16x2_t v;
	uint8x16_t p;
	uint32_t i;

	for (i = 0; i < 2; i++) {
		p = vld1q_u8(packed + 16 * i);
		v.val[0] = vandq_u8(p, vdupq_n_u8(15));
		v.val[1] = vshrq_n_u8(p, 4);
		vst2q_u8(values + 32 * i, v);
	}
}

/* Two vectors of eight bytes are joined to four, two and one of 24 bits. */
static inline void pack3_group(const uint8_t *values, uint8_t *packed)
{
	uint64_t v[8];
	uint64x2_t x;
	uint32_t i;

	for (i = 0; i < 4; i++) {
		x = vreinterpretq_u64_u8(vld1q_u8(values + 16 * i));
		x = vandq_u64(vorrq_u64(x, vshrq_n_u64(x, 5)), vdupq_n_u64(0x003f003f003f003f));
		x = vandq_u64(vorrq_u64(x, vshrq_n_u64(x, 10)), vdupq_n_u64(0x00000fff00000fff));
		x = vorrq_u64(x, vshrq_n_u64(x, 20));
		v[2 * i] = vgetq_lane_u64(x, 0) & 0xffffff;
		v[2 * i + 1] = vgetq_lane_u64(x, 1) & 0xffffff;
	}
	put_24(v, packed);
}

static inline void unpack3_group(const uint8_t *packed, uint8_t *values)
{
	uint64_t v[8];
	uint64x2_t x;
	uint32_t i;

	get_24(v, packed);
	for (i = 0; i < 4; i++) {
		x = vcombine_u64(vcreate_u64(v[2 * i]), vcreate_u64(v[2 * i + 1]));
		x = vandq_u64(vorrq_u64(x, vshlq_n_u64(x, 20)), vdupq_n_u64(0x00000fff00000fff));
		x = vandq_u64(vorrq_u64(x, vshlq_n_u64(x, 10)), vdupq_n_u64(0x003f003f003f003f));
		x = vandq_u64(vorrq_u64(x, vshlq_n_u64(x, 5)), vdupq_n_u64(0x0707070707070707));
		vst1q_u8(values + 16 * i, vreinterpretq_u8_u64(x));
	}
}

static uint32_t rank2_neon(const uint8_t *exps, uint32_t n, const uint8_t *table, uint8_t *codes,
			   uint8_t *rest)
{
	uint8_t group[CODEC_GROUP];
	uint32_t i, k, nrest = 0;
	uint8x16_t code;

	for (i = 0; i < n; i += CODEC_GROUP) {
		for (k = 0; k < CODEC_GROUP; k += 16) {
			code = code_of(vld1q_u8(exps + i + k), table, CODEC_FIRST);
			vst1q_u8(group + k, code);
			nrest += compress(exps + i + k, code, CODEC_FIRST, rest + nrest);
		}
		pack2_group(group, codes + i / 4);
	}
	return nrest;
}

static uint32_t rank3_neon(const uint8_t *exps, uint32_t n, const uint8_t *table, uint8_t *codes,
			   uint8_t *rest)
{
	uint8_t group[CODEC_GROUP];
	uint32_t i, k, nrest = 0;
	uint8x16_t code;

	for (i = 0; i < n; i += CODEC_GROUP) {
		for (k = 0; k < CODEC_GROUP; k += 16) {
			code = code_of(vld1q_u8(exps + i + k), table + CODEC_FIRST, CODEC_SECOND);
			vst1q_u8(group + k, code);
			nrest += compress(exps + i + k, code, CODEC_SECOND, rest + nrest);
		}
		pack3_group(group, codes + i / 8 * 3);
	}
	return nrest;
}

static uint32_t rank4_neon(const uint8_t *exps, uint32_t n, const uint8_t *table, uint8_t *codes,
			   uint8_t *rest)
{
	uint8_t group[CODEC_GROUP];
	uint32_t i, k, nrest = 0;
	uint8x16_t code;

	for (i = 0; i < n; i += CODEC_GROUP) {
		for (k = 0; k < CODEC_GROUP; k += 16) {
			code = code_in_window(vld1q_u8(exps + i + k), table[0]);
			vst1q_u8(group + k, code);
			nrest += compress(exps + i + k, code, CODEC_WINDOW, rest + nrest);
		}
		pack4_group(group, codes + i / 2);
	}
	return nrest;
}

static uint32_t unrank_table(const uint8_t group[CODEC_GROUP], const uint8_t *table,
			     uint32_t symbols, const uint8_t *rest, uint8_t *exps)
{
	uint8_t t[16] = {0};
	uint32_t k, nrest = 0;
	uint8x16_t code;

	memcpy(t, table, symbols);
	for (k = 0; k < CODEC_GROUP; k += 16) {
		code = vld1q_u8(group + k);
		nrest += expand(vqtbl1q_u8(vld1q_u8(t), code), code, (uint8_t)symbols, rest + nrest,
				exps + k);
	}
	return nrest;
}

static uint32_t unrank2_neon(const uint8_t *codes, uint32_t n, const uint8_t *table,
			     const uint8_t *rest, uint8_t *exps)
{
	uint8_t group[CODEC_GROUP];
	uint32_t i, nrest = 0;

	for (i = 0; i < n; i += CODEC_GROUP) {
		unpack2_group(codes + i / 4, group);
		nrest += unrank_table(group, table, CODEC_FIRST, rest + nrest, exps + i);
	}
	return nrest;
}

static uint32_t unrank3_neon(const uint8_t *codes, uint32_t n, const uint8_t *table,
			     const uint8_t *rest, uint8_t *exps)
{
	uint8_t group[CODEC_GROUP];
	uint32_t i, nrest = 0;

	for (i = 0; i < n; i += CODEC_GROUP) {
		unpack3_group(codes + i / 8 * 3, group);
		nrest += unrank_table(group, table + CODEC_FIRST, CODEC_SECOND, rest + nrest,
				      exps + i);
	}
	return nrest;
}

static uint32_t unrank4_neon(const uint8_t *codes, uint32_t n, const uint8_t *table,
			     const uint8_t *rest, uint8_t *exps)
{
	uint8_t group[CODEC_GROUP];
	uint32_t i, k, nrest = 0;
	uint8x16_t code;

	for (i = 0; i < n; i += CODEC_GROUP) {
		unpack4_group(codes + i / 2, group);
		for (k = 0; k < CODEC_GROUP; k += 16) {
			code = vld1q_u8(group + k);
			nrest += expand(vaddq_u8(code, vdupq_n_u8(table[0])), code, CODEC_WINDOW,
					rest + nrest, exps + i + k);
		}
	}
	return nrest;
}

static void pack3_neon(const uint8_t *values, uint32_t n, uint8_t *packed)
{
	uint32_t i;

	for (i = 0; i < n; i += CODEC_GROUP)
		pack3_group(values + i, packed + i / 8 * 3);
}

static void unpack3_neon(const uint8_t *packed, uint32_t n, uint8_t *values)
{
	uint32_t i;

	for (i = 0; i < n; i += CODEC_GROUP)
		unpack3_group(packed + i / 8 * 3, values + i);
}

static void pack4_neon(const uint8_t *values, uint32_t n, uint8_t *packed)
{
	uint32_t i;

	for (i = 0; i < n; i += CODEC_GROUP)
		pack4_group(values + i, packed + i / 2);
}

static void unpack4_neon(const uint8_t *packed, uint32_t n, uint8_t *values)
{
	uint32_t i;

	for (i = 0; i < n; i += CODEC_GROUP)
		unpack4_group(packed + i / 2, values + i);
}

static const struct codec_ops neon = {
	.name = "neon",
	.split = {NULL, split_bf16, split_fp16, split_fp32, split_e4m3, split_e5m2},
	.join = {NULL, join_bf16, join_fp16, join_fp32, join_e4m3, join_e5m2},
	.rank2 = rank2_neon,
	.rank3 = rank3_neon,
	.rank4 = rank4_neon,
	.unrank2 = unrank2_neon,
	.unrank3 = unrank3_neon,
	.unrank4 = unrank4_neon,
	.pack3 = pack3_neon,
	.pack4 = pack4_neon,
	.unpack3 = unpack3_neon,
	.unpack4 = unpack4_neon,
};

/* Every aarch64 processor has NEON. */
const struct codec_ops *codec_variant(uint32_t i)
{
	const struct codec_ops *all[] = {&neon, &codec_scalar};

	return i < 2 ? all[i] : NULL;
}
