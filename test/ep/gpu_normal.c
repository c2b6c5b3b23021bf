/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Layout, dispatch, repeated dispatch and combine give the bits of the reference, also in a graph.
 * Ranks are streams.
 * Usage: ep_gpu_normal [rounds [most ranks [case]]]
 */
#include "cases.h"
#include "compare.h"

#include <stdbool.h>

#include "test.h"

static const struct ep_case cases[] = {
	{"one rank", 1, 8, 4, 7168, 100, ROUTE_UNIFORM, 0, 0, 0, 0},
	{"two ranks", 2, 16, 8, 7168, 513, ROUTE_UNIFORM, 0, 0, 0, 0},
	{"two ranks fp8", 2, 256, 8, 7168, 1024, ROUTE_UNIFORM, 0, 1, 128, 0},
	{"smallest rows", 3, 9, 3, 16, 300, ROUTE_SKEW, 0, 1, 0, 0},
	{"holes", 4, 64, 6, 2056, 257, ROUTE_HOLES, 0, 0, 16, 0},
	{"eight ranks fp8", 8, 256, 8, 7168, 200, ROUTE_UNIFORM, 0, 1, 64, 0},
	{"half of the ranks empty", 8, 64, 8, 512, 64, ROUTE_SKEW, 0xaa, 0, 0, 0},
	{"in_rank decides", 5, 40, 4, 1000, 99, ROUTE_IN_RANK, 0, 0, 0, 0},
	{"tokens stay", 7, 56, 8, 1024, 130, ROUTE_LOCAL, 0, 0, 8, 0},
	{"long rows", 2, 8, 2, 16384, 33, ROUTE_UNIFORM, 0, 0, 0, 0},
	{"no tokens", 4, 8, 2, 128, 8, ROUTE_UNIFORM, 0xf, 0, 0, 0},
	{"small", 4, 32, 8, 1024, 128, ROUTE_UNIFORM, 0, 0, 0, 0},
	{"many tokens", 6, 4092, 32, 128, 9000, ROUTE_UNIFORM, 0, 1, 0, 0},
};

/* One rank's memory. */
struct rank {
	void *x, *scales, *idx, *weights, *in_rank; /* inputs on the device */
	void *recv_x, *recv_scales, *recv_idx, *recv_weights, *recv_src, *count, *per_expert,
		*prefix, *handle_memory;
	void *y, *y_weights, *bias, *out, *out_weights;
	uint16_t *y_host, *sums;
	struct urccl_ep_handle handle;
	struct ref_received want;
};

static struct gpu_group group;
static struct ref_source sources[URCCL_EP_MAX_RANKS];
static struct rank ranks[URCCL_EP_MAX_RANKS];

static size_t most_rows(const struct ep_case *c)
{
	return (size_t)c->ranks * c->tokens;
}

static int32_t *narrow(const int64_t *idx, size_t n)
{
	int32_t *p = malloc(n * 4 + 1);

	for (size_t i = 0; i < n; i++)
		p[i] = (int32_t)idx[i];
	return p;
}

/* Uploads a rank's input; FP8 scales column by column in every other round. */
static void upload(const struct ep_case *c, const struct ref_shape *shape, uint32_t r, int round)
{
	const struct ref_source *s = &sources[r];
	const size_t choices = (size_t)s->tokens * c->topk, words = shape->scale_words;
	int32_t *idx = narrow(s->topk_idx, choices);
	uint32_t *scales = malloc(s->tokens * words * 4 + 1);

	for (size_t i = 0; i < s->tokens * words; i++)
		scales[round & 1 ? i % words * s->tokens + i / words : i] = s->scales[i];
	gpu_use(&group, r);
	ranks[r].x = gpu_copy_of(s->x, (size_t)s->tokens * c->hidden * 2);
	ranks[r].scales = gpu_copy_of(scales, s->tokens * words * 4);
	ranks[r].idx =
		round & 1 ? gpu_copy_of(idx, choices * 4) : gpu_copy_of(s->topk_idx, choices * 8);
	ranks[r].weights = gpu_copy_of(s->topk_weights, choices * 4);
	if (s->in_rank)
		ranks[r].in_rank = gpu_copy_of(s->in_rank, (size_t)s->tokens * c->ranks);
	free(idx), free(scales);
}

static void prepare(const struct ep_case *c, const struct ref_shape *shape, uint32_t r)
{
	const size_t rows = most_rows(c), elements = rows * c->hidden;
	struct rank *k = &ranks[r];
	struct random random = {r + 77};

	gpu_use(&group, r);
	k->recv_x = gpu_alloc(rows * shape->row_bytes);
	k->recv_scales = gpu_alloc(rows * shape->scale_words * 4);
	k->recv_idx = gpu_alloc(rows * c->topk * 8);
	k->recv_weights = gpu_alloc(rows * c->topk * 4);
	k->recv_src = gpu_alloc(rows * 4);
	k->count = gpu_alloc(4);
	k->per_expert = gpu_alloc(c->experts * 4);
	k->prefix = gpu_alloc(256);
	k->handle_memory = gpu_alloc(urccl_ep_handle_bytes(group.rank[r].ep));
	k->handle = (struct urccl_ep_handle){.size = sizeof(k->handle), .memory = k->handle_memory};
	k->y_host = malloc(elements * 2 + 1);
	for (size_t i = 0; i < elements; i++)
		k->y_host[i] = ref_to_bf16(random_float(&random));
	k->y = gpu_copy_of(k->y_host, elements * 2);
	k->bias = gpu_copy_of(k->y_host, (size_t)sources[r].tokens * c->hidden * 2);
	k->out = gpu_alloc((size_t)sources[r].tokens * c->hidden * 2);
	k->out_weights = gpu_alloc((size_t)sources[r].tokens * c->topk * 4);
	k->want = (struct ref_received){
		.x = malloc(rows * shape->row_bytes + 1),
		.scales = malloc(rows * shape->scale_words * 4 + 1),
		.topk_idx = malloc(rows * c->topk * 8 + 1),
		.topk_weights = malloc(rows * c->topk * 4 + 1),
		.src_idx = malloc(rows * 4 + 1),
		.per_expert = malloc(c->experts * 4),
	};
}

static void release(uint32_t r)
{
	struct rank *k = &ranks[r];
	void *device[] = {k->x,	     k->scales,	     k->idx,	    k->weights,	      k->in_rank,
			  k->recv_x, k->recv_scales, k->recv_idx,   k->recv_weights,  k->recv_src,
			  k->count,  k->per_expert,  k->prefix,	    k->handle_memory, k->y,
			  k->bias,   k->out,	     k->out_weights};

	gpu_use(&group, r);
	for (size_t i = 0; i < sizeof(device) / sizeof(*device); i++)
		gpu_free(device[i]);
	free(k->y_host), free(k->sums), free(k->want.x), free(k->want.scales),
		free(k->want.topk_idx);
	free(k->want.topk_weights), free(k->want.src_idx), free(k->want.per_expert);
	memset(k, 0, sizeof(*k));
}

static void check_layout(const struct ep_case *c, const struct ref_shape *shape, int round)
{
	for (uint32_t r = 0; r < c->ranks; r++) {
		const struct ref_source *s = &sources[r];
		struct ref_source plain = *s;
		int32_t per_rank[URCCL_EP_MAX_RANKS], *per_expert = malloc(c->experts * 4);
		uint8_t *in_rank = malloc((size_t)s->tokens * c->ranks + 1);
		void *got_rank, *got_expert, *got_in;

		gpu_use(&group, r);
		got_rank = gpu_alloc(64), got_expert = gpu_alloc(c->experts * 4);
		got_in = gpu_alloc((size_t)s->tokens * c->ranks);
		plain.in_rank = NULL;
		ref_layout(shape, &plain, per_rank, per_expert, in_rank);
		gpu_ok(urccl_ep_layout(group.rank[r].ep, ranks[r].idx, s->tokens, c->topk,
				       round & 1 ? URCCL_EP_IDX32 : 0, got_rank, got_expert, got_in,
				       group.rank[r].stream),
		       "layout");
		gpu_group_wait(&group);
		gpu_use(&group, r);
		compare(got_rank, per_rank, 4, c->ranks, "%s: layout per_rank of %u", c->name, r);
		compare(got_expert, per_expert, 4, c->experts, "%s: layout per_expert of %u",
			c->name, r);
		compare(got_in, in_rank, 1, (size_t)s->tokens * c->ranks,
			"%s: layout in_rank of %u", c->name, r);
		gpu_free(got_rank), gpu_free(got_expert), gpu_free(got_in);
		free(per_expert), free(in_rank);
	}
}

/* Launches on every rank. Results are copied out in every other round. */
static void dispatch(const struct ep_case *c, const struct ref_shape *shape, int round, bool cached)
{
	for (uint32_t r = 0; r < c->ranks; r++) {
		struct gpu_rank *gpu = gpu_use(&group, r);
		struct rank *k = &ranks[r];
		const bool columns = round & 1 && shape->scale_words;
		struct urccl_ep_dispatch args = {
			.size = sizeof(args),
			.flags = (round & 1 ? URCCL_EP_IDX32 : 0) | (cached ? URCCL_EP_CACHED : 0),
			.tokens = sources[r].tokens,
			.topk = c->topk,
			.row_bytes = shape->row_bytes,
			.scale_words = shape->scale_words,
			.x = k->x,
			.x_stride = c->fp8 ? c->hidden : 0,
			.scales = k->scales,
			.scale_row_stride = columns,
			.scale_word_stride = columns ? sources[r].tokens : 0,
			.topk_idx = cached ? NULL : k->idx,
			.topk_weights = cached ? NULL : k->weights,
			.in_rank = cached ? NULL : k->in_rank,
			.expert_alignment = shape->alignment,
			.worst_tokens = shape->worst_tokens,
			.recv_x = round & 1 ? k->recv_x : NULL,
			.recv_scales = round & 1 ? k->recv_scales : NULL,
			.recv_topk_idx = round & 1 ? k->recv_idx : NULL,
			.recv_topk_weights = round & 1 ? k->recv_weights : NULL,
			.recv_src_idx = round & 1 ? k->recv_src : NULL,
			.recv_count = k->count,
			.recv_per_expert = k->per_expert,
			.rank_prefix = k->prefix,
		};

		gpu_ok(urccl_ep_dispatch(gpu->ep, &args, &k->handle, gpu->stream), "dispatch");
	}
}

static void check_counts(const struct ep_case *c, uint32_t r)
{
	int32_t per_expert[URCCL_EP_MAX_EXPERTS];
	struct urccl_ep_counts counts = {.size = sizeof(counts),
					 .experts = URCCL_EP_MAX_EXPERTS,
					 .per_expert = per_expert};
	int res = urccl_ep_query_counts(group.rank[r].ep, &ranks[r].handle, &counts, 1000);

	if (res || counts.recv_tokens != ranks[r].want.rows ||
	    memcmp(per_expert, ranks[r].want.per_expert, c->experts / c->ranks * 4)) {
		printf("differs: %s: counts of rank %u: %d, %u rows, not %u\n", c->name, r, res,
		       counts.recv_tokens, ranks[r].want.rows);
		compare_differences++;
	}
}

static void check_dispatch(const struct ep_case *c, const struct ref_shape *shape, int round,
			   const char *kind, const int32_t *prefix)
{
	for (uint32_t r = 0; r < c->ranks; r++) {
		const struct rank *k = &ranks[r];
		const struct urccl_ep_parts *parts = &gpu_use(&group, r)->parts;
		const bool out = round & 1;
		const struct ref_received *want = &k->want;
		const size_t idx_rows =
			want->rows > shape->worst_tokens ? want->rows : shape->worst_tokens;

		compare(k->count, &want->rows, 4, 1, "%s: %s: count of %u", c->name, kind, r);
		compare(k->prefix, prefix, 4, (size_t)c->ranks * c->ranks, "%s: %s: prefix of %u",
			c->name, kind, r);
		compare(k->per_expert, want->per_expert, 4, c->experts / c->ranks,
			"%s: %s: experts of %u", c->name, kind, r);
		compare(out ? k->recv_x : parts->x, want->x, 16, want->rows * shape->row_bytes / 16,
			"%s: %s: x of %u (rows of %u)", c->name, kind, r, shape->row_bytes / 16);
		compare(out ? k->recv_scales : parts->scales, want->scales, 4,
			want->rows * shape->scale_words, "%s: %s: scales of %u", c->name, kind, r);
		compare(out ? k->recv_idx : parts->topk_idx, want->topk_idx, 8, idx_rows * c->topk,
			"%s: %s: topk_idx of %u", c->name, kind, r);
		compare(out ? k->recv_weights : parts->topk_weights, want->topk_weights, 4,
			want->rows * c->topk, "%s: %s: weights of %u", c->name, kind, r);
		compare(out ? k->recv_src : parts->src_idx, want->src_idx, 4, want->rows,
			"%s: %s: src_idx of %u", c->name, kind, r);
		check_counts(c, r);
	}
}

/* Poisons what a repeated dispatch must write again, and changes its input. */
static void change(const struct ep_case *c, const struct ref_shape *shape)
{
	for (uint32_t r = 0; r < c->ranks; r++) {
		const size_t n = (size_t)sources[r].tokens * c->hidden;

		for (size_t i = 0; i < n; i++)
			sources[r].x[i] ^= 0x0101;
		gpu_use(&group, r);
		gpu_upload(ranks[r].x, sources[r].x, n * 2);
		gpu_fill(ranks[r].recv_x, 0xab, most_rows(c) * shape->row_bytes);
		gpu_fill(group.rank[r].parts.x, 0xab, most_rows(c) * shape->row_bytes);
	}
}

/* The experts' results lie in the window in every other round. */
static void combine(const struct ep_case *c, int round)
{
	for (uint32_t r = 0; r < c->ranks; r++) {
		struct gpu_rank *gpu = gpu_use(&group, r);
		struct rank *k = &ranks[r];
		struct urccl_ep_combine args = {
			.size = sizeof(args),
			.hidden = c->hidden,
			.topk = c->topk,
			.x = round & 1 ? gpu->parts.combine_x : k->y,
			.topk_weights = k->y_weights,
			.bias = {round % 3 > 0 ? k->bias : NULL, round % 3 > 1 ? k->bias : NULL},
			.out = k->out,
			.out_topk_weights = k->out_weights,
		};

		gpu_ok(urccl_ep_combine(gpu->ep, &args, &k->handle, gpu->stream), "combine");
	}
}

static void check_combine(const struct ep_case *c, const struct ref_shape *shape, int round)
{
	const uint16_t *y[URCCL_EP_MAX_RANKS];
	const float *weights[URCCL_EP_MAX_RANKS];

	for (uint32_t r = 0; r < c->ranks; r++) {
		y[r] = ranks[r].y_host, weights[r] = ranks[r].want.topk_weights;
		gpu_use(&group, r);
		ranks[r].y_weights = gpu_copy_of(weights[r], ranks[r].want.rows * c->topk * 4);
		if (round & 1)
			gpu_upload(group.rank[r].parts.combine_x, y[r],
				   ranks[r].want.rows * c->hidden * 2);
	}
	combine(c, round);
	gpu_group_wait(&group);
	for (uint32_t r = 0; r < c->ranks; r++) {
		const size_t n = (size_t)sources[r].tokens * c->hidden;
		const uint16_t *bias[2] = {round % 3 > 0 ? y[r] : NULL,
					   round % 3 > 1 ? y[r] : NULL};
		uint16_t *out = ranks[r].sums = malloc(n * 2 + 1);
		float *out_weights = malloc((size_t)sources[r].tokens * c->topk * 4 + 1);

		ref_combine(shape, &sources[r], y, bias, out);
		ref_combine_weights(shape, &sources[r], weights, out_weights);
		gpu_use(&group, r);
		compare(ranks[r].out, out, 2, n, "%s: combine of %u (rows of %u)", c->name, r,
			c->hidden);
		compare(ranks[r].out_weights, out_weights, 4, (size_t)sources[r].tokens * c->topk,
			"%s: combined weights of %u", c->name, r);
		gpu_free(ranks[r].y_weights);
		ranks[r].y_weights = NULL;
		free(out_weights);
	}
}

/* A fresh and a repeated dispatch and a combine in a graph, which runs three times. */
static void check_graph(const struct ep_case *c, const struct ref_shape *shape, int round,
			const int32_t *prefix)
{
	void *graphs[URCCL_EP_MAX_RANKS];

	for (uint32_t r = 0; r < c->ranks; r++) {
		gpu_use(&group, r);
		gpu_fill(ranks[r].out, 0xab, (size_t)sources[r].tokens * c->hidden * 2);
	}
	for (uint32_t r = 0; r < c->ranks; r++)
		gpu_capture_begin(gpu_use(&group, r)->stream);
	dispatch(c, shape, round, false);
	dispatch(c, shape, round, true);
	combine(c, round);
	for (uint32_t r = 0; r < c->ranks; r++)
		graphs[r] = gpu_capture_end(gpu_use(&group, r)->stream);
	for (int turn = 0; turn < 3; turn++)
		for (uint32_t r = 0; r < c->ranks; r++)
			gpu_graph_launch(graphs[r], gpu_use(&group, r)->stream);
	gpu_group_wait(&group);
	check_dispatch(c, shape, round, "graph", prefix);
	for (uint32_t r = 0; r < c->ranks; r++) {
		gpu_use(&group, r);
		compare(ranks[r].out, ranks[r].sums, 2, (size_t)sources[r].tokens * c->hidden,
			"%s: graph: combine of %u", c->name, r);
		gpu_graph_free(graphs[r]);
	}
}

static void run_round(const struct ep_case *c, int round)
{
	struct ref_shape shape = case_shape(c);
	int32_t prefix[URCCL_EP_MAX_RANKS * URCCL_EP_MAX_RANKS];

	shape.worst_tokens = round & 2 ? 0 : (uint32_t)most_rows(c);
	case_make(c, (uint64_t)round * 1000 + c->ranks, sources);
	ref_slots(&shape, sources, prefix);
	for (uint32_t r = 0; r < c->ranks; r++) {
		prepare(c, &shape, r);
		upload(c, &shape, r, round);
		ref_dispatch(&shape, sources, r, &ranks[r].want);
	}
	check_layout(c, &shape, round);
	dispatch(c, &shape, round, false);
	gpu_group_wait(&group);
	check_dispatch(c, &shape, round, "dispatch", prefix);
	change(c, &shape);
	dispatch(c, &shape, round, true);
	gpu_group_wait(&group);
	for (uint32_t r = 0; r < c->ranks; r++)
		ref_dispatch(&shape, sources, r, &ranks[r].want);
	check_dispatch(c, &shape, round, "repeated dispatch", prefix);
	check_combine(c, &shape, round);
	check_graph(c, &shape, round, prefix);
	compare_status(&group, c->name);
	for (uint32_t r = 0; r < c->ranks; r++)
		release(r);
	case_free(c, sources);
}

int main(int argc, char **argv)
{
	const int rounds = argc > 1 ? atoi(argv[1]) : 3;
	const uint32_t most = argc > 2 ? (uint32_t)atoi(argv[2]) : URCCL_EP_MAX_RANKS;
	const char *why;

	if (!gpu_start(0, &why))
		SKIP(why);
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		const struct ep_case *c = &cases[i];
		const unsigned long before = compare_differences;
		struct urccl_ep_attr attr = {
			.size = sizeof(attr),
			.ranks = c->ranks,
			.experts = c->experts,
			.topk = c->topk,
			.max_tokens = c->tokens,
			.max_row_bytes = 2 * c->hidden,
			.max_scale_words = (c->hidden + 127) / 128,
			.sms = 16,
			.timeout_ms = 5000,
		};

		if (c->ranks > most || (argc > 3 && strcmp(argv[3], c->name)))
			continue;
		gpu_group_open(&group, &attr);
		for (int round = 0; round < rounds && compare_differences < 1000000; round++)
			run_round(c, round);
		gpu_group_close(&group);
		printf("%s: %d rounds, %lu differences\n", c->name, rounds,
		       compare_differences - before);
		fflush(stdout);
	}
	CHECK_EQ(compare_differences, 0);
	return 0;
}
