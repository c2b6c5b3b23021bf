/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A rank that does not come, or that would receive too much, ends the others' calls with its number
 * within the timeout, and the process can build a new group. Ranks are streams.
 */
#include "cases.h"
#include "compare.h"

#include <errno.h>
#include <stdbool.h>
#include <time.h>

#include "test.h"

enum { RANKS = 3, TOKENS = 32, HIDDEN = 512, TOPK = 2, ABSENT = 1, TIMEOUT_MS = 300 };

static const struct ep_case shape_case = {"", RANKS, 6, TOPK, HIDDEN, TOKENS, ROUTE_UNIFORM,
					  0,  0,     0, 0};
static struct gpu_group group;
static struct ref_source sources[URCCL_EP_MAX_RANKS];
static struct urccl_ep_handle handles[RANKS];
static struct urccl_ep_ll_handle ll_handles[RANKS];
static void *x[RANKS], *idx[RANKS], *weights[RANKS], *out[RANKS], *results[RANKS][5];

static void open_group(uint32_t max_recv)
{
	const struct urccl_ep_attr attr = {
		.size = sizeof(attr),
		.ranks = RANKS,
		.experts = 6,
		.topk = TOPK,
		.max_tokens = TOKENS,
		.max_recv_tokens = max_recv,
		.max_row_bytes = 2 * HIDDEN,
		.ll_max_tokens = TOKENS,
		.ll_hidden = HIDDEN,
		.sms = 16,
		.timeout_ms = TIMEOUT_MS,
	};

	gpu_group_open(&group, &attr);
	for (uint32_t r = 0; r < RANKS; r++) {
		struct gpu_rank *gpu = gpu_use(&group, r);

		handles[r] = (struct urccl_ep_handle){
			.size = sizeof(*handles),
			.memory = gpu_alloc(urccl_ep_handle_bytes(gpu->ep)),
		};
		ll_handles[r] = (struct urccl_ep_ll_handle){
			.size = sizeof(*ll_handles),
			.memory = gpu_alloc(urccl_ep_ll_handle_bytes(gpu->ep)),
		};
		gpu_fill(ll_handles[r].memory, 0, urccl_ep_ll_handle_bytes(gpu->ep));
	}
}

static void close_group(void)
{
	gpu_group_wait(&group);
	for (uint32_t r = 0; r < RANKS; r++) {
		gpu_use(&group, r);
		gpu_free(handles[r].memory);
		gpu_free(ll_handles[r].memory);
	}
	gpu_group_close(&group);
}

static void dispatch(uint32_t without, bool cached)
{
	for (uint32_t r = 0; r < RANKS; r++) {
		struct gpu_rank *gpu = gpu_use(&group, r);
		struct urccl_ep_dispatch args = {
			.size = sizeof(args),
			.flags = cached ? URCCL_EP_CACHED : 0,
			.tokens = sources[r].tokens,
			.topk = TOPK,
			.row_bytes = 2 * HIDDEN,
			.x = x[r],
			.topk_idx = idx[r],
		};

		if (r != without)
			gpu_ok(urccl_ep_dispatch(gpu->ep, &args, &handles[r], gpu->stream),
			       "dispatch");
	}
	gpu_group_wait(&group);
}

static void combine(uint32_t without)
{
	for (uint32_t r = 0; r < RANKS; r++) {
		struct gpu_rank *gpu = gpu_use(&group, r);
		struct urccl_ep_combine args = {.size = sizeof(args),
						.hidden = HIDDEN,
						.out = out[r]};

		if (r != without)
			gpu_ok(urccl_ep_combine(gpu->ep, &args, &handles[r], gpu->stream),
			       "combine");
	}
	gpu_group_wait(&group);
}

static void ll_round(uint32_t without)
{
	for (uint32_t r = 0; r < RANKS; r++) {
		struct gpu_rank *gpu = gpu_use(&group, r);
		struct urccl_ep_ll_dispatch args = {
			.size = sizeof(args),
			.tokens = sources[r].tokens,
			.topk = TOPK,
			.hidden = HIDDEN,
			.x = x[r],
			.topk_idx = idx[r],
			.recv_x = results[r][0],
			.recv_count = results[r][1],
			.src_idx = results[r][2],
			.layout_range = results[r][3],
		};
		struct urccl_ep_ll_combine back = {
			.size = sizeof(back),
			.tokens = sources[r].tokens,
			.topk = TOPK,
			.hidden = HIDDEN,
			.x = results[r][0],
			.topk_weights = weights[r],
			.out = out[r],
		};

		if (r == without)
			continue;
		gpu_ok(urccl_ep_ll_dispatch(gpu->ep, &args, &ll_handles[r], gpu->stream),
		       "dispatch");
		gpu_ok(urccl_ep_ll_combine(gpu->ep, &back, &ll_handles[r], gpu->stream), "combine");
	}
	gpu_group_wait(&group);
}

/* All ranks but one: res, of that rank, and the same ranks left out. */
static void check_status(const char *what, uint32_t but, int res, uint32_t dead)
{
	for (uint32_t r = 0; r < RANKS; r++) {
		struct urccl_ep_status status = {.size = sizeof(status)};

		if (r == but)
			continue;
		CHECK_EQ(urccl_ep_query_status(group.rank[r].ep, &status), 0);
		printf("%s: rank %u: res %d of rank %u, dead %#x\n", what, r, status.res,
		       status.rank, status.dead);
		fflush(stdout);
		CHECK_EQ(status.res, res);
		CHECK_EQ(status.dead, dead);
		if (res == -ETIMEDOUT)
			CHECK_EQ(status.rank, ABSENT);
	}
}

static double seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void absent_in_dispatch(void)
{
	struct urccl_ep_counts counts = {.size = sizeof(counts)};
	double start;

	open_group(0);
	dispatch(RANKS, false);
	check_status("all come", RANKS, 0, 0);
	start = seconds();
	dispatch(ABSENT, false);
	check_status("absent in dispatch", ABSENT, -ETIMEDOUT, 0);
	CHECK_EQ(urccl_ep_query_counts(group.rank[0].ep, &handles[0], &counts, 0), -ECANCELED);
	/* Later calls do nothing, at once. */
	dispatch(ABSENT, true);
	combine(ABSENT);
	printf("three calls: %.3f s\n", seconds() - start);
	CHECK(seconds() - start < 20 * TIMEOUT_MS / 1000.0);
	close_group();
}

static void absent_in_combine(void)
{
	open_group(0);
	dispatch(RANKS, false);
	combine(ABSENT);
	check_status("absent in combine", ABSENT, -ETIMEDOUT, 0);
	close_group();
	open_group(0);
	dispatch(RANKS, false);
	dispatch(ABSENT, true);
	check_status("absent in a repeated dispatch", ABSENT, -ETIMEDOUT, 0);
	close_group();
}

static void no_room(void)
{
	open_group(8);
	dispatch(RANKS, false);
	check_status("no room", RANKS, -ENOSPC, 0);
	close_group();
}

/* Low-latency calls go on without the rank. */
static void absent_in_low_latency(void)
{
	open_group(0);
	ll_round(RANKS);
	check_status("all come", RANKS, 0, 0);
	ll_round(ABSENT);
	check_status("absent in low latency", ABSENT, 0, 1 << ABSENT);
	for (int i = 0; i < 10; i++)
		ll_round(ABSENT);
	check_status("left out", ABSENT, 0, 1 << ABSENT);
	close_group();
}

/* A wrong pointer is refused; it would fault in a kernel. */
static void bad_pointers(void)
{
	struct urccl_ep_dispatch args = {.size = sizeof(args),
					 .tokens = 1,
					 .topk = TOPK,
					 .row_bytes = 2 * HIDDEN,
					 .topk_idx = idx[0]};
	struct urccl_ep_combine back = {.size = sizeof(back), .hidden = HIDDEN};
	struct urccl_ep_ll_dispatch ll = {
		.size = sizeof(ll), .tokens = 1, .topk = TOPK, .hidden = HIDDEN, .x = x[0]};
	struct urccl_ep *ep;
	void *stream;

	open_group(0);
	ep = gpu_use(&group, 0)->ep, stream = group.rank[0].stream;
	CHECK_EQ(urccl_ep_dispatch(ep, &args, &handles[0], stream), -EINVAL);
	CHECK_SAYS(urccl_ep_errmsg(), "x is NULL");
	args.x = (char *)x[0] + 8;
	CHECK_EQ(urccl_ep_dispatch(ep, &args, &handles[0], stream), -EINVAL);
	CHECK_SAYS(urccl_ep_errmsg(), "multiple of 16");
	args.x = x[0], args.row_bytes = 24;
	CHECK_EQ(urccl_ep_dispatch(ep, &args, &handles[0], stream), -EINVAL);
	handles[0].tokens = 1;
	CHECK_EQ(urccl_ep_combine(ep, &back, &handles[0], stream), -EINVAL);
	CHECK_SAYS(urccl_ep_errmsg(), "out is NULL");
	CHECK_EQ(urccl_ep_ll_dispatch(ep, &ll, &ll_handles[0], stream), -EINVAL);
	CHECK_SAYS(urccl_ep_errmsg(), "recv_x is NULL");
	close_group();
}

int main(void)
{
	const char *why;

	if (!gpu_start(0, &why))
		SKIP(why);
	case_make(&shape_case, 1, sources);
	open_group(0);
	for (uint32_t r = 0; r < RANKS; r++) {
		const size_t n = sources[r].tokens, rows = 6 * TOKENS;

		gpu_use(&group, r);
		x[r] = gpu_copy_of(sources[r].x, n * HIDDEN * 2);
		idx[r] = gpu_copy_of(sources[r].topk_idx, n * TOPK * 8);
		weights[r] = gpu_copy_of(sources[r].topk_weights, n * TOPK * 4);
		out[r] = gpu_alloc(n * HIDDEN * 2);
		results[r][0] = gpu_alloc(rows * HIDDEN * 2);
		for (int i = 1; i < 4; i++)
			results[r][i] = gpu_alloc(rows * 8);
	}
	close_group();
	bad_pointers();
	absent_in_dispatch();
	absent_in_combine();
	no_room();
	absent_in_low_latency();
	return 0;
}
