/* SPDX-License-Identifier: Apache-2.0 */
/* SipHash-2-4 with 128-bit output, written after the paper (Aumasson and Bernstein, 2012). */
#include <sys/random.h>

#include "base/base.h"

static uint64_t load_le64(const uint8_t *p)
{
	uint64_t v = 0;
	int i;

	for (i = 7; i >= 0; i--)
		v = v << 8 | p[i];
	return v;
}

static void store_le64(uint8_t *p, uint64_t v)
{
	int i;

	for (i = 0; i < 8; i++)
		p[i] = (uint8_t)(v >> (8 * i));
}

static uint64_t rotate_left(uint64_t x, unsigned int n)
{
	return x << n | x >> (64 - n);
}

static void sip_rounds(uint64_t v[4], int n)
{
	while (n--) {
		v[0] += v[1];
		v[2] += v[3];
		v[1] = rotate_left(v[1], 13) ^ v[0];
		v[3] = rotate_left(v[3], 16) ^ v[2];
		v[0] = rotate_left(v[0], 32);
		v[2] += v[1];
		v[0] += v[3];
		v[1] = rotate_left(v[1], 17) ^ v[2];
		v[3] = rotate_left(v[3], 21) ^ v[0];
		v[2] = rotate_left(v[2], 32);
	}
}

static void sip_word(uint64_t v[4], uint64_t word)
{
	v[3] ^= word;
	sip_rounds(v, 2);
	v[0] ^= word;
}

void siphash128(const uint8_t key[16], const void *data, size_t len, uint8_t out[16])
{
	uint64_t k0 = load_le64(key), k1 = load_le64(key + 8);
	/* The constants of the paper, "somepseudorandomlygeneratedbytes"; 0xee selects 128-bit
	 * output. */
	uint64_t v[4] = {
		k0 ^ 0x736f6d6570736575ull,
		k1 ^ 0x646f72616e646f6dull ^ 0xee,
		k0 ^ 0x6c7967656e657261ull,
		k1 ^ 0x7465646279746573ull,
	};
	uint64_t last = (uint64_t)len << 56;
	const uint8_t *p = data;
	size_t i;

	for (i = 0; i + 8 <= len; i += 8)
		sip_word(v, load_le64(p + i));
	for (; i < len; i++)
		last |= (uint64_t)p[i] << (8 * (i & 7));
	sip_word(v, last);

	v[2] ^= 0xee;
	sip_rounds(v, 4);
	store_le64(out, v[0] ^ v[1] ^ v[2] ^ v[3]);
	v[1] ^= 0xdd;
	sip_rounds(v, 4);
	store_le64(out + 8, v[0] ^ v[1] ^ v[2] ^ v[3]);
}

int machine_hash(const uint8_t key[16], uint8_t out[16])
{
	char id[64];
	int rc = file_line("/proc/sys/kernel/random/boot_id", id, sizeof(id) - 1);
	size_t len = rc ? 0 : strlen(id);

	if (rc)
		return rc;
	if (len < 32)
		return -ENODATA;
	id[len++] = '\n'; /* The hash includes the newline, as it always has */
	siphash128(key, id, len, out);
	return 0;
}

int random_bytes(void *buf, size_t len)
{
	uint8_t *p = buf;
	ssize_t n;

	while (len) {
		n = getrandom(p, len, 0);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		p += n;
		len -= (size_t)n;
	}
	return 0;
}

int equal_const_time(const void *a, const void *b, size_t len)
{
	const uint8_t *x = a, *y = b;
	uint8_t differ = 0;
	size_t i;

	for (i = 0; i < len; i++)
		differ |= (uint8_t)(x[i] ^ y[i]);
	return !differ;
}
