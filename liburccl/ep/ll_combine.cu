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
			mark_dead(ep, from);
	}
	return __uint_as_float((uint32_t)v);
}

__device__ static void fma_eight(float (&sum)[8], float weight, uint4 v)
{
	const uint32_t word[4] = {v.x, v.y, v.z, v.w};

#pragma unroll
	for (int i = 0; i < 4; i++) {
		sum[2 * i] = __fmaf_rn(weight, bf16_low(word[i]), sum[2 * i]);
		sum[2 * i + 1] = __fmaf_rn(weight, bf16_high(word[i]), sum[2 * i + 1]);
	}
}

/* Loads a batch of the j-th of a row's experts. */
__device__ static void load_expert(const struct ep_ll_args &a, const struct team &team,
				   uint32_t word, uint32_t j, uint32_t base, uint4 (&v)[LL_UNROLL])
{
	const uint64_t row = __shfl_sync(~0u, word, (EP_ROW_EXPERT + j) % 32);

#pragma unroll
	for (int u = 0; u < LL_UNROLL; u++)
		if (team.at(base, u) < a.row_bytes)
			v[u] = *(const uint4 *)(a.x + row * a.row_bytes + team.at(base, u));
}

/* Lane i gets word i of the header of a row. */
__device__ static uint32_t header_of(const struct ep_ll_args &a, const struct row &r)
{
	return a.row_headers[((size_t)r.from * a.ep.ll_max_tokens + r.index) * 32 +
			     threadIdx.x % 32];
}

/* Sends the weighted sum of a row's experts back to its rank. A team calls it. */
__device__ static void send_sum(const struct ep_ll_args &a, const struct team &team,
				const struct row &r, uint32_t word, uint64_t epoch)
{
	const struct ep_common *ep = &a.ep;
	const uint32_t n = __shfl_sync(~0u, word, EP_ROW_SELECTIONS);
	const float weight = await_weight(a, r.from, word, epoch);
	unsigned char *sums = ll_sum(ep, r.from, epoch, ep->rank, r.index);

	for (uint32_t base = 0; base < a.row_bytes; base += team.batch()) {
		float sum[LL_UNROLL][8] = {};
		uint4 v[LL_UNROLL], next[LL_UNROLL];

		if (n)
			load_expert(a, team, word, 0, base, next);
		for (uint32_t j = 0; j < n; j++) {
			const float w = __shfl_sync(~0u, weight, j);

#pragma unroll
			for (int u = 0; u < LL_UNROLL; u++)
				v[u] = next[u];
			if (j + 1 < n)
				load_expert(a, team, word, j + 1, base, next);
#pragma unroll
			for (int u = 0; u < LL_UNROLL; u++)
				fma_eight(sum[u], w, v[u]);
		}
#pragma unroll
		for (int u = 0; u < LL_UNROLL; u++)
			if (team.at(base, u) < a.row_bytes)
				store_relaxed((uint4 *)(sums + team.at(base, u)),
					      unpoisoned(round8(sum[u]), 0xfffeffffu));
	}
}

__device__ static void send_sums(const struct ep_ll_args &a, uint64_t epoch)
{
	__shared__ int rows[EP_RANKS];
	const struct ep_common *ep = &a.ep;
	const struct readiness now = ll_readiness(ep, EP_LL_COMBINE);
	uint32_t live, word = 0;

	if (threadIdx.x < EP_RANKS)
		rows[threadIdx.x] = (int)a.routes->rows[threadIdx.x];
	live = ll_ready_ranks(ep, EP_LL_COMBINE, epoch, now);
	const uint32_t all = all_rows(ep, rows);
	const struct team team(all);

	if (team.index < all)
		word = header_of(a, row(ep, rows, team.index));
	send_weights(a, epoch, live);
	for (uint32_t n = team.index; n < all; n += team.teams) {
		const struct row r(ep, rows, n);

		if (live >> r.from & 1)
			send_sum(a, team, r, word, epoch);
		if (n + team.teams < all)
			word = header_of(a, row(ep, rows, n + team.teams));
	}
}

/* ---- receive --------------------------------------------------------------------------------- */

enum { PARTS = 2 }; /* vectors of sixteen bytes of a sum that a thread has in flight */

/* Adds up PARTS vectors of the sums of a token, clears these, and writes the result. */
__device__ static void receive_part(const struct ep_ll_args &a, uint32_t token, const int *index,
				    uint32_t base, uint64_t epoch, uint32_t dead)
{
	const struct ep_common *ep = &a.ep;
	uint4 v[PARTS][EP_RANKS];

#pragma unroll
	for (uint32_t p = 0; p < PARTS; p++)
#pragma unroll
		for (uint32_t r = 0; r < EP_RANKS; r++)
			if (index[r] >= 0 && base + p * EP_LL_THREADS * 16 < a.row_bytes)
				v[p][r] = load_relaxed(
					(const uint4 *)(ll_sum(ep, ep->rank, epoch, r, index[r]) +
							base + p * EP_LL_THREADS * 16));
#pragma unroll
	for (uint32_t p = 0; p < PARTS; p++) {
		const uint32_t at = base + p * EP_LL_THREADS * 16;
		float sum[8] = {};

		if (at >= a.row_bytes)
			break;
#pragma unroll
		for (uint32_t r = 0; r < EP_RANKS; r++) {
			uint4 *from = (uint4 *)(ll_sum(ep, ep->rank, epoch, r, index[r]) + at);
			bool ok = !(dead >> r & 1);

			if (index[r] < 0)
				continue;
			v[p][r] = await_data(ep, (const uint4 *)from, v[p][r], r, &ok);
			store_relaxed(from, poison4());
			if (ok)
				add_eight(sum, v[p][r]);
		}
		*(uint4 *)(a.out + (uint64_t)token * a.row_bytes + at) = round8(sum);
	}
}

__device__ static void receive_sums(const struct ep_ll_args &a, uint64_t epoch)
{
	__shared__ int index[EP_RANKS];
	const uint32_t dead = load_relaxed(&a.ep.control->dead);

	for (uint32_t token = blockIdx.x; token < a.tokens; token += gridDim.x) {
		if (threadIdx.x < EP_RANKS)
			index[threadIdx.x] = a.routes->index[token * EP_RANKS + threadIdx.x];
		__syncthreads();
		for (uint32_t base = threadIdx.x * 16; base < a.row_bytes;
		     base += PARTS * EP_LL_THREADS * 16)
			receive_part(a, token, index, base, epoch, dead);
		__syncthreads();
	}
}

extern "C" __global__ void __launch_bounds__(EP_LL_THREADS)
	ep_ll_combine(const __grid_constant__ struct ep_ll_args a)
{
	const uint64_t sending = ll_send_epoch(&a.ep, EP_LL_COMBINE);
	const uint64_t receiving = ll_recv_epoch(&a.ep, EP_LL_COMBINE);

	ll_announce_consumed(&a.ep, EP_LL_COMBINE, receiving);
	if (a.phases & EP_LL_SEND)
		send_sums(a, sending);
	ll_count_epochs(&a.ep, EP_LL_COMBINE, a.phases, sending, receiving);
	if (a.phases & EP_LL_RECV)
		receive_sums(a, receiving);
}
