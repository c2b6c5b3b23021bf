/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CRC32C by the crc32 instruction of SSE4.2, and long runs by carry-less multiplication of 64 bytes
 * at a time where the processor has AVX-512 and VPCLMULQDQ (Gopal et al., "Fast CRC Computation for
 * Generic Polynomials Using PCLMULQDQ Instruction", Intel, 2009).
 */
#include <cpuid.h>
#include <immintrin.h>
#include "base/crc32c.h"

#define FAST	     __attribute__((target("sse4.2")))
#define WIDE	     __attribute__((target("sse4.2,avx512f,vpclmulqdq,pclmul")))

#define STATE_AVX512 0xe6u /* of XCR0: the system saves these registers */
#define STEP	     256u  /* bytes of a step of crc32c_wide() */
#define WIDE_LEN     1024u /* shorter runs are not worth the last steps */

enum { ASKED = 1, HAS_CRC32 = 2, HAS_WIDE = 4 };

static int is_wide(uint32_t leaf1_c)
{
	uint32_t a, b, c, d, low, high;

	if (!(leaf1_c & bit_OSXSAVE) || !__get_cpuid_count(7, 0, &a, &b, &c, &d))
		return 0;
	__asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
	return (low & STATE_AVX512) == STATE_AVX512 && b & bit_AVX512F && c & bit_VPCLMULQDQ;
}

/* In a virtual machine CPUID takes a microsecond or more, so each thread asks once. */
static uint32_t features(void)
{
	static _Thread_local uint32_t has;
	uint32_t a, b, c = 0, d;

	if (has)
		return has;
	has = ASKED;
	if (__get_cpuid(1, &a, &b, &c, &d) && c & bit_SSE4_2)
		has |= HAS_CRC32 | (is_wide(c) ? HAS_WIDE : 0);
	return has;
}

int crc32c_is_fast(void)
{
	return !!(features() & HAS_CRC32);
}

/* ---- wide ---- */

/* Factors of the low and the high half of 16 bytes that so many bytes later bytes follow: the
 * remainders of x^(8n + 32) and x^(8n - 32), with reflected bits, times x. */
static const uint64_t past[7][2] = {
	{0xdcb17aa4, 0xb9e02b86},  /* 256 */
	{0xa87ab8a8, 0xab7aff2a},  /* 192 */
	{0x6992cea2, 0x0d3b6092},  /* 128 */
	{0x740eef02, 0x9e4addf8},  /* 64 */
	{0x1c291d04, 0x1d82c63da}, /* 48 */
	{0x1384aa63a, 0xba4fc28e}, /* 32 */
	{0xf20c0dfe, 0x14cd00bd6}, /* 16 */
};

WIDE static inline __m512i factors(uint32_t i)
{
	return _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)past[i]));
}

/* The effect of x on what comes so many bytes later, added to it. */
WIDE static inline __m512i fold(__m512i x, __m512i by, __m512i to)
{
	return _mm512_ternarylogic_epi64(_mm512_clmulepi64_epi128(x, by, 0x00),
					 _mm512_clmulepi64_epi128(x, by, 0x11), to, 0x96);
}

WIDE static inline __m128i fold_lane(__m128i x, uint32_t i, __m128i to)
{
	__m128i by = _mm_loadu_si128((const __m128i *)past[i]);

	x = _mm_xor_si128(_mm_clmulepi64_si128(x, by, 0x00), _mm_clmulepi64_si128(x, by, 0x11));
	return _mm_xor_si128(x, to);
}

/* len is a multiple of STEP, and not 0. */
WIDE static uint32_t crc32c_wide(uint32_t crc, const uint8_t *p, size_t len)
{
	const __m512i by = factors(0);
	__m512i a = _mm512_loadu_si512(p), b = _mm512_loadu_si512(p + 64);
	__m512i c = _mm512_loadu_si512(p + 128), d = _mm512_loadu_si512(p + 192);
	const uint8_t *end = p + len;
	__m128i x;

	a = _mm512_xor_si512(a, _mm512_zextsi128_si512(_mm_cvtsi32_si128((int)crc)));
	for (p += STEP; p != end; p += STEP) {
		a = fold(a, by, _mm512_loadu_si512(p));
		b = fold(b, by, _mm512_loadu_si512(p + 64));
		c = fold(c, by, _mm512_loadu_si512(p + 128));
		d = fold(d, by, _mm512_loadu_si512(p + 192));
	}
	d = fold(a, factors(1), fold(b, factors(2), fold(c, factors(3), d)));
	x = fold_lane(_mm512_castsi512_si128(d), 4, _mm512_extracti32x4_epi32(d, 3));
	x = fold_lane(_mm512_extracti32x4_epi32(d, 1), 5, x);
	x = fold_lane(_mm512_extracti32x4_epi32(d, 2), 6, x);
	crc = (uint32_t)_mm_crc32_u64(0, (uint64_t)_mm_cvtsi128_si64(x));
	return (uint32_t)_mm_crc32_u64(crc, (uint64_t)_mm_extract_epi64(x, 1));
}

/* ---- by the crc32 instruction ---- */

FAST static uint32_t three(uint32_t crc, const uint8_t *p, uint32_t run,
			   const uint32_t behind[4][256])
{
	uint64_t a = crc, b = 0, c = 0;
	const uint8_t *end = p + run;

	for (; p != end; p += 8) {
		a = __builtin_ia32_crc32di(a, crc32c_word(p));
		b = __builtin_ia32_crc32di(b, crc32c_word(p + run));
		c = __builtin_ia32_crc32di(c, crc32c_word(p + 2 * run));
	}
	b ^= crc32c_past(behind, (uint32_t)a);
	return (uint32_t)c ^ crc32c_past(behind, (uint32_t)b);
}

FAST uint32_t crc32c_fast(uint32_t crc, const uint8_t *p, size_t len)
{
	size_t n = len >= WIDE_LEN && features() & HAS_WIDE ? len / STEP * STEP : 0;

	if (n) {
		crc = crc32c_wide(crc, p, n);
		p += n;
		len -= n;
	}
	for (; len >= 3 * CRC32C_LONG; p += 3 * CRC32C_LONG, len -= 3 * CRC32C_LONG)
		crc = three(crc, p, CRC32C_LONG, crc32c_past_long);
	for (; len >= 3 * CRC32C_SHORT; p += 3 * CRC32C_SHORT, len -= 3 * CRC32C_SHORT)
		crc = three(crc, p, CRC32C_SHORT, crc32c_past_short);
	for (; len >= 8; p += 8, len -= 8)
		crc = (uint32_t)__builtin_ia32_crc32di(crc, crc32c_word(p));
	for (; len; p++, len--)
		crc = __builtin_ia32_crc32qi(crc, *p);
	return crc;
}
