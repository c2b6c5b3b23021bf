/* SPDX-License-Identifier: Apache-2.0 */
/* CRC32C by the crc32cx and crc32cb instructions of ARMv8. */
#include <sys/auxv.h>
#include "base/crc32c.h"

#define HAS_CRC32 (1ul << 7) /* A bit of AT_HWCAP */

int crc32c_is_fast(void)
{
	return !!(getauxval(AT_HWCAP) & HAS_CRC32);
}

static inline uint32_t eight(uint32_t crc, const uint8_t *p)
{
	__asm__(".arch_extension crc\n\tcrc32cx %w0, %w0, %x1" : "+r"(crc) : "r"(crc32c_word(p)));
	return crc;
}

static inline uint32_t one(uint32_t crc, uint32_t byte)
{
	__asm__(".arch_extension crc\n\tcrc32cb %w0, %w0, %w1" : "+r"(crc) : "r"(byte));
	return crc;
}

static uint32_t three(uint32_t crc, const uint8_t *p, uint32_t run, const uint32_t past[4][256])
{
	const uint8_t *end = p + run;
	uint32_t b = 0, c = 0;

	for (; p != end; p += 8) {
		crc = eight(crc, p);
		b = eight(b, p + run);
		c = eight(c, p + 2 * run);
	}
	b ^= crc32c_past(past, crc);
	return c ^ crc32c_past(past, b);
}

uint32_t crc32c_fast(uint32_t crc, const uint8_t *p, size_t len)
{
	for (; len >= 3 * CRC32C_LONG; p += 3 * CRC32C_LONG, len -= 3 * CRC32C_LONG)
		crc = three(crc, p, CRC32C_LONG, crc32c_past_long);
	for (; len >= 3 * CRC32C_SHORT; p += 3 * CRC32C_SHORT, len -= 3 * CRC32C_SHORT)
		crc = three(crc, p, CRC32C_SHORT, crc32c_past_short);
	for (; len >= 8; p += 8, len -= 8)
		crc = eight(crc, p);
	for (; len; p++, len--)
		crc = one(crc, *p);
	return crc;
}
