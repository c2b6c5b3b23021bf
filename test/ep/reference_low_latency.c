/* SPDX-License-Identifier: Apache-2.0 */
/* The reference's low-latency dispatch appends each choice to its expert's list; its combine is
 * near the weighted sum in double precision. */
#include "cases.h"

#include <math.h>

#include "test.h"

/* A row as numbers. */
static void numbers(const struct ref_shape *shape, const struct ref_ll_received *got, size_t local,
		    size_t row, double *out)
{
	const size_t most = (size_t)shape->ranks * shape->ll_max_tokens, at = local * most + row;
	const size_t words = ref_ll_scale_words(shape);

	for (size_t h = 0; h < shape->hidden; h++) {
		uint32_t word;
		float scale;

		if (!(shape->ll_flags & URCCL_EP_LL_FP8)) {
			out[h] = ref_from_bf16(((uint16_t *)got->x)[at * shape->hidden + h]);
			continue;
		}
		if (shape->ll_flags & URCCL_EP_LL_UE8M0) {
			word = got->scales[(local * words + h / 512) * most + row];
			scale = ldexpf(1, (int)(word >> h / 128 % 4 * 8 & 255) - 127);
		} else {
			word = got->scales[(local * words + h / 128) * most + row];
			memcpy(&scale, &word, sizeof(scale));
			if (shape->ll_flags & URCCL_EP_LL_ROUND_SCALE)
				CHECK_EQ(word & 0x7fffff, 0);
		}
		out[h] = (double)scale * ref_from_e4m3(((uint8_t *)got->x)[at * shape->hidden + h]);
	}
}

/* A row is near the token: e4m3 is within half of its distance to the next number. */
static void check_row(const struct ref_shape *shape, const struct ref_ll_received *got,
		      size_t local, size_t row, const uint16_t *x)
{
	double have[REF_MAX_HIDDEN];

	numbers(shape, got, local, row, have);
	for (uint32_t h = 0; h < shape->hidden; h++) {
		const double v = ref_from_bf16(x[h]);

		if (!(shape->ll_flags & URCCL_EP_LL_FP8))
			CHECK(have[h] == v);
		else /* 2^-4 of the number, or 2^-10 of the largest scale: 4 / 448, doubled */
			CHECK(fabs(have[h] - v) <= fabs(v) / 16 + 8.0 / 448 / 1024);
	}
}

/* The expert of the i-th choice; -1 if the token has it already. */
static int64_t expert_of(const struct ep_case *c, const struct ref_source *source, uint32_t i)
{
	for (uint32_t before = i / c->topk * c->topk; before < i; before++)
		if (source->topk_idx[before] == source->topk_idx[i])
			return -1;
	return source->topk_idx[i];
}

static void check_dispatch(const struct ep_case *c, const struct ref_shape *shape,
			   const struct ref_source *sources, uint32_t to,
			   const struct ref_ll_received *got)
{
	const uint32_t local = c->experts / c->ranks;
	const size_t most = (size_t)c->ranks * c->tokens;
	uint32_t used[1024] = {0}, before[1024];

	CHECK_LE(local, 1024);
	for (uint32_t s = 0; s < c->ranks; s++) {
		memcpy(before, used, sizeof(used));
		for (uint32_t i = 0; i < sources[s].tokens * c->topk; i++) {
			const int64_t l = expert_of(c, &sources[s], i) - (int64_t)to * local;
			const uint32_t t = i / c->topk;

			if (l < 0 || l >= local)
				continue;
			CHECK_EQ(got->src_idx[l * most + used[l]], t);
			check_row(shape, got, l, used[l]++, sources[s].x + (size_t)t * c->hidden);
		}
		for (uint32_t l = 0; l < local; l++)
			CHECK_EQ(got->layout_range[l * c->ranks + s],
				 (int64_t)before[l] << 32 | (used[l] - before[l]));
	}
	for (uint32_t l = 0; l < local; l++)
		CHECK_EQ(got->count[l], used[l]);
}

/* Experts return their rows times their number plus one. */
static double factor(int64_t expert)
{
	return 1 + (double)(expert % 4) / 4;
}

static void check_combine(const struct ep_case *c, const struct ref_shape *shape,
			  const struct ref_source *sources, uint16_t *const *y)
{
	for (uint32_t s = 0; s < c->ranks; s++) {
		const size_t n = (size_t)sources[s].tokens * c->hidden;
		uint16_t *out = malloc(n * 2 + 1);
		double *expected = calloc(n + 1, 8);

		for (uint32_t i = 0; i < sources[s].tokens * c->topk; i++) {
			const int64_t e = expert_of(c, &sources[s], i);
			const size_t first = (size_t)(i / c->topk) * c->hidden;

			for (size_t h = 0; e >= 0 && h < c->hidden; h++)
				expected[first + h] += sources[s].topk_weights[i] * factor(e) *
						       ref_from_bf16(sources[s].x[first + h]);
		}
		ref_ll_combine(shape, sources, s, (const uint16_t *const *)y, out);
		CHECK(calc_diff(out, expected, n) < (c->ll_flags & URCCL_EP_LL_FP8 ? 9e-4 : 1e-5));
		free(out), free(expected);
	}
}

static void check_case(const struct ep_case *c, uint64_t seed)
{
	const struct ref_shape shape = case_shape(c);
	const size_t local = c->experts / c->ranks, rows = local * c->ranks * c->tokens;
	struct ref_source sources[URCCL_EP_MAX_RANKS];
	uint16_t *y[URCCL_EP_MAX_RANKS];
	double have[REF_MAX_HIDDEN];

	case_make(c, seed, sources);
	for (uint32_t r = 0; r < c->ranks; r++) {
		struct ref_ll_received got = {
			.x = malloc(rows * c->hidden * 2),
			.scales = malloc(rows * (ref_ll_scale_words(&shape) + 1) * 4),
			.count = malloc(local * 4),
			.src_idx = malloc(rows * 4),
			.layout_range = malloc(local * c->ranks * 8),
		};

		ref_ll_dispatch(&shape, sources, r, &got);
		check_dispatch(c, &shape, sources, r, &got);
		y[r] = malloc(rows * c->hidden * 2);
		for (size_t l = 0; l < local; l++)
			for (size_t row = 0; row < (size_t)got.count[l]; row++) {
				numbers(&shape, &got, l, row, have);
				for (size_t h = 0; h < c->hidden; h++)
					y[r][(l * c->ranks * c->tokens + row) * c->hidden + h] =
						ref_to_bf16(
							(float)(have[h] *
								factor((int64_t)(r * local + l))));
			}
		free(got.x), free(got.scales), free(got.count), free(got.src_idx);
		free(got.layout_range);
	}
	check_combine(c, &shape, sources, y);
	for (uint32_t r = 0; r < c->ranks; r++)
		free(y[r]);
	case_free(c, sources);
}

int main(void)
{
	static const uint32_t flags[] = {0, URCCL_EP_LL_FP8,
					 URCCL_EP_LL_FP8 | URCCL_EP_LL_ROUND_SCALE,
					 URCCL_EP_LL_FP8 | URCCL_EP_LL_ROUND_SCALE |
						 URCCL_EP_LL_UE8M0};

	for (uint32_t ranks = 1; ranks <= URCCL_EP_MAX_RANKS; ranks++)
		for (int routing = 0; routing <= ROUTE_REPEATS; routing++)
			for (size_t f = 0; f < sizeof(flags) / sizeof(*flags); f++) {
				struct ep_case c = {
					"",	 ranks,	  ranks * 7, 5, 272 + 32 * (ranks % 2),
					16,	 routing, 0x4a,	     0, 0,
					flags[f]};

				check_case(&c, ranks);
			}
	return 0;
}
