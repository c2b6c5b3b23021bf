/* SPDX-License-Identifier: Apache-2.0 */
/* The codec's loops for AVX-512 with VBMI and VBMI2. */
#include <immintrin.h>
#include "codec/groups.h"

static inline __m512i load512(const uint8_t *p)
{
	return _mm512_loadu_si512(p);
}

static inline __m128i load128(const uint8_t *p)
{
	return _mm_loadu_si128((const __m128i *)(const void *)p);
}

static inline __m256i load256(const uint8_t *p)
{
	return _mm256_loadu_si256((const __m256i *)(const void *)p);
}

/* The even bytes of x, then the odd ones. */
static inline __m512i even_then_odd(__m512i x)
{
	const __m512i order =
		_mm512_setr_epi64(0x0e0c0a0806040200, 0x1e1c1a1816141210, 0x2e2c2a2826242220,
				  0x3e3c3a3836343230, 0x0f0d0b0907050301, 0x1f1d1b1917151311,
				  0x2f2d2b2927252321, 0x3f3d3b3937353331);

	return _mm512_permutexvar_epi8(order, x);
}

/* 64 elements: stores their other bits and returns their exponents. */
static inline __m512i split_group(const uint8_t *src, uint8_t *a)
{
	__m512i x = load512(src), y = load512(src + 64);

	x = even_then_odd(_mm512_shldi_epi16(x, x, 1));
	y = even_then_odd(_mm512_shldi_epi16(y, y, 1));
	_mm256_storeu_si256((__m256i *)(void *)a, _mm512_castsi512_si256(x));
	_mm256_storeu_si256((__m256i *)(void *)(a + 32), _mm512_castsi512_si256(y));
	return _mm512_shuffle_i64x2(x, y, 0xee);
}

static void split_bf16_avx512(const uint8_t *src, uint32_t n, uint8_t *a, uint8_t *b, uint8_t *exps)
{
	uint32_t i;

	(void)b;
	for (i = 0; i < n; i += CODEC_GROUP)
		_mm512_storeu_si512(exps + i, split_group(src + 2 * i, a + i));
}

static inline void join_group(const uint8_t *a, __m512i exps, uint8_t *dst)
{
	const __m512i order = _mm512_setr_epi64(0, 4, 1, 5, 2, 6, 3, 7);
	__m512i low = _mm512_permutexvar_epi64(order, load512(a));
	__m512i high = _mm512_permutexvar_epi64(order, exps);
	__m512i x = _mm512_unpacklo_epi8(low, high), y = _mm512_unpackhi_epi8(low, high);

	_mm512_storeu_si512(dst, _mm512_shrdi_epi16(x, x, 1));
	_mm512_storeu_si512(dst + 64, _mm512_shrdi_epi16(y, y, 1));
}

static void join_bf16_avx512(const uint8_t *a, const uint8_t *b, const uint8_t *exps, uint32_t n,
			     uint8_t *dst)
{
	uint32_t i;

	(void)b;
	for (i = 0; i < n; i += CODEC_GROUP)
		join_group(a + i, load512(exps + i), dst + 2 * i);
}

/* Appends the exponents that are escapes. Half of a vector is mostly enough, and fewer of its
 * stores cross a cache line. */
static inline uint32_t compress(__m512i exps, __mmask64 escapes, uint8_t *rest)
{
	uint32_t n = (uint32_t)_mm_popcnt_u64(escapes);

	exps = _mm512_maskz_compress_epi8(escapes, exps);
	if (__builtin_expect(n > 32, 0))
		_mm512_storeu_si512(rest, exps);
	else
		_mm256_storeu_si256((__m256i *)(void *)rest, _mm512_castsi512_si256(exps));
	return n;
}

/* Puts the next bytes of rest in the places of the escapes, and counts them. */
static inline __m512i expand(__m512i values, __mmask64 escapes, const uint8_t *rest,
			     uint32_t *nrest)
{
	values = _mm512_mask_expand_epi8(values, escapes, load512(rest + *nrest));
	*nrest += (uint32_t)_mm_popcnt_u64(escapes);
	return values;
}

/* The codes of exponents that lie within a window of 15 symbols, by their distance from its start;
 * the code n of all others. */
struct window {
	__m512i codes, start;
};

/* 0: the n symbols do not lie within a window. */
static inline int window_init(struct window *w, const uint8_t *table, uint32_t n)
{
	uint8_t codes[16], first = 255, last = 0;
	uint32_t i;

	memset(codes, (int)n, sizeof(codes));
	for (i = 0; i < n; i++) {
		first = table[i] < first ? table[i] : first;
		last = table[i] > last ? table[i] : last;
	}
	if (last - first >= 15)
		return 0;
	/* The first of equal symbols is written last, and so counts. */
	for (i = n; i-- > 0;)
		codes[table[i] - first] = (uint8_t)i;
	w->codes = _mm512_broadcast_i32x4(load128(codes));
	w->start = _mm512_set1_epi8((char)first);
	return 1;
}

static inline __m512i code_by_window(__m512i exps, const struct window *w)
{
	__m512i from = _mm512_sub_epi8(exps, w->start);

	return _mm512_shuffle_epi8(w->codes, _mm512_min_epu8(from, _mm512_set1_epi8(15)));
}

/* The same for any symbols, by comparing with each. */
static inline __m512i code_by_symbol(__m512i exps, const uint8_t *table, uint32_t n)
{
	__m512i code = _mm512_set1_epi8((char)n);
	__mmask64 hit;

	while (n-- > 0) {
		hit = _mm512_cmpeq_epi8_mask(exps, _mm512_set1_epi8((char)table[n]));
		code = _mm512_mask_mov_epi8(code, hit, _mm512_set1_epi8((char)n));
	}
	return code;
}

static inline __mmask64 is_code(__m512i codes, uint32_t code)
{
	return _mm512_cmpeq_epi8_mask(codes, _mm512_set1_epi8((char)code));
}

/* Four values to the lowest 8 bits of each 32. */
static inline __m512i pack2_fours(__m512i v)
{
	v = _mm512_maddubs_epi16(v, _mm512_set1_epi16(0x0401));
	return _mm512_madd_epi16(v, _mm512_set1_epi32(0x00100001));
}

static inline void pack2_group(__m512i v, uint8_t *packed)
{
	_mm_storeu_si128((__m128i *)(void *)packed, _mm512_cvtepi32_epi8(pack2_fours(v)));
}

/* Four groups: their bytes go to their places together. */
static inline void pack2_groups(const __m512i v[4], uint8_t *packed)
{
	const __m512i order =
		_mm512_setr_epi64(0x1c1814100c080400, 0x3c3834302c282420, 0x1d1915110d090501,
				  0x3d3935312d292521, 0x1e1a16120e0a0602, 0x3e3a36322e2a2622,
				  0x1f1b17130f0b0703, 0x3f3b37332f2b2723);
	__m512i all = pack2_fours(v[0]);
	uint32_t i;

	for (i = 1; i < 4; i++)
		all = _mm512_or_si512(all, _mm512_slli_epi32(pack2_fours(v[i]), 8 * i));
	_mm512_storeu_si512(packed, _mm512_permutexvar_epi8(order, all));
}

/* Eight values to the lowest 24 bits of each 64, then their three bytes side by side. */
static inline void pack3_group(__m512i v, uint8_t *packed)
{
	const __m512i order = _mm512_castsi256_si512(
		_mm256_setr_epi8(0, 1, 2, 8, 9, 10, 16, 17, 18, 24, 25, 26, 32, 33, 34, 40, 41, 42,
				 48, 49, 50, 56, 57, 58, 0, 0, 0, 0, 0, 0, 0, 0));

	v = _mm512_maddubs_epi16(v, _mm512_set1_epi16(0x0801));
	v = _mm512_madd_epi16(v, _mm512_set1_epi32(0x00400001));
	v = _mm512_or_si512(v, _mm512_srli_epi64(v, 20));
	v = _mm512_permutexvar_epi8(order, v);
	_mm256_mask_storeu_epi8(packed, 0xffffff, _mm512_castsi512_si256(v));
}

/* Two groups, in the same way. */
static inline void pack4_groups(__m512i v, __m512i w, uint8_t *packed)
{
	v = _mm512_maddubs_epi16(v, _mm512_set1_epi16(0x1001));
	w = _mm512_maddubs_epi16(w, _mm512_set1_epi16(0x1001));
	v = _mm512_or_si512(v, _mm512_slli_epi16(w, 8));
	_mm512_storeu_si512(packed, even_then_odd(v));
}

static inline void pack4_group(__m512i v, uint8_t *packed)
{
	v = _mm512_maddubs_epi16(v, _mm512_set1_epi16(0x1001));
	_mm256_storeu_si256((__m256i *)(void *)packed, _mm512_cvtepi16_epi8(v));
}

static inline __m512i unpack2_group(const uint8_t *packed)
{
	const __m512i shifts = _mm512_set1_epi64(0x0e0c0a0806040200);
	__m512i v = _mm512_cvtepu16_epi64(load128(packed));

	return _mm512_and_si512(_mm512_multishift_epi64_epi8(shifts, v), _mm512_set1_epi8(3));
}

static inline __m512i unpack3_group(const uint8_t *packed)
{
	const __m512i shifts = _mm512_set1_epi64(0x15120f0c09060300);
	const __m512i order = _mm512_setr_epi64(0x020100, 0x050403, 0x080706, 0x0b0a09, 0x0e0d0c,
						0x11100f, 0x141312, 0x171615);
	__m512i v = _mm512_castsi256_si512(_mm256_maskz_loadu_epi8(0xffffff, packed));

	v = _mm512_permutexvar_epi8(order, v);
	return _mm512_and_si512(_mm512_multishift_epi64_epi8(shifts, v), _mm512_set1_epi8(7));
}

static inline __m512i unpack4_group(const uint8_t *packed)
{
	__m512i v = _mm512_cvtepu8_epi16(load256(packed));

	v = _mm512_or_si512(v, _mm512_slli_epi16(v, 4));
	return _mm512_and_si512(v, _mm512_set1_epi8(15));
}

static uint32_t rank2_avx512(const uint8_t *exps, uint32_t n, const uint8_t *table, uint8_t *codes,
			     uint8_t *rest)
{
	uint32_t i, nrest = 0;
	struct window w;
	int is_window = window_init(&w, table, CODEC_FIRST);
	__m512i e, code;

	for (i = 0; i < n; i += CODEC_GROUP) {
		e = load512(exps + i);
		code = is_window ? code_by_window(e, &w) : code_by_symbol(e, table, CODEC_FIRST);
		nrest += compress(e, is_code(code, CODEC_FIRST), rest + nrest);
		pack2_group(code, codes + i / 4);
	}
	return nrest;
}

/* Splits a group, and returns the codes of its exponents. */
static inline __m512i encode2_group(const uint8_t *src, uint8_t *a, const struct window *w,
				    uint8_t *rest, uint32_t *nrest)
{
	__m512i e = split_group(src, a), code = code_by_window(e, w);

	*nrest += compress(e, is_code(code, CODEC_FIRST), rest + *nrest);
	return code;
}

static uint32_t encode2_avx512(const uint8_t *src, uint32_t n, const uint8_t *table, uint8_t *a,
			       uint8_t *codes, uint8_t *rest)
{
	uint32_t i, nrest = 0;
	struct window w;
	__m512i v[4];

	if (!window_init(&w, table, CODEC_FIRST)) {
		split_bf16_avx512(src, n, a, NULL, rest);
		return rank2_avx512(rest, n, table, codes, rest);
	}
	for (i = 0; i < n; i += 4 * CODEC_GROUP) {
		v[0] = encode2_group(src, a, &w, rest, &nrest);
		v[1] = encode2_group(src + 128, a + 64, &w, rest, &nrest);
		v[2] = encode2_group(src + 256, a + 128, &w, rest, &nrest);
		v[3] = encode2_group(src + 384, a + 192, &w, rest, &nrest);
		pack2_groups(v, codes + i / 4);
		src += 512;
		a += 256;
	}
	return nrest;
}

static uint32_t rank3_avx512(const uint8_t *exps, uint32_t n, const uint8_t *table, uint8_t *codes,
			     uint8_t *rest)
{
	uint32_t i, nrest = 0;
	struct window w;
	int is_window;
	__m512i e, code;

	table += CODEC_FIRST;
	is_window = window_init(&w, table, CODEC_SECOND);
	for (i = 0; i < n; i += CODEC_GROUP) {
		e = load512(exps + i);
		code = is_window ? code_by_window(e, &w) : code_by_symbol(e, table, CODEC_SECOND);
		nrest += compress(e, is_code(code, CODEC_SECOND), rest + nrest);
		pack3_group(code, codes + i / 8 * 3);
	}
	return nrest;
}

/* The codes of 64 exponents of a window; escapes are rare. */
static inline __m512i rank4_group(__m512i e, __m512i base, uint8_t *rest, uint32_t *nrest)
{
	__m512i code = _mm512_min_epu8(_mm512_sub_epi8(e, base), _mm512_set1_epi8(CODEC_WINDOW));
	__mmask64 escapes = is_code(code, CODEC_WINDOW);

	if (escapes)
		*nrest += compress(e, escapes, rest + *nrest);
	return code;
}

static uint32_t rank4_avx512(const uint8_t *exps, uint32_t n, const uint8_t *table, uint8_t *codes,
			     uint8_t *rest)
{
	const __m512i base = _mm512_set1_epi8((char)table[0]);
	uint32_t i, nrest = 0;

	for (i = 0; i < n; i += CODEC_GROUP)
		pack4_group(rank4_group(load512(exps + i), base, rest, &nrest), codes + i / 2);
	return nrest;
}

static uint32_t encode4_avx512(const uint8_t *src, uint32_t n, const uint8_t *table, uint8_t *a,
			       uint8_t *codes, uint8_t *rest)
{
	const __m512i base = _mm512_set1_epi8((char)table[0]);
	uint32_t i, next, nrest = 0;
	__m512i v, w;

	for (i = 0; i < n; i += 2 * CODEC_GROUP) {
		next = i + CODEC_GROUP;
		v = rank4_group(split_group(src + 2 * i, a + i), base, rest, &nrest);
		w = rank4_group(split_group(src + 2 * next, a + next), base, rest, &nrest);
		pack4_groups(v, w, codes + i / 2);
	}
	return nrest;
}

/* The symbols of the codes from 0, in each lane of 16 bytes. */
static inline __m512i symbols_of(const uint8_t *table, uint32_t symbols)
{
	uint8_t t[16] = {0};

	memcpy(t, table, symbols);
	return _mm512_broadcast_i32x4(load128(t));
}

static inline __m512i unrank2_group(const uint8_t *codes, __m512i symbols, const uint8_t *rest,
				    uint32_t *nrest)
{
	__m512i code = unpack2_group(codes);

	return expand(_mm512_shuffle_epi8(symbols, code), is_code(code, CODEC_FIRST), rest, nrest);
}

static inline __m512i unrank4_group(const uint8_t *codes, __m512i base, const uint8_t *rest,
				    uint32_t *nrest)
{
	__m512i code = unpack4_group(codes), values = _mm512_add_epi8(code, base);
	__mmask64 escapes = is_code(code, CODEC_WINDOW);

	return escapes ? expand(values, escapes, rest, nrest) : values;
}

static uint32_t unrank2_avx512(const uint8_t *codes, uint32_t n, const uint8_t *table,
			       const uint8_t *rest, uint8_t *exps)
{
	const __m512i symbols = symbols_of(table, CODEC_FIRST);
	uint32_t i, nrest = 0;

	for (i = 0; i < n; i += CODEC_GROUP)
		_mm512_storeu_si512(exps + i, unrank2_group(codes + i / 4, symbols, rest, &nrest));
	return nrest;
}

static uint32_t decode2_avx512(const uint8_t *a, const uint8_t *codes, uint32_t n,
			       const uint8_t *table, const uint8_t *rest, uint8_t *dst)
{
	const __m512i symbols = symbols_of(table, CODEC_FIRST);
	uint32_t i, nrest = 0;

	for (i = 0; i < n; i += CODEC_GROUP)
		join_group(a + i, unrank2_group(codes + i / 4, symbols, rest, &nrest), dst + 2 * i);
	return nrest;
}

static uint32_t unrank3_avx512(const uint8_t *codes, uint32_t n, const uint8_t *table,
			       const uint8_t *rest, uint8_t *exps)
{
	const __m512i symbols = symbols_of(table + CODEC_FIRST, CODEC_SECOND);
	uint32_t i, nrest = 0;
	__m512i code;

	for (i = 0; i < n; i += CODEC_GROUP) {
		code = unpack3_group(codes + i / 8 * 3);
		_mm512_storeu_si512(exps + i, expand(_mm512_shuffle_epi8(symbols, code),
						     is_code(code, CODEC_SECOND), rest, &nrest));
	}
	return nrest;
}

static uint32_t unrank4_avx512(const uint8_t *codes, uint32_t n, const uint8_t *table,
			       const uint8_t *rest, uint8_t *exps)
{
	const __m512i base = _mm512_set1_epi8((char)table[0]);
	uint32_t i, nrest = 0;

	for (i = 0; i < n; i += CODEC_GROUP)
		_mm512_storeu_si512(exps + i, unrank4_group(codes + i / 2, base, rest, &nrest));
	return nrest;
}

static uint32_t decode4_avx512(const uint8_t *a, const uint8_t *codes, uint32_t n,
			       const uint8_t *table, const uint8_t *rest, uint8_t *dst)
{
	const __m512i base = _mm512_set1_epi8((char)table[0]);
	uint32_t i, nrest = 0;

	for (i = 0; i < n; i += CODEC_GROUP)
		join_group(a + i, unrank4_group(codes + i / 2, base, rest, &nrest), dst + 2 * i);
	return nrest;
}

static void pack3_avx512(const uint8_t *values, uint32_t n, uint8_t *packed)
{
	uint32_t i;

	for (i = 0; i < n; i += CODEC_GROUP)
		pack3_group(load512(values + i), packed + i / 8 * 3);
}

static void unpack3_avx512(const uint8_t *packed, uint32_t n, uint8_t *values)
{
	uint32_t i;

	for (i = 0; i < n; i += CODEC_GROUP)
		_mm512_storeu_si512(values + i, unpack3_group(packed + i / 8 * 3));
}

static void pack4_avx512(const uint8_t *values, uint32_t n, uint8_t *packed)
{
	uint32_t i;

	for (i = 0; i < n; i += CODEC_GROUP)
		pack4_group(load512(values + i), packed + i / 2);
}

static void unpack4_avx512(const uint8_t *packed, uint32_t n, uint8_t *values)
{
	uint32_t i;

	for (i = 0; i < n; i += CODEC_GROUP)
		_mm512_storeu_si512(values + i, unpack4_group(packed + i / 2));
}

const struct codec_ops codec_avx512 = {
	.name = "avx512",
	.split = {NULL, split_bf16_avx512, split_fp16, split_fp32, split_e4m3, split_e5m2},
	.join = {NULL, join_bf16_avx512, join_fp16, join_fp32, join_e4m3, join_e5m2},
	.rank2 = rank2_avx512,
	.rank3 = rank3_avx512,
	.rank4 = rank4_avx512,
	.unrank2 = unrank2_avx512,
	.unrank3 = unrank3_avx512,
	.unrank4 = unrank4_avx512,
	.encode2 = encode2_avx512,
	.encode4 = encode4_avx512,
	.decode2 = decode2_avx512,
	.decode4 = decode4_avx512,
	.pack3 = pack3_avx512,
	.pack4 = pack4_avx512,
	.unpack3 = unpack3_avx512,
	.unpack4 = unpack4_avx512,
};
