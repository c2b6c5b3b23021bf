/* SPDX-License-Identifier: Apache-2.0 */
/* Low-latency dispatch and combine, in one call and by phase. */
#include "perf.h"

#include <stdio.h>
#include <stdlib.h>

static struct {
	void *x, *idx, *weights, *recv_x, *scales, *count, *src_idx, *range, *y, *out;
	struct urccl_ep_ll_handle handle;
} ranks[URCCL_EP_MAX_RANKS];

static struct {
	uint32_t tokens, topk, hidden, flags, sms;
} what;

static void dispatch(struct gpu_group *g, uint32_t r)
{
	struct urccl_ep_ll_dispatch args = {
		.size = sizeof(args),
		.flags = what.flags,
		.tokens = what.tokens,
		.topk = what.topk,
		.hidden = what.hidden,
		.sms = what.sms,
		.x = ranks[r].x,
		.topk_idx = ranks[r].idx,
		.recv_x = ranks[r].recv_x,
		.recv_scales = ranks[r].scales,
		.recv_count = ranks[r].count,
		.src_idx = ranks[r].src_idx,
		.layout_range = ranks[r].range,
	};

	gpu_ok(urccl_ep_ll_dispatch(g->rank[r].ep, &args, &ranks[r].handle, g->rank[r].stream),
	       "ll_dispatch");
}

static void combine(struct gpu_group *g, uint32_t r)
{
	struct urccl_ep_ll_combine args = {
		.size = sizeof(args),
		.tokens = what.tokens,
		.topk = what.topk,
		.hidden = what.hidden,
		.sms = what.sms,
		.x = ranks[r].y,
		.topk_weights = ranks[r].weights,
		.out = ranks[r].out,
	};

	gpu_ok(urccl_ep_ll_combine(g->rank[r].ep, &args, &ranks[r].handle, g->rank[r].stream),
	       "ll_combine");
}

/* The cost of launching and timing by themselves. */
static void nothing(struct gpu_group *g, uint32_t r)
{
	gpu_fill_async(ranks[r].count, 0, 16, g->rank[r].stream);
}

static void prepare(struct gpu_group *g, const struct perf *p, int64_t *const *choices)
{
	const size_t rows = (size_t)p->experts * p->tokens, columns = p->hidden;

	for (uint32_t r = 0; r < p->ranks; r++) {
		gpu_use(g, r);
		ranks[r].x = gpu_alloc(p->tokens * columns * 2);
		ranks[r].idx = gpu_copy_of(choices[r], (size_t)p->tokens * p->topk * 8);
		ranks[r].weights = gpu_alloc((size_t)p->tokens * p->topk * 4);
		ranks[r].recv_x = gpu_alloc(rows * columns * 2);
		ranks[r].scales = gpu_alloc(rows * (columns + 127) / 128 * 4);
		ranks[r].count = gpu_alloc(p->experts * 4);
		ranks[r].src_idx = gpu_alloc(rows * 4);
		ranks[r].range = gpu_alloc((size_t)p->experts * 8 * p->ranks);
		ranks[r].y = gpu_alloc(rows * columns * 2);
		ranks[r].out = gpu_alloc(p->tokens * columns * 2);
		ranks[r].handle = (struct urccl_ep_ll_handle){
			.size = sizeof(ranks[r].handle),
			.memory = gpu_alloc(urccl_ep_ll_handle_bytes(g->rank[r].ep)),
		};
	}
	what.tokens = p->tokens, what.topk = p->topk, what.hidden = p->hidden;
}

void perf_low_latency(const struct perf *options)
{
	struct perf p = *options;
	struct gpu_group g;
	int64_t *choices[URCCL_EP_MAX_RANKS];
	struct perf_bytes fp8, bf16;
	const uint32_t all = 132 / (p.ranks > (uint32_t)p.gpus ? p.ranks / (uint32_t)p.gpus : 1);

	p.tokens = p.tokens ? p.tokens : 128;
	p.experts = p.experts ? p.experts : 288 / p.ranks * p.ranks;
	for (uint32_t r = 0; r < p.ranks; r++)
		choices[r] = perf_choices(&p, r);
	gpu_group_open(&g, &(struct urccl_ep_attr){
				   .size = sizeof(struct urccl_ep_attr),
				   .ranks = p.ranks,
				   .experts = p.experts,
				   .topk = p.topk,
				   .ll_max_tokens = p.tokens,
				   .ll_hidden = p.hidden,
				   .sms = all,
				   .timeout_ms = 5000,
			   });
	prepare(&g, &p, choices);
	what.sms = p.sms[0];
	fp8 = perf_bytes(&p, choices, p.hidden + 4.0 * ((p.hidden + 127) / 128), 1);
	bf16 = perf_bytes(&p, choices, 2.0 * p.hidden, 1);
	printf("low latency: %u tokens, %u experts\n", p.tokens, p.experts);
	perf_time(&g, &p, "fill of 16 bytes (driver)", 0, NULL, nothing);
	perf_raw(&g, &p, what.sms ? what.sms : all);
	what.flags = URCCL_EP_LL_FP8;
	perf_time(&g, &p, "ll dispatch fp8", what.sms ? what.sms : all, &fp8, dispatch);
	what.flags = 0;
	perf_time(&g, &p, "ll dispatch bf16", what.sms ? what.sms : all, &bf16, dispatch);
	perf_time(&g, &p, "ll combine bf16", what.sms ? what.sms : all, &bf16, combine);
	gpu_group_close(&g);
	for (uint32_t r = 0; r < p.ranks; r++)
		free(choices[r]);
}
