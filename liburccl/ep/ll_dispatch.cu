/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Low-latency dispatch. A token is sent once to each of its ranks, with a header that names its
 * experts there; the receiver spreads the rows over its experts. Data are their own flags: buffers
 * hold EP_POISON until a row arrives, and a receiver puts it back after it has read the row. Counts
 * carry their epoch.
 */
#include "ll_dispatch_send.cuh"

/* Word "word" of the counts of a rank; 0 of a rank that is left out or does not come. */
__device__ static uint32_t await_count(const struct ep_common *ep, uint32_t from, uint32_t word,
				       uint64_t epoch)
{
	const uint64_t *p = ll_counts(ep, ep->rank, epoch, from) + word;
	wait w(ep);
	uint64_t v;

	while ((uint32_t)((v = load_relaxed(p)) >> 32) != (uint32_t)epoch) {
		if (load_relaxed(&ep->control->dead) >> from & 1)
			return 0;
		if (w.expired()) {
			mark_dead(ep, from);
			return 0;
		}
	}
	return (uint32_t)v;
}

/* first[l * ranks + s] becomes the first row of source s in local expert l; rows[s] the number of
 * rows of source s. Block 0 writes recv_count and layout_range. */
__device__ static void receive_counts(const struct ep_ll_args &a, int *first, int *rows,
				      uint64_t epoch)
{
	const struct ep_common *ep = &a.ep;

	for (uint32_t i = threadIdx.x; i < ep->ranks * (1 + ep->local); i += blockDim.x) {
		const uint32_t s = i % ep->ranks, word = i / ep->ranks;
		const int count = (int)await_count(ep, s, word, epoch);

		if (word)
			first[(word - 1) * ep->ranks + s] = count;
		else
			rows[s] = count;
	}
	__syncthreads();
	for (uint32_t l = threadIdx.x; l < ep->local; l += blockDim.x) {
		int sum = 0;

		for (uint32_t s = 0; s < ep->ranks; s++) {
			const int count = first[l * ep->ranks + s];

			first[l * ep->ranks + s] = sum;
			if (blockIdx.x == 0)
				a.layout_range[l * ep->ranks + s] = (int64_t)sum << 32 | count;
			sum += count;
		}
		if (blockIdx.x == 0)
			a.recv_count[l] = sum;
	}
	if (blockIdx.x == 0 && threadIdx.x < EP_RANKS)
		a.routes->rows[threadIdx.x] = threadIdx.x < ep->ranks ? rows[threadIdx.x] : 0;
	__syncthreads();
}

/* Waits for the header of a row, of which the lane has found "word". Lane i gets word i; experts
 * have become rows of recv_x. A row that does not come has no selections. */
__device__ static uint32_t receive_header(const struct ep_ll_args &a, uint32_t from,
					  const int *first, const uint32_t *header, uint32_t word,
					  bool *ok)
{
	const struct ep_common *ep = &a.ep;
	const uint32_t lane = threadIdx.x % 32, most = ep->ranks * ep->ll_max_tokens;
	uint32_t n;

	word = await_data(ep, &header[lane], word, from, ok);
	*ok = __all_sync(~0u, *ok);
	if (!*ok)
		return 0;
	n = __shfl_sync(~0u, word, EP_ROW_SELECTIONS);
	if (lane >= EP_ROW_EXPERT && lane < EP_ROW_EXPERT + n)
		word = (word >> 16) * most + first[(word >> 16) * ep->ranks + from] +
		       (word & 0xffff);
	return word;
}

/* Keeps a header for combine and writes src_idx. One warp calls it. */
__device__ static void keep_header(const struct ep_ll_args &a, uint32_t from, uint32_t index,
				   uint32_t word)
{
	const uint32_t lane = threadIdx.x % 32;
	const uint32_t token = __shfl_sync(~0u, word, EP_ROW_TOKEN);
	const uint32_t n = __shfl_sync(~0u, word, EP_ROW_SELECTIONS);

	if (lane >= EP_ROW_EXPERT && lane < EP_ROW_EXPERT + n)
		a.src_idx[word] = (int32_t)token;
	a.row_headers[((size_t)from * a.ep.ll_max_tokens + index) * 32 + lane] = word;
}

/* The first load of a batch of a row. */
__device__ static void first_load(const struct team &team, const unsigned char *row,
				  uint32_t row_bytes, uint32_t base, uint4 (&v)[LL_UNROLL])
{
#pragma unroll
	for (int u = 0; u < LL_UNROLL; u++)
		if (team.at(base, u) < row_bytes)
			v[u] = load_relaxed((const uint4 *)(row + team.at(base, u)));
}

/* Moves a row's scales to each of its experts and clears them. scale: the result of the
 * load of the thread's first one. */
__device__ static void receive_scales(const struct ep_ll_args &a, const struct team &team,
				      uint32_t from, unsigned char *row, uint32_t word, uint32_t n,
				      uint32_t scale, bool *ok)
{
	const struct ep_common *ep = &a.ep;
	const uint32_t most = ep->ranks * ep->ll_max_tokens;
	uint32_t *scales = (uint32_t *)(row + a.row_bytes);

	for (uint32_t base = 0; base < a.scale_words; base += team.threads) {
		const uint32_t s = base + team.thread;

		if (s < a.scale_words) {
			if (base)
				scale = EP_POISON;
			scale = await_data(ep, (const uint32_t *)&scales[s], scale, from, ok);
			store_relaxed(&scales[s], EP_POISON);
		}
		for (uint32_t j = 0; j < n; j++) {
			const uint32_t to = __shfl_sync(~0u, word, EP_ROW_EXPERT + j);

			if (s < a.scale_words)
				a.recv_scales[((uint64_t)(to / most) * a.scale_words + s) * most +
					      to % most] = scale;
		}
	}
}

/* Moves a row to each of its experts and clears all of it but the header. A team calls it. */
__device__ static void receive_row(const struct ep_ll_args &a, const struct team &team,
				   uint32_t from, uint32_t index, const int *first, uint64_t epoch)
{
	const struct ep_common *ep = &a.ep;
	uint32_t *header = (uint32_t *)ll_row(ep, ep->rank, epoch, from, index);
	unsigned char *row = (unsigned char *)header + EP_LL_HEADER;
	uint32_t word = load_relaxed(&header[threadIdx.x % 32]), scale = EP_POISON, n;
	uint4 v[LL_UNROLL];
	bool ok = true;

	first_load(team, row, a.row_bytes, 0, v);
	if (team.thread < a.scale_words)
		scale = load_relaxed((const uint32_t *)(row + a.row_bytes) + team.thread);
	word = receive_header(a, from, first, header, word, &ok);
	n = __shfl_sync(~0u, word, EP_ROW_SELECTIONS);
	if (team.thread < 32)
		keep_header(a, from, index, word);
	for (uint32_t base = 0; base < a.row_bytes; base += team.batch()) {
		if (base)
			first_load(team, row, a.row_bytes, base, v);
#pragma unroll
		for (int u = 0; u < LL_UNROLL; u++) {
			const uint32_t at = team.at(base, u);

			if (at >= a.row_bytes)
				continue;
			v[u] = await_data(ep, (const uint4 *)(row + at), v[u], from, &ok);
			store_relaxed((uint4 *)(row + at), poison4());
		}
		for (uint32_t j = 0; j < n; j++) {
			const uint64_t to = __shfl_sync(~0u, word, EP_ROW_EXPERT + j);

#pragma unroll
			for (int u = 0; u < LL_UNROLL; u++)
				if (team.at(base, u) < a.row_bytes)
					*(uint4 *)(a.recv_x + to * a.row_bytes + team.at(base, u)) =
						v[u];
		}
	}
	receive_scales(a, team, from, row, word, n, scale, &ok);
}

/* first: [local][ranks]. */
__device__ static void receive_tokens(const struct ep_ll_args &a, int *first, uint64_t epoch)
{
	__shared__ int rows[EP_RANKS];
	const struct ep_common *ep = &a.ep;

	receive_counts(a, first, rows, epoch);
	const uint32_t all = all_rows(ep, rows);
	const struct team team(all);

	for (uint32_t n = team.index; n < all; n += team.teams) {
		const struct row r(ep, rows, n);

		receive_row(a, team, r.from, r.index, first, epoch);
	}
	__syncthreads(); /* all warps of the teams have read the headers */
	for (uint32_t n = team.index; n < all && team.thread < 32; n += team.teams) {
		const struct row r(ep, rows, n);
		uint32_t *header = (uint32_t *)ll_row(ep, ep->rank, epoch, r.from, r.index);

		store_relaxed(&header[team.thread], EP_POISON);
	}
}

extern "C" __global__ void __launch_bounds__(EP_LL_THREADS)
	ep_ll_dispatch(const __grid_constant__ struct ep_ll_args a)
{
	extern __shared__ int shared[];
	const uint64_t sending = ll_send_epoch(&a.ep, EP_LL_DISPATCH);
	const uint64_t receiving = ll_recv_epoch(&a.ep, EP_LL_DISPATCH);

	ll_announce_consumed(&a.ep, EP_LL_DISPATCH, receiving);
	if (a.phases & EP_LL_SEND)
		send_tokens(a, shared, sending);
	ll_count_epochs(&a.ep, EP_LL_DISPATCH, a.phases, sending, receiving);
	if (a.phases & EP_LL_RECV)
		receive_tokens(a, shared, receiving);
}
