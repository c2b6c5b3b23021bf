/* SPDX-License-Identifier: Apache-2.0 */
/* The head of a chunk: the kernels before encode_<dtype>, and its end. */
#ifndef CODEC_KERNELS_HEAD_CUH
#define CODEC_KERNELS_HEAD_CUH

#include "tile.cuh"

__device__ uint32_t warp_max(uint32_t v)
{
	return __reduce_max_sync(~0u, v);
}

/* The tables of ../sample_table.c, by one warp. Each returns the bits of the sample's codes. */
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

/* An element of 1, 2 or 4 bytes, at any address. */
__device__ __forceinline__ uint32_t element(const uint8_t *p, uint32_t bytes)
{
	uint32_t v = 0, i;

#pragma unroll
	for (i = 0; i < 4; i++)
		v |= i < bytes ? (uint32_t)p[i] << 8 * i : 0;
	return v;
}

/* A thread loads all its elements before it counts them: it waits for memory once. */
template <int D>
__device__ void sample(const struct codec_args *g, uint64_t elems, uint32_t *counts, int *differ)
{
	const struct type t = type_of(D);
	const uint32_t n = RUNS * RUN, each = n / THREADS, drop = t.bytes * 8 - 1 - t.exp_bits;
	uint32_t v[each], first = elems ? element(g->src, t.bytes) : 0, i, k;
	uint64_t at;

#pragma unroll
	for (k = 0; k < each; k++) {
		i = threadIdx.x + k * THREADS;
		at = elems <= n ? i : (elems - RUN) * (i / RUN) / (RUNS - 1) + i % RUN;
		v[k] = i < elems ? element(g->src + at * t.bytes, t.bytes) : first;
	}
#pragma unroll
	for (k = 0; k < each; k++) {
		if (D != BYTES && threadIdx.x + k * THREADS < elems)
			atomicAdd(&counts[v[k] >> drop & ((1u << t.exp_bits) - 1)], 1u);
		if (v[k] != first)
			*differ = 1;
	}
}

__device__ void sample_any(const struct codec_args *g, uint64_t elems, uint32_t *counts,
			   int *differ)
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
		bits = g.mode == N23 ? table_n23(counts, 1u << t.exp_bits, n, h.table)
				     : table_fw4(counts, 1u << t.exp_bits, n, h.table);
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

/* Fills the index with zeros. Clears reserved[0] of the head if two elements differ. */
extern "C" __global__ void __launch_bounds__(THREADS) urccl_codec_compare(struct codec_args g)
{
	volatile struct head *h = (volatile struct head *)g.dst;
	uint32_t bytes = type_of(g.dtype).bytes, first = blockIdx.x * THREADS + threadIdx.x;
	uint64_t i, end = g.n / bytes * bytes;
	struct layout l;

	if (g.mode != RAW && g.dtype != BYTES) {
		l = lay_out(g.dtype, g.mode, g.n);
		for (i = first; i < l.tiles; i += gridDim.x * THREADS)
			((uint64_t *)(g.dst + l.index))[i] = 0;
	}
	if (!h->reserved[0])
		return;
	for (i = first; i + bytes < end; i += gridDim.x * THREADS)
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

/* One thread: the rest of the head, and the bytes between sections. The result is -EIO if tiles are
 * left: the stream's multiprocessors lie beyond the budget. */
static __device__ __noinline__ void finish_encode(const struct codec_args *g)
{
	struct head *h = (struct head *)g->dst;
	uint32_t bytes = type_of(g->dtype).bytes, tail = (uint32_t)(g->n % bytes), i;
	uint64_t size = sizeof(*h) + g->n, tiles = tiles_of(g->n);
	const unsigned long long *index;
	struct layout l;

	if (h->reserved[0]) {
		tiles = 0;
		h->mode = CONST;
		h->reserved[0] = 0;
		for (i = 0; i < 16; i++)
			h->table[i] = 0;
		for (i = 0; i < bytes; i++)
			g->dst[sizeof(*h) + i] = g->src[i];
		size = sizeof(*h) + bytes + tail;
	} else if (h->mode != RAW) {
		l = lay_out(g->dtype, g->mode, g->n);
		tiles = l.tiles;
		put_zeros(g->dst, &l, g->dtype, g->mode);
		size = l.var + tail;
		index = (const unsigned long long *)(g->dst + l.index);
		if (l.tiles)
			size += 4ull * (uint32_t)__ldcg(&index[l.tiles - 1]);
	}
	for (i = 0; i < tail && h->mode != RAW; i++)
		g->dst[size - tail + i] = g->src[g->n - tail + i];
	h->coded_bytes = size;
	h->crc_head = crc32c_head((const uint32_t *)g->dst);
	*g->result = (uint32_t)*(volatile uint64_t *)g->result < tiles ? (uint64_t)-EIO : size;
}

#endif
