/* SPDX-License-Identifier: Apache-2.0 */
/* The variants that this x86 processor runs. */
#include <sys/platform/x86.h>
#include "codec/codec.h"

extern const struct codec_ops codec_avx2, codec_avx512;

/* AMD's Zen 1 and 2 take 18 cycles and more for pext and pdep. Only AMD has SSE4A, and its
 * processors have VAES from Zen 3. The cpuid instruction would name them too, but a virtual
 * machine takes more than 10 us for it. */
static int has_slow_pext(void)
{
	return x86_cpu_active(x86_cpu_SSE4A) && !x86_cpu_active(x86_cpu_VAES);
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
