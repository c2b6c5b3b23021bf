/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Low-latency dispatch and combine give the bits of the reference: in one call and in two phases,
 * with two sends under way, and replayed from a graph. Ranks are streams.
 * Usage: ep_gpu_low_latency [rounds [most ranks]]
 */
#include "cases.h"
#include "compare.h"

#include <stdbool.h>

#include "test.h"

enum {
	FP8 = URCCL_EP_LL_FP8,
	POWERS = FP8 | URCCL_EP_LL_ROUND_SCALE,
	UE8M0 = POWERS | URCCL_EP_LL_UE8M0,
};

static const struct ep_case cases[] = {
	{"one rank bf16", 1, 8, 4, 7168, 64, ROUTE_UNIFORM, 0, 0, 0, 0},
	{"one rank fp8", 1, 8, 4, 7168, 64, ROUTE_HOLES, 0, 0, 0, FP8},
	{"two ranks bf16", 2, 16, 8, 7168, 128, ROUTE_UNIFORM, 0, 0, 0, 0},
	{"two ranks fp8", 2, 32, 8, 7168, 128, ROUTE_HOLES, 0, 0, 0, FP8},
	{"smallest rows", 3, 9, 3, 16, 40, ROUTE_UNIFORM, 0, 0, 0, FP8},
	{"odd rows, powers of two", 4, 32, 6, 2064, 77, ROUTE_SKEW, 0, 0, 0, POWERS},
	{"ue8m0", 4, 64, 14, 4112, 50, ROUTE_UNIFORM, 0, 0, 0, UE8M0},
	{"eight ranks fp8", 8, 32, 8, 7168, 128, ROUTE_UNIFORM, 0, 0, 0, FP8},
	{"repeated experts", 3, 9, 8, 512, 96, ROUTE_REPEATS, 0, 0, 0, FP8},
	{"half of the ranks empty", 8, 64, 8, 512, 64, ROUTE_SKEW, 0x55, 0, 0, 0},
	{"many tokens", 2, 64, 8, 256, 1024, ROUTE_UNIFORM, 0, 0, 0, UE8M0},
};

/* One set of a rank's memory; two may be in use at a time. */
struct set {
	void *x, *idx, *weights, *handle_memory;
	void *recv_x, *scales, *count, *src_idx, *range, *y, *out;
	uint16_t *y_host;
	struct urccl_ep_ll_handle handle;
	struct ref_ll_received want;
};

static struct gpu_group group;
static struct ref_source sources[2][URCCL_EP_MAX_RANKS];
static struct set sets[2][URCCL_EP_MAX_RANKS];

static size_t rows_of(const struct ep_case *c)
{
	return (size_t)c->experts * c->tokens; /* experts / ranks * ranks * tokens */
}

static size_t row_bytes(const struct ep_case *c)
{
	return c->ll_flags & FP8 ? c->hidden : 2 * (size_t)c->hidden;
}

static void prepare(const struct ep_case *c, const struct ref_shape *shape, int n, uint32_t r)
{
	const struct ref_source *s = &sources[n][r];
	const size_t rows = rows_of(c), local = c->experts / c->ranks;
	const size_t scales = rows * ref_ll_scale_words(shape) * 4;
	struct set *k = &sets[n][r];

	gpu_use(&group, r);
	k->x = gpu_copy_of(s->x, (size_t)s->tokens * c->hidden * 2);
	k->idx = gpu_copy_of(s->topk_idx, (size_t)s->tokens * c->topk * 8);
	k->weights = gpu_copy_of(s->topk_weights, (size_t)s->tokens * c->topk * 4);
	k->handle_memory = gpu_alloc(urccl_ep_ll_handle_bytes(group.rank[r].ep));
	k->handle = (struct urccl_ep_ll_handle){sizeof(k->handle), 0, k->handle_memory};
	k->recv_x = gpu_alloc(rows * row_bytes(c));
	k->scales = gpu_alloc(scales);
	k->count = gpu_alloc(local * 4);
	k->src_idx = gpu_alloc(rows * 4);
	k->range = gpu_alloc(local * c->ranks * 8);
	k->out = gpu_alloc((size_t)s->tokens * c->hidden * 2);
	k->want = (struct ref_ll_received){
		.x = malloc(rows * row_bytes(c)),
		.scales = malloc(scales + 1),
		.count = malloc(local * 4),
		.src_idx = malloc(rows * 4),
		.layout_range = malloc(local * c->ranks * 8),
	};
	/* Rows that nobody fills keep what gpu_alloc() wrote. */
	memset(k->want.x, 0xcd, rows * row_bytes(c));
	memset(k->want.scales, 0xcd, scales);
	memset(k->want.src_idx, 0xcd, rows * 4);
	ref_ll_dispatch(shape, sources[n], r, &k->want);
	k->y_host = malloc(rows * c->hidden * 2);
	for (size_t i = 0; i < rows * c->hidden; i++)
		k->y_host[i] = (uint16_t)(0x3e00 + (i * 2654435761u >> 20) % 0x200 +
					  (i % 3 == 0 ? 0x8000 : 0));
	k->y = gpu_copy_of(k->y_host, rows * c->hidden * 2);
}

static void release(int n, uint32_t r)
{
	struct set *k = &sets[n][r];
	void *device[] = {k->x,	     k->idx,	k->weights, k->handle_memory,
			  k->recv_x, k->scales, k->count,   k->src_idx,
			  k->range,  k->y,	k->out};

	gpu_use(&group, r);
	for (size_t i = 0; i < sizeof(device) / sizeof(*device); i++)
		gpu_free(device[i]);
	free(k->y_host), free(k->want.x), free(k->want.scales), free(k->want.count);
	free(k->want.src_idx), free(k->want.layout_range);
	memset(k, 0, sizeof(*k));
}

/* Launches on every rank. */
static void dispatch(const struct ep_case *c, int n, uint32_t phases)
{
	for (uint32_t r = 0; r < c->ranks; r++) {
		struct gpu_rank *gpu = gpu_use(&group, r);
		struct set *k = &sets[n][r];
		struct urccl_ep_ll_dispatch args = {
			.size = sizeof(args),
			.flags = c->ll_flags | phases,
			.tokens = sources[n][r].tokens,
			.topk = c->topk,
			.hidden = c->hidden,
			.x = k->x,
			.topk_idx = k->idx,
			.recv_x = k->recv_x,
			.recv_scales = k->scales,
			.recv_count = k->count,
			.src_idx = k->src_idx,
			.layout_range = k->range,
		};

		gpu_ok(urccl_ep_ll_dispatch(gpu->ep, &args, &k->handle, gpu->stream), "dispatch");
	}
}

static void combine(const struct ep_case *c, int n, uint32_t phases)
{
	for (uint32_t r = 0; r < c->ranks; r++) {
		struct gpu_rank *gpu = gpu_use(&group, r);
		struct set *k = &sets[n][r];
		struct urccl_ep_ll_combine args = {
			.size = sizeof(args),
			.flags = phases,
			.tokens = sources[n][r].tokens,
			.topk = c->topk,
			.hidden = c->hidden,
			.x = k->y,
			.topk_weights = k->weights,
			.out = k->out,
		};

		gpu_ok(urccl_ep_ll_combine(gpu->ep, &args, &k->handle, gpu->stream), "combine");
	}
}

static void check(const struct ep_case *c, const struct ref_shape *shape, int n, const char *kind)
{
	const size_t local = c->experts / c->ranks, rows = rows_of(c);
	const uint16_t *y[URCCL_EP_MAX_RANKS];

	for (uint32_t r = 0; r < c->ranks; r++)
		y[r] = sets[n][r].y_host;
	for (uint32_t r = 0; r < c->ranks; r++) {
		const struct set *k = &sets[n][r];
		const size_t elements = (size_t)sources[n][r].tokens * c->hidden;
		uint16_t *out = malloc(elements * 2 + 1);

		gpu_use(&group, r);
		compare(k->count, k->want.count, 4, local, "%s: %s: count of %u", c->name, kind, r);
		compare(k->range, k->want.layout_range, 8, local * c->ranks, "%s: %s: ranges of %u",
			c->name, kind, r);
		compare(k->src_idx, k->want.src_idx, 4, rows, "%s: %s: src_idx of %u", c->name,
			kind, r);
		compare(k->recv_x, k->want.x, 16, rows * row_bytes(c) / 16,
			"%s: %s: x of %u (rows of %zu)", c->name, kind, r, row_bytes(c) / 16);
		compare(k->scales, k->want.scales, 4, rows * ref_ll_scale_words(shape),
			"%s: %s: scales of %u (rows of %u)", c->name, kind, r,
			c->ranks * c->tokens);
		ref_ll_combine(shape, sources[n], r, y, out);
		compare(k->out, out, 2, elements, "%s: %s: combine of %u", c->name, kind, r);
		gpu_fill(k->recv_x, 0xcd, rows * row_bytes(c));
		gpu_fill(k->out, 0xab, elements * 2);
		free(out);
	}
}

/* Rank r's stream runs both calls twice from one graph. */
static void replay(const struct ep_case *c)
{
	void *graphs[URCCL_EP_MAX_RANKS];

	for (uint32_t r = 0; r < c->ranks; r++)
		gpu_capture_begin(gpu_use(&group, r)->stream);
	for (int n = 0; n < 2; n++) {
		dispatch(c, n, 0);
		combine(c, n, 0);
	}
	for (uint32_t r = 0; r < c->ranks; r++)
		graphs[r] = gpu_capture_end(gpu_use(&group, r)->stream);
	for (int turn = 0; turn < 5; turn++)
		for (uint32_t r = 0; r < c->ranks; r++)
			gpu_graph_launch(graphs[r], gpu_use(&group, r)->stream);
	gpu_group_wait(&group);
	for (uint32_t r = 0; r < c->ranks; r++)
		gpu_graph_free(graphs[r]);
}

static void run_round(const struct ep_case *c, int round)
{
	const struct ref_shape shape = case_shape(c);

	for (int n = 0; n < 2; n++) {
		case_make(c, (uint64_t)round * 1000 + (uint64_t)n * 100 + c->ranks, sources[n]);
		for (uint32_t r = 0; r < c->ranks; r++)
			prepare(c, &shape, n, r);
	}
	for (int n = 0; n < 2; n++) {
		dispatch(c, n, 0);
		combine(c, n, 0);
		gpu_group_wait(&group);
		check(c, &shape, n, "one call");
	}
	dispatch(c, 0, URCCL_EP_LL_SEND);
	dispatch(c, 1, URCCL_EP_LL_SEND);
	dispatch(c, 0, URCCL_EP_LL_RECV);
	combine(c, 0, URCCL_EP_LL_SEND);
	dispatch(c, 1, URCCL_EP_LL_RECV);
	combine(c, 1, URCCL_EP_LL_SEND);
	combine(c, 0, URCCL_EP_LL_RECV);
	combine(c, 1, URCCL_EP_LL_RECV);
	gpu_group_wait(&group);
	check(c, &shape, 0, "two phases");
	check(c, &shape, 1, "two phases");
	replay(c);
	check(c, &shape, 0, "graph");
	check(c, &shape, 1, "graph");
	compare_status(&group, c->name);
	for (int n = 0; n < 2; n++) {
		for (uint32_t r = 0; r < c->ranks; r++)
			release(n, r);
		case_free(c, sources[n]);
	}
}

int main(int argc, char **argv)
{
	const int rounds = argc > 1 ? atoi(argv[1]) : 1;
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
			.ll_max_tokens = c->tokens,
			.ll_hidden = c->hidden,
			.sms = 16,
			.timeout_ms = 5000,
		};

		if (c->ranks > most)
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
