/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of CRC32C share. Here a CRC is the register itself, without the complements at
 * both ends. */
#ifndef BASE_CRC32C_H
#define BASE_CRC32C_H

#include "base/base.h"

/* Three runs of so many bytes are taken side by side: the instruction has its result after three
 * cycles and takes new work in each. */
#define CRC32C_LONG  4096u
#define CRC32C_SHORT 256u

/* What a register becomes by as many zero bytes, by its bytes. */
extern const uint32_t crc32c_past_long[4][256], crc32c_past_short[4][256];

static inline uint32_t crc32c_past(const uint32_t by[4][256], uint32_t crc)
{
	return by[0][crc & 0xff] ^ by[1][crc >> 8 & 0xff] ^ by[2][crc >> 16 & 0xff] ^
	       by[3][crc >> 24];
}

static inline uint64_t crc32c_word(const uint8_t *p)
{
	uint64_t word;

	memcpy(&word, p, sizeof(word));
	return word;
}

/* One of crc32c_x86.c, crc32c_arm.c and crc32c_none.c, by the processor built for: whether the one
 * here has the instruction, and the CRC by it. */
int crc32c_is_fast(void);
uint32_t crc32c_fast(uint32_t crc, const uint8_t *p, size_t len);
/* By tables, on any processor. */
uint32_t crc32c_slow(uint32_t crc, const uint8_t *p, size_t len);

#endif
