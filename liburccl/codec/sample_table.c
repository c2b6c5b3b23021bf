/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The symbol table of a chunk, from a sample: counting all elements would take longer than to code
 * them. Any table decodes to the same data; a worse one only makes the chunk larger. The sample
 * depends on the data alone, so that every processor writes the same bytes.
 */
#include "codec/groups.h"

#define RUNS	64u /* of neighbouring elements, evenly spaced */
#define RUN	16u
#define SYMBOLS (CODEC_FIRST + CODEC_SECOND)

/* The exponent of the element at p lies below the sign, in its last two bytes or its only one. */
static uint8_t exponent(const struct codec_type *t, const uint8_t *p)
{
	uint32_t bits = t->bytes == 1 ? 8 : 16, v = p[t->bytes - 1];

	if (bits == 16)
		v = v << 8 | p[t->bytes - 2];
	return (uint8_t)(v >> (bits - 1 - t->exp_bits) & ((1u << t->exp_bits) - 1));
}

/* Neighbours are often equal: each of four counts in a table of its own, so that a processor need
 * not wait for the count before. */
static void count_run(uint8_t dtype, const uint8_t *p, uint32_t n, uint16_t counts[4][256])
{
	const struct codec_type t = codec_types[dtype];
	uint32_t i;

	for (i = 0; i < n; i++)
		counts[i & 3][exponent(&t, p + (uint64_t)i * t.bytes)]++;
}

/* The number of samples. */
static uint32_t count_samples(uint8_t dtype, const uint8_t *src, uint64_t elems,
			      uint16_t counts[256])
{
	uint32_t bytes = codec_types[dtype].bytes, n = RUNS * RUN, i;
	uint16_t parts[4][256] = {{0}};

	if (elems <= n) {
		n = (uint32_t)elems;
		count_run(dtype, src, n, parts);
	} else {
		for (i = 0; i < RUNS; i++)
			count_run(dtype, src + (elems - RUN) * i / (RUNS - 1) * bytes, RUN, parts);
	}
	for (i = 0; i < 256; i++)
		counts[i] = (uint16_t)(parts[0][i] + parts[1][i] + parts[2][i] + parts[3][i]);
	return n;
}

/* How good a value is as a symbol: the more frequent, and of equal ones the nearer to the most
 * frequent one, as what a small sample misses lies there; of equally near ones the smaller. 0: not
 * at all. */
static uint32_t weight(uint16_t count, uint32_t value, uint32_t most_frequent)
{
	uint32_t distance = value < most_frequent ? most_frequent - value : value - most_frequent;

	return (count + 1u) * 512u - distance;
}

static uint32_t most_frequent(const uint16_t counts[256])
{
	uint32_t best = 0, i;

	for (i = 1; i < 256; i++)
		if (counts[i] > counts[best])
			best = i;
	return best;
}

/* Keeps the SYMBOLS values of the greatest weights in order; returns the bits of the sample's
 * codes. */
static uint32_t table_n23(const uint16_t counts[256], uint32_t values, uint32_t n, uint8_t *table)
{
	uint32_t top = most_frequent(counts), weights[SYMBOLS + 1] = {0}, first = 0, both = 0;
	uint32_t i, k, v, w;

	/* The best come first, so that few are moved later: top, then its neighbours by distance,
	 * of two equally near ones the smaller. A value beyond the type's ends is left out. */
	for (i = 0; i < 2 * values; i++) {
		v = i % 2 ? top - (i + 1) / 2 : top + i / 2;
		w = v < values ? weight(counts[v], v, top) : 0;
		if (w <= weights[SYMBOLS - 1])
			continue;
		for (k = SYMBOLS; k > 0 && w > weights[k - 1]; k--) {
			weights[k] = weights[k - 1];
			if (k < SYMBOLS)
				table[k] = table[k - 1];
		}
		weights[k] = w;
		table[k] = (uint8_t)v;
	}
	for (i = 0; i < SYMBOLS; i++) {
		both += counts[table[i]];
		first += i < CODEC_FIRST ? counts[table[i]] : 0;
	}
	return 2 * n + 3 * (n - first) + 8 * (n - both);
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
	uint16_t counts[256];

	memset(table, 0, 16);
	if (wanted == CODEC_RAW || dtype == URCCL_DTYPE_BYTES || !elems)
		return CODEC_RAW;
	n = count_samples(dtype, src, elems, counts);
	if (wanted == CODEC_N23)
		bits = table_n23(counts, values, n, table);
	else
		bits = table_fw4(counts, values, n, table);
	if (bits + n * (t->a_bits + t->b_bits) <= n * t->bytes * 8u * 97u / 100u)
		return wanted;
	memset(table, 0, 16);
	return CODEC_RAW;
}
