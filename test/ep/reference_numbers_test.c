/* SPDX-License-Identifier: Apache-2.0 */
/* Conversions give the nearest number, and of two the one with an even code. */
#include "cases.h"

#include <math.h>

#include "test.h"

/* By trying all numbers. */
static uint8_t nearest_e4m3(float v)
{
	uint8_t best = 0;
	double least = INFINITY;

	for (int code = 0; code < 0x7f; code++) {
		double distance = fabs(fabs((double)v) - ref_from_e4m3((uint8_t)code));

		if (distance < least || (distance == least && code % 2 == 0))
			best = (uint8_t)code, least = distance;
	}
	return best | (signbit(v) ? 0x80 : 0);
}

static void check_bf16(float v)
{
	const uint16_t code = ref_to_bf16(v);
	const double below = ref_from_bf16(code - 1), above = ref_from_bf16(code + 1);
	const double distance = fabs(v - (double)ref_from_bf16(code));

	CHECK(distance <= fabs(v - below) && distance <= fabs(v - above));
	if (distance == fabs(v - below) || distance == fabs(v - above))
		CHECK_EQ(code % 2, 0);
}

int main(void)
{
	struct random r = {1};

	/* Known codes: 2^-9, 1, 448, and those of the infinite and of what is no number. */
	CHECK(ref_from_e4m3(0x01) == 1 / 512.0f && ref_from_e4m3(0x38) == 1);
	CHECK(ref_from_e4m3(0x7e) == 448 && isnan(ref_from_e4m3(0x7f)));
	CHECK_EQ(ref_to_e4m3(INFINITY), 0x7e);
	CHECK_EQ(ref_to_e4m3(-1e9f), 0xfe);
	CHECK_EQ(ref_to_e4m3(NAN), 0x7f);
	CHECK_EQ(ref_to_e4m3(-0.0f), 0x80);
	CHECK_EQ(ref_to_bf16(NAN), 0x7fff);
	CHECK_EQ(ref_to_bf16(INFINITY), 0x7f80);
	for (int code = 0; code < 256; code++)
		if ((code & 0x7f) != 0x7f)
			CHECK_EQ(ref_to_e4m3(ref_from_e4m3((uint8_t)code)), code);
	for (uint32_t v = 0; v < 1 << 16; v++)
		if (!isnan(ref_from_bf16((uint16_t)v))) {
			CHECK_EQ(ref_to_bf16(ref_from_bf16((uint16_t)v)), v);
			CHECK_EQ(ref_to_e4m3(ref_from_bf16((uint16_t)v)),
				 nearest_e4m3(ref_from_bf16((uint16_t)v)));
		}
	for (int i = 0; i < 100000; i++) {
		const float v = ldexpf(random_float(&r), (int)random_below(&r, 24) - 14);

		CHECK_EQ(ref_to_e4m3(v), nearest_e4m3(v));
		check_bf16(v);
	}
	return 0;
}
