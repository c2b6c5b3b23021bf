/* SPDX-License-Identifier: Apache-2.0 */
/* Declarations shared by the files of CRC32C. A CRC here is the bare register, without the
 * complements at both ends. */
#ifndef BASE_CRC32C_H
#define BASE_CRC32C_H

#include "base/base.h"

/* The two run lengths in bytes. Three adjacent runs are computed at the same time: the instruction
 * delivers its result after three cycles, but a new one can start in each cycle. */
#define CRC32C_LONG  4096u
#define CRC32C_SHORT 256u

/* The effect on a register of as many zero bytes as a run has, as one table per byte of the
 * register. */
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

/* The file for the target processor defines these two: crc32c_x86.c, crc32c_arm.c or crc32c_none.c.
 * The first returns whether this processor has the instruction; the second computes the CRC by
 * it. */
int crc32c_is_fast(void);
uint32_t crc32c_fast(uint32_t crc, const uint8_t *p, size_t len);
/* Computes the CRC by tables, on any processor. */
uint32_t crc32c_slow(uint32_t crc, const uint8_t *p, size_t len);

#endif
