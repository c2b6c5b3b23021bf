/* SPDX-License-Identifier: Apache-2.0 */
/* The variants that this x86 processor runs. */
#include <cpuid.h>
#include <sys/platform/x86.h>
#include "codec/codec.h"

extern const struct codec_ops codec_avx2, codec_avx512;

/* AMD's Zen 1 and 2 take some 20 cycles and more for pext and pdep. */
static int has_slow_pext(void)
{
	unsigned int a, b, c, d;

	if (!__get_cpuid(0, &a, &b, &c, &d) || c != signature_AMD_ecx)
		return 0;
	if (!__get_cpuid(1, &a, &b, &c, &d))
		return 0;
	return (a >> 8 & 15) + (a >> 20 & 255) == 0x17;
}

static int has_avx2(void)
{
	return x86_cpu_active(x86_cpu_AVX2) && x86_cpu_active(x86_cpu_BMI2) &&
	       x86_cpu_active(x86_cpu_POPCNT) && !has_slow_pext();
}

static int has_avx512(void)
{
	return x86_cpu_active(x86_cpu_AVX512BW) && x86_cpu_active(x86_cpu_AVX512VL) &&
	       x86_cpu_active(x86_cpu_AVX512_VBMI) && x86_cpu_active(x86_cpu_AVX512_VBMI2) &&
	       x86_cpu_active(x86_cpu_POPCNT);
}

const struct codec_ops *codec_variant(uint32_t i)
{
	const struct codec_ops *all[3];
	uint32_t n = 0;

	if (has_avx512())
		all[n++] = &codec_avx512;
	if (has_avx2())
		all[n++] = &codec_avx2;
	all[n++] = &codec_scalar;
	return i < n ? all[i] : NULL;
}
