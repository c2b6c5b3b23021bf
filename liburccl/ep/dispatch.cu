/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes each token once to each of its ranks, into the row where it stays. A warp copies one token
 * after another through its ring of shared buffers: bulk load, then one bulk store for each rank.
 */
#include "device.cuh"

enum { AHEAD = 1 }; /* loads that a warp has in flight; AHEAD < EP_STAGES */

/* Data that a warp reads before a token's turn comes. Lane r has the row at rank r, lane k
 * the choice k, each lane two of the scales. */
struct fetched {
	int slot, chunk; /* a fresh dispatch has counted the chunk and the rows before it apart */
	int64_t expert;
	float weight;
	uint32_t scale[2];
};

__device__ static uint32_t scale_at(const struct ep_dispatch_args &a, uint32_t token, uint32_t s)
{
	return a.scales[token * a.scale_row_stride + s * a.scale_word_stride];
}

__device__ static struct fetched fetch_token(const struct ep_dispatch_args &a, uint32_t token)
{
	const uint32_t lane = threadIdx.x % 32;
	struct fetched f = {-1, 0, -1, 0, {0, 0}};

	if (token >= a.tokens)
		return f;
	if (lane < a.ep.ranks) {
		f.slot = a.routes->slot[(size_t)token * a.ep.ranks + lane];
		if (!a.cached)
			f.chunk = a.chunk_counts[token / EP_CHUNK * EP_RANKS + lane];
	}
	if (!a.cached && lane < a.topk) {
		f.expert = load_idx(a.topk_idx, a.idx32, (size_t)token * a.topk + lane);
		if (a.topk_weights)
			f.weight = a.topk_weights[(size_t)token * a.topk + lane];
	}
	if (lane < a.scale_words)
		f.scale[0] = scale_at(a, token, lane);
	if (lane + 32 < a.scale_words)
		f.scale[1] = scale_at(a, token, lane + 32);
	return f;
}

/* The row of a token at rank "lane", or -1; a fresh dispatch keeps it. base: as in the routes. */
__device__ static int token_slot(const struct ep_dispatch_args &a, uint32_t token,
				 const struct fetched &f, int base)
{
	if (a.cached || f.slot < 0)
		return f.slot;
	a.routes->slot[(size_t)token * a.ep.ranks + threadIdx.x % 32] = f.slot + f.chunk + base;
	return f.slot + f.chunk + base;
}

__device__ static uint32_t piece_bytes(const struct ep_dispatch_args &a, uint32_t piece)
{
	return min(a.piece_bytes, a.row_bytes - piece * a.piece_bytes);
}

/* Sends a token's scales, and in a fresh dispatch its experts, weights and index. */
__device__ static void send_details(const struct ep_dispatch_args &a, uint32_t token, int slots,
				    const struct fetched &f)
{
	const struct ep_common *ep = &a.ep;
	const uint32_t lane = threadIdx.x % 32;

	for (uint32_t r = 0; r < ep->ranks; r++) {
		const int64_t slot = __shfl_sync(~0u, slots, r);
		unsigned char *base = ep->window.base[r];
		uint32_t *scales = (uint32_t *)(base + ep->at.scales) + slot * a.scale_words;

		if (slot < 0)
			continue;
		if (lane < a.scale_words)
			scales[lane] = f.scale[0];
		if (lane + 32 < a.scale_words)
			scales[lane + 32] = f.scale[1];
		for (uint32_t s = lane + 64; s < a.scale_words; s += 32)
			scales[s] = scale_at(a, token, s);
		if (a.cached)
			continue;
		if (lane < a.topk) {
			int64_t local = f.expert - (int64_t)r * ep->local;
			bool here = local >= 0 && local < ep->local;

			((int64_t *)(base + ep->at.topk_idx))[slot * a.topk + lane] =
				here ? local : -1;
			if (a.topk_weights)
				((float *)(base + ep->at.topk_weights))[slot * a.topk + lane] =
					here ? f.weight : 0;
		}
		if (lane == 0)
			((int32_t *)(base + ep->at.src_idx))[slot] = (int32_t)token;
	}
}

/* The tokens that a warp has taken: the one that it sends, and the next ones. The first four are
 * fixed. A counter gives the others, so that all warps end at about the same time: multiprocessors
 * get unequal shares of the links. */
struct claims {
	uint32_t now, next, after;
	uint32_t pending; /* of lane 0 alone, which does not wait for it yet */
};

__device__ static struct claims first_claims(void)
{
	const uint32_t warps = gridDim.x * EP_WARPS;
	const uint32_t first = blockIdx.x * EP_WARPS + threadIdx.x / 32;

	return {first, first + warps, first + 2 * warps, first + 3 * warps};
}

__device__ static void claim_token(const struct ep_dispatch_args &a, struct claims *c)
{
	c->now = c->next;
	c->next = c->after;
	c->after = __shfl_sync(~0u, c->pending, 0);
	if (threadIdx.x % 32 == 0 && c->after < a.tokens)
		c->pending = 4 * gridDim.x * EP_WARPS + atomicAdd(&a.ep.control->claimed, 1);
}

/* A warp's ring of shared buffers. */
struct ring {
	unsigned char *buffers;
	uint64_t *barriers;
	uint32_t loads, sends; /* pieces so far */
	uint32_t ahead, piece; /* the next to load: tokens beyond the one to be sent; its piece */
};

/* Starts loads until AHEAD are in flight beyond the piece to be sent. */
__device__ static void load_ahead(const struct ep_dispatch_args &a, struct ring *ring,
				  const struct claims &c)
{
	for (; ring->loads < ring->sends + 1 + AHEAD; ring->loads++) {
		const uint32_t stage = ring->loads % EP_STAGES, bytes = piece_bytes(a, ring->piece);
		const uint32_t token = ring->ahead == 0	  ? c.now
				       : ring->ahead == 1 ? c.next
							  : c.after;

		if (token >= a.tokens)
			break;
		if (threadIdx.x % 32 == 0) {
			/* The stage's last store is at least so many groups ago. */
			bulk_wait_read<EP_STAGES - AHEAD - 1>();
			barrier_expect(&ring->barriers[stage], bytes);
			bulk_load(ring->buffers + stage * a.piece_bytes,
				  a.x + token * a.x_stride +
					  (uint64_t)ring->piece * a.piece_bytes,
				  bytes, &ring->barriers[stage]);
		}
		if (++ring->piece == a.pieces) {
			ring->piece = 0;
			ring->ahead++;
		}
	}
}

/* Stores the ring's next piece into the token's rows. */
__device__ static void send_piece(const struct ep_dispatch_args &a, struct ring *ring, int slots,
				  uint32_t piece)
{
	const struct ep_common *ep = &a.ep;
	const uint32_t stage = ring->sends % EP_STAGES, lane = threadIdx.x % 32;

	barrier_wait(&ring->barriers[stage], ring->sends / EP_STAGES & 1);
	for (uint32_t i = 0; i < ep->ranks; i++) {
		const uint32_t r = (ep->rank + 1 + threadIdx.x / 32 + i) % ep->ranks;
		const int64_t slot = __shfl_sync(~0u, slots, r);

		if (slot >= 0 && lane == 0)
			bulk_store(ep->window.base[r] + ep->at.x + slot * a.row_bytes +
					   (uint64_t)piece * a.piece_bytes,
				   ring->buffers + stage * a.piece_bytes, piece_bytes(a, piece));
	}
	if (lane == 0)
		bulk_commit();
	ring->sends++;
}

/* The first loads are in flight while the ranks wait for each other. False: a rank did not come.
 * In a fresh dispatch the exchange of counts was the barrier. */
__device__ static bool send_rows(const struct ep_dispatch_args &a, unsigned char *buffers,
				 uint64_t *barriers, uint32_t epoch)
{
	const uint32_t lane = threadIdx.x % 32;
	const int base = lane < a.ep.ranks ? a.routes->base[lane] : 0;
	struct ring ring = {buffers, barriers, 0, 0, 0, 0};
	struct claims c = first_claims();
	struct fetched next;

	fence_proxy();
	load_ahead(a, &ring, c);
	next = fetch_token(a, c.now);
	if (a.cached && !await_start(&a.ep, epoch)) {
		for (uint32_t stage = 0; stage < ring.loads; stage++)
			barrier_wait(&barriers[stage], 0);
		return false;
	}
	fence_proxy();
	for (; c.now < a.tokens; claim_token(a, &c)) {
		const struct fetched f = next;
		int slots;

		load_ahead(a, &ring, c);
		next = fetch_token(a, c.next);
		slots = token_slot(a, c.now, f, base);
		send_details(a, c.now, slots, f);
		for (uint32_t piece = 0; piece < a.pieces; piece++) {
			load_ahead(a, &ring, c);
			send_piece(a, &ring, slots, piece);
		}
		ring.ahead--;
	}
	if (lane == 0) {
		bulk_wait();
		fence_proxy();
	}
	return true;
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
	uint32_t epoch;
	bool ok;

	if (threadIdx.x < EP_WARPS * EP_STAGES)
		barrier_init(&barriers[0][0] + threadIdx.x);
	barrier_init_fence();
	await_previous();
	epoch = load_relaxed(&ep->control->epoch) + 1;
	if (a.cached)
		announce_start(ep, epoch);
	ok = __syncthreads_and(!failed(ep) && a.routes->fits);
	if (ok) {
		ok = send_rows(a, buffers + warp * EP_STAGES * a.piece_bytes, barriers[warp],
			       epoch);
		if (ok && !a.cached && a.topk && a.worst_tokens)
			clear_rest(a);
	}
	end_barrier(ep, ok, epoch);
}
