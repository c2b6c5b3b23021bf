/* SPDX-License-Identifier: Apache-2.0 */
/* A chunk to data. The chunk may be any bytes, as for ../decode.c. */
#ifndef CODEC_KERNELS_DECODE_CUH
#define CODEC_KERNELS_DECODE_CUH

#include "tile.cuh"

/* One thread: a head that cannot be ends the decode. */
extern "C" __global__ void urccl_codec_check(struct codec_args g)
{
	const struct head *h = (const struct head *)g.src;
	uint32_t used = h->mode == N23 ? SYMBOLS : h->mode == FW4, bad, i;
	struct layout l;

	bad = g.n < sizeof(*h) || h->magic != MAGIC || h->version != 1 || h->dtype > E5M2 ||
	      h->mode < RAW || h->mode > N23 || h->flags > 1 || h->raw_bytes > 1ull << 34 ||
	      h->coded_bytes < sizeof(*h) || h->coded_bytes > g.n || h->raw_bytes > g.room ||
	      (h->mode >= FW4 && h->dtype == BYTES) ||
	      h->crc_head != crc32c_head((const uint32_t *)g.src);
	for (i = 0; i < 16; i++)
		bad |= h->reserved[i] || (i >= used && h->table[i]);
	if (!bad && h->mode >= FW4) {
		l = lay_out(h->dtype, h->mode, h->raw_bytes);
		bad = l.var + l.tail > h->coded_bytes;
	} else if (!bad && h->mode == RAW) {
		bad = h->coded_bytes != sizeof(*h) + h->raw_bytes;
	} else if (!bad) {
		l = lay_out(h->dtype, FW4, h->raw_bytes);
		bad = !l.elems || h->coded_bytes != sizeof(*h) + type_of(h->dtype).bytes + l.tail;
	}
	*g.result = bad ? FAILED : 0;
}

__device__ __forceinline__ void decode_fail(const struct codec_args *g)
{
	atomicOr((unsigned long long *)g->result, (unsigned long long)FAILED);
}

/* The exponents of all 3-bit codes of the tile, as bytes to s->var; returns the thread's place
 * among them. nfirst: escapes among the thread's first codes. */
__device__ __forceinline__ uint32_t decode_second(struct shared *s, const struct codec_args *g,
						  const uint8_t *table, const uint32_t *var,
						  uint32_t first, uint32_t second, uint32_t nfirst)
{
	uint32_t low = table[3] | table[4] << 8 | table[5] << 16 | (uint32_t)table[6] << 24;
	uint32_t high = table[7] | table[8] << 8 | table[9] << 16, t = threadIdx.x;
	const uint8_t *raw = (const uint8_t *)var + (first * 3 + 7) / 8;
	uint32_t base = 0, place = 0, done, total, at, y, z, n, b;
	uint8_t *dense = (uint8_t *)s->var;

	for (done = 0; done < first || !done; done += THREADS * 8) {
		at = done + t * 8;
		y = 0;
		if (at < first) {
			/* Within var: its last word ends behind the last code. */
			b = at * 3;
			n = var[b / 32] >> b % 32;
			if (b % 32 > 8 && b / 32 + 1 < (first * 3 + 31) / 32)
				n |= var[b / 32 + 1] << (32 - b % 32);
			y = nibbles3(n & 0xffffff);
			if (first - at < 8)
				y &= (1u << 4 * (first - at)) - 1;
			*(uint2 *)(dense + at) = make_uint2(__byte_perm(low, high, y),
							    __byte_perm(low, high, y >> 16));
		}
		z = y & y >> 1 & y >> 2 & 0x11111111;
		n = block_scan(s, (uint32_t)__popc(z) << 16 | (done ? 0 : nfirst), &total);
		if (!done) {
			place = n & 0xffff;
			if (t == 0 && (total & 0xffff) != first)
				decode_fail(g);
		}
		for (b = base + (n >> 16); z; z &= z - 1, b++)
			if (b < second)
				dense[at + (__ffs((int)z) - 1) / 4] = raw[b];
		base += total >> 16;
	}
	if (t == 0 && base != second)
		decode_fail(g);
	__syncthreads();
	return place;
}

/* The same for FW4: its exponents lie in var as they are. */
__device__ __forceinline__ uint32_t decode_bytes(struct shared *s, const struct codec_args *g,
						 const uint32_t *var, uint32_t first,
						 uint32_t nfirst)
{
	uint32_t total, place, i;

	for (i = threadIdx.x; i < (first + 3) / 4; i += THREADS)
		s->var[i] = var[i];
	place = block_scan(s, nfirst, &total);
	if (threadIdx.x == 0 && total != first)
		decode_fail(g);
	__syncthreads();
	return place;
}

/* Escapes of four codes, a nibble each, as four bits. */
template <int M> __device__ __forceinline__ uint32_t escapes4(uint32_t x)
{
	uint32_t z = x & x >> 1 & 0x1111;

	if (M == FW4)
		z &= x >> 2 & x >> 3;
	return z * 0x1248 >> 12 & 15;
}

/* Four codes as nibbles. */
template <int M> __device__ __forceinline__ uint32_t codes4(const uint32_t *codes, uint32_t g)
{
	uint32_t x;

	if (M == FW4)
		return codes[g / 2] >> g % 2 * 16 & 0xffff;
	x = codes[g / 4] >> g % 4 * 8 & 0xff;
	x = (x | x << 4) & 0x0f0f;
	return (x | x << 2) & 0x3333;
}

template <int D, int M>
__device__ __forceinline__ void get_sections(const struct tile_places *p, uint32_t *a, uint32_t *b,
					     uint32_t *codes)
{
	const struct type type = type_of(D);
	const uint32_t t = threadIdx.x;
	uint32_t bytes = of<D>::elems * type.a_bits / 8;

	get_words<of<D>::a_words>(p->place[0] + t * bytes, a, left_of(p->share[0], t * bytes));
	bytes = of<D>::elems * type.b_bits / 8;
	if (bytes)
		get_words<of<D>::b_words>(p->place[1] + t * bytes, b,
					  left_of(p->share[1], t * bytes));
	bytes = of<D>::elems / (M == N23 ? 4 : 2);
	get_words<of<D>::elems / (M == N23 ? 16 : 8)>(p->place[2] + t * bytes, codes,
						      left_of(p->share[2], t * bytes));
}

template <int D, int M>
__device__ __forceinline__ void uncode_tile(struct shared *s, const struct codec_args *g,
					    const struct head *h, const struct tile_places *p,
					    uint32_t first, uint32_t second, uint8_t *dst)
{
	const int groups = of<D>::elems / 4;
	const uint32_t *var = (const uint32_t *)p->place[3];
	uint32_t symbols = h->table[0] | h->table[1] << 8 | h->table[2] << 16;
	uint32_t w[16], a[8], b[4], codes[groups / 2], nfirst = 0, place, x, e, d, pick, i;
	uint32_t warp = threadIdx.x >> 5, base = h->table[0] * 0x01010101u;

	get_sections<D, M>(p, a, b, codes);
#pragma unroll
	for (i = 0; i < groups; i++)
		nfirst += __popc(escapes4<M>(codes4<M>(codes, i)));
	place = M == N23 ? decode_second(s, g, h->table, var, first, second, nfirst)
			 : decode_bytes(s, g, var, first, nfirst);
#pragma unroll
	for (i = 0; i < groups; i++) {
		x = codes4<M>(codes, i);
		pick = s->pick[escapes4<M>(x)];
		if (M == N23) {
			e = __byte_perm(symbols, 0, x);
		} else {
			e = bytes4(x);
			e = ((e & 0x7f7f7f7f) + (base & 0x7f7f7f7f)) ^ ((e ^ base) & 0x80808080);
		}
		/* More escapes than the index has: a failure already, but no place beyond var. */
		place = place < TILE ? place : TILE;
		d = __funnelshift_r(s->var[place / 4], s->var[place / 4 + 1], place % 4 * 8);
		e = __byte_perm(e, d, pick);
		place += pick >> 16;
		join_four<D>(a, b, i, e, w);
	}
	warp_store(s->row[warp], dst + warp * 2048, left_of(p->bytes, warp * 2048), w);
}

template <int D>
__device__ __forceinline__ void decode_tile(struct shared *s, const struct codec_args *g,
					    const struct head *h, const struct layout *l,
					    uint32_t tile)
{
	const uint64_t *index = (const uint64_t *)(g->src + l->index);
	uint64_t entry = index[tile], end = l->var + 4ull * (uint32_t)entry + l->tail;
	uint32_t start = tile ? (uint32_t)index[tile - 1] : 0, first = entry >> 32 & 0xffff;
	uint32_t second = entry >> 48 & 0x7fff, stored = first == STORED, size;
	uint8_t *dst = g->dst + (uint64_t)tile * TILE;
	struct tile_places p;

	find_tile<D>(&p, l, (uint8_t *)g->src, h->mode, tile);
	size = stored ? p.share[3] : h->mode == N23 ? (first * 3 + 7) / 8 + second : first;
	if (!(entry >> 63) || (!stored && first > p.n) || second > first ||
	    ((stored || h->mode == FW4) && second) || end > h->coded_bytes ||
	    (uint32_t)entry != (uint64_t)start + (size + 3) / 4 ||
	    (tile + 1 == l->tiles && end != h->coded_bytes)) {
		if (threadIdx.x == 0)
			decode_fail(g);
		return;
	}
	p.place[3] += 4ull * start;
	if (stored)
		unstore_tile(&p, dst);
	else if (h->mode == N23)
		uncode_tile<D, N23>(s, g, h, &p, first, second, dst);
	else
		uncode_tile<D, FW4>(s, g, h, &p, first, second, dst);
}

__device__ void fill_constant(struct shared *s, const struct codec_args *g, const struct head *h)
{
	uint32_t bytes = type_of(h->dtype).bytes, next = count_tile(g->result), i;
	uint64_t end = h->raw_bytes / bytes * bytes, at;

	while ((at = (uint64_t)take_tile(s, g->result, &next) * TILE) < end)
		for (i = threadIdx.x; i < TILE && at + i < end; i += THREADS)
			g->dst[at + i] = g->src[sizeof(*h) + i % bytes];
}

template <int D> __device__ __forceinline__ void decode_tiles(const struct codec_args *g)
{
	extern __shared__ uint4 memory[];
	struct shared *s = (struct shared *)memory;
	const struct head *h = (const struct head *)g->src;
	uint32_t tile, next;

	if (h->mode == RAW) {
		copy_tiles(s, g->src + sizeof(*h), g->dst, h->raw_bytes, g->result);
		return;
	}
	if (h->mode == CONST) {
		fill_constant(s, g, h);
		return;
	}
	if (D == BYTES)
		return;
	if (threadIdx.x == 0)
		s->at = lay_out(D, h->mode, h->raw_bytes);
	make_pick(s, 0);
	next = count_tile(g->result);
	while ((tile = take_tile(s, g->result, &next)) < s->at.tiles)
		decode_tile<D>(s, g, h, &s->at, tile);
}

/* One thread: the tail and the result. -EIO as in finish_encode(). */
static __device__ __noinline__ void finish_decode(const struct codec_args *g)
{
	const struct head *h = (const struct head *)g->src;
	const uint64_t result = *(volatile uint64_t *)g->result;
	uint32_t tail, i;

	if (result & FAILED || h->dtype != g->dtype) {
		*g->result = (uint64_t)-EBADMSG;
		return;
	}
	tail = (uint32_t)(h->raw_bytes % type_of(h->dtype).bytes);
	if ((uint32_t)result < tiles_of(h->raw_bytes - (h->mode == RAW ? 0 : tail))) {
		*g->result = (uint64_t)-EIO;
		return;
	}
	for (i = 0; i < tail && h->mode != RAW; i++)
		g->dst[h->raw_bytes - tail + i] = g->src[h->coded_bytes - tail + i];
	*g->result = h->raw_bytes;
}

template <int D> __device__ __forceinline__ void decode(const struct codec_args *g)
{
	/* Another block may fail meanwhile: all threads of this one take the same branch. */
	if (!__syncthreads_or(beyond_budget(g) || *g->result & FAILED ||
			      ((const struct head *)g->src)->dtype != D))
		decode_tiles<D>(g);
	if (is_last_block(g->result))
		finish_decode(g);
}

#endif
