/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes each token once to each of its ranks, into the row where it stays. A warp copies one token
 * after another through its ring of shared buffers: bulk load, then one bulk store for each rank.
 */
#include "device.cuh"

enum { AHEAD = 2 }; /* loads that a warp has under way; AHEAD < EP_STAGES */

/* The row of a token at rank "lane", or -1; a fresh dispatch computes and keeps it. */
__device__ static int token_slot(const struct ep_dispatch_args &a, uint32_t token)
{
	const uint32_t lane = threadIdx.x % 32;
	int32_t *slot;

	if (lane >= a.ep.ranks || token >= a.tokens)
		return -1;
	slot = &a.routes->slot[(size_t)token * a.ep.ranks + lane];
	if (a.cached || *slot < 0)
		return *slot;
	*slot += a.routes->base[lane] + a.chunk_counts[token / EP_CHUNK * EP_RANKS + lane];
	return *slot;
}

/* A piece of a token; those of a warp come in a fixed order. */
struct item {
	uint32_t token, piece;
	int slot; /* at rank "lane" */
};

__device__ static void next_item(const struct ep_dispatch_args &a, struct item *i)
{
	if (++i->piece < a.pieces)
		return;
	i->piece = 0;
	i->token += gridDim.x * EP_WARPS;
	i->slot = token_slot(a, i->token);
}

__device__ static uint32_t piece_bytes(const struct ep_dispatch_args &a, uint32_t piece)
{
	return min(a.piece_bytes, a.row_bytes - piece * a.piece_bytes);
}

/* What goes with a token beside its row: scales, and in a fresh dispatch experts, weights and
 * index. */
__device__ static void send_details(const struct ep_dispatch_args &a, const struct item *i)
{
	const struct ep_common *ep = &a.ep;
	const uint32_t lane = threadIdx.x % 32;
	int64_t expert = -1;
	float weight = 0;

	if (!a.cached && lane < a.topk) {
		expert = load_idx(a.topk_idx, a.idx32, (size_t)i->token * a.topk + lane);
		if (a.topk_weights)
			weight = a.topk_weights[(size_t)i->token * a.topk + lane];
	}
	for (uint32_t r = 0; r < ep->ranks; r++) {
		const int64_t slot = __shfl_sync(~0u, i->slot, r);
		unsigned char *base = ep->window.base[r];

		if (slot < 0)
			continue;
		for (uint32_t s = lane; s < a.scale_words; s += 32)
			((uint32_t *)(base + ep->at.scales))[slot * a.scale_words + s] =
				a.scales[i->token * a.scale_row_stride + s * a.scale_word_stride];
		if (a.cached)
			continue;
		if (lane < a.topk) {
			int64_t local = expert - (int64_t)r * ep->local;
			bool here = local >= 0 && local < ep->local;

			((int64_t *)(base + ep->at.topk_idx))[slot * a.topk + lane] =
				here ? local : -1;
			if (a.topk_weights)
				((float *)(base + ep->at.topk_weights))[slot * a.topk + lane] =
					here ? weight : 0;
		}
		if (lane == 0)
			((int32_t *)(base + ep->at.src_idx))[slot] = (int32_t)i->token;
	}
}

__device__ static void send_rows(const struct ep_dispatch_args &a, unsigned char *buffers,
				 uint64_t *barriers)
{
	const struct ep_common *ep = &a.ep;
	const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32;
	const uint32_t first = blockIdx.x * EP_WARPS + warp;
	struct item load = {first, 0, 0}, send = {first, 0, token_slot(a, first)};
	uint32_t loads = 0;

	for (uint32_t sends = 0; send.token < a.tokens; sends++) {
		for (; loads < sends + 1 + AHEAD && load.token < a.tokens; loads++) {
			const uint32_t stage = loads % EP_STAGES;
			const uint32_t bytes = piece_bytes(a, load.piece);

			if (lane == 0) {
				/* The stage's last store is at least so many groups ago. */
				bulk_wait_read<EP_STAGES - AHEAD - 1>();
				barrier_expect(&barriers[stage], bytes);
				bulk_load(buffers + stage * a.piece_bytes,
					  a.x + load.token * a.x_stride +
						  (uint64_t)load.piece * a.piece_bytes,
					  bytes, &barriers[stage]);
			}
			if (++load.piece == a.pieces) {
				load.piece = 0;
				load.token += gridDim.x * EP_WARPS;
			}
		}
		if (send.piece == 0)
			send_details(a, &send);
		barrier_wait(&barriers[sends % EP_STAGES], sends / EP_STAGES & 1);
		for (uint32_t i = 0; i < ep->ranks; i++) {
			const uint32_t r = (ep->rank + 1 + warp + i) % ep->ranks;
			const int64_t slot = __shfl_sync(~0u, send.slot, r);

			if (slot >= 0 && lane == 0)
				bulk_store(ep->window.base[r] + ep->at.x + slot * a.row_bytes +
						   (uint64_t)send.piece * a.piece_bytes,
					   buffers + sends % EP_STAGES * a.piece_bytes,
					   piece_bytes(a, send.piece));
		}
		if (lane == 0)
			bulk_commit();
		next_item(a, &send);
	}
	if (lane == 0) {
		bulk_wait();
		fence_proxy();
	}
}

/* Rows that nobody fills have no experts. */
__device__ static void clear_rest(const struct ep_dispatch_args &a)
{
	const uint64_t end = (uint64_t)a.worst_tokens * a.topk;
	uint64_t i =
		(uint64_t)a.routes->recv_tokens * a.topk + blockIdx.x * blockDim.x + threadIdx.x;
	int64_t *topk_idx = (int64_t *)(a.ep.window.base[a.ep.rank] + a.ep.at.topk_idx);

	for (; i < end; i += gridDim.x * blockDim.x)
		topk_idx[i] = -1;
}

extern "C" __global__ void __launch_bounds__(EP_WARPS * 32, 1)
	ep_dispatch(const __grid_constant__ struct ep_dispatch_args a)
{
	extern __shared__ __align__(128) unsigned char buffers[];
	__shared__ uint64_t barriers[EP_WARPS][EP_STAGES];
	const struct ep_common *ep = &a.ep;
	const uint32_t warp = threadIdx.x / 32;
	const uint32_t epoch = load_relaxed(&ep->control->epoch) + 1;
	bool ok = !failed(ep) && a.routes->fits;

	if (threadIdx.x < EP_WARPS * EP_STAGES)
		barrier_init(&barriers[0][0] + threadIdx.x);
	barrier_init_fence();
	ok = __syncthreads_and(ok);
	/* A fresh dispatch has met the others in the exchange of counts. */
	if (ok && a.cached)
		ok = meet(ep, epoch);
	if (ok) {
		fence_proxy();
		send_rows(a, buffers + warp * EP_STAGES * a.piece_bytes, barriers[warp]);
		if (!a.cached && a.topk && a.worst_tokens)
			clear_rest(a);
	}
	if (!last_block(ep))
		return;
	finish(ep, ok, epoch);
}
