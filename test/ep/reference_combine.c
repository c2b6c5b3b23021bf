/* SPDX-License-Identifier: Apache-2.0 */
/* The reference's combine gives what adding each received row to its token, rank after rank,
 * gives; and a round trip gives each token as often as it was sent. */
#include "cases.h"

#include <math.h>

#include "test.h"

struct group {
	const struct ep_case *c;
	struct ref_shape shape;
	struct ref_source sources[URCCL_EP_MAX_RANKS];
	struct ref_received got[URCCL_EP_MAX_RANKS];
};

static void dispatch(struct group *g, const struct ep_case *c, uint64_t seed)
{
	const size_t most = (size_t)c->ranks * c->tokens;
	int32_t prefix[URCCL_EP_MAX_RANKS * URCCL_EP_MAX_RANKS];

	g->c = c;
	g->shape = case_shape(c);
	case_make(c, seed, g->sources);
	ref_slots(&g->shape, g->sources, prefix);
	for (uint32_t r = 0; r < c->ranks; r++) {
		g->got[r] = (struct ref_received){
			.x = malloc(most * c->hidden * 2 + 1),
			.topk_idx = malloc(most * c->topk * 8 + 1),
			.topk_weights = malloc(most * c->topk * 4 + 1),
			.src_idx = malloc(most * 4 + 1),
			.per_expert = malloc(c->experts * 4),
		};
		ref_dispatch(&g->shape, g->sources, r, &g->got[r]);
	}
}

static void release(struct group *g)
{
	for (uint32_t r = 0; r < g->c->ranks; r++) {
		free(g->got[r].x), free(g->got[r].topk_idx), free(g->got[r].topk_weights);
		free(g->got[r].src_idx), free(g->got[r].per_expert);
	}
	case_free(g->c, g->sources);
}

/* Adds each row to the token that its src_idx and segment name. */
static void scatter(const struct group *g, uint32_t to, float *sum, float *weights)
{
	const uint32_t hidden = g->c->hidden, topk = g->c->topk;

	for (uint32_t r = 0; r < g->c->ranks; r++) {
		uint32_t row = 0, rows = 0;

		for (uint32_t s = 0; s <= to; s++) {
			row += rows, rows = 0;
			for (uint32_t t = 0; t < g->sources[s].tokens; t++)
				rows += g->sources[s].slot[t * g->c->ranks + r] >= 0;
		}
		for (; rows-- > 0; row++) {
			const uint32_t t = (uint32_t)g->got[r].src_idx[row];

			for (uint32_t h = 0; h < hidden; h++)
				sum[t * hidden + h] +=
					ref_from_bf16(((uint16_t *)g->got[r].x)[row * hidden + h]);
			for (uint32_t k = 0; k < topk; k++)
				weights[t * topk + k] += g->got[r].topk_weights[row * topk + k];
		}
	}
}

static void check_rank(const struct group *g, uint32_t rank, const uint16_t *const bias[2])
{
	const struct ref_source *source = &g->sources[rank];
	const size_t n = (size_t)source->tokens * g->c->hidden;
	const size_t weights = (size_t)source->tokens * g->c->topk;
	const uint16_t *x[URCCL_EP_MAX_RANKS] = {NULL};
	const float *w[URCCL_EP_MAX_RANKS] = {NULL};
	uint16_t *out = malloc(n * 2 + 1);
	float *sum = calloc(n + 1, 4), *sum_w = calloc(weights + 1, 4);
	float *out_w = malloc(weights * 4 + 1);
	double *expected = malloc(n * 8 + 1);

	for (uint32_t r = 0; r < g->c->ranks; r++)
		x[r] = g->got[r].x, w[r] = g->got[r].topk_weights;
	for (size_t i = 0; i < n; i++) {
		int sent = 0;

		for (uint32_t r = 0; r < g->c->ranks; r++)
			sent += source->slot[i / g->c->hidden * g->c->ranks + r] >= 0;
		expected[i] = sent * (double)ref_from_bf16(source->x[i]);
		for (int b = 0; b < 2; b++) {
			if (!bias[b])
				continue;
			sum[i] += ref_from_bf16(bias[b][i]);
			expected[i] += ref_from_bf16(bias[b][i]);
		}
	}
	scatter(g, rank, sum, sum_w);
	ref_combine(&g->shape, source, x, bias, out);
	ref_combine_weights(&g->shape, source, w, out_w);
	for (size_t i = 0; i < n; i++)
		CHECK_EQ(out[i], ref_to_bf16(sum[i]));
	CHECK(!memcmp(out_w, sum_w, weights * 4));
	CHECK(calc_diff(out, expected, n) < 5e-6);
	for (size_t i = 0; i < weights && !source->in_rank; i++)
		CHECK(fabsf(out_w[i] - (source->topk_idx[i] < 0 ? 0 : source->topk_weights[i])) <
		      1e-9f);
	free(out), free(sum), free(sum_w), free(out_w), free(expected);
}

int main(void)
{
	static struct group g;

	for (uint32_t ranks = 1; ranks <= URCCL_EP_MAX_RANKS; ranks++) {
		for (int routing = 0; routing < ROUTES; routing++) {
			struct ep_case c = {"",	     ranks, ranks * 9, 6, 64, 37,
					    routing, 0x24,  0,	       0, 0};

			dispatch(&g, &c, ranks);
			for (uint32_t r = 0; r < ranks; r++) {
				const uint16_t *one[2] = {NULL, g.sources[r].x};
				const uint16_t *two[2] = {g.sources[r].x, g.sources[r].x};

				check_rank(&g, r, (const uint16_t *const[2]){NULL, NULL});
				check_rank(&g, r, one);
				check_rank(&g, r, two);
			}
			release(&g);
		}
	}
	return 0;
}
