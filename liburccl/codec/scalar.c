/* SPDX-License-Identifier: Apache-2.0 */
/* The codec's loops in plain C: the variant of every processor, and the reference of the others. */
#include "codec/groups.h"

/* Eight values, one a byte, to the low bits of the result: neighbours are joined three times. */
static uint64_t pack_eight(uint64_t v, uint32_t bits)
{
	uint64_t m = 0x0101010101010101ull * ((1u << bits) - 1);

	v &= m;
	v = (v | v >> (8 - bits)) & 0x0001000100010001ull * ((1u << 2 * bits) - 1);
	v = (v | v >> (16 - 2 * bits)) & 0x0000000100000001ull * ((1u << 4 * bits) - 1);
	return (v | v >> (32 - 4 * bits)) & ((1ull << 8 * bits) - 1);
}

static uint64_t unpack8(uint64_t v, uint32_t bits)
{
	v = (v | v << (32 - 4 * bits)) & 0x0000000100000001ull * ((1u << 4 * bits) - 1);
	v = (v | v << (16 - 2 * bits)) & 0x0001000100010001ull * ((1u << 2 * bits) - 1);
	return (v | v << (8 - bits)) & 0x0101010101010101ull * ((1u << bits) - 1);
}

/* bits is 2, 3 or 4, so eight values are as many bytes. */
static void pack_bits(const uint8_t *values, uint32_t n, uint32_t bits, uint8_t *packed)
{
	uint32_t i, k;
	uint64_t v;

	for (i = 0; i < whole_groups(n); i += 8) {
		v = pack_eight(load64(values + i), bits);
		for (k = 0; k < bits; k++)
			*packed++ = (uint8_t)(v >> 8 * k);
	}
}

static void unpack(const uint8_t *packed, uint32_t n, uint32_t bits, uint8_t *values)
{
	uint32_t i, k;
	uint64_t v;

	for (i = 0; i < whole_groups(n); i += 8) {
		for (v = 0, k = 0; k < bits; k++)
			v |= (uint64_t)*packed++ << 8 * k;
		store64(values + i, unpack8(v, bits));
	}
}

static uint32_t rank_codes(const uint8_t *exps, uint32_t n, const uint8_t code_of[256],
			   uint32_t bits, uint8_t *codes, uint8_t *rest)
{
	uint8_t escape = (uint8_t)((1u << bits) - 1), group[CODEC_GROUP];
	uint32_t i, k, nrest = 0;

	for (i = 0; i < n; i += CODEC_GROUP) {
		for (k = 0; k < CODEC_GROUP; k++) {
			group[k] = code_of[exps[i + k]];
			rest[nrest] = exps[i + k];
			nrest += group[k] == escape;
		}
		pack_bits(group, CODEC_GROUP, bits, codes + i / 8 * bits);
	}
	return nrest;
}

/* The first of two equal symbols counts. */
static uint32_t rank_table(const uint8_t *exps, uint32_t n, const uint8_t *table, uint32_t symbols,
			   uint32_t bits, uint8_t *codes, uint8_t *rest)
{
	uint8_t code_of[256];
	uint32_t i;

	memset(code_of, (int)symbols, sizeof(code_of));
	for (i = symbols; i-- > 0;)
		code_of[table[i]] = (uint8_t)i;
	return rank_codes(exps, n, code_of, bits, codes, rest);
}

static uint32_t rank_2bit(const uint8_t *exps, uint32_t n, const uint8_t *table, uint8_t *codes,
			  uint8_t *rest)
{
	return rank_table(exps, n, table, CODEC_FIRST, 2, codes, rest);
}

static uint32_t rank_3bit(const uint8_t *exps, uint32_t n, const uint8_t *table, uint8_t *codes,
			  uint8_t *rest)
{
	return rank_table(exps, n, table + CODEC_FIRST, CODEC_SECOND, 3, codes, rest);
}

static uint32_t rank_4bit(const uint8_t *exps, uint32_t n, const uint8_t *table, uint8_t *codes,
			  uint8_t *rest)
{
	uint8_t code_of[256];
	uint32_t i;

	memset(code_of, CODEC_WINDOW, sizeof(code_of));
	for (i = 0; i < CODEC_WINDOW; i++)
		code_of[(uint8_t)(table[0] + i)] = (uint8_t)i;
	return rank_codes(exps, n, code_of, 4, codes, rest);
}

static uint32_t unrank(const uint8_t *codes, uint32_t n, uint32_t bits, const uint8_t *exp_of,
		       const uint8_t *rest, uint8_t *exps)
{
	uint8_t escape = (uint8_t)((1u << bits) - 1), group[CODEC_GROUP];
	uint32_t i, k, nrest = 0;

	for (i = 0; i < n; i += CODEC_GROUP) {
		unpack(codes + i / 8 * bits, CODEC_GROUP, bits, group);
		for (k = 0; k < CODEC_GROUP; k++) {
			exps[i + k] = group[k] == escape ? rest[nrest] : exp_of[group[k]];
			nrest += group[k] == escape;
		}
	}
	return nrest;
}

static uint32_t unrank2(const uint8_t *codes, uint32_t n, const uint8_t *table, const uint8_t *rest,
			uint8_t *exps)
{
	return unrank(codes, n, 2, table, rest, exps);
}

static uint32_t unrank3(const uint8_t *codes, uint32_t n, const uint8_t *table, const uint8_t *rest,
			uint8_t *exps)
{
	return unrank(codes, n, 3, table + CODEC_FIRST, rest, exps);
}

static uint32_t unrank4(const uint8_t *codes, uint32_t n, const uint8_t *table, const uint8_t *rest,
			uint8_t *exps)
{
	uint8_t exp_of[CODEC_WINDOW];
	uint32_t i;

	for (i = 0; i < CODEC_WINDOW; i++)
		exp_of[i] = (uint8_t)(table[0] + i);
	return unrank(codes, n, 4, exp_of, rest, exps);
}

static void pack_3bit(const uint8_t *values, uint32_t n, uint8_t *packed)
{
	pack_bits(values, n, 3, packed);
}

static void pack_4bit(const uint8_t *values, uint32_t n, uint8_t *packed)
{
	pack_bits(values, n, 4, packed);
}

static void unpack3(const uint8_t *packed, uint32_t n, uint8_t *values)
{
	unpack(packed, n, 3, values);
}

static void unpack4(const uint8_t *packed, uint32_t n, uint8_t *values)
{
	unpack(packed, n, 4, values);
}

const struct codec_ops codec_scalar = {
	.name = "scalar",
	.split = {NULL, split_bf16, split_fp16, split_fp32, split_e4m3, split_e5m2},
	.join = {NULL, join_bf16, join_fp16, join_fp32, join_e4m3, join_e5m2},
	.rank2 = rank_2bit,
	.rank3 = rank_3bit,
	.rank4 = rank_4bit,
	.unrank2 = unrank2,
	.unrank3 = unrank3,
	.unrank4 = unrank4,
	.pack3 = pack_3bit,
	.pack4 = pack_4bit,
	.unpack3 = unpack3,
	.unpack4 = unpack4,
};
