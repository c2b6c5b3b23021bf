/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Low-latency combine. A rank adds up the weighted rows of its experts for each token that it has
 * received, and sends the sum in bf16 to the token's rank; this one adds up the sums. The weights,
 * which the token's rank alone has, are sent first.
 */
#include "low_latency.cuh"

/* ---- send ------------------------------------------------------------------------------------ */

__device__ static void send_weights(const struct ep_ll_args &a, uint64_t epoch, uint32_t live)
{
	const struct ep_common *ep = &a.ep;
	const uint32_t n = a.tokens * a.topk;
	uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;

	for (; i < n * ep->ranks; i += gridDim.x * blockDim.x)
		if (live >> i / n & 1)
			store_relaxed(ll_weights(ep, i / n, epoch, ep->rank) + i % n,
				      epoch << 32 | __float_as_uint(a.topk_weights[i % n]));
}

/* Lane j gets the weight of the row's selection j. */
__device__ static float await_weight(const struct ep_ll_args &a, uint32_t from, uint32_t word,
				     uint64_t epoch)
{
	const struct ep_common *ep = &a.ep;
	const uint32_t lane = threadIdx.x % 32, token = __shfl_sync(~0u, word, EP_ROW_TOKEN);
	const uint32_t n = __shfl_sync(~0u, word, EP_ROW_SELECTIONS);
	const uint32_t k = __shfl_sync(~0u, word, (EP_ROW_CHOICE + lane) % 32);
	const uint64_t *p = ll_weights(ep, ep->rank, epoch, from) + token * a.topk + k;
	uint64_t v = 0;
	wait w(ep);

	if (lane >= n)
		return 0;
	while ((uint32_t)((v = load_relaxed(p)) >> 32) != (uint32_t)epoch) {
		if (load_relaxed(&ep->control->dead) >> from & 1)
			return 0;
		if (w.expired())
			bury(ep, from);
	}
	return __uint_as_float((uint32_t)v);
}

__device__ static void fma8(float (&sum)[8], float weight, uint4 v)
{
	const uint32_t word[4] = {v.x, v.y, v.z, v.w};

#pragma unroll
	for (int i = 0; i < 4; i++) {
		sum[2 * i] = __fmaf_rn(weight, bf16_low(word[i]), sum[2 * i]);
		sum[2 * i + 1] = __fmaf_rn(weight, bf16_high(word[i]), sum[2 * i + 1]);
	}
}

#define UNROLL 4

/* Sends the weighted sum of a row's experts back to its rank. */
__device__ static void send_sum(const struct ep_ll_args &a, uint32_t to, uint32_t index,
				uint64_t epoch)
{
	const struct ep_common *ep = &a.ep;
	const uint32_t lane = threadIdx.x % 32;
	const uint32_t word = a.row_headers[((size_t)to * ep->ll_max_tokens + index) * 32 + lane];
	const uint32_t n = __shfl_sync(~0u, word, EP_ROW_SELECTIONS);
	const float weight = await_weight(a, to, word, epoch);
	unsigned char *sums = ll_sum(ep, to, epoch, ep->rank, index);

	for (uint32_t base = 0; base < a.row_bytes; base += UNROLL * 32 * 16) {
		float sum[UNROLL][8] = {};

		for (uint32_t j = 0; j < n; j++) {
			const uint64_t row = __shfl_sync(~0u, word, EP_ROW_EXPERT + j);
			const float w = __shfl_sync(~0u, weight, j);

#pragma unroll
			for (int u = 0; u < UNROLL; u++) {
				const uint32_t at = base + (u * 32 + lane) * 16;

				if (at < a.row_bytes)
					fma8(sum[u], w,
					     *(const uint4 *)(a.x + row * a.row_bytes + at));
			}
		}
#pragma unroll
		for (int u = 0; u < UNROLL; u++) {
			const uint32_t at = base + (u * 32 + lane) * 16;

			if (at < a.row_bytes)
				store_relaxed((uint4 *)(sums + at),
					      unpoisoned(round8(sum[u]), 0xfffeffffu));
		}
	}
}

extern "C" __global__ void __launch_bounds__(EP_LL_THREADS)
	ep_ll_combine_send(const __grid_constant__ struct ep_ll_args a)
{
	const struct ep_common *ep = &a.ep;
	const uint64_t epoch = ll_send_epoch(ep, EP_LL_COMBINE);
	const uint32_t live = ll_ready_ranks(ep, EP_LL_COMBINE, epoch);
	const uint32_t warps = gridDim.x * (EP_LL_THREADS / 32);
	uint32_t index = threadIdx.x / 32 * gridDim.x + blockIdx.x;

	send_weights(a, epoch, live);
	for (uint32_t s = 0; s < ep->ranks; s++) {
		const uint32_t rows = a.routes->rows[s];

		for (; index < rows; index += warps)
			if (live >> s & 1)
				send_sum(a, s, index, epoch);
		index -= rows;
	}
	if (last_block(ep) && threadIdx.x == 0)
		store_relaxed(&ep->control->ll_sent[EP_LL_COMBINE], epoch);
}

/* ---- receive --------------------------------------------------------------------------------- */

/* Adds up sixteen bytes of the sums of a token and clears them. */
__device__ static uint4 receive_sums(const struct ep_ll_args &a, const int *index, uint32_t at,
				     uint64_t epoch, uint32_t dead)
{
	const struct ep_common *ep = &a.ep;
	uint4 v[EP_RANKS];
	float sum[8] = {};

#pragma unroll
	for (uint32_t r = 0; r < EP_RANKS; r++)
		if (index[r] >= 0)
			v[r] = load_relaxed(
				(const uint4 *)(ll_sum(ep, ep->rank, epoch, r, index[r]) + at));
#pragma unroll
	for (uint32_t r = 0; r < EP_RANKS; r++) {
		uint4 *p = (uint4 *)(ll_sum(ep, ep->rank, epoch, r, index[r]) + at);
		bool ok = !(dead >> r & 1);

		if (index[r] < 0)
			continue;
		v[r] = await_data(ep, (const uint4 *)p, v[r], r, &ok);
		store_relaxed(p, poison4());
		if (ok)
			add8(sum, v[r]);
	}
	return round8(sum);
}

extern "C" __global__ void __launch_bounds__(EP_LL_THREADS)
	ep_ll_combine_recv(const __grid_constant__ struct ep_ll_args a)
{
	__shared__ int index[EP_RANKS];
	const struct ep_common *ep = &a.ep;
	const uint64_t epoch = ll_recv_epoch(ep, EP_LL_COMBINE);
	const uint32_t dead = load_relaxed(&ep->control->dead);

	for (uint32_t token = blockIdx.x; token < a.tokens; token += gridDim.x) {
		if (threadIdx.x < EP_RANKS)
			index[threadIdx.x] = a.routes->index[token * EP_RANKS + threadIdx.x];
		__syncthreads();
		for (uint32_t at = threadIdx.x * 16; at < a.row_bytes; at += EP_LL_THREADS * 16)
			*(uint4 *)(a.out + (uint64_t)token * a.row_bytes + at) =
				receive_sums(a, index, at, epoch, dead);
		__syncthreads();
	}
	ll_consumed(ep, EP_LL_COMBINE, epoch);
}
