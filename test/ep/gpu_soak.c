/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many rounds of dispatch, repeated dispatch, combine and the low-latency calls on one group give
 * the bits of the reference. Each round takes one of the routings at random: uniform, skewed, with
 * holes, within a rank, by in_rank; some with empty ranks. Ranks are streams, one for each GPU.
 * Usage: ep_gpu_soak [rounds [tokens hidden [routings [experts]]]]
 */
#include "cases.h"
#include "compare.h"

#include <pthread.h>
#include <stdbool.h>
#include <time.h>

#include "test.h"

enum { RANKS = 2, TOPK = 8, LL_TOKENS = 128, THREADS = 16, MOST_SETS = 256 };

/* A routing and its results. */
struct set {
	struct ep_case c;
	struct ref_source sources[RANKS];
	int32_t prefix[RANKS * RANKS];
	struct ref_received want[RANKS];
	struct ref_ll_received ll[RANKS];
	uint16_t *out[RANKS], *ll_out[RANKS];
};

/* One rank's memory on the device. */
static struct rank {
	void *x, *scales, *idx, *weights, *in_rank, *out, *prefix, *handle_memory, *ll_memory;
	void *recv_x, *recv_scales, *count, *src_idx, *range, *y, *ll_out;
	struct urccl_ep_handle handle;
	struct urccl_ep_ll_handle ll_handle;
} ranks[RANKS];

/* Shared by all sets. */
static struct {
	uint16_t *x[RANKS], *y[RANKS], *ll_y;
	uint32_t *scales[RANKS];
	unsigned char *ll_rows[RANKS];	/* of each token, as low-latency dispatch sends it */
	uint32_t *ll_scales[RANKS];
	uint32_t tokens, hidden, experts;
	int ll;
} all;

static struct gpu_group group;
static struct set sets[MOST_SETS];
static unsigned sets_made, nsets;

static struct ref_shape shape_of(const struct set *s, int fp8)
{
	struct ep_case c = s->c;

	c.fp8 = (uint32_t)fp8;
	c.ll_flags = URCCL_EP_LL_FP8;
	return case_shape(&c);
}

/* ---- inputs and results on the CPU ----------------------------------------------------------- */

static void *memory(size_t bytes)
{
	void *p = calloc(1, bytes + 16);

	CHECK(p);
	return p;
}

static uint16_t *random_rows(size_t elements, uint64_t seed)
{
	uint16_t *p = memory(elements * 2);
	struct random r = {seed};

	/* bf16 from -2 to 2: random sign, mantissa and two exponents. */
	for (size_t i = 0; i < elements; i++)
		p[i] = (uint16_t)((random_next(&r) & 0x80ff) + 0x3f00);
	return p;
}

static void make_shared(void)
{
	const size_t x = (size_t)all.tokens * all.hidden, words = (all.hidden + 127) / 128;
	const struct set any = {.c = {.ranks = RANKS, .experts = all.experts, .topk = TOPK,
				      .hidden = all.hidden, .tokens = all.tokens}};
	const struct ref_shape shape = shape_of(&any, 1);

	for (uint32_t r = 0; r < RANKS; r++) {
		all.x[r] = random_rows(x, r + 1);
		all.y[r] = random_rows(RANKS * x, r + 101);
		all.scales[r] = (uint32_t *)random_rows(all.tokens * words * 2, r + 201);
		all.ll_rows[r] = memory(x);
		all.ll_scales[r] = memory(all.tokens * words * 4);
		for (size_t t = 0; all.ll && t < all.tokens; t++)
			ref_ll_row(&shape, all.x[r] + t * all.hidden,
				   all.ll_rows[r] + t * all.hidden, all.ll_scales[r] + t * words);
	}
	if (all.ll)
		all.ll_y = random_rows(x * all.experts, 301);
}

static void make_ll(struct set *s, const struct ref_shape *shape)
{
	const size_t local = all.experts / RANKS, rows = local * RANKS * all.tokens;
	const uint16_t *y[RANKS] = {all.ll_y, all.ll_y};
	struct ref_ll_received scratch = {.x = memory(rows * all.hidden),
					  .scales = memory(rows * 4 * (all.hidden + 127) / 128)};

	for (uint32_t r = 0; r < RANKS; r++) {
		s->ll[r] = scratch;
		s->ll[r].count = memory(local * 4);
		s->ll[r].src_idx = memory(rows * 4);
		s->ll[r].layout_range = memory(local * RANKS * 8);
		ref_ll_dispatch(shape, s->sources, r, &s->ll[r]);
		s->ll_out[r] = memory((size_t)all.tokens * all.hidden * 2);
		ref_ll_combine(shape, s->sources, r, y, s->ll_out[r]);
	}
	free(scratch.x), free(scratch.scales);
}

static void make_set(unsigned n)
{
	static const enum case_routing routing[] = {ROUTE_UNIFORM, ROUTE_SKEW, ROUTE_HOLES,
						    ROUTE_UNIFORM, ROUTE_IN_RANK, ROUTE_LOCAL};
	struct set *s = &sets[n];
	const uint16_t *y[RANKS] = {all.y[0], all.y[1]}, *none[2] = {NULL, NULL};
	struct ref_shape shape;

	s->c = (struct ep_case){"soak", RANKS, all.experts, TOPK, all.hidden, all.tokens,
				routing[n % 6], n % 7 == 5 ? 1 + n % 3 : 0, 0, 0, 0};
	shape = shape_of(s, 0);
	case_route(&s->c, n + 1, s->sources);
	ref_slots(&shape, s->sources, s->prefix);
	for (uint32_t r = 0; r < RANKS; r++) {
		const size_t rows = (size_t)RANKS * all.tokens;

		s->want[r] = (struct ref_received){.topk_idx = memory(rows * TOPK * 8),
						   .topk_weights = memory(rows * TOPK * 4),
						   .src_idx = memory(rows * 4),
						   .per_expert = memory(all.experts * 4)};
		s->sources[r].x = all.x[r];
		ref_dispatch(&shape, s->sources, r, &s->want[r]);
		s->out[r] = memory((size_t)all.tokens * all.hidden * 2);
		ref_combine(&shape, &s->sources[r], y, none, s->out[r]);
	}
	if (all.ll)
		make_ll(s, &shape);
}

static void *make_sets(void *unused)
{
	unsigned n;

	(void)unused;
	while ((n = __atomic_fetch_add(&sets_made, 1, __ATOMIC_RELAXED)) < nsets)
		make_set(n);
	return NULL;
}

/* ---- a round --------------------------------------------------------------------------------- */

static void prepare(uint32_t r)
{
	const size_t x = (size_t)all.tokens * all.hidden, rows = x * all.experts;
	const size_t words = (all.hidden + 127) / 128, choices = (size_t)all.tokens * TOPK;
	struct gpu_rank *gpu = gpu_use(&group, r);
	struct rank *k = &ranks[r];

	k->x = gpu_copy_of(all.x[r], x * 2);
	k->scales = gpu_copy_of(all.scales[r], all.tokens * words * 4);
	k->idx = gpu_alloc(choices * 8), k->weights = gpu_alloc(choices * 4);
	k->in_rank = gpu_alloc((size_t)all.tokens * RANKS);
	k->out = gpu_alloc(x * 2), k->prefix = gpu_alloc(64);
	k->handle_memory = gpu_alloc(urccl_ep_handle_bytes(gpu->ep));
	k->handle = (struct urccl_ep_handle){.size = sizeof(k->handle), .memory = k->handle_memory};
	gpu_upload(gpu->parts.combine_x, all.y[r], RANKS * x * 2);
	if (!all.ll)
		return;
	k->ll_memory = gpu_alloc(urccl_ep_ll_handle_bytes(gpu->ep));
	k->ll_handle = (struct urccl_ep_ll_handle){sizeof(k->ll_handle), 0, k->ll_memory};
	k->recv_x = gpu_alloc(rows), k->recv_scales = gpu_alloc(rows / all.hidden * words * 4);
	k->count = gpu_alloc(all.experts * 4), k->src_idx = gpu_alloc(rows / all.hidden * 4);
	k->range = gpu_alloc((size_t)all.experts * RANKS * 8), k->ll_out = gpu_alloc(x * 2);
	k->y = gpu_copy_of(all.ll_y, rows * 2);
}

static void upload(const struct set *s, uint32_t r)
{
	const struct ref_source *from = &s->sources[r];
	struct rank *k = &ranks[r];

	gpu_use(&group, r);
	gpu_upload(k->idx, from->topk_idx, (size_t)from->tokens * TOPK * 8);
	gpu_upload(k->weights, from->topk_weights, (size_t)from->tokens * TOPK * 4);
	if (from->in_rank)
		gpu_upload(k->in_rank, from->in_rank, (size_t)from->tokens * RANKS);
}

static void dispatch(const struct set *s, uint32_t r, bool fp8, bool cached)
{
	const struct ref_shape shape = shape_of(s, fp8);
	struct gpu_rank *gpu = gpu_use(&group, r);
	const struct urccl_ep_dispatch args = {
		.size = sizeof(args),
		.flags = cached ? URCCL_EP_CACHED : 0,
		.tokens = s->sources[r].tokens,
		.topk = TOPK,
		.row_bytes = shape.row_bytes,
		.scale_words = shape.scale_words,
		.x = ranks[r].x,
		.scales = ranks[r].scales,
		.topk_idx = ranks[r].idx,
		.topk_weights = ranks[r].weights,
		.in_rank = s->sources[r].in_rank ? ranks[r].in_rank : NULL,
		.rank_prefix = ranks[r].prefix,
	};

	gpu_fill_async(gpu->parts.x, 0xab, (size_t)s->want[r].rows * shape.row_bytes, gpu->stream);
	gpu_ok(urccl_ep_dispatch(gpu->ep, &args, &ranks[r].handle, gpu->stream), "dispatch");
}

static void combine(uint32_t r)
{
	struct gpu_rank *gpu = gpu_use(&group, r);
	const struct urccl_ep_combine args = {
		.size = sizeof(args), .hidden = all.hidden, .out = ranks[r].out};

	gpu_ok(urccl_ep_combine(gpu->ep, &args, &ranks[r].handle, gpu->stream), "combine");
}

static void low_latency(const struct set *s, uint32_t r)
{
	struct gpu_rank *gpu = gpu_use(&group, r);
	const struct rank *k = &ranks[r];
	const struct urccl_ep_ll_dispatch args = {
		.size = sizeof(args),
		.flags = URCCL_EP_LL_FP8,
		.tokens = s->sources[r].tokens,
		.topk = TOPK,
		.hidden = all.hidden,
		.x = k->x,
		.topk_idx = k->idx,
		.recv_x = k->recv_x,
		.recv_scales = k->recv_scales,
		.recv_count = k->count,
		.src_idx = k->src_idx,
		.layout_range = k->range,
	};
	const struct urccl_ep_ll_combine back = {
		.size = sizeof(back),
		.tokens = s->sources[r].tokens,
		.topk = TOPK,
		.hidden = all.hidden,
		.x = k->y,
		.topk_weights = k->weights,
		.out = k->ll_out,
	};

	gpu_ok(urccl_ep_ll_dispatch(gpu->ep, &args, &k->ll_handle, gpu->stream), "ll_dispatch");
	gpu_ok(urccl_ep_ll_combine(gpu->ep, &back, &k->ll_handle, gpu->stream), "ll_combine");
}

/* ---- comparison ------------------------------------------------------------------------------ */

static void differs(const char *what, uint32_t rank, uint32_t from, uint32_t token)
{
	if (compare_differences++ < 20)
		printf("differs: %s of rank %u: row of rank %u, token %u\n", what, rank, from, token);
}

/* Each received row against its source. */
static void check_rows(const struct set *s, uint32_t r, bool fp8)
{
	const struct ref_shape shape = shape_of(s, fp8);
	const size_t row = shape.row_bytes, words = shape.scale_words * 4;
	unsigned char *x = memory(s->want[r].rows * row), *scales = memory(s->want[r].rows * words);

	gpu_download(x, group.rank[r].parts.x, s->want[r].rows * row);
	gpu_download(scales, group.rank[r].parts.scales, s->want[r].rows * words);
	for (uint32_t f = 0; f < RANKS; f++)
		for (uint32_t t = 0; t < s->sources[f].tokens; t++) {
			const int32_t slot = s->sources[f].slot[t * RANKS + r];

			if (slot >= 0 && (memcmp(x + (size_t)slot * row,
						 (char *)all.x[f] + t * row, row) ||
					  memcmp(scales + (size_t)slot * words,
						 (char *)all.scales[f] + t * words, words)))
				differs("dispatch", r, f, t);
		}
	free(x), free(scales);
}

static void check_ll_rows(const struct set *s, uint32_t r)
{
	const size_t local = all.experts / RANKS, most = (size_t)RANKS * all.tokens;
	const size_t words = (all.hidden + 127) / 128;
	unsigned char *x = memory(local * most * all.hidden);
	uint32_t *scales = memory(local * most * words * 4);

	gpu_download(x, ranks[r].recv_x, local * most * all.hidden);
	gpu_download(scales, ranks[r].recv_scales, local * most * words * 4);
	for (size_t l = 0; l < local; l++)
		for (uint32_t f = 0; f < RANKS; f++) {
			const uint64_t range = (uint64_t)s->ll[r].layout_range[l * RANKS + f];

			for (size_t i = range >> 32; i < (range >> 32) + (uint32_t)range; i++) {
				const size_t t = (size_t)s->ll[r].src_idx[l * most + i];
				bool same = !memcmp(x + (l * most + i) * all.hidden,
						    all.ll_rows[f] + t * all.hidden, all.hidden);

				for (size_t w = 0; w < words; w++)
					same &= scales[(l * words + w) * most + i] ==
						all.ll_scales[f][t * words + w];
				if (!same)
					differs("low-latency dispatch", r, f, (uint32_t)t);
			}
		}
	free(x), free(scales);
}

static void check(const struct set *s, uint32_t r, bool fp8, bool cached)
{
	const struct ref_received *want = &s->want[r];
	const struct urccl_ep_parts *parts = &gpu_use(&group, r)->parts;
	const size_t out = (size_t)s->sources[r].tokens * all.hidden, local = all.experts / RANKS;

	check_rows(s, r, fp8);
	compare(ranks[r].out, s->out[r], 16, out / 8, "combine of %u", r);
	if (!cached) {
		compare(ranks[r].prefix, s->prefix, 4, RANKS * RANKS, "prefix of %u", r);
		compare(parts->topk_idx, want->topk_idx, 8, want->rows * TOPK, "topk_idx of %u", r);
		compare(parts->topk_weights, want->topk_weights, 4, want->rows * TOPK,
			"topk_weights of %u", r);
		compare(parts->src_idx, want->src_idx, 4, want->rows, "src_idx of %u", r);
	}
	if (!all.ll || s->sources[r].in_rank)
		return;
	check_ll_rows(s, r);
	compare(ranks[r].count, s->ll[r].count, 4, local, "ll count of %u", r);
	compare(ranks[r].range, s->ll[r].layout_range, 8, local * RANKS, "ll ranges of %u", r);
	compare(ranks[r].ll_out, s->ll_out[r], 16, out / 8, "ll combine of %u", r);
}

static void run_round(const struct set *s, bool fp8, bool again)
{
	for (uint32_t r = 0; r < RANKS; r++)
		upload(s, r);
	for (uint32_t r = 0; r < RANKS; r++) {
		dispatch(s, r, fp8, false);
		if (again)
			dispatch(s, r, fp8, true);
		combine(r);
		if (all.ll)
			low_latency(s, r);
	}
	gpu_group_wait(&group);
	for (uint32_t r = 0; r < RANKS; r++)
		check(s, r, fp8, again);
}

static double seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void run(long rounds)
{
	struct random random = {(uint64_t)rounds};
	double start = seconds();

	for (long round = 0; round < rounds && compare_differences < 1000; round++) {
		const uint64_t bits = random_next(&random);
		const unsigned n = rounds <= (long)nsets ? (unsigned)round
							 : (unsigned)(bits >> 8) % nsets;

		run_round(&sets[n], bits & 1, bits & 2);
	}
	compare_status(&group, "soak");
	printf("soak: %ld rounds of %u x %u, %u routings, %lu differences, %.1f s\n", rounds,
	       all.tokens, all.hidden, nsets, compare_differences, seconds() - start);
}

int main(int argc, char **argv)
{
	const long rounds = argc > 1 ? atol(argv[1]) : 40;
	const char *why;
	pthread_t threads[THREADS];
	struct urccl_ep_attr attr;

	if (!gpu_start(0, &why))
		SKIP(why);
	all.tokens = argc > 3 ? (uint32_t)atoi(argv[2]) : LL_TOKENS;
	all.hidden = argc > 3 ? (uint32_t)atoi(argv[3]) : 1024;
	nsets = argc > 4 ? (unsigned)atoi(argv[4]) : 12;
	nsets = nsets > MOST_SETS ? MOST_SETS : nsets;
	all.experts = argc > 5 ? (uint32_t)atoi(argv[5]) : 16;
	all.ll = all.tokens <= LL_TOKENS;
	make_shared();
	for (int i = 0; i < THREADS; i++)
		CHECK_EQ(pthread_create(&threads[i], NULL, make_sets, NULL), 0);
	attr = (struct urccl_ep_attr){
		.size = sizeof(attr),
		.ranks = RANKS,
		.experts = all.experts,
		.topk = TOPK,
		.max_tokens = all.tokens,
		.max_row_bytes = 2 * all.hidden,
		.max_scale_words = (all.hidden + 127) / 128,
		.ll_max_tokens = all.ll ? all.tokens : 0,
		.ll_hidden = all.ll ? all.hidden : 0,
		.sms = 64,
		.timeout_ms = 5000,
	};
	gpu_group_open(&group, &attr);
	for (uint32_t r = 0; r < RANKS; r++)
		prepare(r);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	run(rounds);
	gpu_group_close(&group);
	CHECK_EQ(compare_differences, 0);
	return 0;
}
