/* SPDX-License-Identifier: Apache-2.0 */
/* For processors for which we know no CRC32C instruction. */
#include "base/crc32c.h"

int crc32c_is_fast(void)
{
	return 0;
}

uint32_t crc32c_fast(uint32_t crc, const uint8_t *p, size_t len)
{
	return crc32c_slow(crc, p, len);
}
