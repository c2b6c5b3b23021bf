/* SPDX-License-Identifier: Apache-2.0 */
/* CRC32C by the crc32 instruction of SSE4.2. */
#include <cpuid.h>
#include "base/crc32c.h"

#define FAST __attribute__((target("sse4.2")))

/* In a virtual machine CPUID takes a microsecond or more, so each thread asks once. */
int crc32c_is_fast(void)
{
	static _Thread_local uint8_t asked, fast;
	uint32_t a, b, c = 0, d;

	if (!asked) {
		fast = __get_cpuid(1, &a, &b, &c, &d) && c & bit_SSE4_2;
		asked = 1;
	}
	return fast;
}

FAST static uint32_t three(uint32_t crc, const uint8_t *p, uint32_t run,
			   const uint32_t past[4][256])
{
	uint64_t a = crc, b = 0, c = 0;
	const uint8_t *end = p + run;

	for (; p != end; p += 8) {
		a = __builtin_ia32_crc32di(a, crc32c_word(p));
		b = __builtin_ia32_crc32di(b, crc32c_word(p + run));
		c = __builtin_ia32_crc32di(c, crc32c_word(p + 2 * run));
	}
	b ^= crc32c_past(past, (uint32_t)a);
	return (uint32_t)c ^ crc32c_past(past, (uint32_t)b);
}

FAST uint32_t crc32c_fast(uint32_t crc, const uint8_t *p, size_t len)
{
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
