/* SPDX-License-Identifier: Apache-2.0 */
/* A tile's codes and its place in the chunk. */
#ifndef CODEC_KERNELS_ENCODE_CUH
#define CODEC_KERNELS_ENCODE_CUH

#include "head.cuh"

/* Eight elements' second codes and the number of them; bit 8 * byte + group of acc: a byte
 * follows. */
template <int D, int M>
__device__ __forceinline__ void encode4(const struct shared *s, const struct tile_places *p,
					uint32_t e, uint32_t g, uint32_t *codes, uint32_t *q,
					uint32_t *nq, uint32_t *acc)
{
	const uint8_t *lut = (const uint8_t *)s->lut;
	uint32_t c, pick, left, v;

	c = __byte_perm(__byte_perm(lut[e & 255], lut[e >> 8 & 255], 0x0040),
			__byte_perm(lut[e >> 16 & 255], lut[e >> 24], 0x0040), 0x5410);
	if (p->n * type_of(D).bytes < TILE) {
		left = left_of(p->n, threadIdx.x * of<D>::elems + 4 * g);
		c = left < 4 ? c & ((1u << 8 * left) - 1) : c;
	}
	acc[g / 8] |= (c >> 3 & 0x01010101) << g % 8;
	if (M == FW4) {
		codes[g / 2] |= pack_4bit((c & 0x03030303) | (c >> 2 & 0x0c0c0c0c)) << g % 2 * 16;
		return;
	}
	/* Four fields of two bits come together in the product's highest byte. */
	codes[g / 4] |= (c & 0x03030303) * 0x01041040u >> 24 << g % 4 * 8;
	pick = s->pick[(c & 0x80808080) * 0x00204081u >> 28];
	v = pack_3bit(__byte_perm(c >> 4 & 0x07070707, 0, pick));
	if (g % 2 == 0) {
		q[g / 2] = v;
		nq[g / 2] = pick >> 16;
	} else {
		q[g / 2] |= v << 3 * nq[g / 2];
		nq[g / 2] += pick >> 16;
	}
}

/* The exponent of element i of the data. */
template <int D> __device__ __forceinline__ uint8_t exponent(const uint8_t *src, uint64_t i)
{
	const struct type t = type_of(D);
	const uint32_t bits = t.bytes == 1 ? 8 : 16;
	const uint8_t *p = src + i * t.bytes + t.bytes - 1;
	uint32_t v = bits == 16 ? p[0] << 8 | p[-1] : p[0];

	return (uint8_t)(v >> (bits - 1 - t.exp_bits) & ((1u << t.exp_bits) - 1));
}

/* The thread's exponents without a code, as bytes from base on; elements are counted from first. */
template <int D>
__device__ __forceinline__ void put_exponents(struct shared *s, const uint8_t *src, uint64_t first,
					      uint32_t acc, uint32_t base)
{
	uint32_t left, b, g, byte, before, at;

	for (left = acc; left; left &= left - 1) {
		b = __ffs((int)left) - 1;
		g = b & 7;
		byte = b >> 3;
		before =
			0x01010101u * ((1u << g) - 1) | (0x01010101u << g & ((1u << 8 * byte) - 1));
		at = base + __popc(acc & before);
		if (at < VAR_MAX)
			atomicOr(&s->var[at / 4], (uint32_t)exponent<D>(src, first + 4 * g + byte)
							  << at % 4 * 8);
	}
}

template <int D, int M>
__device__ __forceinline__ void put_sections(const struct tile_places *p, const uint32_t *a,
					     const uint32_t *b, const uint32_t *codes)
{
	const struct type type = type_of(D);
	const uint32_t t = threadIdx.x;
	uint32_t bytes = of<D>::elems * type.a_bits / 8;

	if (of<D>::a_words == 8 && p->bytes == TILE)
		put_pairs(p->place[0] + t * bytes, a);
	else
		put_words<of<D>::a_words>(p->place[0] + t * bytes, a,
					  left_of(p->share[0], t * bytes));
	bytes = of<D>::elems * type.b_bits / 8;
	if (bytes)
		put_words<of<D>::b_words>(p->place[1] + t * bytes, b,
					  left_of(p->share[1], t * bytes));
	bytes = of<D>::elems / (M == N23 ? 4 : 2);
	put_words<of<D>::elems / (M == N23 ? 16 : 8)>(p->place[2] + t * bytes, codes,
						      left_of(p->share[2], t * bytes));
}

/* Fills s->var with the tile's part of it. Returns the index's counts, first | second << 16. */
template <int D, int M>
__device__ __forceinline__ uint32_t code_tile(struct shared *s, const struct tile_places *p,
					      const uint8_t *src)
{
	const int groups = of<D>::elems / 4;
	uint32_t w[16], a[8] = {0}, b[4] = {0}, codes[groups / 2] = {0}, q[groups / 2],
			nq[groups / 2];
	uint32_t acc[(groups + 7) / 8] = {0}, warp = threadIdx.x >> 5, sum = 0, bytes = 0, before,
				    at, i;
	uint32_t total, first;

	for (i = threadIdx.x; i < VAR_MAX / 4; i += THREADS)
		s->var[i] = 0;
	warp_load(s->row[warp], src + warp * 2048, left_of(p->bytes, warp * 2048), w);
#pragma unroll
	for (i = 0; i < groups; i++)
		encode4<D, M>(s, p, split4<D>(w, i, a, b), i, codes, q, nq, acc);
	put_sections<D, M>(p, a, b, codes);
#pragma unroll
	for (i = 0; i < groups / 2; i++)
		sum += M == N23 ? nq[i] : 0;
#pragma unroll
	for (i = 0; i < (groups + 7) / 8; i++)
		bytes += __popc(acc[i]);
	/* A tile has up to 16,384 elements: each sum fits 16 bits. */
	before = block_scan(s, sum | bytes << 16, &total);
	first = total & 0xffff;
#pragma unroll
	for (i = 0, at = 3 * (before & 0xffff); i < groups / 2; i++) {
		unsigned long long v = M == N23 ? (unsigned long long)q[i] << at % 32 : 0;

		if ((uint32_t)v)
			atomicOr(&s->var[at / 32], (uint32_t)v);
		if (v >> 32)
			atomicOr(&s->var[at / 32 + 1], (uint32_t)(v >> 32));
		at += M == N23 ? 3 * nq[i] : 0;
	}
	at = (first * 3 + 7) / 8 + (before >> 16);
#pragma unroll
	for (i = 0; i < (groups + 7) / 8; i++) {
		put_exponents<D>(s, src, threadIdx.x * of<D>::elems + 32 * i, acc[i], at);
		at += __popc(acc[i]);
	}
	return M == N23 ? total : total >> 16;
}

/* The entry of the index; s->start is where the tile's part of var begins. */
__device__ __forceinline__ void place_tile(struct shared *s, volatile unsigned long long *index,
					   uint32_t tile, uint32_t words, uint32_t first,
					   uint32_t second)
{
	uint32_t start;

	if (threadIdx.x < 32) {
		if (threadIdx.x == 0 && tile)
			index[tile] = (unsigned long long)OWN_SIZE << 48 | words;
		start = look_back(index, tile);
		if (threadIdx.x == 0) {
			index[tile] = (unsigned long long)(second | WRITTEN) << 48 |
				      (unsigned long long)first << 32 | (start + words);
			s->start = start;
		}
	}
	__syncthreads();
}

template <int D, int M>
__device__ __forceinline__ void encode_tile(struct shared *s, const struct codec_args *g,
					    const struct layout *l, uint32_t tile)
{
	const uint8_t *src = g->src + (uint64_t)tile * TILE;
	struct tile_places p;
	uint32_t counts, first, second, size, stored, i;

	find_tile<D>(&p, l, g->dst, M, tile);
	counts = code_tile<D, M>(s, &p, src);
	first = counts & 0xffff;
	second = counts >> 16;
	size = M == N23 ? (first * 3 + 7) / 8 + second : first;
	stored = size > p.share[3];
	if (stored) {
		first = STORED;
		second = 0;
		size = p.share[3];
	}
	place_tile(s, (volatile unsigned long long *)(g->dst + l->index), tile, (size + 3) / 4,
		   first, second);
	p.place[3] += 4ull * s->start;
	if (!stored) {
		for (i = threadIdx.x; i < (size + 3) / 4; i += THREADS)
			((uint32_t *)p.place[3])[i] = s->var[i];
		return;
	}
	store_tile(&p, src);
}

template <int D> __device__ __forceinline__ void encode_tiles(const struct codec_args *g)
{
	extern __shared__ uint4 memory[];
	struct shared *s = (struct shared *)memory;
	const struct head *h = (const struct head *)g->dst;
	uint32_t tile;

	if (h->mode == RAW) {
		copy_tiles(s, g->src, g->dst + sizeof(*h), g->n, g->result);
		return;
	}
	if (D == BYTES)
		return;
	if (threadIdx.x == 0)
		s->at = lay_out(D, g->mode, g->n);
	make_lut(s, h->table, g->mode);
	make_pick(s, 1);
	while ((tile = take_next_tile(s, g->result)) < s->at.tiles)
		if (g->mode == N23)
			encode_tile<D, N23>(s, g, &s->at, tile);
		else
			encode_tile<D, FW4>(s, g, &s->at, tile);
}

template <int D> __device__ __forceinline__ void encode(const struct codec_args *g)
{
	if (!beyond_budget(g) && !((const struct head *)g->dst)->reserved[0])
		encode_tiles<D>(g);
	if (is_last_block(g->result))
		finish_encode(g);
}

#endif
