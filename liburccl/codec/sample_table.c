/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The symbol table of a chunk, from a sample: the sample costs 3 % of the time that coding 1 MiB
 * takes. Any table decodes to the same data; a worse one only makes the chunk larger. The sample
 * depends on the data alone, so that every processor writes the same bytes.
 */
#include "codec/groups.h"

#define RUNS 128u /* of neighbouring elements, evenly spaced */
#define RUN  16u

/* The exponent of the element at p. */
static uint8_t exponent(uint8_t dtype, const uint8_t *p)
{
	switch (dtype) {
	case URCCL_DTYPE_BF16:
		return (uint8_t)(p[1] << 1 | p[0] >> 7);
	case URCCL_DTYPE_FP16:
		return p[1] >> 2 & 31;
	case URCCL_DTYPE_FP32:
		return (uint8_t)(p[3] << 1 | p[2] >> 7);
	case URCCL_DTYPE_FP8_E4M3:
		return p[0] >> 3 & 15;
	default:
		return p[0] >> 2 & 31;
	}
}

static void count_run(uint8_t dtype, const uint8_t *p, uint32_t n, uint16_t counts[256])
{
	uint32_t bytes = codec_types[dtype].bytes, i;

	for (i = 0; i < n; i++)
		counts[exponent(dtype, p + (uint64_t)i * bytes)]++;
}

/* The number of samples. */
static uint32_t count(uint8_t dtype, const uint8_t *src, uint64_t elems, uint16_t counts[256])
{
	uint32_t bytes = codec_types[dtype].bytes, i;

	if (elems <= RUNS * RUN) {
		count_run(dtype, src, (uint32_t)elems, counts);
		return (uint32_t)elems;
	}
	for (i = 0; i < RUNS; i++)
		count_run(dtype, src + (elems - RUN) * i / (RUNS - 1) * bytes, RUN, counts);
	return RUNS * RUN;
}

/* The most frequent exponent; then those that are next in frequency, and of equal ones those near
 * the first: what a small sample misses lies there. Ends the counts of the chosen. */
static uint32_t choose(uint16_t counts[256], uint32_t values, uint32_t nearest, uint8_t *chosen)
{
	uint32_t best = 0, best_key = 0, i, key, found;

	for (i = 0; i < values; i++) {
		if (counts[i] == UINT16_MAX)
			continue;
		key = (counts[i] + 1u) * 512u - (i < nearest ? nearest - i : i - nearest);
		if (key > best_key) {
			best_key = key;
			best = i;
		}
	}
	found = counts[best];
	counts[best] = UINT16_MAX;
	*chosen = (uint8_t)best;
	return found;
}

/* The bits of the sample's codes. */
static uint32_t table_n23(uint16_t counts[256], uint32_t values, uint32_t n, uint8_t *table)
{
	uint32_t left = n, bits = 2 * n, i, first = 0;

	for (i = 0; i < CODEC_FIRST + CODEC_SECOND; i++) {
		if (i == CODEC_FIRST)
			bits += 3 * left;
		left -= choose(counts, values, first, &table[i]);
		first = table[0];
	}
	return bits + 8 * left;
}

/* The window with the most of the sample. */
static uint32_t table_fw4(const uint16_t counts[256], uint32_t values, uint32_t n, uint8_t *table)
{
	uint32_t inside = 0, best, base;

	for (base = 0; base < CODEC_WINDOW; base++)
		inside += counts[base];
	for (best = inside, base = 1; base + CODEC_WINDOW <= values; base++) {
		inside = inside + counts[base + CODEC_WINDOW - 1] - counts[base - 1];
		if (inside > best) {
			best = inside;
			table[0] = (uint8_t)base;
		}
	}
	return 4 * n + 8 * (n - best);
}

enum codec_mode codec_table(enum codec_mode wanted, uint8_t dtype, const uint8_t *src,
			    uint64_t elems, uint8_t *table)
{
	const struct codec_type *t = &codec_types[dtype];
	uint32_t values = 1u << t->exp_bits, bits, n;
	uint16_t counts[256] = {0};

	memset(table, 0, 16);
	if (wanted == CODEC_RAW || dtype == URCCL_DTYPE_BYTES || !elems)
		return CODEC_RAW;
	n = count(dtype, src, elems, counts);
	if (wanted == CODEC_N23)
		bits = table_n23(counts, values, n, table);
	else
		bits = table_fw4(counts, values, n, table);
	if (bits + n * (t->a_bits + t->b_bits) <= n * t->bytes * 8u * 97u / 100u)
		return wanted;
	memset(table, 0, 16);
	return CODEC_RAW;
}
