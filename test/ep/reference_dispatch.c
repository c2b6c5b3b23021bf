/* SPDX-License-Identifier: Apache-2.0 */
/* The reference's dispatch gives each rank the rows that a sorted list of all deliveries names. */
#include "cases.h"

#include "test.h"

struct delivery {
	uint32_t to, from, token;
};

static int compare(const void *a, const void *b)
{
	return memcmp(a, b, sizeof(struct delivery));
}

/* Big-endian numbers, so that bytes sort as they do. */
static uint32_t sortable(uint32_t v)
{
	return __builtin_bswap32(v);
}

/* One delivery for each rank that holds an expert of the token, in any order. */
static size_t list_deliveries(const struct ep_case *c, const struct ref_source *sources,
			      struct delivery *list)
{
	const uint32_t local = c->experts / c->ranks;
	size_t n = 0;

	for (uint32_t s = c->ranks; s-- > 0;) {
		for (uint32_t t = sources[s].tokens; t-- > 0;) {
			uint32_t ranks = 0;

			for (uint32_t k = 0; k < c->topk; k++)
				if (sources[s].topk_idx[t * c->topk + k] >= 0)
					ranks |= 1u << sources[s].topk_idx[t * c->topk + k] / local;
			for (uint32_t r = 0; r < c->ranks; r++)
				if (sources[s].in_rank ? sources[s].in_rank[t * c->ranks + r]
						       : ranks >> r & 1)
					list[n++] = (struct delivery){sortable(r), sortable(s),
								      sortable(t)};
		}
	}
	qsort(list, n, sizeof(*list), compare);
	return n;
}

static void check_row(const struct ep_case *c, const struct ref_shape *shape,
		      const struct ref_source *source, uint32_t token, uint32_t to, size_t row,
		      const struct ref_received *got)
{
	const uint32_t local = c->experts / c->ranks;

	CHECK(!memcmp((char *)got->x + row * shape->row_bytes,
		      (char *)source->x + (size_t)token * shape->row_bytes, shape->row_bytes));
	for (uint32_t s = 0; s < shape->scale_words; s++)
		CHECK_EQ(got->scales[row * shape->scale_words + s],
			 source->scales[token * shape->scale_words + s]);
	CHECK_EQ(got->src_idx[row], token);
	CHECK_EQ(source->slot[token * c->ranks + to], row);
	for (uint32_t k = 0; k < c->topk; k++) {
		const int64_t e = source->topk_idx[token * c->topk + k];
		const float weight = got->topk_weights[row * c->topk + k];

		if (e >= 0 && e / local == to) {
			CHECK_EQ(got->topk_idx[row * c->topk + k], e % local);
			CHECK(weight == source->topk_weights[token * c->topk + k]);
		} else {
			CHECK_EQ(got->topk_idx[row * c->topk + k], -1);
			CHECK(weight == 0);
		}
	}
}

static void check_experts(const struct ep_case *c, const struct ref_source *sources, uint32_t to,
			  const struct ref_received *got)
{
	const uint32_t local = c->experts / c->ranks, align = c->alignment ? c->alignment : 1;

	for (uint32_t l = 0; l < local; l++) {
		int tokens = 0;

		for (uint32_t s = 0; s < c->ranks; s++)
			for (uint32_t i = 0; i < sources[s].tokens * c->topk; i++)
				tokens += sources[s].topk_idx[i] == (int64_t)to * local + l;
		CHECK_EQ(got->per_expert[l] % align, 0);
		CHECK_GE(got->per_expert[l], tokens);
		CHECK_LE(got->per_expert[l], tokens + (int)align - 1);
	}
}

static void check_case(const struct ep_case *c, uint64_t seed)
{
	struct ref_shape shape = case_shape(c);
	struct ref_source sources[URCCL_EP_MAX_RANKS];
	const size_t most = (size_t)c->ranks * c->tokens;
	struct delivery *list = calloc(c->ranks * most + 1, sizeof(*list));
	struct ref_received got = {
		.x = malloc(most * shape.row_bytes),
		.scales = malloc(most * shape.scale_words * 4 + 4),
		.topk_idx = malloc(most * c->topk * 8),
		.topk_weights = malloc(most * c->topk * 4),
		.src_idx = malloc(most * 4),
		.per_expert = malloc(c->experts * 4),
	};
	int32_t prefix[URCCL_EP_MAX_RANKS * URCCL_EP_MAX_RANKS];
	size_t n, i = 0;

	shape.worst_tokens = (uint32_t)most;
	case_make(c, seed, sources);
	ref_slots(&shape, sources, prefix);
	n = list_deliveries(c, sources, list);
	for (uint32_t to = 0; to < c->ranks; to++) {
		size_t row = 0;

		ref_dispatch(&shape, sources, to, &got);
		for (uint32_t s = 0; s < c->ranks; s++) {
			for (; i < n && list[i].to == sortable(to) && list[i].from == sortable(s);
			     i++)
				check_row(c, &shape, &sources[s], sortable(list[i].token), to,
					  row++, &got);
			CHECK_EQ(prefix[s * c->ranks + to], row);
		}
		CHECK_EQ(got.rows, row);
		for (row *= c->topk; row < most * c->topk; row++)
			CHECK_EQ(got.topk_idx[row], -1);
		check_experts(c, sources, to, &got);
	}
	CHECK_EQ(i, n);
	free(list), free(got.x), free(got.scales), free(got.topk_idx), free(got.topk_weights);
	free(got.src_idx), free(got.per_expert);
	case_free(c, sources);
}

int main(void)
{
	for (uint32_t ranks = 1; ranks <= URCCL_EP_MAX_RANKS; ranks++) {
		for (int routing = 0; routing < ROUTES; routing++) {
			struct ep_case c = {"", ranks, ranks * 9, 6, 64, 37, routing, 0, 0, 0, 0};

			check_case(&c, ranks);
			c.fp8 = 1, c.alignment = 16, c.empty = 0xa5;
			check_case(&c, ranks + 100);
			c.empty = 0xff;
			check_case(&c, ranks + 200);
		}
	}
	return 0;
}
