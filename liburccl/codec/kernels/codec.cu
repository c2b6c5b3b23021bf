/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The codec on a GPU: the bytes of ../encode.c, and the data back. An encode is a fill of the index
 * with zeros and the kernels begin, compare, encode_<dtype> and finish_encode on one stream; a decode
 * is check, decode_<dtype> and finish_decode. Nothing is allocated and nothing waits for the host.
 *
 * A tile is coded by a block of 256 threads; a thread has 64 neighbouring bytes. Blocks take tiles in
 * order from a counter in the result word. A tile's part of var begins where the one before ends:
 * "decoupled look-back" (Merrill and Garland, 2016) over the entries of the index, which hold first
 * a tile's own size and then the end of its part.
 *
 * The chunk begins at a multiple of 16 bytes, and the result word at one of 8; the data anywhere. The
 * chunk has no CRC32C of the data, and a decode does not check one.
 */
#include <stdint.h>

#define MAGIC	 0x5a435255u
#define THREADS	 256
#define TILE	 16384u
#define STORED	 0x8000u
#define WRITTEN	 0x8000u
#define OWN_SIZE 1u /* in second: the entry has the tile's own size, and no end yet */
#define VAR_MAX	 8192u
#define FAILED	 (1ull << 63) /* in the result word, until the last kernel */
#define RUNS	 64u
#define RUN	 16u
#define SYMBOLS	 10
#define WINDOW	 15u
#define EBADMSG	 74

enum dtype { BYTES, BF16, FP16, FP32, E4M3, E5M2 };
enum mode { RAW = 1, CONST, FW4, N23 };

struct head {
	uint32_t magic;
	uint8_t version, dtype, mode, flags;
	uint64_t raw_bytes, coded_bytes;
	uint8_t table[16];
	uint8_t reserved[16]; /* [0], until the last kernel: the data may be constant */
	uint32_t crc_raw, crc_head;
};

struct codec_args {
	const uint8_t *src;
	uint8_t *dst;
	uint64_t n;	  /* bytes at src; encode: of data */
	uint64_t room;	  /* decode: at dst */
	uint64_t *result; /* when the stream is through: bytes written, or a negative errno */
	uint8_t dtype, mode;
	uint16_t sms; /* multiprocessors to use */
};

struct type {
	uint32_t bytes, exp_bits, a_bits, b_bits;
};

struct layout {
	uint64_t elems, tiles, a, b, codes, index, var;
	uint32_t tail;
};

struct __align__(16) shared {
	uint32_t row[8][32 * 20]; /* per warp: 64 bytes per thread, at intervals of 80 */
	uint32_t lut[64];	  /* bytes: what an exponent becomes */
	uint32_t pick[16];	  /* by four escape bits: a selector of bytes, and their number */
	uint32_t warp_sum[8];
	uint32_t start, tile;
	struct layout at;
	uint32_t var[TILE / 4 + 16]; /* encode: VAR_MAX bytes of it */
};

__host__ __device__ inline struct type type_of(uint32_t dtype)
{
	switch (dtype) {
	case BF16:
		return {2, 8, 8, 0};
	case FP16:
		return {2, 5, 8, 3};
	case FP32:
		return {4, 8, 16, 8};
	case E4M3:
		return {1, 4, 4, 0};
	case E5M2:
		return {1, 5, 3, 0};
	default:
		return {1, 8, 0, 0};
	}
}

__host__ __device__ inline uint64_t aligned(uint64_t at)
{
	return (at + 15) / 16 * 16;
}

__host__ __device__ inline uint64_t packed(uint64_t n, uint32_t bits)
{
	return (n * bits + 7) / 8;
}

__host__ __device__ inline struct layout lay_out(uint32_t dtype, uint32_t mode, uint64_t raw_bytes)
{
	struct type t = type_of(dtype);
	struct layout l;
	uint32_t bits = mode == N23 ? 2 : 4;

	l.elems = raw_bytes / t.bytes;
	l.tail = (uint32_t)(raw_bytes % t.bytes);
	l.tiles = (l.elems * t.bytes + TILE - 1) / TILE;
	l.a = sizeof(struct head);
	l.b = aligned(l.a + packed(l.elems, t.a_bits));
	l.codes = aligned(l.b + packed(l.elems, t.b_bits));
	l.index = aligned(l.codes + packed(l.elems, bits));
	l.var = aligned(l.index + l.tiles * 8);
	return l;
}

/* [k][v]: the CRC of the nibble v with k nibbles of zeros behind it. */
struct crc_tables {
	uint32_t of[8][16];

	constexpr crc_tables() : of()
	{
		for (uint32_t v = 0; v < 16; v++) {
			uint32_t crc = v;

			for (uint32_t bit = 0; bit < 32; bit++) {
				crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78u : 0);
				if (bit % 4 == 3)
					of[bit / 4][v] = crc;
			}
		}
	}
};

__constant__ const crc_tables crc_by_nibble = crc_tables();

/* A word at a time, as one thread waits for each step. */
__device__ uint32_t crc32c_head(const uint32_t *words)
{
	uint32_t crc = ~0u, next, i, k;

	for (i = 0; i < 15; i++) {
		crc ^= words[i];
		next = 0;
#pragma unroll
		for (k = 0; k < 8; k++)
			next ^= crc_by_nibble.of[7 - k][crc >> 4 * k & 15];
		crc = next;
	}
	return ~crc;
}

__device__ __forceinline__ uint32_t count_tile(uint64_t *result)
{
	return threadIdx.x ? 0 : (uint32_t)atomicAdd((unsigned long long *)result, 1ull);
}

/* The next tile for the block, or one behind the last. *next is the first thread's tile after it:
 * counted a tile before it is needed, because an atomic operation takes about 1 us. */
__device__ __forceinline__ uint32_t take_tile(struct shared *s, uint64_t *result, uint32_t *next)
{
	__syncthreads();
	if (threadIdx.x == 0)
		s->tile = *next;
	*next = count_tile(result);
	__syncthreads();
	return s->tile;
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
	uint32_t lane = threadIdx.x & 31, warp = threadIdx.x >> 5, sum = v, before = 0, all = 0, i, x;

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
				*(uint4 *)(to + 4 * i) = make_uint4(w[i], w[i + 1], w[i + 2], w[i + 3]);
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

/* The same for 32 bytes of each of a warp's threads: neighbours exchange halves, so that a store of the
 * two covers a whole sector of memory. */
__device__ __forceinline__ void put_pairs(uint8_t *to, const uint32_t *w)
{
	uint32_t odd = threadIdx.x & 1, i, x[4];

#pragma unroll
	for (i = 0; i < 4; i++)
		x[i] = __shfl_xor_sync(~0u, odd ? w[i] : w[4 + i], 1);
	to -= 16 * odd;
	*(uint4 *)to = odd ? make_uint4(x[0], x[1], x[2], x[3]) : make_uint4(w[0], w[1], w[2], w[3]);
	*(uint4 *)(to + 32) = odd ? make_uint4(w[4], w[5], w[6], w[7]) :
				    make_uint4(x[0], x[1], x[2], x[3]);
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
__device__ __forceinline__ uint32_t pack3(uint32_t v)
{
	v = (v & 0x00070007) | (v >> 5 & 0x00380038);
	return (v & 0x3f) | v >> 10;
}

__device__ __forceinline__ uint32_t pack4(uint32_t v)
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

__device__ __forceinline__ uint32_t rol16(uint32_t v)
{
	return (v << 1 & 0xfffefffe) | (v >> 15 & 0x00010001);
}

__device__ __forceinline__ uint32_t ror16(uint32_t v)
{
	return (v >> 1 & 0x7fff7fff) | (v << 15 & 0x80008000);
}

__device__ __forceinline__ uint32_t rol8(uint32_t v)
{
	return (v << 1 & 0xfefefefe) | (v >> 7 & 0x01010101);
}

__device__ __forceinline__ uint32_t ror8(uint32_t v)
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
		x = rol8(w[g]);
		if (D == E4M3) {
			a[g / 2] |= pack4(x & 0x0f0f0f0f) << g % 2 * 16;
			return x >> 4 & 0x0f0f0f0f;
		}
		v = pack3(x & 0x07070707);
		a[g * 12 / 32] |= v << g * 12 % 32;
		if (g * 12 % 32 > 20)
			a[g * 12 / 32 + 1] |= v >> (32 - g * 12 % 32);
		return x >> 3 & 0x1f1f1f1f;
	}
	x = rol16(w[2 * g]);
	y = rol16(w[2 * g + 1]);
	a[g] = __byte_perm(x, y, 0x6420);
	v = __byte_perm(x, y, 0x7531);
	if (D == BF16)
		return v;
	z = pack3(v & 0x07070707);
	b[g * 12 / 32] |= z << g * 12 % 32;
	if (g * 12 % 32 > 20)
		b[g * 12 / 32 + 1] |= z >> (32 - g * 12 % 32);
	return v >> 3 & 0x1f1f1f1f;
}

template <int D>
__device__ __forceinline__ void join4(const uint32_t *a, const uint32_t *b, uint32_t g, uint32_t e,
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
		w[g] = ror8((e & 0x0f0f0f0f) << 4 | bytes4(a[g / 2] >> g % 2 * 16 & 0xffff));
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
		w[g] = ror8(e);
		return;
	}
	w[2 * g] = ror16(__byte_perm(a[g], e, 0x5140));
	w[2 * g + 1] = ror16(__byte_perm(a[g], e, 0x7362));
}

/*
 * What an exponent becomes. N23: bits 0 and 1 the first code, bits 4 to 6 the second one, bit 7 set
 * if there is a second one, bit 3 if it is followed by a byte. FW4: bits 0, 1, 4 and 5 are the code,
 * bits 3 and 7 are set if a byte follows.
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

/* encode: moves the bytes that are picked to the front, and 0 behind them; decode: puts the front bytes
 * of the second operand in the places that are picked. */
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

/* The tile's bytes as they are, over its places in the sections and var. A place may have more bytes
 * than are left of a short tile, as sections are rounded up. */
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

/* Eight elements' second codes and the number of them; bit 8 * byte + group of acc: a byte follows. */
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
		codes[g / 2] |= pack4((c & 0x03030303) | (c >> 2 & 0x0c0c0c0c)) << g % 2 * 16;
		return;
	}
	/* Four fields of two bits come together in the product's highest byte. */
	codes[g / 4] |= (c & 0x03030303) * 0x01041040u >> 24 << g % 4 * 8;
	pick = s->pick[(c & 0x80808080) * 0x00204081u >> 28];
	v = pack3(__byte_perm(c >> 4 & 0x07070707, 0, pick));
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
		before = 0x01010101u * ((1u << g) - 1) | (0x01010101u << g & ((1u << 8 * byte) - 1));
		at = base + __popc(acc & before);
		if (at < VAR_MAX)
			atomicOr(&s->var[at / 4],
				 (uint32_t)exponent<D>(src, first + 4 * g + byte) << at % 4 * 8);
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
		put_words<of<D>::b_words>(p->place[1] + t * bytes, b, left_of(p->share[1], t * bytes));
	bytes = of<D>::elems / (M == N23 ? 4 : 2);
	put_words<of<D>::elems / (M == N23 ? 16 : 8)>(p->place[2] + t * bytes, codes,
						      left_of(p->share[2], t * bytes));
}

/* Fills s->var with the tile's part of it. Returns the counts of the index, first | second << 16. */
template <int D, int M>
__device__ __forceinline__ uint32_t code_tile(struct shared *s, const struct tile_places *p,
					      const uint8_t *src)
{
	const int groups = of<D>::elems / 4;
	uint32_t w[16], a[8] = {0}, b[4] = {0}, codes[groups / 2] = {0}, q[groups / 2], nq[groups / 2];
	uint32_t acc[(groups + 7) / 8] = {0}, warp = threadIdx.x >> 5, sum = 0, bytes = 0, before, at, i;
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
	place_tile(s, (volatile unsigned long long *)(g->dst + l->index), tile, (size + 3) / 4, first,
		   second);
	p.place[3] += 4ull * s->start;
	if (!stored) {
		for (i = threadIdx.x; i < (size + 3) / 4; i += THREADS)
			((uint32_t *)p.place[3])[i] = s->var[i];
		return;
	}
	store_tile(&p, src);
}

/* n bytes by tiles, for mode RAW. */
__device__ void copy_tiles(struct shared *s, const uint8_t *src, uint8_t *dst, uint64_t n,
			   uint64_t *result)
{
	uint32_t next = count_tile(result), i;
	uint64_t at;

	while ((at = (uint64_t)take_tile(s, result, &next) * TILE) < n)
		for (i = threadIdx.x * 16; i < TILE && at + i < n; i += THREADS * 16)
			store16(dst + at + i, load16(src + at + i, n - at - i < 16 ? n - at - i : 16),
				n - at - i < 16 ? n - at - i : 16);
}

template <int D> __device__ __forceinline__ void encode(const struct codec_args *g)
{
	extern __shared__ uint4 memory[];
	struct shared *s = (struct shared *)memory;
	const struct head *h = (const struct head *)g->dst;
	uint32_t tile, next;

	if (beyond_budget(g) || h->reserved[0])
		return;
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
	next = count_tile(g->result);
	while ((tile = take_tile(s, g->result, &next)) < s->at.tiles)
		if (g->mode == N23)
			encode_tile<D, N23>(s, g, &s->at, tile);
		else
			encode_tile<D, FW4>(s, g, &s->at, tile);
}

/* ---- the table, from the sample of sample_table.c ---- */

__device__ uint32_t warp_max(uint32_t v)
{
	return __reduce_max_sync(~0u, v);
}

/* By one warp: the ten best symbols; returns the bits of the sample's codes. */
__device__ uint32_t table_n23(const uint32_t *counts, uint32_t values, uint32_t n, uint8_t *table)
{
	uint32_t lane = threadIdx.x, keys[8], best = 0, top, first = 0, both = 0, i, k, v;

	for (i = 0; i < 8; i++)
		best = max(best, counts[lane * 8 + i] * 256 + 255 - (lane * 8 + i));
	top = 255 - warp_max(best) % 256;
	for (i = 0; i < 8; i++) {
		v = lane * 8 + i;
		keys[i] = ((counts[v] + 1) * 512 - (v < top ? top - v : v - top)) * 256 + 255 - v;
		keys[i] = v < values ? keys[i] : 0;
	}
	for (k = 0; k < SYMBOLS; k++) {
		for (best = 0, i = 0; i < 8; i++)
			best = max(best, keys[i]);
		best = warp_max(best);
		for (i = 0; i < 8; i++)
			keys[i] = keys[i] == best ? 0 : keys[i];
		v = 255 - best % 256;
		table[k] = (uint8_t)v;
		both += counts[v];
		first += k < 3 ? counts[v] : 0;
	}
	return 2 * n + 3 * (n - first) + 8 * (n - both);
}

__device__ uint32_t table_fw4(const uint32_t *counts, uint32_t values, uint32_t n, uint8_t *table)
{
	uint32_t best = 0, base, inside, i;

	for (base = threadIdx.x; base + WINDOW <= values; base += 32) {
		for (inside = 0, i = 0; i < WINDOW; i++)
			inside += counts[base + i];
		best = max(best, inside * 256 + 255 - base);
	}
	best = warp_max(best);
	table[0] = (uint8_t)(255 - best % 256);
	return 4 * n + 8 * (n - best / 256);
}

template <int D>
__device__ void sample(const struct codec_args *g, uint64_t elems, uint32_t *counts, int *differ)
{
	const struct type t = type_of(D);
	uint32_t n = RUNS * RUN, i, k;
	uint64_t at;

	for (i = threadIdx.x; i < n && i < elems; i += THREADS) {
		at = elems <= n ? i : (elems - RUN) * (i / RUN) / (RUNS - 1) + i % RUN;
		if (D != BYTES)
			atomicAdd(&counts[exponent<D>(g->src, at)], 1u);
		for (k = 0; k < t.bytes; k++)
			if (g->src[at * t.bytes + k] != g->src[k])
				*differ = 1;
	}
}

__device__ void sample_any(const struct codec_args *g, uint64_t elems, uint32_t *counts, int *differ)
{
	switch (g->dtype) {
	case BF16:
		sample<BF16>(g, elems, counts, differ);
		break;
	case FP16:
		sample<FP16>(g, elems, counts, differ);
		break;
	case FP32:
		sample<FP32>(g, elems, counts, differ);
		break;
	case E4M3:
		sample<E4M3>(g, elems, counts, differ);
		break;
	case E5M2:
		sample<E5M2>(g, elems, counts, differ);
		break;
	default:
		sample<BYTES>(g, elems, counts, differ);
	}
}

/* One block: the head without its last fields; the result word becomes the counter of tiles. */
extern "C" __global__ void __launch_bounds__(THREADS) urccl_codec_begin(struct codec_args g)
{
	__shared__ uint32_t counts[256];
	__shared__ struct head h;
	__shared__ int differ;
	struct type t = type_of(g.dtype);
	uint64_t elems = g.n / t.bytes;
	uint32_t n = elems < RUNS * RUN ? (uint32_t)elems : RUNS * RUN, bits = ~0u, all, i;

	counts[threadIdx.x] = 0;
	if (threadIdx.x < sizeof(h))
		((uint8_t *)&h)[threadIdx.x] = 0;
	if (threadIdx.x == 0)
		differ = 0;
	__syncthreads();
	if (g.mode != RAW)
		sample_any(&g, elems, counts, &differ);
	__syncthreads();
	if (threadIdx.x >= 32)
		return;
	if (g.mode != RAW && g.dtype != BYTES && elems)
		bits = g.mode == N23 ? table_n23(counts, 1u << t.exp_bits, n, h.table) :
				       table_fw4(counts, 1u << t.exp_bits, n, h.table);
	__syncwarp();
	if (threadIdx.x)
		return;
	all = n * t.bytes * 8 * 97 / 100;
	h.magic = MAGIC;
	h.version = 1;
	h.dtype = g.dtype;
	h.mode = g.mode;
	h.raw_bytes = g.n;
	h.reserved[0] = g.mode != RAW && elems > 1 && !differ;
	if (bits == ~0u || bits + n * (t.a_bits + t.b_bits) > all) {
		h.mode = RAW;
		for (i = 0; i < 16; i++)
			h.table[i] = 0;
	}
	*(struct head *)g.dst = h;
	*g.result = 0;
}

/* Ends the suspicion that the data is constant if it is not. */
extern "C" __global__ void __launch_bounds__(THREADS) urccl_codec_compare(struct codec_args g)
{
	volatile struct head *h = (volatile struct head *)g.dst;
	uint32_t bytes = type_of(g.dtype).bytes;
	uint64_t i, end = g.n / bytes * bytes;

	if (!h->reserved[0])
		return;
	for (i = blockIdx.x * THREADS + threadIdx.x; i + bytes < end; i += gridDim.x * THREADS)
		if (g.src[i] != g.src[i + bytes]) {
			h->reserved[0] = 0;
			return;
		}
}

/* The bytes between the sections. */
__device__ void put_zeros(uint8_t *dst, const struct layout *l, uint32_t dtype, uint32_t mode)
{
	struct type t = type_of(dtype);
	uint64_t i;

	for (i = l->a + packed(l->elems, t.a_bits); i < l->b; i++)
		dst[i] = 0;
	for (i = l->b + packed(l->elems, t.b_bits); i < l->codes; i++)
		dst[i] = 0;
	for (i = l->codes + packed(l->elems, mode == N23 ? 2 : 4); i < l->index; i++)
		dst[i] = 0;
	for (i = l->index + l->tiles * 8; i < l->var; i++)
		dst[i] = 0;
}

/* One thread: what encode leaves open. */
extern "C" __global__ void urccl_codec_finish_encode(struct codec_args g)
{
	struct head *h = (struct head *)g.dst;
	uint32_t bytes = type_of(g.dtype).bytes, tail = (uint32_t)(g.n % bytes), i;
	uint64_t size = sizeof(*h) + g.n;
	struct layout l;

	if (h->reserved[0]) {
		h->mode = CONST;
		h->reserved[0] = 0;
		for (i = 0; i < 16; i++)
			h->table[i] = 0;
		for (i = 0; i < bytes; i++)
			g.dst[sizeof(*h) + i] = g.src[i];
		size = sizeof(*h) + bytes + tail;
	} else if (h->mode != RAW) {
		l = lay_out(g.dtype, g.mode, g.n);
		put_zeros(g.dst, &l, g.dtype, g.mode);
		size = l.var + tail;
		if (l.tiles)
			size += 4ull * *(const uint32_t *)(g.dst + l.index + (l.tiles - 1) * 8);
	}
	for (i = 0; i < tail && h->mode != RAW; i++)
		g.dst[size - tail + i] = g.src[g.n - tail + i];
	h->coded_bytes = size;
	h->crc_head = crc32c_head((const uint32_t *)g.dst);
	*g.result = size;
}

/* ---- decode ---- */

/* One thread: a head that cannot be ends the decode. */
extern "C" __global__ void urccl_codec_check(struct codec_args g)
{
	const struct head *h = (const struct head *)g.src;
	uint32_t used = h->mode == N23 ? SYMBOLS : h->mode == FW4, bad, i;
	struct layout l;

	bad = g.n < sizeof(*h) || h->magic != MAGIC || h->version != 1 || h->dtype > E5M2 ||
	      h->mode < RAW || h->mode > N23 || h->flags > 1 || h->raw_bytes > 1ull << 34 ||
	      h->coded_bytes < sizeof(*h) || h->coded_bytes > g.n || h->raw_bytes > g.room ||
	      (h->mode >= FW4 && h->dtype == BYTES) || h->crc_head != crc32c_head((const uint32_t *)g.src);
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

__device__ __forceinline__ void fail(const struct codec_args *g)
{
	atomicOr((unsigned long long *)g->result, (unsigned long long)FAILED);
}

/* The exponents of all 3-bit codes of the tile, as bytes to s->var; returns the thread's place among
 * them. nfirst: escapes among the thread's first codes. */
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
				fail(g);
		}
		for (b = base + (n >> 16); z; z &= z - 1, b++)
			if (b < second)
				dense[at + (__ffs((int)z) - 1) / 4] = raw[b];
		base += total >> 16;
	}
	if (t == 0 && base != second)
		fail(g);
	__syncthreads();
	return place;
}

/* The same for FW4, whose exponents lie in var as they are. */
__device__ __forceinline__ uint32_t decode_bytes(struct shared *s, const struct codec_args *g,
						 const uint32_t *var, uint32_t first, uint32_t nfirst)
{
	uint32_t total, place, i;

	for (i = threadIdx.x; i < (first + 3) / 4; i += THREADS)
		s->var[i] = var[i];
	place = block_scan(s, nfirst, &total);
	if (threadIdx.x == 0 && total != first)
		fail(g);
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
		get_words<of<D>::b_words>(p->place[1] + t * bytes, b, left_of(p->share[1], t * bytes));
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
	place = M == N23 ? decode_second(s, g, h->table, var, first, second, nfirst) :
			   decode_bytes(s, g, var, first, nfirst);
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
		join4<D>(a, b, i, e, w);
	}
	warp_store(s->row[warp], dst + warp * 2048, left_of(p->bytes, warp * 2048), w);
}

template <int D>
__device__ __forceinline__ void decode_tile(struct shared *s, const struct codec_args *g,
					    const struct head *h, const struct layout *l, uint32_t tile)
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
			fail(g);
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

template <int D> __device__ __forceinline__ void decode(const struct codec_args *g)
{
	extern __shared__ uint4 memory[];
	struct shared *s = (struct shared *)memory;
	const struct head *h = (const struct head *)g->src;
	uint32_t tile, next;

	if (beyond_budget(g) || *g->result & FAILED || h->dtype != D)
		return;
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

/* One thread: the tail and the result. */
extern "C" __global__ void urccl_codec_finish_decode(struct codec_args g)
{
	const struct head *h = (const struct head *)g.src;
	uint32_t tail, i;

	if (*g.result & FAILED || h->dtype != g.dtype) {
		*g.result = (uint64_t)-EBADMSG;
		return;
	}
	tail = (uint32_t)(h->raw_bytes % type_of(h->dtype).bytes);
	for (i = 0; i < tail && h->mode != RAW; i++)
		g.dst[h->raw_bytes - tail + i] = g.src[h->coded_bytes - tail + i];
	*g.result = h->raw_bytes;
}

#define SMALL __launch_bounds__(THREADS, 6)
#define LARGE __launch_bounds__(THREADS, 4)

extern "C" __global__ void SMALL urccl_codec_encode_bytes(const __grid_constant__ struct codec_args g)
{
	encode<BYTES>(&g);
}

extern "C" __global__ void SMALL urccl_codec_encode_bf16(const __grid_constant__ struct codec_args g)
{
	encode<BF16>(&g);
}

extern "C" __global__ void SMALL urccl_codec_encode_fp16(const __grid_constant__ struct codec_args g)
{
	encode<FP16>(&g);
}

extern "C" __global__ void SMALL urccl_codec_encode_fp32(const __grid_constant__ struct codec_args g)
{
	encode<FP32>(&g);
}

extern "C" __global__ void LARGE urccl_codec_encode_e4m3(const __grid_constant__ struct codec_args g)
{
	encode<E4M3>(&g);
}

extern "C" __global__ void LARGE urccl_codec_encode_e5m2(const __grid_constant__ struct codec_args g)
{
	encode<E5M2>(&g);
}

extern "C" __global__ void SMALL urccl_codec_decode_bytes(const __grid_constant__ struct codec_args g)
{
	decode<BYTES>(&g);
}

extern "C" __global__ void SMALL urccl_codec_decode_bf16(const __grid_constant__ struct codec_args g)
{
	decode<BF16>(&g);
}

extern "C" __global__ void SMALL urccl_codec_decode_fp16(const __grid_constant__ struct codec_args g)
{
	decode<FP16>(&g);
}

extern "C" __global__ void SMALL urccl_codec_decode_fp32(const __grid_constant__ struct codec_args g)
{
	decode<FP32>(&g);
}

extern "C" __global__ void LARGE urccl_codec_decode_e4m3(const __grid_constant__ struct codec_args g)
{
	decode<E4M3>(&g);
}

extern "C" __global__ void LARGE urccl_codec_decode_e5m2(const __grid_constant__ struct codec_args g)
{
	decode<E5M2>(&g);
}
