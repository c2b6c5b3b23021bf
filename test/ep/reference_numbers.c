/* SPDX-License-Identifier: Apache-2.0 */
#include "reference.h"

#include <math.h>
#include <string.h>

float ref_from_bf16(uint16_t v)
{
	uint32_t bits = (uint32_t)v << 16;
	float f;

	memcpy(&f, &bits, sizeof(f));
	return f;
}

uint16_t ref_to_bf16(float v)
{
	uint32_t bits;

	if (isnan(v))
		return 0x7fff;
	memcpy(&bits, &v, sizeof(bits));
	return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

float ref_from_e4m3(uint8_t v)
{
	const int exponent = v >> 3 & 15, mantissa = v & 7;
	float f = exponent ? ldexpf((float)(8 + mantissa), exponent - 10)
			   : ldexpf((float)mantissa, -9);

	if ((v & 0x7f) == 0x7f)
		f = NAN;
	return v & 0x80 ? -f : f;
}

uint8_t ref_to_e4m3(float v)
{
	const uint8_t sign = signbit(v) ? 0x80 : 0;
	int exponent;
	float steps;

	if (isnan(v))
		return 0x7f;
	v = fabsf(v);
	if (v == 0)
		return sign;
	if (v >= 448)
		return sign | 0x7e;
	/* The distance of neighbours is 2^(exponent - 4), for v in [2^(exponent - 1), 2^exponent),
	 * and 2^-9 at least. */
	frexpf(v, &exponent);
	if (exponent < -5)
		exponent = -5;
	steps = rintf(ldexpf(v, 4 - exponent));
	/* steps is 0 to 16; from 8 on the exponent field is exponent + 6. */
	return sign | (uint8_t)((exponent + 5) * 8 + (int)steps);
}
