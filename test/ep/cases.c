/* SPDX-License-Identifier: Apache-2.0 */
#include "cases.h"

#include <math.h>

#include "test.h"

uint64_t random_next(struct random *r)
{
	uint64_t z = r->state += 0x9e3779b97f4a7c15;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

float random_float(struct random *r)
{
	float sum = 0;

	for (int i = 0; i < 4; i++)
		sum += (float)(int32_t)(random_next(r) >> 40) / (1 << 23) - 1;
	return sum;
}

struct ref_shape case_shape(const struct ep_case *c)
{
	return (struct ref_shape){
		.ranks = c->ranks,
		.experts = c->experts,
		.topk = c->topk,
		.row_bytes = c->fp8 ? c->hidden : 2 * c->hidden,
		.scale_words = c->fp8 ? (c->hidden + 127) / 128 : 0,
		.alignment = c->alignment,
		.hidden = c->hidden,
		.ll_max_tokens = c->tokens,
		.ll_flags = c->ll_flags,
	};
}

static uint32_t tokens_of(const struct ep_case *c, uint32_t rank, struct random *r)
{
	if (c->empty >> rank & 1)
		return 0;
	return rank ? c->tokens - random_below(r, c->tokens / 2 + 1) : c->tokens;
}

/* An expert that the token does not have yet. */
static int64_t pick_expert(const struct ep_case *c, uint32_t rank, const int64_t *have, uint32_t n,
			   struct random *r)
{
	const uint32_t local = c->experts / c->ranks;

	for (;;) {
		int64_t e = random_below(r, c->experts);
		uint32_t i = 0;

		if (c->routing == ROUTE_SKEW && random_below(r, 8))
			e %= local;
		if (c->routing == ROUTE_LOCAL)
			e = rank * local + e % local;
		while (i < n && have[i] != e)
			i++;
		if (i == n || (c->routing == ROUTE_REPEATS && random_below(r, 2)))
			return e;
	}
}

static void make_choices(const struct ep_case *c, uint32_t rank, struct ref_source *s,
			 struct random *r)
{
	for (uint32_t t = 0; t < s->tokens; t++) {
		const uint32_t holes = c->routing != ROUTE_HOLES ? 0 : t % 7 == 3 ? 3 : 1;

		for (uint32_t k = 0; k < c->topk; k++) {
			const uint32_t i = t * c->topk + k;

			s->topk_weights[i] = fabsf(random_float(r));
			s->topk_idx[i] =
				random_below(r, 3) < holes
					? -1
					: pick_expert(c, rank, s->topk_idx + t * c->topk, k, r);
		}
	}
}

static void *array(size_t n, size_t size)
{
	void *p = calloc(n + 1, size);

	CHECK(p);
	return p;
}

void case_route(const struct ep_case *c, uint64_t seed, struct ref_source *sources)
{
	struct random r = {seed};

	for (uint32_t rank = 0; rank < c->ranks; rank++) {
		struct ref_source *s = &sources[rank];
		const uint32_t tokens = tokens_of(c, rank, &r);

		*s = (struct ref_source){.tokens = tokens};
		s->topk_idx = array((size_t)tokens * c->topk, 8);
		s->topk_weights = array((size_t)tokens * c->topk, 4);
		s->slot = array((size_t)tokens * c->ranks, 4);
		make_choices(c, rank, s, &r);
		if (c->routing != ROUTE_IN_RANK)
			continue;
		s->in_rank = array((size_t)tokens * c->ranks, 1);
		for (size_t i = 0; i < (size_t)tokens * c->ranks; i++)
			s->in_rank[i] = random_below(&r, 3) == 0;
	}
}

void case_make(const struct ep_case *c, uint64_t seed, struct ref_source *sources)
{
	struct random r = {~seed};

	case_route(c, seed, sources);
	for (uint32_t rank = 0; rank < c->ranks; rank++) {
		struct ref_source *s = &sources[rank];
		const size_t elements = (size_t)s->tokens * c->hidden;
		const size_t scales = (size_t)s->tokens * ((c->hidden + 127) / 128);

		s->x = array(elements, 2);
		s->scales = array(scales, 4);
		for (size_t i = 0; i < elements; i++)
			s->x[i] = ref_to_bf16(random_float(&r));
		for (size_t i = 0; i < scales; i++)
			s->scales[i] = (uint32_t)random_next(&r);
	}
}

void case_free(const struct ep_case *c, struct ref_source *sources)
{
	for (uint32_t rank = 0; rank < c->ranks; rank++) {
		free(sources[rank].x);
		free(sources[rank].scales);
		free(sources[rank].topk_idx);
		free(sources[rank].topk_weights);
		free(sources[rank].in_rank);
		free(sources[rank].slot);
	}
}

double calc_diff(const uint16_t *a, const double *b, size_t n)
{
	double both = 0, squares = 0;

	for (size_t i = 0; i < n; i++) {
		const double x = ref_from_bf16(a[i]) + 1.0, y = b[i] + 1.0;

		both += x * y;
		squares += x * x + y * y;
	}
	return squares > 0 ? 1 - 2 * both / squares : 0;
}
