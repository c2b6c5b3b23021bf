/* SPDX-License-Identifier: Apache-2.0 */
/* The loops that compilers vectorize: splitting and joining elements, included by every variant. */
#ifndef CODEC_GROUPS_H
#define CODEC_GROUPS_H

#include <endian.h>
#include <string.h>
#include "codec/codec.h"

static inline uint64_t load64(const uint8_t *p)
{
	uint64_t v;

	memcpy(&v, p, sizeof(v));
	return le64toh(v);
}

static inline void store64(uint8_t *p, uint64_t v)
{
	v = htole64(v);
	memcpy(p, &v, sizeof(v));
}

static inline uint32_t whole_groups(uint32_t n)
{
	return (n + CODEC_GROUP - 1) / CODEC_GROUP * CODEC_GROUP;
}

/* Eight values of 24 bits to 24 bytes, and back. */
static inline void put_24(const uint64_t v[8], uint8_t *p)
{
	store64(p, v[0] | v[1] << 24 | v[2] << 48);
	store64(p + 8, v[2] >> 16 | v[3] << 8 | v[4] << 32 | v[5] << 56);
	store64(p + 16, v[5] >> 8 | v[6] << 16 | v[7] << 40);
}

static inline void get_24(uint64_t v[8], const uint8_t *p)
{
	uint64_t x = load64(p), y = load64(p + 8), z = load64(p + 16), m = 0xffffff;

	v[0] = x & m;
	v[1] = x >> 24 & m;
	v[2] = (x >> 48 | y << 16) & m;
	v[3] = y >> 8 & m;
	v[4] = y >> 32 & m;
	v[5] = (y >> 56 | z << 8) & m;
	v[6] = z >> 16 & m;
	v[7] = z >> 40;
}

/* An element rotated left by one has its exponent in the highest bits and its sign in the lowest.
 * */
static inline void split_bf16(const uint8_t *restrict src, uint32_t n, uint8_t *restrict a,
			      uint8_t *b, uint8_t *restrict exps)
{
	uint32_t i;
	uint16_t v;

	(void)b;
	for (i = 0; i < whole_groups(n); i++) {
		memcpy(&v, src + 2 * i, 2);
		v = (uint16_t)(v << 1 | v >> 15);
		a[i] = (uint8_t)v;
		exps[i] = (uint8_t)(v >> 8);
	}
}

static inline void join_bf16(const uint8_t *restrict a, const uint8_t *b,
			     const uint8_t *restrict exps, uint32_t n, uint8_t *restrict dst)
{
	uint32_t i;
	uint16_t v;

	(void)b;
	for (i = 0; i < whole_groups(n); i++) {
		v = (uint16_t)(exps[i] << 8 | a[i]);
		v = (uint16_t)(v >> 1 | v << 15);
		memcpy(dst + 2 * i, &v, 2);
	}
}

static inline void split_fp16(const uint8_t *restrict src, uint32_t n, uint8_t *restrict a,
			      uint8_t *restrict b, uint8_t *restrict exps)
{
	uint32_t i;
	uint16_t v;

	for (i = 0; i < whole_groups(n); i++) {
		memcpy(&v, src + 2 * i, 2);
		v = (uint16_t)(v << 1 | v >> 15);
		a[i] = (uint8_t)v;
		b[i] = (uint8_t)(v >> 8 & 7);
		exps[i] = (uint8_t)(v >> 11);
	}
}

static inline void join_fp16(const uint8_t *restrict a, const uint8_t *restrict b,
			     const uint8_t *restrict exps, uint32_t n, uint8_t *restrict dst)
{
	uint32_t i;
	uint16_t v;

	for (i = 0; i < whole_groups(n); i++) {
		v = (uint16_t)(exps[i] << 11 | b[i] << 8 | a[i]);
		v = (uint16_t)(v >> 1 | v << 15);
		memcpy(dst + 2 * i, &v, 2);
	}
}

static inline void split_fp32(const uint8_t *restrict src, uint32_t n, uint8_t *restrict a,
			      uint8_t *restrict b, uint8_t *restrict exps)
{
	uint32_t i, v;
	uint16_t low;

	for (i = 0; i < whole_groups(n); i++) {
		memcpy(&v, src + 4 * i, 4);
		v = v << 1 | v >> 31;
		low = (uint16_t)v;
		memcpy(a + 2 * i, &low, 2);
		b[i] = (uint8_t)(v >> 16);
		exps[i] = (uint8_t)(v >> 24);
	}
}

static inline void join_fp32(const uint8_t *restrict a, const uint8_t *restrict b,
			     const uint8_t *restrict exps, uint32_t n, uint8_t *restrict dst)
{
	uint32_t i, v;
	uint16_t low;

	for (i = 0; i < whole_groups(n); i++) {
		memcpy(&low, a + 2 * i, 2);
		v = (uint32_t)exps[i] << 24 | (uint32_t)b[i] << 16 | low;
		v = v >> 1 | v << 31;
		memcpy(dst + 4 * i, &v, 4);
	}
}

static inline void split_e4m3(const uint8_t *restrict src, uint32_t n, uint8_t *restrict a,
			      uint8_t *b, uint8_t *restrict exps)
{
	uint32_t i;

	(void)b;
	for (i = 0; i < whole_groups(n); i++) {
		a[i] = (uint8_t)((src[i] << 1 & 14) | src[i] >> 7);
		exps[i] = (uint8_t)(src[i] >> 3 & 15);
	}
}

static inline void join_e4m3(const uint8_t *restrict a, const uint8_t *b,
			     const uint8_t *restrict exps, uint32_t n, uint8_t *restrict dst)
{
	uint32_t i;

	(void)b;
	for (i = 0; i < whole_groups(n); i++)
		dst[i] = (uint8_t)((a[i] & 1) << 7 | (exps[i] & 15) << 3 | a[i] >> 1);
}

static inline void split_e5m2(const uint8_t *restrict src, uint32_t n, uint8_t *restrict a,
			      uint8_t *b, uint8_t *restrict exps)
{
	uint32_t i;

	(void)b;
	for (i = 0; i < whole_groups(n); i++) {
		a[i] = (uint8_t)((src[i] << 1 & 6) | src[i] >> 7);
		exps[i] = (uint8_t)(src[i] >> 2 & 31);
	}
}

static inline void join_e5m2(const uint8_t *restrict a, const uint8_t *b,
			     const uint8_t *restrict exps, uint32_t n, uint8_t *restrict dst)
{
	uint32_t i;

	(void)b;
	for (i = 0; i < whole_groups(n); i++)
		dst[i] = (uint8_t)((a[i] & 1) << 7 | (exps[i] & 31) << 2 | a[i] >> 1);
}

#endif
