/* SPDX-License-Identifier: Apache-2.0 */
/* Normal mode. */
#include "reference.h"

#include <stdbool.h>
#include <string.h>

static uint32_t local_experts(const struct ref_shape *shape)
{
	return shape->experts / shape->ranks;
}

static bool goes_to(const struct ref_shape *shape, const struct ref_source *source, uint32_t token,
		    uint32_t rank)
{
	if (source->in_rank)
		return source->in_rank[token * shape->ranks + rank];
	for (uint32_t k = 0; k < shape->topk; k++) {
		int64_t e = source->topk_idx[token * shape->topk + k];

		if (e >= 0 && e < shape->experts && (uint32_t)e / local_experts(shape) == rank)
			return true;
	}
	return false;
}

void ref_layout(const struct ref_shape *shape, const struct ref_source *source, int32_t *per_rank,
		int32_t *per_expert, uint8_t *in_rank)
{
	if (per_rank)
		memset(per_rank, 0, shape->ranks * sizeof(*per_rank));
	if (per_expert)
		memset(per_expert, 0, shape->experts * sizeof(*per_expert));
	for (uint32_t t = 0; t < source->tokens; t++) {
		for (uint32_t r = 0; r < shape->ranks; r++) {
			bool there = goes_to(shape, source, t, r);

			if (per_rank)
				per_rank[r] += there;
			if (in_rank)
				in_rank[t * shape->ranks + r] = there;
		}
		for (uint32_t k = 0; per_expert && source->topk_idx && k < shape->topk; k++) {
			int64_t e = source->topk_idx[t * shape->topk + k];

			if (e >= 0 && e < shape->experts)
				per_expert[e]++;
		}
	}
}

void ref_slots(const struct ref_shape *shape, const struct ref_source *sources,
	       int32_t *rank_prefix)
{
	for (uint32_t d = 0; d < shape->ranks; d++) {
		int32_t rows = 0;

		for (uint32_t s = 0; s < shape->ranks; s++) {
			for (uint32_t t = 0; t < sources[s].tokens; t++)
				sources[s].slot[t * shape->ranks + d] =
					goes_to(shape, &sources[s], t, d) ? rows++ : -1;
			rank_prefix[s * shape->ranks + d] = rows;
		}
	}
}

/* Experts of other ranks become -1, their weights 0. */
static void receive_experts(const struct ref_shape *shape, const struct ref_source *source,
			    uint32_t token, uint32_t to, int64_t *idx, float *weights)
{
	for (uint32_t k = 0; k < shape->topk; k++) {
		int64_t local = source->topk_idx[token * shape->topk + k] -
				(int64_t)to * local_experts(shape);
		bool here = local >= 0 && local < local_experts(shape);

		idx[k] = here ? local : -1;
		if (weights && source->topk_weights)
			weights[k] = here ? source->topk_weights[token * shape->topk + k] : 0;
	}
}

static void receive_token(const struct ref_shape *shape, const struct ref_source *source,
			  uint32_t token, uint32_t to, size_t row, struct ref_received *out)
{
	if (out->x)
		memcpy((char *)out->x + row * shape->row_bytes,
		       (const char *)source->x + (size_t)token * shape->row_bytes,
		       shape->row_bytes);
	if (out->scales && source->scales)
		memcpy(out->scales + row * shape->scale_words,
		       source->scales + (size_t)token * shape->scale_words,
		       shape->scale_words * sizeof(*out->scales));
	if (out->topk_idx && source->topk_idx)
		receive_experts(shape, source, token, to, out->topk_idx + row * shape->topk,
				out->topk_weights ? out->topk_weights + row * shape->topk : NULL);
	if (out->src_idx)
		out->src_idx[row] = (int32_t)token;
}

void ref_dispatch(const struct ref_shape *shape, const struct ref_source *sources, uint32_t to,
		  struct ref_received *out)
{
	const uint32_t local = local_experts(shape),
		       align = shape->alignment ? shape->alignment : 1;

	out->rows = 0;
	memset(out->per_expert, 0, local * sizeof(*out->per_expert));
	for (uint32_t s = 0; s < shape->ranks; s++) {
		for (uint32_t t = 0; t < sources[s].tokens; t++) {
			if (sources[s].slot[t * shape->ranks + to] >= 0)
				receive_token(shape, &sources[s], t, to, out->rows++, out);
			for (uint32_t k = 0; sources[s].topk_idx && k < shape->topk; k++) {
				int64_t e = sources[s].topk_idx[t * shape->topk + k];

				if (e >= to * local && e < (to + 1) * local)
					out->per_expert[e - to * local]++;
			}
		}
	}
	for (uint32_t l = 0; l < local; l++)
		out->per_expert[l] = (int32_t)((out->per_expert[l] + align - 1) / align * align);
	for (size_t row = out->rows; out->topk_idx && row < shape->worst_tokens; row++)
		for (uint32_t k = 0; k < shape->topk; k++)
			out->topk_idx[row * shape->topk + k] = -1;
}

void ref_combine(const struct ref_shape *shape, const struct ref_source *source,
		 const uint16_t *const *x, const uint16_t *const bias[2], uint16_t *out)
{
	for (size_t t = 0; t < source->tokens; t++) {
		for (size_t h = 0; h < shape->hidden; h++) {
			const size_t at = t * shape->hidden + h;
			float sum = 0;

			for (int b = 0; b < 2; b++)
				if (bias[b])
					sum += ref_from_bf16(bias[b][at]);
			for (uint32_t r = 0; r < shape->ranks; r++) {
				int32_t slot = source->slot[t * shape->ranks + r];

				if (slot >= 0)
					sum += ref_from_bf16(
						x[r][(size_t)slot * shape->hidden + h]);
			}
			out[at] = ref_to_bf16(sum);
		}
	}
}

void ref_combine_weights(const struct ref_shape *shape, const struct ref_source *source,
			 const float *const *weights, float *out)
{
	for (size_t t = 0; t < source->tokens; t++) {
		for (size_t k = 0; k < shape->topk; k++) {
			float sum = 0;

			for (uint32_t r = 0; r < shape->ranks; r++) {
				int32_t slot = source->slot[t * shape->ranks + r];

				if (slot >= 0)
					sum += weights[r][(size_t)slot * shape->topk + k];
			}
			out[t * shape->topk + k] = sum;
		}
	}
}
