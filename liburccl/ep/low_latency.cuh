/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the low-latency kernels: buffers, epochs, and waits for data. */
#ifndef EP_LOW_LATENCY_CUH
#define EP_LOW_LATENCY_CUH

#include "device.cuh"

/* ---- buffers of a window ----------------------------------------------------------------------
 * "at" is the rank that receives, "from" the one that sends. Each has three buffers in turn. */

__device__ __forceinline__ uint64_t ll_buffer(const struct ep_common *ep, uint64_t epoch,
					      uint32_t from)
{
	return epoch % EP_LL_BUFFERS * EP_RANKS + from;
}

__device__ __forceinline__ uint64_t *ll_counts(const struct ep_common *ep, uint32_t at,
					       uint64_t epoch, uint32_t from)
{
	return words_of(ep, at, ep->at.ll_counts) + ll_buffer(ep, epoch, from) * (1 + ep->local);
}

__device__ __forceinline__ unsigned char *ll_row(const struct ep_common *ep, uint32_t at,
						 uint64_t epoch, uint32_t from, uint32_t index)
{
	return ep->window.base[at] + ep->at.ll_rows +
	       (ll_buffer(ep, epoch, from) * ep->ll_max_tokens + index) * ep->at.ll_row;
}

__device__ __forceinline__ uint64_t *ll_weights(const struct ep_common *ep, uint32_t at,
						uint64_t epoch, uint32_t from)
{
	return words_of(ep, at, ep->at.ll_weights) +
	       ll_buffer(ep, epoch, from) * ep->ll_max_tokens * EP_LL_TOPK;
}

__device__ __forceinline__ unsigned char *ll_sum(const struct ep_common *ep, uint32_t at,
						 uint64_t epoch, uint32_t from, uint32_t index)
{
	return ep->window.base[at] + ep->at.ll_sums +
	       (ll_buffer(ep, epoch, from) * ep->ll_max_tokens + index) * ep->at.ll_sum;
}

/* ---- epochs ---------------------------------------------------------------------------------- */

__device__ __forceinline__ uint64_t ll_send_epoch(const struct ep_common *ep, enum ep_ll_kind kind)
{
	return load_relaxed(&ep->control->ll_sent[kind]) + 1;
}

__device__ __forceinline__ uint64_t ll_recv_epoch(const struct ep_common *ep, enum ep_ll_kind kind)
{
	return load_relaxed(&ep->control->ll_received[kind]) + 1;
}

/* State that thread r < ranks has of rank r, from a load whose result is not waited for. */
struct readiness {
	uint64_t consumed;
	uint32_t dead;
};

__device__ __forceinline__ struct readiness ll_readiness(const struct ep_common *ep,
							 enum ep_ll_kind kind)
{
	const uint32_t r = threadIdx.x;

	if (r >= ep->ranks)
		return {0, ~0u};
	return {load_acquire(&flags_of(ep, ep->rank)->consumed[kind][r]),
		load_relaxed(&ep->control->dead)};
}

/* The ranks to which rows of this epoch may be sent, one bit each: waits until each rank that is
 * not left out has read the epoch whose buffers are used again. */
__device__ inline uint32_t ll_ready_ranks(const struct ep_common *ep, enum ep_ll_kind kind,
					  uint64_t epoch, struct readiness now)
{
	__shared__ uint32_t bits;
	const uint32_t r = threadIdx.x;
	wait w(ep);
	uint32_t votes;

	/* Thread r of warp 0 is rank r. */
	while (r < ep->ranks && !(now.dead >> r & 1) && now.consumed + EP_LL_BUFFERS < epoch) {
		if (w.expired())
			mark_dead(ep, r);
		now = ll_readiness(ep, kind);
	}
	votes = __ballot_sync(~0u, r < ep->ranks && !(now.dead >> r & 1));
	if (r == 0)
		bits = votes;
	__syncthreads();
	return bits;
}

/* Announces to each rank the last epoch that this one has read: a receive is over when the next
 * kernel begins, and three buffers leave time for that. The last block but one has few tokens. */
__device__ inline void ll_announce_consumed(const struct ep_common *ep, enum ep_ll_kind kind,
					    uint64_t receiving)
{
	if (blockIdx.x == max(gridDim.x, 2u) - 2 && threadIdx.x < ep->ranks &&
	    !(load_relaxed(&ep->control->dead) >> threadIdx.x & 1))
		store_release(&flags_of(ep, threadIdx.x)->consumed[kind][ep->rank], receiving - 1);
}

/* Counts the epochs of the kernel's phases when all blocks have read them. All threads call it
 * between the phases: the barrier needs the values, so each thread has them. */
__device__ inline void ll_count_epochs(const struct ep_common *ep, enum ep_ll_kind kind,
				       uint32_t phases, uint64_t sending, uint64_t receiving)
{
	if (!__syncthreads_and(sending && receiving) || threadIdx.x != EP_LL_THREADS - 1 ||
	    atomicInc(&ep->control->ticket, gridDim.x - 1) != gridDim.x - 1)
		return;
	if (phases & EP_LL_SEND)
		store_relaxed(&ep->control->ll_sent[kind], sending);
	if (phases & EP_LL_RECV)
		store_relaxed(&ep->control->ll_received[kind], receiving);
}

/* ---- teams -----------------------------------------------------------------------------------
 * Rows are handled by teams of whole warps of one block: the fewer rows there are, the larger. */

enum { LL_UNROLL = 4 }; /* vectors of sixteen bytes that a thread has in flight */

struct team {
	uint32_t index, teams;	  /* in the grid */
	uint32_t thread, threads; /* in the team */

	__device__ explicit team(uint32_t rows)
	{
		const uint32_t size = rows <= gridDim.x	      ? EP_LL_THREADS
				      : rows <= 2 * gridDim.x ? EP_LL_THREADS / 2
							      : EP_LL_THREADS / 4;

		index = threadIdx.x / size * gridDim.x + blockIdx.x;
		teams = EP_LL_THREADS / size * gridDim.x;
		thread = threadIdx.x % size;
		threads = size;
	}
	/* The place in a row of the thread's u-th vector, from "base" on. */
	__device__ uint32_t at(uint32_t base, int u) const
	{
		return base + ((uint32_t)u * threads + thread) * 16;
	}
	/* The bytes that the team has in flight. */
	__device__ uint32_t batch() const
	{
		return LL_UNROLL * threads * 16;
	}
};

/* The n-th row of those of all ranks: rows[r] are of rank r. */
struct row {
	uint32_t from, index;

	__device__ row(const struct ep_common *ep, const int *rows, uint32_t n) : from(0), index(n)
	{
		while (from < ep->ranks && index >= (uint32_t)rows[from])
			index -= rows[from++];
	}
};

__device__ inline uint32_t all_rows(const struct ep_common *ep, const int *rows)
{
	uint32_t n = 0;

	for (uint32_t r = 0; r < ep->ranks; r++)
		n += rows[r];
	return n;
}

/* ---- data that are their own flags ----------------------------------------------------------- */

__device__ __forceinline__ uint4 poison4(void)
{
	return make_uint4(EP_POISON, EP_POISON, EP_POISON, EP_POISON);
}

/* v with EP_POISON, which as numbers is NaN throughout, replaced by another NaN. */
__device__ __forceinline__ uint4 unpoisoned(uint4 v, uint32_t nan)
{
	return make_uint4(v.x == EP_POISON ? nan : v.x, v.y == EP_POISON ? nan : v.y,
			  v.z == EP_POISON ? nan : v.z, v.w == EP_POISON ? nan : v.w);
}

__device__ __forceinline__ bool arrived(uint32_t v)
{
	return v != EP_POISON;
}

__device__ __forceinline__ bool arrived(uint4 v)
{
	return v.x != EP_POISON && v.y != EP_POISON && v.z != EP_POISON && v.w != EP_POISON;
}

/* Waits until the data at p have arrived. have: the result of the first load. If they do not
 * come, their rank is left out and *ok becomes false. */
template <typename T>
__device__ __forceinline__ T await_data(const struct ep_common *ep, const T *p, T have,
					uint32_t from, bool *ok)
{
	if (arrived(have) || !*ok)
		return have;
	wait w(ep);

	while (!arrived(have = load_relaxed(p))) {
		if (load_relaxed(&ep->control->dead) >> from & 1)
			*ok = false;
		else if (w.expired())
			mark_dead(ep, from);
		if (!*ok)
			break;
	}
	return have;
}

#endif
