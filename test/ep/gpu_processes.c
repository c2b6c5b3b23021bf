/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each rank is a process; liburccl maps the windows. Results have the bits of the reference.
 * When a rank is killed, the others' calls end with its number, and they form a new group.
 */
#include "cases.h"
#include "compare.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "test.h"

enum { KILLED = 1, KILLED_AFTER = 200, TIMEOUT_MS = 10000, KILL_TIMEOUT_MS = 500, CARD = 1024 };

/* Shared by the processes of a group. */
static struct shared {
	atomic_uint arrived;
	struct {
		atomic_bool there;
		char data[CARD];
	} card[URCCL_EP_MAX_RANKS];
} * shared;

struct process {
	struct ep_case c;
	struct ref_shape shape;
	uint32_t rank;
	struct ref_source sources[URCCL_EP_MAX_RANKS];
	struct urccl_ep *ep;
	struct urccl_ep_parts parts;
	struct urccl_ep_handle handle;
	struct urccl_ep_ll_handle ll_handle;
	struct urccl_ep_windows *windows;
	void *stream, *x, *idx, *weights, *out;
};

/* The n-th time that all ranks meet. */
static void meet(uint32_t n, uint32_t ranks)
{
	atomic_fetch_add(&shared->arrived, 1);
	while (atomic_load(&shared->arrived) < n * ranks)
		sched_yield();
}

static int put(void *arg, const void *data, uint32_t bytes)
{
	const struct process *p = arg;

	CHECK_LE(bytes, CARD);
	memcpy(shared->card[p->rank].data, data, bytes);
	atomic_store(&shared->card[p->rank].there, true);
	return 0;
}

static int get(void *arg, uint32_t rank, void *data, uint32_t bytes)
{
	(void)arg;
	while (!atomic_load(&shared->card[rank].there))
		sched_yield();
	memcpy(data, shared->card[rank].data, bytes);
	return 0;
}

static void open_group(struct process *p, uint32_t ranks, uint32_t rank, uint32_t timeout_ms)
{
	struct urccl_ep_attr attr = {
		.size = sizeof(attr),
		.rank = rank,
		.ranks = ranks,
		.experts = 8 * ranks,
		.topk = 4,
		.max_tokens = 64,
		.max_row_bytes = 2048,
		.ll_max_tokens = 64,
		.ll_hidden = 1024,
		.sms = 8,
		.timeout_ms = timeout_ms,
	};
	struct urccl_ep_windows_attr windows = {
		.size = sizeof(windows),
		.rank = rank,
		.ranks = ranks,
		.timeout_ms = TIMEOUT_MS,
		.put = put,
		.get = get,
		.arg = p,
	};

	p->c = (struct ep_case){"", ranks, 8 * ranks,	   4, 1024, 64, ROUTE_UNIFORM, 0,
				0,  0,	   URCCL_EP_LL_FP8};
	p->shape = case_shape(&p->c);
	p->rank = rank;
	case_make(&p->c, 5, p->sources);
	gpu_ok(urccl_ep_window_bytes(&attr, &windows.bytes), "urccl_ep_window_bytes");
	windows.window = gpu_alloc(windows.bytes);
	gpu_ok(urccl_ep_windows_open(&windows, &p->windows), "urccl_ep_windows_open");
	attr.windows = urccl_ep_windows_addresses(p->windows);
	gpu_ok(urccl_ep_create(&attr, &p->ep), "urccl_ep_create");
	p->parts.size = sizeof(p->parts);
	gpu_ok(urccl_ep_window_parts(p->ep, &p->parts), "urccl_ep_window_parts");
	p->handle = (struct urccl_ep_handle){.size = sizeof(p->handle),
					     .memory = gpu_alloc(urccl_ep_handle_bytes(p->ep))};
	p->ll_handle =
		(struct urccl_ep_ll_handle){.size = sizeof(p->ll_handle),
					    .memory = gpu_alloc(urccl_ep_ll_handle_bytes(p->ep))};
	p->x = gpu_copy_of(p->sources[rank].x, p->sources[rank].tokens * 2048);
	p->idx = gpu_copy_of(p->sources[rank].topk_idx, p->sources[rank].tokens * 32);
	p->weights = gpu_copy_of(p->sources[rank].topk_weights, p->sources[rank].tokens * 16);
	p->out = gpu_alloc(64 * 2048);
	meet(1, ranks);
}

static void launch(struct process *p, bool cached)
{
	struct urccl_ep_dispatch args = {
		.size = sizeof(args),
		.flags = cached ? URCCL_EP_CACHED : 0,
		.tokens = p->sources[p->rank].tokens,
		.topk = 4,
		.row_bytes = 2048,
		.x = p->x,
		.topk_idx = p->idx,
	};

	gpu_ok(urccl_ep_dispatch(p->ep, &args, &p->handle, p->stream), "urccl_ep_dispatch");
}

static void dispatch(struct process *p, bool cached)
{
	launch(p, cached);
	gpu_stream_wait(p->stream);
}

/* Experts return what they have received. */
static void check_normal(struct process *p)
{
	const struct ref_source *own = &p->sources[p->rank];
	struct urccl_ep_combine args = {.size = sizeof(args),
					.hidden = 1024,
					.x = p->parts.x,
					.out = p->out};
	struct ref_received want[URCCL_EP_MAX_RANKS];
	const uint16_t *x[URCCL_EP_MAX_RANKS], *none[2] = {NULL, NULL};
	int32_t prefix[URCCL_EP_MAX_RANKS * URCCL_EP_MAX_RANKS], experts[8];
	uint16_t *out = malloc(64 * 2048);

	ref_slots(&p->shape, p->sources, prefix);
	for (uint32_t r = 0; r < p->c.ranks; r++) {
		want[r] = (struct ref_received){.x = malloc(p->c.ranks * 64 * 2048),
						.per_expert = experts};
		ref_dispatch(&p->shape, p->sources, r, &want[r]);
		x[r] = want[r].x;
	}
	for (int round = 0; round < 3; round++) {
		dispatch(p, round > 0);
		compare(p->parts.x, x[p->rank], 16, want[p->rank].rows * 128,
			"dispatch %d of %u (rows of 128)", round, p->rank);
		gpu_ok(urccl_ep_combine(p->ep, &args, &p->handle, p->stream), "urccl_ep_combine");
		gpu_stream_wait(p->stream);
		ref_combine(&p->shape, own, x, none, out);
		compare(p->out, out, 2, own->tokens * 1024, "combine %d of %u", round, p->rank);
		gpu_fill(p->out, 0xab, 64 * 2048);
	}
	for (uint32_t r = 0; r < p->c.ranks; r++)
		free(want[r].x);
	free(out);
}

/* All experts of all ranks return the same numbers for a row. */
static void check_low_latency(struct process *p)
{
	const size_t rows = 8 * p->c.ranks * 64;
	const uint32_t tokens = p->sources[p->rank].tokens;
	uint16_t *y = malloc(rows * 2048), *out = malloc(64 * 2048);
	const uint16_t *all[URCCL_EP_MAX_RANKS];
	void *y_device;
	struct urccl_ep_ll_dispatch args = {
		.size = sizeof(args),
		.flags = URCCL_EP_LL_FP8,
		.tokens = tokens,
		.topk = 4,
		.hidden = 1024,
		.x = p->x,
		.topk_idx = p->idx,
		.recv_x = gpu_alloc(rows * 1024),
		.recv_scales = gpu_alloc(rows * 32),
		.recv_count = gpu_alloc(32),
		.src_idx = gpu_alloc(rows * 4),
		.layout_range = gpu_alloc(8 * p->c.ranks * 8),
	};
	struct urccl_ep_ll_combine back = {
		.size = sizeof(back),
		.tokens = tokens,
		.topk = 4,
		.hidden = 1024,
		.topk_weights = p->weights,
		.out = p->out,
	};

	for (size_t i = 0; i < rows * 1024; i++)
		y[i] = (uint16_t)(0x3f00 + (i * 2654435761u >> 24));
	for (uint32_t r = 0; r < p->c.ranks; r++)
		all[r] = y;
	back.x = y_device = gpu_copy_of(y, rows * 2048);
	ref_ll_combine(&p->shape, p->sources, p->rank, all, out);
	for (int round = 0; round < 5; round++) {
		gpu_ok(urccl_ep_ll_dispatch(p->ep, &args, &p->ll_handle, p->stream), "dispatch");
		gpu_ok(urccl_ep_ll_combine(p->ep, &back, &p->ll_handle, p->stream), "combine");
		gpu_stream_wait(p->stream);
		compare(p->out, out, 2, (size_t)tokens * 1024, "low latency %d of %u", round,
			p->rank);
		gpu_fill(p->out, 0xab, 64 * 2048);
	}
	gpu_free(y_device), gpu_free(args.recv_x), gpu_free(args.recv_scales);
	gpu_free(args.recv_count), gpu_free(args.src_idx), gpu_free(args.layout_range);
	free(y), free(out);
}

static struct urccl_ep_status status_of(const struct process *p)
{
	struct urccl_ep_status status = {.size = sizeof(status)};

	CHECK_EQ(urccl_ep_query_status(p->ep, &status), 0);
	return status;
}

static void run(struct process *p, uint32_t ranks, uint32_t rank)
{
	open_group(p, ranks, rank, TIMEOUT_MS);
	check_normal(p);
	check_low_latency(p);
	CHECK_EQ(status_of(p).res, 0);
	CHECK_EQ(status_of(p).dead, 0);
	CHECK_EQ(compare_differences, 0);
	meet(2, ranks); /* nobody uses another one's window any more */
	urccl_ep_destroy(p->ep);
	CHECK_EQ(urccl_ep_windows_close(p->windows), 0);
}

/* One rank dies while its dispatches run. The survivors' shared memory for their second group is
 * the second element. */
static void run_killed(struct process *p, uint32_t ranks, uint32_t rank)
{
	uint32_t done = 0;

	open_group(p, ranks, rank, KILL_TIMEOUT_MS);
	dispatch(p, false);
	CHECK_EQ(status_of(p).res, 0);
	do {
		launch(p, true);
		done++;
		if (rank == KILLED && done == KILLED_AFTER)
			raise(SIGKILL);
		if (rank != KILLED)
			gpu_stream_wait(p->stream);
	} while (!status_of(p).res);
	printf("rank %u: res %d of rank %u in dispatch %u\n", rank, status_of(p).res,
	       status_of(p).rank, done);
	/* A survivor that another one gave up waiting for may be named instead. */
	CHECK_EQ(status_of(p).res, -ETIMEDOUT);
	CHECK_NE(status_of(p).rank, rank);
	urccl_ep_destroy(p->ep);
	urccl_ep_windows_close(p->windows);
	case_free(&p->c, p->sources);
	shared++;
	run(p, ranks - 1, rank > KILLED ? rank - 1 : rank);
}

static void child(uint32_t ranks, uint32_t rank, bool kill_one)
{
	static struct process p;
	const char *why;

	alarm(60);
	if (!gpu_start(0, &why))
		SKIP(why);
	gpu_current(rank);
	p.stream = gpu_stream_new();
	if (kill_one)
		run_killed(&p, ranks, rank);
	else
		run(&p, ranks, rank);
	test_end(0);
}

/* 77 if there is no GPU. */
static int run_group(uint32_t ranks, bool kill_one)
{
	pid_t pids[URCCL_EP_MAX_RANKS];
	int worst = 0;

	memset(shared, 0, 2 * sizeof(*shared));
	for (uint32_t r = 0; r < ranks; r++) {
		pids[r] = fork();
		CHECK_GE(pids[r], 0);
		if (!pids[r])
			child(ranks, r, kill_one);
	}
	for (uint32_t r = 0; r < ranks; r++) {
		int status;

		CHECK_EQ(waitpid(pids[r], &status, 0), pids[r]);
		if (kill_one && r == KILLED && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
			continue;
		if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
			return 77;
		if (status) {
			printf("rank %u of %u: status %#x\n", r, ranks, (unsigned)status);
			worst = 1;
		}
	}
	printf("%u processes%s: %s\n", ranks, kill_one ? ", one is killed" : "",
	       worst ? "failed" : "passed");
	fflush(stdout);
	return worst;
}

/* Usage: ep_gpu_processes [most ranks] */
int main(int argc, char **argv)
{
	const uint32_t most = argc > 1 ? (uint32_t)atoi(argv[1]) : URCCL_EP_MAX_RANKS;
	int status;

	shared = mmap(NULL, 2 * sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		      -1, 0);
	CHECK(shared != MAP_FAILED);
	status = run_group(2, false);
	if (status == 77)
		return 77;
	for (uint32_t ranks = 4; ranks <= most; ranks *= 2)
		status |= run_group(ranks, false);
	status |= run_group(2, true);
	status |= run_group(3, true);
	return status;
}
