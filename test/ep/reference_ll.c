/* SPDX-License-Identifier: Apache-2.0 */
/* Low-latency mode. */
#include "reference.h"

#include <math.h>
#include <string.h>

static uint32_t local_experts(const struct ref_shape *shape)
{
	return shape->experts / shape->ranks;
}

static uint32_t groups(const struct ref_shape *shape)
{
	return (shape->hidden + URCCL_EP_SCALE_COLUMNS - 1) / URCCL_EP_SCALE_COLUMNS;
}

uint32_t ref_ll_scale_words(const struct ref_shape *shape)
{
	if (!(shape->ll_flags & URCCL_EP_LL_FP8))
		return 0;
	return shape->ll_flags & URCCL_EP_LL_UE8M0 ? (groups(shape) + 3) / 4 : groups(shape);
}

static uint32_t float_bits(float f)
{
	uint32_t bits;

	memcpy(&bits, &f, sizeof(bits));
	return bits;
}

static float bits_float(uint32_t bits)
{
	float f;

	memcpy(&f, &bits, sizeof(f));
	return f;
}

/* The scale of n columns, and the factor that a column is multiplied with. */
static float group_scale(const uint16_t *x, uint32_t n, uint32_t flags, float *factor)
{
	float most = 1e-4f, scale;
	uint32_t exponent;

	for (uint32_t i = 0; i < n; i++)
		most = fmaxf(most, fabsf(ref_from_bf16(x[i])));
	scale = most * (1 / 448.0f);
	*factor = 448.0f / most;
	if (!(flags & URCCL_EP_LL_ROUND_SCALE))
		return scale;
	/* The least power of two that is not below the scale. */
	exponent = float_bits(scale) >> 23;
	if (float_bits(scale) & 0x7fffff)
		exponent++;
	if (exponent > 254)
		exponent = 254;
	*factor = bits_float((254 - exponent) << 23);
	return bits_float(exponent << 23);
}

void ref_ll_row(const struct ref_shape *shape, const uint16_t *x, void *payload, uint32_t *scales)
{
	uint8_t *bytes = payload;

	if (!(shape->ll_flags & URCCL_EP_LL_FP8)) {
		memcpy(payload, x, shape->hidden * 2);
		return;
	}
	memset(scales, 0, ref_ll_scale_words(shape) * 4);
	for (uint32_t g = 0; g < groups(shape); g++) {
		const uint32_t first = g * URCCL_EP_SCALE_COLUMNS;
		uint32_t n = shape->hidden - first;
		float factor, scale;

		if (n > URCCL_EP_SCALE_COLUMNS)
			n = URCCL_EP_SCALE_COLUMNS;
		scale = group_scale(x + first, n, shape->ll_flags, &factor);
		for (uint32_t i = 0; i < n; i++)
			bytes[first + i] = ref_to_e4m3(ref_from_bf16(x[first + i]) * factor);
		if (shape->ll_flags & URCCL_EP_LL_UE8M0)
			scales[g / 4] |= float_bits(scale) >> 23 << g % 4 * 8;
		else
			scales[g] = float_bits(scale);
	}
}

/* The position of expert e in the token's choices, or -1. */
static int choice_of(const struct ref_shape *shape, const struct ref_source *source, uint32_t token,
		     int64_t e)
{
	for (uint32_t k = 0; k < shape->topk; k++)
		if (source->topk_idx[token * shape->topk + k] == e)
			return (int)k;
	return -1;
}

static void receive_row(const struct ref_shape *shape, const uint16_t *x, uint32_t local,
			uint32_t row, struct ref_ll_received *out)
{
	const size_t most = (size_t)shape->ranks * shape->ll_max_tokens;
	const size_t bytes = shape->hidden * (shape->ll_flags & URCCL_EP_LL_FP8 ? 1 : 2);
	const uint32_t words = ref_ll_scale_words(shape);
	uint32_t scales[REF_MAX_HIDDEN / URCCL_EP_SCALE_COLUMNS];

	ref_ll_row(shape, x, (char *)out->x + (local * most + row) * bytes, scales);
	for (size_t s = 0; s < words; s++)
		out->scales[(local * words + s) * most + row] = scales[s];
}

void ref_ll_dispatch(const struct ref_shape *shape, const struct ref_source *sources, uint32_t to,
		     struct ref_ll_received *out)
{
	const size_t most = (size_t)shape->ranks * shape->ll_max_tokens;

	for (uint32_t l = 0; l < local_experts(shape); l++) {
		const int64_t e = (int64_t)to * local_experts(shape) + l;
		uint32_t row = 0;

		for (uint32_t s = 0; s < shape->ranks; s++) {
			const uint32_t first = row;

			for (uint32_t t = 0; t < sources[s].tokens; t++) {
				if (choice_of(shape, &sources[s], t, e) < 0)
					continue;
				receive_row(shape, sources[s].x + (size_t)t * shape->hidden, l, row,
					    out);
				out->src_idx[l * most + row++] = (int32_t)t;
			}
			out->layout_range[l * shape->ranks + s] =
				(int64_t)first << 32 | (row - first);
		}
		out->count[l] = (int32_t)row;
	}
}

/* The row of recv_x that holds token "token" of rank "from" for an expert. */
static size_t row_of(const struct ref_shape *shape, const struct ref_source *sources, uint32_t from,
		     uint32_t token, int64_t e)
{
	size_t row = e % local_experts(shape) * shape->ranks * shape->ll_max_tokens;

	for (uint32_t s = 0; s <= from; s++)
		for (uint32_t t = 0; t < (s == from ? token : sources[s].tokens); t++)
			row += choice_of(shape, &sources[s], t, e) >= 0;
	return row;
}

/* Adds to out what one rank sends back for a token. */
static void add_rank(const struct ref_shape *shape, const struct ref_source *sources, uint32_t from,
		     uint32_t token, uint32_t rank, const uint16_t *x, float *out)
{
	const int64_t *idx = sources[from].topk_idx + token * shape->topk;
	float sum[REF_MAX_HIDDEN];
	int selections = 0;

	for (uint32_t h = 0; h < shape->hidden; h++)
		sum[h] = 0;
	for (uint32_t k = 0; k < shape->topk; k++) {
		const float weight = sources[from].topk_weights[token * shape->topk + k];
		const uint16_t *row;

		if (idx[k] < 0 || idx[k] / local_experts(shape) != rank ||
		    choice_of(shape, &sources[from], token, idx[k]) != (int)k)
			continue;
		row = x + row_of(shape, sources, from, token, idx[k]) * shape->hidden;
		for (uint32_t h = 0; h < shape->hidden; h++)
			sum[h] = fmaf(weight, ref_from_bf16(row[h]), sum[h]);
		selections++;
	}
	for (uint32_t h = 0; selections && h < shape->hidden; h++)
		out[h] += ref_from_bf16(ref_to_bf16(sum[h]));
}

void ref_ll_combine(const struct ref_shape *shape, const struct ref_source *sources, uint32_t from,
		    const uint16_t *const *x, uint16_t *out)
{
	float sum[REF_MAX_HIDDEN];

	for (uint32_t t = 0; t < sources[from].tokens; t++) {
		for (uint32_t h = 0; h < shape->hidden; h++)
			sum[h] = 0;
		for (uint32_t r = 0; r < shape->ranks; r++)
			add_rank(shape, sources, from, t, r, x[r], sum);
		for (size_t h = 0; h < shape->hidden; h++)
			out[t * shape->hidden + h] = ref_to_bf16(sum[h]);
	}
}
