/* SPDX-License-Identifier: Apache-2.0 */
/* The variants that this x86 processor runs. */
#include <cpuid.h>
#include "codec/codec.h"

extern const struct codec_ops codec_avx2, codec_avx512;

enum { ASKED = 1, HAS_AVX2 = 2, HAS_AVX512 = 4 };

#define STATE_AVX    0x06u /* of XCR0: the system saves these registers */
#define STATE_AVX512 0xe6u

static uint32_t saved_state(uint32_t leaf1_c)
{
	uint32_t low, high;

	if (!(leaf1_c & bit_OSXSAVE))
		return 0;
	__asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
	return low;
}

/* AMD's Zen 1 and 2 take 18 cycles and more for pext and pdep. Only AMD has SSE4A, and its
 * processors have VAES from Zen 3. */
static int has_slow_pext(uint32_t leaf7_c)
{
	uint32_t a, b, c = 0, d;

	return __get_cpuid(0x80000001, &a, &b, &c, &d) && c & bit_SSE4a && !(leaf7_c & bit_VAES);
}

static uint32_t cpu_features(void)
{
	const uint32_t avx2 = bit_AVX2 | bit_BMI2, avx512 = bit_AVX512BW | bit_AVX512VL;
	const uint32_t vbmi = bit_AVX512VBMI | bit_AVX512VBMI2;
	uint32_t a, b, c, d, state, has = ASKED;

	if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_POPCNT))
		return has;
	state = saved_state(c);
	if (!__get_cpuid_count(7, 0, &a, &b, &c, &d))
		return has;
	if ((state & STATE_AVX) == STATE_AVX && (b & avx2) == avx2 && !has_slow_pext(c))
		has |= HAS_AVX2;
	if ((state & STATE_AVX512) == STATE_AVX512 && (b & avx512) == avx512 && (c & vbmi) == vbmi)
		has |= HAS_AVX512;
	return has;
}

/* A virtual machine takes more than 10 us for CPUID, so each thread asks once. */
static uint32_t features(void)
{
	static _Thread_local uint32_t has;

	if (!has)
		has = cpu_features();
	return has;
}

const struct codec_ops *codec_variant(uint32_t i)
{
	const struct codec_ops *all[3];
	uint32_t n = 0;

	if (features() & HAS_AVX512)
		all[n++] = &codec_avx512;
	if (features() & HAS_AVX2)
		all[n++] = &codec_avx2;
	all[n++] = &codec_scalar;
	return i < n ? all[i] : NULL;
}
