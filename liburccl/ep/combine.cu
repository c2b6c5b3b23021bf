/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fetches the rows of each token from its ranks and adds them in fp32, in ascending order of ranks.
 * A warp has bulk loads of the next piece in flight while it adds up one.
 */
#include "device.cuh"

/* A piece of a token. Lane r has the token's row at rank r, or -1. */
struct item {
	uint32_t token, piece;
	int slot;
};

__device__ static struct item item_at(const struct ep_combine_args &a, uint32_t token,
				      uint32_t piece)
{
	const uint32_t lane = threadIdx.x % 32;
	struct item i = {token, piece, -1};

	if (token < a.tokens && lane < a.ep.ranks)
		i.slot = a.routes->slot[(size_t)token * a.ep.ranks + lane];
	return i;
}

/* The item "pieces" further on. */
__device__ static struct item item_after(const struct ep_combine_args &a, const struct item &i,
					 uint32_t pieces)
{
	uint32_t token = i.token + pieces / a.pieces, piece = i.piece + pieces % a.pieces;

	if (piece >= a.pieces) {
		piece -= a.pieces;
		token++;
	}
	return item_at(a, token, piece);
}

__device__ static uint32_t bytes_of(const struct ep_combine_args &a, uint32_t piece)
{
	return min(a.piece_bytes, a.row_bytes - piece * a.piece_bytes);
}

/* Starts the loads of an item; its rows lie in the buffer one after another. */
__device__ static void load_item(const struct ep_combine_args &a, const struct item &i,
			    unsigned char *buffer, uint64_t *barrier)
{
	const struct ep_common *ep = &a.ep;
	const uint32_t bytes = bytes_of(a, i.piece), first = threadIdx.x / 32 + ep->rank;
	const uint32_t have = __ballot_sync(~0u, i.slot >= 0);

	if (threadIdx.x % 32 == 0)
		barrier_expect(barrier, __popc(have) * bytes);
	for (uint32_t n = 0; n < ep->ranks; n++) {
		const uint32_t r = (first + n) % ep->ranks;
		const int64_t slot = __shfl_sync(~0u, i.slot, r);

		if (slot >= 0 && threadIdx.x % 32 == 0)
			bulk_load(buffer + __popc(have & ((1u << r) - 1)) * a.piece_bytes,
				  ep->window.base[r] + ep->at.combine_x + slot * a.row_bytes +
					  (uint64_t)i.piece * a.piece_bytes,
				  bytes, barrier);
	}
}

__device__ static void add_rows(const struct ep_combine_args &a, const struct item &i,
				const unsigned char *buffer)
{
	const uint64_t at = (uint64_t)i.token * a.row_bytes + (uint64_t)i.piece * a.piece_bytes;
	const uint32_t bytes = bytes_of(a, i.piece);
	const int rows = __popc(__ballot_sync(~0u, i.slot >= 0));

#pragma unroll 2
	for (uint32_t v = threadIdx.x % 32 * 16; v < bytes; v += 32 * 16) {
		float sum[8] = {};

#pragma unroll
		for (int b = 0; b < 2; b++)
			if (a.bias[b])
				add_eight(sum, *(const uint4 *)(a.bias[b] + at + v));
		for (int r = 0; r < rows; r++)
			add_eight(sum, *(const uint4 *)(buffer + r * a.piece_bytes + v));
		*(uint4 *)(a.out + at + v) = round8(sum);
	}
}

__device__ static void add_weights(const struct ep_combine_args &a, const struct item &i)
{
	const struct ep_common *ep = &a.ep;
	const uint32_t lane = threadIdx.x % 32;
	float sum = 0;

	for (uint32_t r = 0; r < ep->ranks; r++) {
		const int64_t slot = __shfl_sync(~0u, i.slot, r);
		const float *weights = (const float *)(ep->window.base[r] + ep->at.combine_weights);

		if (slot >= 0 && lane < a.topk)
			sum += __ldcv(&weights[slot * a.topk + lane]);
	}
	if (lane < a.topk)
		a.out_weights[(size_t)i.token * a.topk + lane] = sum;
}

/* A warp takes every (grid * EP_COMBINE_WARPS)-th piece. The first loads of slots are in flight
 * while the ranks wait for each other. False: a rank did not come. */
__device__ static bool combine_rows(const struct ep_combine_args &a, unsigned char *buffers,
				    uint64_t *barriers, uint32_t epoch)
{
	const uint32_t step = gridDim.x * EP_COMBINE_WARPS;
	const uint32_t first = blockIdx.x * EP_COMBINE_WARPS + threadIdx.x / 32;
	const uint32_t stage_bytes = a.ep.ranks * a.piece_bytes;
	struct item now = item_after(a, {0, 0, -1}, first), next = item_after(a, now, step);
	uint32_t stage = 0, phase = 0;

	if (!await_start(&a.ep, epoch))
		return false;
	fence_proxy();
	if (now.token < a.tokens)
		load_item(a, now, buffers, &barriers[0]);
	while (now.token < a.tokens) {
		const uint32_t other = (stage + 1) % EP_COMBINE_STAGES;
		const struct item after = item_after(a, next, step);

		if (next.token < a.tokens)
			load_item(a, next, buffers + other * stage_bytes, &barriers[other]);
		if (a.out_weights && now.piece == 0)
			add_weights(a, now);
		barrier_wait(&barriers[stage], phase);
		add_rows(a, now, buffers + stage * stage_bytes);
		__syncwarp();
		now = next, next = after;
		stage = other;
		phase ^= other == 0;
	}
	return true;
}

extern "C" __global__ void __launch_bounds__(EP_COMBINE_WARPS * 32, 1)
	ep_combine(const __grid_constant__ struct ep_combine_args a)
{
	extern __shared__ __align__(128) unsigned char buffers[];
	__shared__ uint64_t barriers[EP_COMBINE_WARPS][EP_COMBINE_STAGES];
	const struct ep_common *ep = &a.ep;
	const uint32_t warp = threadIdx.x / 32;
	const uint32_t epoch = load_relaxed(&ep->control->epoch) + 1;
	bool ok;

	announce_start(ep, epoch);
	ok = !failed(ep) && a.routes->fits;
	if (threadIdx.x < EP_COMBINE_WARPS * EP_COMBINE_STAGES)
		barrier_init(&barriers[0][0] + threadIdx.x);
	barrier_init_fence();
	ok = __syncthreads_and(ok);
	if (ok)
		ok = combine_rows(a, buffers + warp * EP_COMBINE_STAGES * ep->ranks * a.piece_bytes,
				  barriers[warp], epoch);
	end_barrier(ep, ok, epoch);
}

/* Each thread has four loads in flight. */
template <typename T> __device__ static void copy_elements(void *to, const void *from, uint64_t n)
{
	const uint64_t threads = (uint64_t)gridDim.x * blockDim.x;
	uint64_t i = blockIdx.x * (uint64_t)blockDim.x + threadIdx.x;

	for (; i < n; i += 4 * threads) {
		T part[4];

#pragma unroll
		for (int u = 0; u < 4; u++)
			if (i + u * threads < n)
				part[u] = ((const T *)from)[i + u * threads];
#pragma unroll
		for (int u = 0; u < 4; u++)
			if (i + u * threads < n)
				((T *)to)[i + u * threads] = part[u];
	}
}

/* Copies rows between the window and the program's memory. */
extern "C" __global__ void __launch_bounds__(512)
	ep_copy(const __grid_constant__ struct ep_copy_args a)
{
	if (load_relaxed(&a.control->status))
		return;
#pragma unroll
	for (int i = 0; i < EP_MOVES; i++) {
		const struct ep_move &m = a.move[i];
		const uint32_t rows = min(max((uint32_t)*a.rows, m.least_rows), a.max_rows);
		const uint64_t bytes = m.to ? rows * m.row_bytes : 0;

		if (((uintptr_t)m.to | (uintptr_t)m.from | bytes) % 16 == 0)
			copy_elements<uint4>(m.to, m.from, bytes / 16);
		else
			copy_elements<uint32_t>(m.to, m.from, bytes / 4);
	}
}
