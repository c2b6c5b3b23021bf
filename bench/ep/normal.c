/* SPDX-License-Identifier: Apache-2.0 */
/* Layout, dispatch and combine, beside a copy of the same bytes by the copy engine or a kernel of
 * the driver. */
#include "perf.h"

#include <stdio.h>
#include <stdlib.h>

/* One rank's memory, and what the calls below send. */
static struct {
	void *x, *scales, *idx, *weights, *y, *out;
	struct urccl_ep_handle handle, nothing;
} ranks[URCCL_EP_MAX_RANKS];

static struct {
	uint32_t tokens, topk, hidden, fp8, cached, sms;
	size_t copy_bytes;
} what;

static void layout(struct gpu_group *g, uint32_t r)
{
	gpu_ok(urccl_ep_layout(g->rank[r].ep, ranks[r].idx, what.tokens, what.topk, 0, NULL, NULL,
			       NULL, g->rank[r].stream),
	       "layout");
}

static void dispatch(struct gpu_group *g, uint32_t r)
{
	struct urccl_ep_dispatch args = {
		.size = sizeof(args),
		.flags = what.cached ? URCCL_EP_CACHED : 0,
		.tokens = what.tokens,
		.topk = what.topk,
		.row_bytes = what.fp8 ? what.hidden : 2 * what.hidden,
		.scale_words = what.fp8 ? (what.hidden + 127) / 128 : 0,
		.x = ranks[r].x,
		.scales = ranks[r].scales,
		.topk_idx = ranks[r].idx,
		.topk_weights = ranks[r].weights,
		.sms = what.sms,
	};

	gpu_ok(urccl_ep_dispatch(g->rank[r].ep, &args, &ranks[r].handle, g->rank[r].stream),
	       "dispatch");
}

/* The cost of a launch and of both barriers. */
static void dispatch_nothing(struct gpu_group *g, uint32_t r)
{
	struct urccl_ep_dispatch args = {
		.size = sizeof(args),
		.flags = ranks[r].nothing.call ? URCCL_EP_CACHED : 0,
		.topk = what.topk,
		.row_bytes = 16,
		.topk_idx = ranks[r].idx,
		.sms = what.sms,
	};

	gpu_ok(urccl_ep_dispatch(g->rank[r].ep, &args, &ranks[r].nothing, g->rank[r].stream),
	       "dispatch");
}

static void combine(struct gpu_group *g, uint32_t r)
{
	struct urccl_ep_combine args = {
		.size = sizeof(args),
		.hidden = what.hidden,
		.out = ranks[r].out,
		.sms = what.sms,
	};

	gpu_ok(urccl_ep_combine(g->rank[r].ep, &args, &ranks[r].handle, g->rank[r].stream),
	       "combine");
}

/* From this rank's memory to the next one's window. */
static void copy(struct gpu_group *g, uint32_t r)
{
	gpu_copy_async(g->rank[(r + 1) % g->attr.ranks].parts.combine_x, g->rank[r].parts.x,
		       what.copy_bytes, g->rank[r].stream);
}

/* The other way: from the next rank's window. */
static void fetch(struct gpu_group *g, uint32_t r)
{
	gpu_copy_async(g->rank[r].parts.combine_x, g->rank[(r + 1) % g->attr.ranks].parts.x,
		       what.copy_bytes, g->rank[r].stream);
}

/* The floors of dispatch and combine: the same bytes in one copy. */
static void floors(struct gpu_group *g, const struct perf *p, const struct perf_bytes *fp8,
		   const struct perf_bytes *bf16)
{
	const int one = g->attr.ranks == 1;

	what.copy_bytes = (size_t)(one ? fp8->logical : fp8->wire);
	perf_time(g, p, "copy of fp8 rows (driver)", 0, fp8, copy);
	what.copy_bytes = (size_t)(one ? bf16->logical : bf16->wire);
	perf_time(g, p, "copy of bf16 rows (driver)", 0, bf16, copy);
	perf_time(g, p, "fetch of bf16 rows (driver)", 0, bf16, fetch);
}

static void prepare(struct gpu_group *g, const struct perf *p, int64_t *const *choices)
{
	const size_t row = 2 * (size_t)p->hidden, n = (size_t)p->tokens * row;

	for (uint32_t r = 0; r < p->ranks; r++) {
		unsigned char *bytes = malloc(n);

		/* Random bits would hold NaN; these are bf16 between 0.5 and 2. */
		for (size_t i = 0; i < n; i++)
			bytes[i] = i % 2 ? 0x3f : (unsigned char)(i * 2654435761u >> 13);
		gpu_use(g, r);
		ranks[r].x = gpu_copy_of(bytes, n);
		ranks[r].scales = gpu_alloc(n / 128);
		ranks[r].idx = gpu_copy_of(choices[r], (size_t)p->tokens * p->topk * 8);
		ranks[r].weights = gpu_alloc((size_t)p->tokens * p->topk * 4);
		ranks[r].out = gpu_alloc(n);
		ranks[r].handle = (struct urccl_ep_handle){
			.size = sizeof(ranks[r].handle),
			.memory = gpu_alloc(urccl_ep_handle_bytes(g->rank[r].ep)),
		};
		ranks[r].nothing = ranks[r].handle;
		ranks[r].nothing.memory = gpu_alloc(urccl_ep_handle_bytes(g->rank[r].ep));
		for (uint32_t i = 0; i < p->ranks; i++)
			gpu_upload((char *)g->rank[r].parts.combine_x + i * n, bytes, n);
		free(bytes);
	}
	what.tokens = p->tokens, what.topk = p->topk, what.hidden = p->hidden;
}

static void run(struct gpu_group *g, const struct perf *p, const struct perf_bytes *fp8,
		const struct perf_bytes *bf16, uint32_t sms)
{
	const struct {
		const char *name;
		uint32_t fp8, cached;
	} kinds[] = {{"dispatch fp8", 1, 0},
		     {"dispatch fp8, cached", 1, 1},
		     {"dispatch bf16", 0, 0},
		     {"dispatch bf16, cached", 0, 1}};

	what.sms = sms;
	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
		what.fp8 = kinds[i].fp8, what.cached = kinds[i].cached;
		perf_time(g, p, kinds[i].name, sms, what.fp8 ? fp8 : bf16, dispatch);
	}
	perf_time(g, p, "combine bf16", sms, bf16, combine);
	perf_time(g, p, "dispatch of no rows, cached", sms, NULL, dispatch_nothing);
}

void perf_normal(const struct perf *options)
{
	struct perf p = *options;
	struct gpu_group g;
	int64_t *choices[URCCL_EP_MAX_RANKS];
	struct perf_bytes fp8, bf16;
	const uint32_t all = 132 / (p.ranks > (uint32_t)p.gpus ? p.ranks / (uint32_t)p.gpus : 1);

	p.tokens = p.tokens ? p.tokens : 4096;
	p.experts = p.experts ? p.experts : 256 / p.ranks * p.ranks;
	for (uint32_t r = 0; r < p.ranks; r++)
		choices[r] = perf_choices(&p, r);
	gpu_group_open(&g, &(struct urccl_ep_attr){
				   .size = sizeof(struct urccl_ep_attr),
				   .ranks = p.ranks,
				   .experts = p.experts,
				   .topk = p.topk,
				   .max_tokens = p.tokens,
				   .max_row_bytes = 2 * p.hidden,
				   .max_scale_words = (p.hidden + 127) / 128,
				   .sms = all,
				   .timeout_ms = 5000,
			   });
	prepare(&g, &p, choices);
	printf("normal: %u tokens, %u experts\n", p.tokens, p.experts);
	fp8 = perf_bytes(&p, choices, p.hidden + 4.0 * ((p.hidden + 127) / 128), 0);
	bf16 = perf_bytes(&p, choices, 2.0 * p.hidden, 0);
	floors(&g, &p, &fp8, &bf16);
	perf_time(&g, &p, "layout", 1, NULL, layout);
	for (uint32_t i = 0; i < p.nsms; i++)
		run(&g, &p, &fp8, &bf16, p.sms[i]);
	if (!p.nsms)
		run(&g, &p, &fp8, &bf16, all < 24 ? all : 24);
	if (!p.nsms && all > 24)
		run(&g, &p, &fp8, &bf16, all);
	gpu_group_close(&g);
	for (uint32_t r = 0; r < p.ranks; r++)
		free(choices[r]);
}
