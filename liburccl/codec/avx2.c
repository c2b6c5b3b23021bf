/* SPDX-License-Identifier: Apache-2.0 */
/* The codec's loops for AVX2 and BMI2. */
#include <immintrin.h>
#include "codec/groups.h"

#define THREES 0x0707070707070707ull

static inline __m256i load256(const uint8_t *p)
{
	return _mm256_loadu_si256((const __m256i *)(const void *)p);
}

static inline void store256(uint8_t *p, __m256i v)
{
	_mm256_storeu_si256((__m256i *)(void *)p, v);
}

/* The bytes of two vectors' 16-bit words that fit 8 bits, in order. */
static inline __m256i narrow16(__m256i a, __m256i b)
{
	return _mm256_permute4x64_epi64(_mm256_packus_epi16(a, b), 0xd8);
}

static void split_bf16_avx2(const uint8_t *src, uint32_t n, uint8_t *a, uint8_t *b, uint8_t *exps)
{
	const __m256i low = _mm256_set1_epi16(0xff);
	__m256i x, y;
	uint32_t i;

	(void)b;
	for (i = 0; i < n; i += 32) {
		x = load256(src + 2 * i);
		y = load256(src + 2 * i + 32);
		x = _mm256_or_si256(_mm256_add_epi16(x, x), _mm256_srli_epi16(x, 15));
		y = _mm256_or_si256(_mm256_add_epi16(y, y), _mm256_srli_epi16(y, 15));
		store256(a + i, narrow16(_mm256_and_si256(x, low), _mm256_and_si256(y, low)));
		store256(exps + i, narrow16(_mm256_srli_epi16(x, 8), _mm256_srli_epi16(y, 8)));
	}
}

static void join_bf16_avx2(const uint8_t *a, const uint8_t *b, const uint8_t *exps, uint32_t n,
			   uint8_t *dst)
{
	__m256i x, y, low, high;
	uint32_t i;

	(void)b;
	for (i = 0; i < n; i += 32) {
		low = _mm256_permute4x64_epi64(load256(a + i), 0xd8);
		high = _mm256_permute4x64_epi64(load256(exps + i), 0xd8);
		x = _mm256_unpacklo_epi8(low, high);
		y = _mm256_unpackhi_epi8(low, high);
		x = _mm256_or_si256(_mm256_srli_epi16(x, 1), _mm256_slli_epi16(x, 15));
		y = _mm256_or_si256(_mm256_srli_epi16(y, 1), _mm256_slli_epi16(y, 15));
		store256(dst + 2 * i, x);
		store256(dst + 2 * i + 32, y);
	}
}

/* Appends the bytes of exps whose byte of escapes is 0xff. */
static inline uint32_t compress(const uint8_t *exps, __m256i escapes, uint8_t *rest)
{
	uint8_t mask[32];
	uint32_t i, nrest = 0;
	uint64_t m;

	store256(mask, escapes);
	for (i = 0; i < 32; i += 8) {
		m = load64(mask + i);
		store64(rest + nrest, _pext_u64(load64(exps + i), m));
		nrest += (uint32_t)_mm_popcnt_u64(m) / 8;
	}
	return nrest;
}

/* Puts the next bytes of rest where the byte of escapes is 0xff; values is 0 there. */
static inline uint32_t expand(__m256i values, __m256i escapes, const uint8_t *rest, uint8_t *exps)
{
	uint8_t mask[32], value[32];
	uint32_t i, nrest = 0;
	uint64_t m;

	store256(mask, escapes);
	store256(value, values);
	for (i = 0; i < 32; i += 8) {
		m = load64(mask + i);
		store64(exps + i, load64(value + i) | _pdep_u64(load64(rest + nrest), m));
		nrest += (uint32_t)_mm_popcnt_u64(m) / 8;
	}
	return nrest;
}

/* Each symbol in all bytes of a vector: in registers, as stores to codes may change the table. */
static inline void spread(const uint8_t *table, uint32_t symbols, __m256i *to)
{
	uint32_t i;

	for (i = 0; i < symbols; i++)
		to[i] = _mm256_set1_epi8((char)table[i]);
}

/* The code of each exponent; the number of symbols stands for none. */
static inline __m256i code_of(__m256i exps, const __m256i *symbol, uint32_t symbols)
{
	__m256i code = _mm256_set1_epi8((char)symbols), hit;
	uint32_t i;

	/* The first of equal symbols is taken last, and so counts. */
	for (i = symbols; i-- > 0;) {
		hit = _mm256_cmpeq_epi8(exps, symbol[i]);
		code = _mm256_blendv_epi8(code, _mm256_set1_epi8((char)i), hit);
	}
	return code;
}

static inline __m256i is_code(__m256i codes, uint32_t code)
{
	return _mm256_cmpeq_epi8(codes, _mm256_set1_epi8((char)code));
}

/* 32 codes of 2 bits to 8 bytes. */
static inline uint64_t pack_2bit(__m256i codes)
{
	__m256i v = _mm256_maddubs_epi16(codes, _mm256_set1_epi16(0x0401));
	__m128i low, high;

	v = _mm256_madd_epi16(v, _mm256_set1_epi32(0x00100001));
	low = _mm256_castsi256_si128(v);
	high = _mm256_extracti128_si256(v, 1);
	low = _mm_packus_epi32(low, high);
	return (uint64_t)_mm_cvtsi128_si64(_mm_packus_epi16(low, low));
}

static uint32_t rank2_avx2(const uint8_t *exps, uint32_t n, const uint8_t *table, uint8_t *codes,
			   uint8_t *rest)
{
	uint32_t i, nrest = 0;
	__m256i symbols[CODEC_FIRST], code;

	spread(table, CODEC_FIRST, symbols);
	for (i = 0; i < n; i += 32) {
		code = code_of(load256(exps + i), symbols, CODEC_FIRST);
		nrest += compress(exps + i, is_code(code, CODEC_FIRST), rest + nrest);
		store64(codes + i / 4, pack_2bit(code));
	}
	return nrest;
}

static inline void pack3_group(const uint8_t *values, uint8_t *packed)
{
	uint64_t v[8];
	uint32_t i;

	for (i = 0; i < 8; i++)
		v[i] = _pext_u64(load64(values + 8 * i), THREES);
	put_24(v, packed);
}

static inline void unpack3_group(const uint8_t *packed, uint8_t *values)
{
	uint64_t v[8];
	uint32_t i;

	get_24(v, packed);
	for (i = 0; i < 8; i++)
		store64(values + 8 * i, _pdep_u64(v[i], THREES));
}

static uint32_t rank3_avx2(const uint8_t *exps, uint32_t n, const uint8_t *table, uint8_t *codes,
			   uint8_t *rest)
{
	uint8_t group[CODEC_GROUP];
	uint32_t i, k, nrest = 0;
	__m256i symbols[CODEC_SECOND], code;

	spread(table + CODEC_FIRST, CODEC_SECOND, symbols);
	for (i = 0; i < n; i += CODEC_GROUP) {
		for (k = 0; k < CODEC_GROUP; k += 32) {
			code = code_of(load256(exps + i + k), symbols, CODEC_SECOND);
			store256(group + k, code);
			nrest += compress(exps + i + k, is_code(code, CODEC_SECOND), rest + nrest);
		}
		pack3_group(group, codes + i / 8 * 3);
	}
	return nrest;
}

static inline void pack4_group(__m256i x, __m256i y, uint8_t *packed)
{
	const __m256i weights = _mm256_set1_epi16(0x1001);

	store256(packed,
		 narrow16(_mm256_maddubs_epi16(x, weights), _mm256_maddubs_epi16(y, weights)));
}

static inline __m256i code_in_window(__m256i exps, uint8_t base)
{
	return _mm256_min_epu8(_mm256_sub_epi8(exps, _mm256_set1_epi8((char)base)),
			       _mm256_set1_epi8(CODEC_WINDOW));
}

static uint32_t rank4_avx2(const uint8_t *exps, uint32_t n, const uint8_t *table, uint8_t *codes,
			   uint8_t *rest)
{
	uint32_t i, nrest = 0;
	__m256i x, y, xe, ye;

	for (i = 0; i < n; i += CODEC_GROUP) {
		x = code_in_window(load256(exps + i), table[0]);
		y = code_in_window(load256(exps + i + 32), table[0]);
		xe = is_code(x, CODEC_WINDOW);
		ye = is_code(y, CODEC_WINDOW);
		if (!_mm256_testz_si256(_mm256_or_si256(xe, ye), _mm256_or_si256(xe, ye))) {
			nrest += compress(exps + i, xe, rest + nrest);
			nrest += compress(exps + i + 32, ye, rest + nrest);
		}
		pack4_group(x, y, codes + i / 2);
	}
	return nrest;
}

/* 8 bytes to 32 codes of 2 bits, each in bits 0 and 1 or in bits 2 and 3 of its byte. */
static inline __m256i unpack2(const uint8_t *codes)
{
	const __m256i spread = _mm256_setr_epi8(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4,
						4, 4, 4, 5, 5, 5, 5, 6, 6, 6, 6, 7, 7, 7, 7);
	__m256i v = _mm256_set1_epi64x((long long)load64(codes));

	v = _mm256_shuffle_epi8(v, spread);
	v = _mm256_blend_epi16(v, _mm256_srli_epi16(v, 4), 0xaa);
	return _mm256_and_si256(v, _mm256_set1_epi16(0x0c03));
}

/* The 16 bytes by which unpack2()'s results find what belongs to codes 0 to 3. */
static inline __m256i lookup2(uint8_t v0, uint8_t v1, uint8_t v2, uint8_t v3)
{
	uint8_t t[32] = {v0, v1, v2, v3, v1, 0, 0, 0, v2, 0, 0, 0, v3};

	memcpy(t + 16, t, 16);
	return load256(t);
}

static uint32_t unrank2_avx2(const uint8_t *codes, uint32_t n, const uint8_t *table,
			     const uint8_t *rest, uint8_t *exps)
{
	const __m256i values = lookup2(table[0], table[1], table[2], 0);
	const __m256i escapes = lookup2(0, 0, 0, 0xff);
	uint32_t i, nrest = 0;
	__m256i code;

	for (i = 0; i < whole_groups(n); i += 32) {
		code = unpack2(codes + i / 4);
		nrest += expand(_mm256_shuffle_epi8(values, code),
				_mm256_shuffle_epi8(escapes, code), rest + nrest, exps + i);
	}
	return nrest;
}

static uint32_t unrank3_avx2(const uint8_t *codes, uint32_t n, const uint8_t *table,
			     const uint8_t *rest, uint8_t *exps)
{
	uint8_t group[CODEC_GROUP], t[16] = {0};
	uint32_t i, k, nrest = 0;
	__m256i values, code;

	memcpy(t, table + CODEC_FIRST, CODEC_SECOND);
	values = _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)(const void *)t));
	for (i = 0; i < n; i += CODEC_GROUP) {
		unpack3_group(codes + i / 8 * 3, group);
		for (k = 0; k < CODEC_GROUP; k += 32) {
			code = load256(group + k);
			nrest += expand(_mm256_shuffle_epi8(values, code),
					is_code(code, CODEC_SECOND), rest + nrest, exps + i + k);
		}
	}
	return nrest;
}

/* 16 bytes to 32 codes of 4 bits. */
static inline __m256i unpack4(const uint8_t *codes)
{
	__m256i v = _mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *)(const void *)codes));

	v = _mm256_or_si256(v, _mm256_slli_epi16(v, 4));
	return _mm256_and_si256(v, _mm256_set1_epi8(15));
}

static uint32_t unrank4_avx2(const uint8_t *codes, uint32_t n, const uint8_t *table,
			     const uint8_t *rest, uint8_t *exps)
{
	const __m256i base = _mm256_set1_epi8((char)table[0]);
	uint32_t i, nrest = 0;
	__m256i code, escapes, values;

	for (i = 0; i < whole_groups(n); i += 32) {
		code = unpack4(codes + i / 2);
		escapes = is_code(code, CODEC_WINDOW);
		values = _mm256_add_epi8(code, base);
		if (_mm256_testz_si256(escapes, escapes))
			store256(exps + i, values);
		else
			nrest += expand(_mm256_andnot_si256(escapes, values), escapes, rest + nrest,
					exps + i);
	}
	return nrest;
}

static void pack3_avx2(const uint8_t *values, uint32_t n, uint8_t *packed)
{
	uint32_t i;

	for (i = 0; i < n; i += CODEC_GROUP)
		pack3_group(values + i, packed + i / 8 * 3);
}

static void unpack3_avx2(const uint8_t *packed, uint32_t n, uint8_t *values)
{
	uint32_t i;

	for (i = 0; i < n; i += CODEC_GROUP)
		unpack3_group(packed + i / 8 * 3, values + i);
}

static void pack4_avx2(const uint8_t *values, uint32_t n, uint8_t *packed)
{
	uint32_t i;

	for (i = 0; i < n; i += CODEC_GROUP)
		pack4_group(load256(values + i), load256(values + i + 32), packed + i / 2);
}

static void unpack4_avx2(const uint8_t *packed, uint32_t n, uint8_t *values)
{
	uint32_t i;

	for (i = 0; i < whole_groups(n); i += 32)
		store256(values + i, unpack4(packed + i / 2));
}

const struct codec_ops codec_avx2 = {
	.name = "avx2",
	.split = {NULL, split_bf16_avx2, split_fp16, split_fp32, split_e4m3, split_e5m2},
	.join = {NULL, join_bf16_avx2, join_fp16, join_fp32, join_e4m3, join_e5m2},
	.rank2 = rank2_avx2,
	.rank3 = rank3_avx2,
	.rank4 = rank4_avx2,
	.unrank2 = unrank2_avx2,
	.unrank3 = unrank3_avx2,
	.unrank4 = unrank4_avx2,
	.pack3 = pack3_avx2,
	.pack4 = pack4_avx2,
	.unpack3 = unpack3_avx2,
	.unpack4 = unpack4_avx2,
};
