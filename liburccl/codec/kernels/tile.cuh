/* SPDX-License-Identifier: Apache-2.0 */
/* The parts that encode and decode share: tiles, sections, bits. */
#ifndef CODEC_KERNELS_TILE_CUH
#define CODEC_KERNELS_TILE_CUH

#include "format.cuh"

__device__ __forceinline__ uint32_t count_tile(uint64_t *result)
{
	return threadIdx.x ? 0 : (uint32_t)atomicAdd((unsigned long long *)result, 1ull);
}

/* The next tile for the block, or one behind the last. *next is the first thread's tile after it:
 * for a decode it is counted a tile before it is needed, because an atomic operation takes about 1
 * us. An encode must not hold a tile that it does not work on: the blocks with later tiles look
 * back to it. */
__device__ __forceinline__ uint32_t take_tile(struct shared *s, uint64_t *result, uint32_t *next)
{
	__syncthreads();
	if (threadIdx.x == 0)
		s->tile = *next;
	*next = count_tile(result);
	__syncthreads();
	return s->tile;
}

/* The same, counted now. */
__device__ __forceinline__ uint32_t take_next_tile(struct shared *s, uint64_t *result)
{
	__syncthreads();
	if (threadIdx.x == 0)
		s->tile = count_tile(result);
	__syncthreads();
	return s->tile;
}

/* True in the first thread of the last block that calls it, which sees the writes of all blocks.
 * Each block calls it once, at its end. The result word counts blocks from bit 32 on. */
__device__ __forceinline__ int is_last_block(uint64_t *result)
{
	unsigned long long before;

	__syncthreads();
	if (threadIdx.x)
		return 0;
	__threadfence();
	before = atomicAdd((unsigned long long *)result, 1ull << 32);
	__threadfence();
	return (before & ~FAILED) >> 32 == gridDim.x - 1;
}

__device__ __forceinline__ int beyond_budget(const struct codec_args *g)
{
	uint32_t sm;

	asm("mov.u32 %0, %%smid;" : "=r"(sm));
	return sm >= g->sms;
}

/* The sum of v over the block's threads before this one; *total: over all. */
__device__ __forceinline__ uint32_t block_scan(struct shared *s, uint32_t v, uint32_t *total)
{
	uint32_t lane = threadIdx.x & 31, warp = threadIdx.x >> 5, sum = v, before = 0, all = 0, i,
		 x;

	for (i = 1; i < 32; i <<= 1) {
		x = __shfl_up_sync(~0u, sum, i);
		sum += lane >= i ? x : 0;
	}
	__syncthreads();
	if (lane == 31)
		s->warp_sum[warp] = sum;
	__syncthreads();
#pragma unroll
	for (i = 0; i < 8; i++) {
		x = s->warp_sum[i];
		before += i < warp ? x : 0;
		all += x;
	}
	*total = all;
	return before + sum - v;
}

/* By one warp: where the tile's part of var begins, in words. */
__device__ __forceinline__ uint32_t look_back(volatile unsigned long long *index, uint32_t tile)
{
	uint32_t lane = threadIdx.x & 31, sum = 0, ends, part, i;
	long long at = (long long)tile - 1 - lane;
	unsigned long long entry;

	for (;; at -= 32) {
		entry = (unsigned long long)WRITTEN << 48;
		if (at >= 0)
			do
				entry = index[at];
			while (!entry);
		ends = __ballot_sync(~0u, (int)(entry >> 63));
		part = ends && lane >= (uint32_t)__ffs((int)ends) ? 0 : (uint32_t)entry;
		for (i = 16; i; i >>= 1)
			part += __shfl_xor_sync(~0u, part, i);
		sum += part;
		if (ends)
			return sum;
	}
}

/* 16 bytes at any address; fewer where they end. */
__device__ __forceinline__ uint4 load16(const uint8_t *p, uint32_t n)
{
	union {
		uint4 v;
		uint8_t bytes[16];
	} u;
	uint32_t i;

	if (n >= 16 && !((uintptr_t)p & 15))
		return *(const uint4 *)p;
	u.v = make_uint4(0, 0, 0, 0);
#pragma unroll
	for (i = 0; i < 16; i++)
		if (i < n)
			u.bytes[i] = p[i];
	return u.v;
}

__device__ __forceinline__ void store16(uint8_t *p, uint4 v, uint32_t n)
{
	union {
		uint4 v;
		uint8_t bytes[16];
	} u;
	uint32_t i;

	if (n >= 16 && !((uintptr_t)p & 15)) {
		*(uint4 *)p = v;
		return;
	}
	u.v = v;
#pragma unroll
	for (i = 0; i < 16; i++)
		if (i < n)
			p[i] = u.bytes[i];
}

__device__ __forceinline__ uint32_t left_of(uint32_t n, uint32_t at)
{
	return n > at ? n - at : 0;
}

/* 2 KiB of the warp, of which n are there: coalesced in global memory, 64 bytes per thread in w. */
__device__ __forceinline__ void warp_load(uint32_t *row, const uint8_t *src, uint32_t n,
					  uint32_t w[16])
{
	uint32_t lane = threadIdx.x & 31, i, p;
	uint4 v[4];

#pragma unroll
	for (i = 0; i < 4; i++)
		v[i] = load16(src + (i * 32 + lane) * 16, left_of(n, (i * 32 + lane) * 16));
#pragma unroll
	for (i = 0; i < 4; i++) {
		p = i * 32 + lane;
		*(uint4 *)(row + (p >> 2) * 20 + (p & 3) * 4) = v[i];
	}
	__syncwarp();
#pragma unroll
	for (i = 0; i < 4; i++)
		*(uint4 *)(w + 4 * i) = *(uint4 *)(row + lane * 20 + i * 4);
	__syncwarp();
}

__device__ __forceinline__ void warp_store(uint32_t *row, uint8_t *dst, uint32_t n,
					   const uint32_t w[16])
{
	uint32_t lane = threadIdx.x & 31, i, p;

#pragma unroll
	for (i = 0; i < 4; i++)
		*(uint4 *)(row + lane * 20 + i * 4) = *(const uint4 *)(w + 4 * i);
	__syncwarp();
#pragma unroll
	for (i = 0; i < 4; i++) {
		p = i * 32 + lane;
		store16(dst + p * 16, *(uint4 *)(row + (p >> 2) * 20 + (p & 3) * 4),
			left_of(n, p * 16));
	}
	__syncwarp();
}

/* The thread's WORDS of a section, of which n bytes are there. */
template <int WORDS>
__device__ __forceinline__ void put_words(uint8_t *to, const uint32_t *w, uint32_t n)
{
	uint32_t i;

	if (n >= WORDS * 4) {
#pragma unroll
		for (i = 0; i < WORDS; i++)
			if (WORDS % 4 == 0 && i % 4 == 0)
				*(uint4 *)(to + 4 * i) =
					make_uint4(w[i], w[i + 1], w[i + 2], w[i + 3]);
			else if (WORDS % 4 == 2 && i % 2 == 0)
				*(uint2 *)(to + 4 * i) = make_uint2(w[i], w[i + 1]);
			else if (WORDS % 2)
				*(uint32_t *)(to + 4 * i) = w[i];
		return;
	}
#pragma unroll
	for (i = 0; i < WORDS * 4; i++)
		if (i < n)
			to[i] = (uint8_t)(w[i / 4] >> i % 4 * 8);
}

/* The same for 32 bytes of each of a warp's threads: neighbours exchange halves, so that a store
 * of the two covers a whole sector of memory. */
__device__ __forceinline__ void put_pairs(uint8_t *to, const uint32_t *w)
{
	uint32_t odd = threadIdx.x & 1, i, x[4];

#pragma unroll
	for (i = 0; i < 4; i++)
		x[i] = __shfl_xor_sync(~0u, odd ? w[i] : w[4 + i], 1);
	to -= 16 * odd;
	*(uint4 *)to =
		odd ? make_uint4(x[0], x[1], x[2], x[3]) : make_uint4(w[0], w[1], w[2], w[3]);
	*(uint4 *)(to + 32) =
		odd ? make_uint4(w[4], w[5], w[6], w[7]) : make_uint4(x[0], x[1], x[2], x[3]);
}

template <int WORDS>
__device__ __forceinline__ void get_words(const uint8_t *from, uint32_t *w, uint32_t n)
{
	uint32_t i;

	if (n >= WORDS * 4) {
#pragma unroll
		for (i = 0; i < WORDS; i++)
			if (WORDS % 4 == 0 && i % 4 == 0)
				*(uint4 *)(w + i) = *(const uint4 *)(from + 4 * i);
			else if (WORDS % 4 == 2 && i % 2 == 0)
				*(uint2 *)(w + i) = *(const uint2 *)(from + 4 * i);
			else if (WORDS % 2)
				w[i] = *(const uint32_t *)(from + 4 * i);
		return;
	}
#pragma unroll
	for (i = 0; i < WORDS; i++)
		w[i] = 0;
#pragma unroll
	for (i = 0; i < WORDS * 4; i++)
		if (i < n)
			w[i / 4] |= (uint32_t)from[i] << i % 4 * 8;
}

/* Four bytes of 3 or 4 bits each to their low bits, and eight nibbles from packed 3 bits. */
__device__ __forceinline__ uint32_t pack_3bit(uint32_t v)
{
	v = (v & 0x00070007) | (v >> 5 & 0x00380038);
	return (v & 0x3f) | v >> 10;
}

__device__ __forceinline__ uint32_t pack_4bit(uint32_t v)
{
	v |= v >> 4;
	return (v & 0xff) | (v >> 8 & 0xff00);
}

__device__ __forceinline__ uint32_t nibbles3(uint32_t v)
{
	v = (v & 0xfff) | (v & 0xfff000) << 4;
	v = (v & 0x003f003f) | (v & 0x0fc00fc0) << 2;
	return (v & 0x07070707) | (v & 0x38383838) << 1;
}

/* Four nibbles to bytes. */
__device__ __forceinline__ uint32_t bytes4(uint32_t v)
{
	v = (v & 0xff) | (v & 0xff00) << 8;
	return (v | v << 4) & 0x0f0f0f0f;
}

__device__ __forceinline__ uint32_t rotl_u16(uint32_t v)
{
	return (v << 1 & 0xfffefffe) | (v >> 15 & 0x00010001);
}

__device__ __forceinline__ uint32_t rotr_u16(uint32_t v)
{
	return (v >> 1 & 0x7fff7fff) | (v << 15 & 0x80008000);
}

__device__ __forceinline__ uint32_t rotl_u8x4(uint32_t v)
{
	return (v << 1 & 0xfefefefe) | (v >> 7 & 0x01010101);
}

__device__ __forceinline__ uint32_t rotr_u8x4(uint32_t v)
{
	return (v >> 1 & 0x7f7f7f7f) | (v << 7 & 0x80808080);
}

/* The thread's elements, words of plane a, of plane b and of codes. */
template <int D> struct of {
	static const int elems = D == FP32 ? 16 : D >= E4M3 ? 64 : 32;
	static const int a_words = D == E5M2 ? 6 : 8;
	static const int b_words = D == FP16 ? 3 : D == FP32 ? 4 : 1;
};

/* The exponents of the g-th four elements; their other bits are added to a and b. */
template <int D>
__device__ __forceinline__ uint32_t split4(const uint32_t *w, uint32_t g, uint32_t *a, uint32_t *b)
{
	uint32_t x, y, v, z;

	if (D == FP32) {
		x = __funnelshift_l(w[4 * g], w[4 * g], 1);
		y = __funnelshift_l(w[4 * g + 1], w[4 * g + 1], 1);
		z = __funnelshift_l(w[4 * g + 2], w[4 * g + 2], 1);
		v = __funnelshift_l(w[4 * g + 3], w[4 * g + 3], 1);
		a[2 * g] = __byte_perm(x, y, 0x5410);
		a[2 * g + 1] = __byte_perm(z, v, 0x5410);
		x = __byte_perm(x, y, 0x7362);
		y = __byte_perm(z, v, 0x7362);
		b[g] = __byte_perm(x, y, 0x5410);
		return __byte_perm(x, y, 0x7632);
	}
	if (D >= E4M3) {
		x = rotl_u8x4(w[g]);
		if (D == E4M3) {
			a[g / 2] |= pack_4bit(x & 0x0f0f0f0f) << g % 2 * 16;
			return x >> 4 & 0x0f0f0f0f;
		}
		v = pack_3bit(x & 0x07070707);
		a[g * 12 / 32] |= v << g * 12 % 32;
		if (g * 12 % 32 > 20)
			a[g * 12 / 32 + 1] |= v >> (32 - g * 12 % 32);
		return x >> 3 & 0x1f1f1f1f;
	}
	x = rotl_u16(w[2 * g]);
	y = rotl_u16(w[2 * g + 1]);
	a[g] = __byte_perm(x, y, 0x6420);
	v = __byte_perm(x, y, 0x7531);
	if (D == BF16)
		return v;
	z = pack_3bit(v & 0x07070707);
	b[g * 12 / 32] |= z << g * 12 % 32;
	if (g * 12 % 32 > 20)
		b[g * 12 / 32 + 1] |= z >> (32 - g * 12 % 32);
	return v >> 3 & 0x1f1f1f1f;
}

template <int D>
__device__ __forceinline__ void join_four(const uint32_t *a, const uint32_t *b, uint32_t g,
					  uint32_t e,
				      uint32_t *w)
{
	uint32_t x, y, v;

	if (D == FP32) {
		x = __byte_perm(b[g], e, 0x5140);
		y = __byte_perm(b[g], e, 0x7362);
		v = __byte_perm(a[2 * g], x, 0x5410);
		w[4 * g] = __funnelshift_r(v, v, 1);
		v = __byte_perm(a[2 * g], x, 0x7632);
		w[4 * g + 1] = __funnelshift_r(v, v, 1);
		v = __byte_perm(a[2 * g + 1], y, 0x5410);
		w[4 * g + 2] = __funnelshift_r(v, v, 1);
		v = __byte_perm(a[2 * g + 1], y, 0x7632);
		w[4 * g + 3] = __funnelshift_r(v, v, 1);
		return;
	}
	if (D == E4M3) {
		w[g] = rotr_u8x4((e & 0x0f0f0f0f) << 4 | bytes4(a[g / 2] >> g % 2 * 16 & 0xffff));
		return;
	}
	if (D == E5M2 || D == FP16) {
		const uint32_t *p = D == E5M2 ? a : b;

		v = p[g * 12 / 32] >> g * 12 % 32;
		if (g * 12 % 32 > 20)
			v |= p[g * 12 / 32 + 1] << (32 - g * 12 % 32);
		v = bytes4(nibbles3(v & 0xfff));
		e = (e & 0x1f1f1f1f) << 3 | v;
	}
	if (D == E5M2) {
		w[g] = rotr_u8x4(e);
		return;
	}
	w[2 * g] = rotr_u16(__byte_perm(a[g], e, 0x5140));
	w[2 * g + 1] = rotr_u16(__byte_perm(a[g], e, 0x7362));
}

/*
 * The code of an exponent. N23: bits 0 and 1 the first code, bits 4 to 6 the second one, bit 7
 * set if there is a second one, bit 3 if it is followed by a byte. FW4: bits 0, 1, 4 and 5 are the
 * code, bits 3 and 7 are set if a byte follows.
 */
__device__ void make_lut(struct shared *s, const uint8_t *table, uint32_t mode)
{
	uint32_t t = threadIdx.x, v = 0xfb, i;

	if (mode == FW4) {
		i = t - table[0] & 255;
		v = i < WINDOW ? (i & 3) | (i >> 2) << 4 : 0xbb;
	} else {
		for (i = SYMBOLS; i-- > 3;)
			v = table[i] == t ? 0x83 | (i - 3) << 4 : v;
		for (i = 3; i-- > 0;)
			v = table[i] == t ? i : v;
	}
	((uint8_t *)s->lut)[t] = (uint8_t)v;
}

/* encode: moves the bytes that are picked to the front, and 0 behind them; decode: puts the front
 * bytes of the second operand in the places that are picked. */
__device__ void make_pick(struct shared *s, int encode)
{
	uint32_t t = threadIdx.x, sel = 0, n = 0, i;

	if (t >= 16)
		return;
	for (i = 0; i < 4; i++) {
		if (!encode)
			sel |= (t >> i & 1 ? 4 + n : i) << 4 * i;
		else if (t >> i & 1)
			sel |= i << 4 * n;
		n += t >> i & 1;
	}
	for (i = n; encode && i < 4; i++)
		sel |= 4u << 4 * i;
	s->pick[t] = sel | n << 16;
}

struct tile_places {
	uint8_t *place[4]; /* a, b, codes, var; var without its offset */
	uint32_t share[4]; /* bytes; of var: if the tile is stored */
	uint32_t n, bytes; /* elements and their bytes */
};

template <int D>
__device__ __forceinline__ void find_tile(struct tile_places *p, const struct layout *l,
					  uint8_t *chunk, uint32_t mode, uint32_t tile)
{
	const struct type t = type_of(D);
	const uint32_t elems = TILE / t.bytes, bits = mode == N23 ? 2 : 4;
	uint64_t left = l->elems - (uint64_t)tile * elems;
	uint32_t fixed;

	p->n = left < elems ? (uint32_t)left : elems;
	p->bytes = p->n * t.bytes;
	p->place[0] = chunk + l->a + (uint64_t)tile * (elems * t.a_bits / 8);
	p->place[1] = chunk + l->b + (uint64_t)tile * (elems * t.b_bits / 8);
	p->place[2] = chunk + l->codes + (uint64_t)tile * (elems * bits / 8);
	p->place[3] = chunk + l->var;
	p->share[0] = (uint32_t)packed(p->n, t.a_bits);
	p->share[1] = (uint32_t)packed(p->n, t.b_bits);
	p->share[2] = (uint32_t)packed(p->n, bits);
	fixed = p->share[0] + p->share[1] + p->share[2];
	p->share[3] = left_of(p->bytes, fixed);
}

/* The tile's bytes as they are, over its places in the sections and var. A place may have more
 * bytes than are left of a short tile, as sections are rounded up. */
__device__ void store_tile(const struct tile_places *p, const uint8_t *raw)
{
	uint32_t at = 0, k, i;

	for (k = 0; k < 4; at += p->share[k], k++)
		for (i = threadIdx.x; i < p->share[k]; i += THREADS)
			p->place[k][i] = at + i < p->bytes ? raw[at + i] : 0;
	for (i = p->share[3]; threadIdx.x == 0 && i % 4; i++)
		p->place[3][i] = 0;
}

__device__ void unstore_tile(const struct tile_places *p, uint8_t *raw)
{
	uint32_t at = 0, k, i;

	for (k = 0; k < 4; at += p->share[k], k++)
		for (i = threadIdx.x; i < p->share[k] && at + i < p->bytes; i += THREADS)
			raw[at + i] = p->place[k][i];
}

/* n bytes by tiles, for mode RAW. */
__device__ void copy_tiles(struct shared *s, const uint8_t *src, uint8_t *dst, uint64_t n,
			   uint64_t *result)
{
	uint32_t next = count_tile(result), i;
	uint64_t at;

	while ((at = (uint64_t)take_tile(s, result, &next) * TILE) < n)
		for (i = threadIdx.x * 16; i < TILE && at + i < n; i += THREADS * 16)
			store16(dst + at + i,
				load16(src + at + i, n - at - i < 16 ? n - at - i : 16),
				n - at - i < 16 ? n - at - i : 16);
}

#endif
