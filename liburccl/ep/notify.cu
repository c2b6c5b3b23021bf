/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counts tokens by rank and expert, exchanges the counts with all ranks and computes the row of
 * each token at each rank. A block counts one chunk of tokens; the last block to end does the rest.
 */
#include "device.cuh"

enum { BATCH = 8 }; /* choices that a thread reads at a time */

/* Counts the experts of the block's chunk of tokens. ranks[i]: the ranks of its i-th token, one bit
 * each. */
__device__ static void read_chunk(const struct ep_notify_args &a, int *experts, uint32_t *ranks)
{
	const uint32_t first = blockIdx.x * EP_CHUNK;
	const uint32_t n = min(a.tokens - min(first, a.tokens), (uint32_t)EP_CHUNK);

	ranks[threadIdx.x] = 0;
	__syncthreads();
	for (uint32_t base = threadIdx.x; base < n * a.topk; base += BATCH * EP_CHUNK) {
		int64_t e[BATCH];

#pragma unroll
		for (uint32_t u = 0; u < BATCH; u++) {
			const uint32_t i = base + u * EP_CHUNK;

			e[u] = i < n * a.topk
				       ? load_idx(a.topk_idx, a.idx32, (size_t)first * a.topk + i)
				       : -1;
		}
#pragma unroll
		for (uint32_t u = 0; u < BATCH; u++) {
			if (e[u] < 0 || e[u] >= a.ep.experts)
				continue;
			atomicOr(&ranks[(base + u * EP_CHUNK) / a.topk],
				 1u << (uint32_t)e[u] / a.ep.local);
			atomicAdd(&experts[e[u]], 1);
		}
	}
	__syncthreads();
	if (!a.in_rank || threadIdx.x >= n)
		return;
	ranks[threadIdx.x] = 0;
	for (uint32_t r = 0; r < a.ep.ranks; r++)
		if (a.in_rank[(size_t)(first + threadIdx.x) * a.ep.ranks + r])
			ranks[threadIdx.x] |= 1u << r;
}

/* Writes the index of each token of the block's chunk among those that go to the same rank. */
__device__ static void count_chunk(const struct ep_notify_args &a, uint32_t ranks)
{
	__shared__ int warp_count[EP_CHUNK / 32][EP_RANKS];
	const uint32_t token = blockIdx.x * EP_CHUNK + threadIdx.x;
	const uint32_t warp = threadIdx.x / 32, lane = threadIdx.x % 32;
	const bool have = token < a.tokens;
	int before[EP_RANKS];

#pragma unroll
	for (uint32_t r = 0; r < EP_RANKS; r++) {
		uint32_t votes = __ballot_sync(~0u, ranks >> r & 1);

		before[r] = __popc(votes & ((1u << lane) - 1));
		if (lane == 0)
			warp_count[warp][r] = __popc(votes);
	}
	__syncthreads();
#pragma unroll
	for (uint32_t r = 0; r < EP_RANKS; r++) {
		if (!have || r >= a.ep.ranks)
			continue;
		for (uint32_t w = 0; w < warp; w++)
			before[r] += warp_count[w][r];
		if (a.routes)
			a.routes->slot[(size_t)token * a.ep.ranks + r] =
				ranks >> r & 1 ? before[r] : -1;
		if (a.is_in_rank)
			a.is_in_rank[(size_t)token * a.ep.ranks + r] = ranks >> r & 1;
	}
	if (threadIdx.x < EP_RANKS) {
		int sum = 0;

		for (uint32_t w = 0; w < EP_CHUNK / 32; w++)
			sum += warp_count[w][threadIdx.x];
		a.chunk_counts[blockIdx.x * EP_RANKS + threadIdx.x] = sum;
	}
}

/* Replaces the counts of chunks by the first rows of chunks. Warp r does rank r. */
__device__ static void sum_chunks(const struct ep_notify_args &a, int *per_rank)
{
	const uint32_t r = threadIdx.x / 32, lane = threadIdx.x % 32;
	int sum = 0;

	for (uint32_t first = 0; first < gridDim.x; first += 32) {
		uint32_t chunk = first + lane;
		int count = 0, upto;

		if (chunk < gridDim.x)
			count = __ldcg(&a.chunk_counts[chunk * EP_RANKS + r]);
		upto = count;
		for (int step = 1; step < 32; step *= 2) {
			int other = __shfl_up_sync(~0u, upto, step);

			if ((int)lane >= step)
				upto += other;
		}
		if (chunk < gridDim.x)
			a.chunk_counts[chunk * EP_RANKS + r] = sum + upto - count;
		sum += __shfl_sync(~0u, upto, 31);
	}
	if (lane == 0)
		per_rank[r] = sum;
}

__device__ static uint64_t *expert_words(const struct ep_notify_args &a, uint32_t at, uint32_t from)
{
	return words_of(&a.ep, at, a.ep.at.experts) + (size_t)from * a.ep.local;
}

/* Sends this rank's counts; a word carries its epoch, so it needs no other flag. */
__device__ static void send_counts(const struct ep_notify_args &a, const int *per_rank,
				   const int *experts, uint32_t epoch)
{
	const struct ep_common *ep = &a.ep;

	for (uint32_t i = threadIdx.x; i < ep->ranks * ep->ranks; i += blockDim.x) {
		uint32_t peer = i / ep->ranks, d = i % ep->ranks;

		store_relaxed(&flags_of(ep, peer)->counts[ep->rank][d],
			      (uint64_t)epoch << 32 | (uint32_t)per_rank[d]);
	}
	for (uint32_t e = threadIdx.x; e < ep->experts; e += blockDim.x)
		store_relaxed(&expert_words(a, e / ep->local, ep->rank)[e % ep->local],
			      (uint64_t)epoch << 32 | (uint32_t)experts[e]);
}

/* A count that rank "from" sends in this epoch; 0 when it does not come. */
__device__ static uint32_t await_count(const struct ep_common *ep, const uint64_t *word,
				       uint32_t epoch, uint32_t from)
{
	wait w(ep);
	uint64_t v;

	while ((uint32_t)((v = load_relaxed(word)) >> 32) != epoch) {
		if (failed(ep))
			return 0;
		if (w.expired()) {
			ep_fail(ep, EP_TIMEOUT, from);
			return 0;
		}
	}
	return (uint32_t)v;
}

/* Writes for the program, and for the kernels that follow, how many rows come; ends the epoch. */
__device__ static void publish(const struct ep_notify_args &a, uint32_t (*counts)[EP_RANKS],
			       uint32_t epoch)
{
	const struct ep_common *ep = &a.ep;
	const uint32_t slot = a.call % EP_COUNT_SLOTS;

	for (uint32_t l = threadIdx.x; l < ep->local; l += blockDim.x) {
		uint32_t sum = 0;

		for (uint32_t s = 0; s < ep->ranks; s++)
			sum += await_count(ep, &expert_words(a, ep->rank, s)[l], epoch, s);
		sum = (sum + a.alignment - 1) / a.alignment * a.alignment;
		ep->host->per_expert[slot * ep->local + l] = (int32_t)sum;
		if (a.recv_per_expert)
			a.recv_per_expert[l] = (int32_t)sum;
	}
	if (threadIdx.x < ep->ranks) {
		const uint32_t d = threadIdx.x;
		uint32_t sum = 0;

		for (uint32_t s = 0; s < ep->ranks; s++) {
			if (s == ep->rank)
				a.routes->base[d] = (int32_t)sum;
			sum += counts[s][d];
			if (a.rank_prefix)
				a.rank_prefix[s * ep->ranks + d] = (int32_t)sum;
		}
		if (sum > ep->max_recv_tokens)
			ep_fail(ep, EP_NO_ROOM, d);
		if (d == ep->rank) {
			a.routes->recv_tokens = (int32_t)sum;
			ep->host->recv_tokens[slot] = sum;
			if (a.recv_count)
				*a.recv_count = (int32_t)sum;
		}
	}
	__syncthreads();
	if (threadIdx.x)
		return;
	a.routes->fits = !failed(ep);
	store_relaxed(&ep->control->epoch, epoch);
	if (a.routes->fits)
		store_release(&ep->host->call[slot], a.call);
}

extern "C" __global__ void __launch_bounds__(EP_CHUNK)
	ep_notify(const __grid_constant__ struct ep_notify_args a)
{
	extern __shared__ int experts[]; /* [experts] */
	__shared__ int per_rank[EP_RANKS];
	__shared__ uint32_t ranks[EP_CHUNK], counts[EP_RANKS][EP_RANKS];
	const struct ep_common *ep = &a.ep;
	const uint32_t epoch = load_relaxed(&ep->control->epoch) + 1;

	launch_next();
	for (uint32_t e = threadIdx.x; e < ep->experts; e += blockDim.x)
		experts[e] = 0;
	read_chunk(a, experts, ranks);
	count_chunk(a, ranks[threadIdx.x]);
	__syncthreads();
	for (uint32_t e = threadIdx.x; e < ep->experts; e += blockDim.x)
		if (experts[e])
			atomicAdd(&a.expert_counts[e], experts[e]);
	if (!last_block(ep))
		return;

	sum_chunks(a, per_rank);
	for (uint32_t e = threadIdx.x; e < ep->experts; e += blockDim.x) {
		experts[e] = __ldcg(&a.expert_counts[e]);
		a.expert_counts[e] = 0;
		if (a.per_expert)
			a.per_expert[e] = experts[e];
		if (a.given_per_expert)
			experts[e] = a.given_per_expert[e];
	}
	__syncthreads();
	if (a.per_rank && threadIdx.x < ep->ranks)
		a.per_rank[threadIdx.x] = per_rank[threadIdx.x];
	if (!a.routes || failed(ep))
		return;
	send_counts(a, per_rank, experts, epoch);
	for (uint32_t i = threadIdx.x; i < ep->ranks * ep->ranks; i += blockDim.x) {
		uint32_t s = i / ep->ranks, d = i % ep->ranks;

		counts[s][d] = await_count(ep, &flags_of(ep, ep->rank)->counts[s][d], epoch, s);
	}
	__syncthreads();
	publish(a, counts, epoch);
}
