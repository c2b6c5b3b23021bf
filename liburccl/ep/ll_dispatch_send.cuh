/* SPDX-License-Identifier: Apache-2.0 */
/* The send phase of low-latency dispatch. */
#ifndef EP_LL_DISPATCH_SEND_CUH
#define EP_LL_DISPATCH_SEND_CUH

#include "low_latency.cuh"

/* The words of a choice, from loads whose results are not waited for. */
struct choice_words {
	uint32_t low, high;
};

__device__ static struct choice_words load_choice(const struct ep_ll_args &a, uint32_t i)
{
	const uint32_t *words = (const uint32_t *)a.topk_idx;
	struct choice_words c = {~0u, 0};

	if (i < a.tokens * a.topk) {
		c.low = words[a.idx32 ? i : 2 * i];
		if (!a.idx32)
			c.high = words[2 * i + 1];
	}
	return c;
}

__device__ static int expert_of(const struct ep_ll_args &a, const struct choice_words &c)
{
	return c.high == 0 && c.low < a.ep.experts ? (int)c.low : -1;
}

/* Puts the choices of all tokens into shared memory. The thread's first two have been loaded. */
__device__ static void load_choices(const struct ep_ll_args &a, int *choice,
				    const struct choice_words (&early)[2])
{
	const uint32_t end = a.tokens * a.topk;

#pragma unroll
	for (uint32_t n = 0; n < 2; n++)
		if (threadIdx.x + n * EP_LL_THREADS < end)
			choice[threadIdx.x + n * EP_LL_THREADS] = expert_of(a, early[n]);
	for (uint32_t i = threadIdx.x + 2 * EP_LL_THREADS; i < end; i += EP_LL_THREADS)
		choice[i] = expert_of(a, load_choice(a, i));
}

/* Drops experts that a token has already: their rows would have no room. A thread has at most 32
 * choices. */
__device__ static void drop_repeats(const struct ep_ll_args &a, int *choice)
{
	const uint32_t end = a.tokens * a.topk;
	uint32_t repeats = 0, bit = 1;

	for (uint32_t i = threadIdx.x; i < end; i += EP_LL_THREADS, bit <<= 1)
		for (uint32_t before = i / a.topk * a.topk; before < i; before++)
			if (choice[before] == choice[i])
				repeats |= bit;
	if (!__syncthreads_or(repeats))
		return;
	for (uint32_t i = threadIdx.x; i < end; i += EP_LL_THREADS, repeats >>= 1)
		if (repeats & 1)
			choice[i] = -1;
	__syncthreads();
}

/* The ranks of each token, one bit each. */
__device__ static void find_ranks(const struct ep_ll_args &a, const int *choice, uint8_t *ranks)
{
	for (uint32_t t = threadIdx.x; t < a.tokens; t += EP_LL_THREADS) {
		uint32_t bits = 0;

		for (uint32_t k = 0; k < a.topk; k++)
			if (choice[t * a.topk + k] >= 0)
				bits |= 1u << (uint32_t)choice[t * a.topk + k] / a.ep.local;
		ranks[t] = (uint8_t)bits;
	}
	__syncthreads();
}

/* Sends each rank the number of its rows and of the tokens of its experts. */
__device__ static void send_counts(const struct ep_ll_args &a, const int *choice,
				   const uint8_t *ranks, int *experts, uint64_t epoch,
				   uint32_t live)
{
	__shared__ int rows[EP_RANKS];
	const struct ep_common *ep = &a.ep;

	for (uint32_t e = threadIdx.x; e < ep->experts; e += blockDim.x)
		experts[e] = 0;
	if (threadIdx.x < EP_RANKS)
		rows[threadIdx.x] = 0;
	__syncthreads();
	for (uint32_t i = threadIdx.x; i < a.tokens * a.topk; i += blockDim.x)
		if (choice[i] >= 0)
			atomicAdd(&experts[choice[i]], 1);
	for (uint32_t i = threadIdx.x; i < a.tokens * ep->ranks; i += blockDim.x)
		if (ranks[i / ep->ranks] >> i % ep->ranks & 1)
			atomicAdd(&rows[i % ep->ranks], 1);
	__syncthreads();
	for (uint32_t i = threadIdx.x; i < ep->ranks * (1 + ep->local); i += blockDim.x) {
		uint32_t r = i / (1 + ep->local), word = i % (1 + ep->local);
		int count = word ? experts[r * ep->local + word - 1] : rows[r];

		if (live >> r & 1)
			store_relaxed(ll_counts(ep, r, epoch, ep->rank) + word,
				      (uint64_t)epoch << 32 | (uint32_t)count);
	}
}

/* The number of tokens before this one that go to rank r, and of choices of expert e before it.
 * A warp calls it. */
__device__ static int rows_before(const uint8_t *ranks, uint32_t token, uint32_t r)
{
	int n = 0;

	for (uint32_t t = threadIdx.x % 32; t < token; t += 32)
		n += ranks[t] >> r & 1;
	return __reduce_add_sync(~0u, n);
}

__device__ static int choices_before(const int *choice, uint32_t end, int e)
{
	int n = 0;

#pragma unroll 8
	for (uint32_t i = threadIdx.x % 32; i < end; i += 32)
		n += choice[i] == e;
	return __reduce_add_sync(~0u, n);
}

/* Computes the token's row at each rank, and its row within each of its experts. */
__device__ static void place_token(const struct ep_ll_args &a, const int *choice,
				   const uint8_t *ranks, uint32_t token, int *row, int *within)
{
	const uint32_t warp = threadIdx.x / 32, lane = threadIdx.x % 32;

	for (uint32_t job = warp; job < EP_RANKS + a.topk; job += EP_LL_THREADS / 32) {
		if (job < EP_RANKS) {
			int n = ranks[token] >> job & 1 ? rows_before(ranks, token, job) : -1;

			if (lane == 0) {
				row[job] = n;
				a.routes->index[token * EP_RANKS + job] = n;
			}
		} else {
			const uint32_t k = job - EP_RANKS;
			const int e = choice[token * a.topk + k];
			int n = e < 0 ? 0 : choices_before(choice, token * a.topk, e);

			if (lane == 0)
				within[k] = n;
		}
	}
	__syncthreads();
}

/* Warp r writes the header of the token's row at rank r. */
__device__ static void send_headers(const struct ep_ll_args &a, const int *choice, uint32_t token,
				    const int *row, const int *within, uint64_t epoch,
				    uint32_t live)
{
	const uint32_t r = threadIdx.x / 32, lane = threadIdx.x % 32;
	const int e = lane < a.topk ? choice[token * a.topk + lane] : -1;
	const bool here = e >= 0 && (uint32_t)e / a.ep.local == r;
	const uint32_t all = __ballot_sync(~0u, here), n = __popc(all);
	uint32_t word = 0, first, *header;

	if (r >= a.ep.ranks || row[r] < 0 || !(live >> r & 1))
		return;
	header = (uint32_t *)ll_row(&a.ep, r, epoch, a.ep.rank, row[r]);
	/* Selection j of the row is the j-th set bit of "all". */
	first = lane >= EP_ROW_CHOICE ? EP_ROW_CHOICE : EP_ROW_EXPERT;
	if (lane >= first && lane - first < n) {
		const uint32_t k = __fns(all, 0, lane - first + 1);

		word = first == EP_ROW_CHOICE
			       ? k
			       : choice[token * a.topk + k] % a.ep.local << 16 | within[k];
	}
	if (lane == EP_ROW_TOKEN)
		word = token;
	if (lane == EP_ROW_SELECTIONS)
		word = n;
	store_relaxed(&header[lane], word);
}

/* The largest magnitude of the eight bf16 of v, and of "most". */
__device__ static float most_of_eight(float most, uint4 v)
{
	const uint32_t word[4] = {v.x, v.y, v.z, v.w};

#pragma unroll
	for (int i = 0; i < 4; i++) {
		most = fmaxf(most, fabsf(bf16_low(word[i])));
		most = fmaxf(most, fabsf(bf16_high(word[i])));
	}
	return most;
}

/* Four bf16 as e4m3, scaled. */
__device__ static uint32_t quantise4(uint32_t low, uint32_t high, float scale)
{
	uint16_t a, b;

	asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;"
	    : "=h"(a)
	    : "f"(__fmul_rn(bf16_high(low), scale)), "f"(__fmul_rn(bf16_low(low), scale)));
	asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;"
	    : "=h"(b)
	    : "f"(__fmul_rn(bf16_high(high), scale)), "f"(__fmul_rn(bf16_low(high), scale)));
	return (uint32_t)b << 16 | a;
}

/* Sixteen columns in e4m3. Eight neighbouring threads share a scale: *scale is its value, or its
 * exponent with ue8m0. */
__device__ static uint4 quantise(const struct ep_ll_args &a, uint4 low, uint4 high, uint32_t *scale)
{
	float most = most_of_eight(most_of_eight(1e-4f, low), high), factor, inverse;
	uint32_t exponent = 0;

#pragma unroll
	for (int step = 1; step < 8; step *= 2)
		most = fmaxf(most, __shfl_xor_sync(~0u, most, step));
	if (a.round_scale) {
		/* The least power of two that is not below most / 448. */
		uint32_t bits = __float_as_uint(__fmul_rn(most, 1 / 448.0f));

		exponent = min((bits >> 23) + ((bits & 0x7fffff) != 0), 254u);
		inverse = __uint_as_float(exponent << 23);
		factor = __uint_as_float((254 - exponent) << 23);
	} else {
		factor = __fdiv_rn(448.0f, most);
		inverse = __fmul_rn(most, 1 / 448.0f);
	}
	*scale = a.ue8m0 ? exponent : __float_as_uint(inverse);
	return make_uint4(quantise4(low.x, low.y, factor), quantise4(low.z, low.w, factor),
			  quantise4(high.x, high.y, factor), quantise4(high.z, high.w, factor));
}

/* Sends sixteen bytes, or a word, of a token's row to each of its ranks. */
template <typename T>
__device__ static void send_to_all(const struct ep_ll_args &a, const int *row, uint64_t epoch,
				   uint32_t live, uint32_t offset, T v)
{
	for (uint32_t n = 0; n < a.ep.ranks; n++) {
		const uint32_t r = (a.ep.rank + 1 + n) % a.ep.ranks;

		if (row[r] >= 0 && live >> r & 1)
			store_relaxed((T *)(ll_row(&a.ep, r, epoch, a.ep.rank, row[r]) + offset),
				      v);
	}
}

/* The source of sixteen bytes of a sent row: sixteen bytes of bf16, or thirty-two for FP8. */
struct vectors {
	uint4 low, high;
};

__device__ static struct vectors load_vectors(const struct ep_ll_args &a, uint32_t token,
					      uint32_t v)
{
	const uint4 *x = (const uint4 *)(a.x + (uint64_t)token * a.hidden * 2);
	struct vectors pair = {};

	if (token >= a.tokens || v >= a.row_bytes / 16)
		return pair;
	if (!a.fp8)
		return {x[v], pair.high};
	return {x[2 * v], x[2 * v + 1]};
}

/* Sends sixteen FP8 columns and their scale. */
__device__ static void send_fp8(const struct ep_ll_args &a, const int *row, uint64_t epoch,
				uint32_t live, uint32_t v, const struct vectors &pair)
{
	const uint32_t vectors = a.row_bytes / 16, scales = EP_LL_HEADER + a.row_bytes;
	uint32_t scale, packed = 0;
	const uint4 bytes = quantise(a, pair.low, pair.high, &scale);

	if (v < vectors)
		send_to_all(a, row, epoch, live, EP_LL_HEADER + v * 16,
			    unpoisoned(bytes, 0x7fffffffu));
	if (!a.ue8m0) {
		if (v < vectors && v % 8 == 0)
			send_to_all(a, row, epoch, live, scales + v / 8 * 4, scale);
		return;
	}
	/* Lanes 0, 8, 16 and 24 have the four exponents of one word. */
#pragma unroll
	for (int i = 0; i < 4; i++) {
		const uint32_t exponent = __shfl_sync(~0u, scale, 8 * i);

		if (v / 32 * 32 + 8 * i < vectors)
			packed |= exponent << 8 * i;
	}
	if (v % 32 == 0)
		send_to_all(a, row, epoch, live, scales + v / 32 * 4, packed);
}

/* Sends the payload. Thread v does vectors v, v + EP_LL_THREADS, ...; "first" is the first. */
__device__ static void send_payload(const struct ep_ll_args &a, uint32_t token, const int *row,
				    uint64_t epoch, uint32_t live, struct vectors first)
{
	const uint32_t vectors = a.row_bytes / 16;
	const uint32_t rounded = (vectors + 31) / 32 * 32; /* whole warps shuffle */

	for (uint32_t v = threadIdx.x; v < rounded; v += EP_LL_THREADS) {
		if (v >= EP_LL_THREADS)
			first = load_vectors(a, token, v);
		if (a.fp8)
			send_fp8(a, row, epoch, live, v, first);
		else if (v < vectors)
			send_to_all(a, row, epoch, live, EP_LL_HEADER + v * 16,
				    unpoisoned(first.low, 0xfffeffffu));
	}
}

/* shared: choice, experts, ranks. */
__device__ static void send_tokens(const struct ep_ll_args &a, int *shared, uint64_t epoch)
{
	__shared__ int row[EP_RANKS], within[EP_LL_TOPK];
	const struct ep_common *ep = &a.ep;
	/* These loads are in flight at the same time. */
	struct vectors first = load_vectors(a, blockIdx.x, threadIdx.x);
	const struct choice_words early[2] = {load_choice(a, threadIdx.x),
					      load_choice(a, threadIdx.x + EP_LL_THREADS)};
	const struct readiness now = ll_readiness(ep, EP_LL_DISPATCH);
	int *choice = shared, *experts = choice + a.tokens * a.topk;
	uint8_t *ranks = (uint8_t *)(experts + ep->experts);
	uint32_t live;

	load_choices(a, choice, early);
	live = ll_ready_ranks(ep, EP_LL_DISPATCH, epoch, now);
	drop_repeats(a, choice);
	find_ranks(a, choice, ranks);
	/* The last block has the fewest tokens. */
	if (blockIdx.x == gridDim.x - 1)
		send_counts(a, choice, ranks, experts, epoch, live);
	for (uint32_t token = blockIdx.x; token < a.tokens; token += gridDim.x) {
		place_token(a, choice, ranks, token, row, within);
		send_headers(a, choice, token, row, within, epoch, live);
		send_payload(a, token, row, epoch, live, first);
		first = load_vectors(a, token + gridDim.x, threadIdx.x);
		__syncthreads();
	}
}

#endif
