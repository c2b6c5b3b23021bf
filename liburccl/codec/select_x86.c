/* SPDX-License-Identifier: Apache-2.0 */
/* The variants that this x86 processor runs. */
#include "codec/codec.h"

extern const struct codec_ops codec_avx2, codec_avx512;

/* AMD's Zen 1 and 2 take 18 cycles and more for pext and pdep. Only AMD has SSE4A, and its
 * processors have VPCLMULQDQ from Zen 3. The cpuid instruction would name them too, but a virtual
 * machine takes more than 10 us for it. */
static int has_slow_pext(void)
{
	return __builtin_cpu_supports("sse4a") && !__builtin_cpu_supports("vpclmulqdq");
}

static int has_avx2(void)
{
	return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi2") &&
	       __builtin_cpu_supports("popcnt") && !has_slow_pext();
}

static int has_avx512(void)
{
	return __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
	       __builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("avx512vbmi2") &&
	       __builtin_cpu_supports("popcnt");
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
