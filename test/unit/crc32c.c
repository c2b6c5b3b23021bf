/* SPDX-License-Identifier: Apache-2.0 */
/* CRC32C gives the vectors of RFC 3720; by tables and by the processor's instruction it is what its
 * definition says, for every length, place and cut. */
#include <stdlib.h>
#include "base/crc32c.h"
#include "random.h"
#include "test.h"

#define MOST 20000u

static uint32_t by_definition(const uint8_t *p, size_t len)
{
	uint32_t crc = ~0u, bit;

	for (; len; p++, len--) {
		crc ^= *p;
		for (bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78u : 0);
	}
	return ~crc;
}

static void vectors(void)
{
	uint8_t bytes[32];
	uint32_t i;

	CHECK_EQ(crc32c(0, "123456789", 9), 0xe3069283u);
	memset(bytes, 0, sizeof(bytes));
	CHECK_EQ(crc32c(0, bytes, sizeof(bytes)), 0x8a9136aau);
	memset(bytes, 0xff, sizeof(bytes));
	CHECK_EQ(crc32c(0, bytes, sizeof(bytes)), 0x62a8ab43u);
	for (i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)i;
	CHECK_EQ(crc32c(0, bytes, sizeof(bytes)), 0x46dd794eu);
	for (i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)(31 - i);
	CHECK_EQ(crc32c(0, bytes, sizeof(bytes)), 0x113fdb5cu);
	CHECK_EQ(crc32c(0, bytes, 0), 0);
}

static void same(const uint8_t *p, size_t len, size_t cut)
{
	uint32_t right = by_definition(p, len);

	CHECK_EQ(~crc32c_slow(~0u, p, len), right);
	if (crc32c_is_fast())
		CHECK_EQ(~crc32c_fast(~0u, p, len), right);
	CHECK_EQ(crc32c(crc32c(0, p, cut), p + cut, len - cut), right);
}

int case_crc32c(void)
{
	uint8_t *bytes = malloc(MOST + 8);
	uint64_t seed = 1;
	uint32_t i;

	CHECK(bytes);
	vectors();
	for (i = 0; i < MOST + 8; i++)
		bytes[i] = (uint8_t)random_next(&seed);
	for (i = 0; i < 300; i++)
		same(bytes + i % 8, i, i / 3);
	for (i = 0; i < 200; i++) {
		uint32_t len = (uint32_t)(random_next(&seed) % MOST);

		same(bytes + i % 8, len, random_next(&seed) % (len + 1));
	}
	free(bytes);
	return 0;
}
