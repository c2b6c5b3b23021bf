/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels that push entries by liburccl/device.cuh, and the floors beside them. */
#include "lanes.h"

#include <cstring>
#include <liburccl/device.cuh>

#define BLOCKS 4u /* of a round of lanes_check() */

static __device__ __forceinline__ int is_idle(const struct job *j)
{
	return threadIdx.x / 32 >= j->per_block || (j->by == BY_THREAD && threadIdx.x % 32);
}

static __device__ __forceinline__ uint32_t lane_index(const struct job *j)
{
	return blockIdx.x * j->per_block + threadIdx.x / 32;
}

static __device__ __forceinline__ struct urccl_dev_lane lane_open(const struct job *j)
{
	return j->by ? urccl_dev_open_warp(j->ring, lane_index(j))
			  : urccl_dev_open(j->ring, lane_index(j));
}

/* The same answer for all threads of a warp. */
static __device__ __forceinline__ int is_late(const struct urccl_dev_lane *l, uint64_t until)
{
	return (int)__urccl_dev_agree(l, gpu_ns() > until);
}

static __device__ __forceinline__ uint64_t nop_push(struct urccl_dev_lane *l)
{
	return __urccl_dev_entry(l, URCCL_OP_NOP, 0, 0, 0, 0, 0, 0);
}

/* off: of the message, locally and in the remote. URCCL_DEV_FULL: nothing was pushed. */
static __device__ __forceinline__ uint64_t message_push(const struct job *j,
							struct urccl_dev_lane *l, uint64_t off)
{
	switch (j->kind) {
	case KIND_WRITE:
		return urccl_dev_write(l, j->remote, j->local + off, j->len, off, 0);
	case KIND_READ:
		return urccl_dev_read(l, j->remote, j->local + off, j->len, off, 0);
	case KIND_FETCH_ADD:
		return urccl_dev_fetch_add(l, j->counters, 8 * lane_index(j), 1, 0);
	case KIND_NOTIFY:
		return urccl_dev_notify(l, j->peer, lane_index(j), 0);
	case KIND_WRITE_NOTIFY:
		return urccl_dev_write(l, j->remote, j->local + off, j->len, off, URCCL_SQE_NOTIFY);
	case KIND_WRITE_SIGNAL:
		if (!urccl_dev_has_room(l, 2))
			return URCCL_DEV_FULL;
		urccl_dev_write(l, j->remote, j->local + off, j->len, off, 0);
		return urccl_dev_fetch_add(l, j->counters, 8 * lane_index(j), 1, URCCL_SQE_FENCE);
	default:
		return nop_push(l);
	}
}

/* 1: the whole lane has ended; failures are counted. */
static __device__ __forceinline__ int lane_finish(const struct job *j, struct urccl_dev_lane *l,
						  uint64_t until, struct lane_result *r)
{
	int res = 0;

	while (l->ended < l->pushed) {
		res = urccl_dev_wait(l, l->pushed - 1, 1000000);
		if (res != 0 && res != -ETIME) {
			r->failed++;
			r->res = res;
		}
		if (is_late(l, until)) {
			r->res = -ETIME;
			return 0;
		}
	}
	return 1;
}

static __device__ __forceinline__ void
result_store(struct urccl_dev_lane *l, const struct lane_result *r, struct lane_result *out)
{
	urccl_dev_close(l);
	if (!l->rank)
		*out = *r;
}

/* 32 messages, one of each thread. */
static __device__ __forceinline__ uint64_t each_push(const struct job *j, struct urccl_dev_lane *l,
						     uint64_t off)
{
	const struct urccl_sqe nop = __urccl_dev_sqe(URCCL_OP_NOP, 0, 0, 0, 0, 0, 0);

	off += (uint64_t)l->rank * j->len;
	return j->kind == KIND_NOP ? urccl_dev_push_each(l, &nop, 32)
				   : urccl_dev_write_each(l, j->remote, j->local + off, j->len, off,
							  0, 32);
}

/* Both are known when the kernel is compiled, as in most programs; or they are KIND_ANY, BY_ANY. */
template <uint32_t KIND, uint32_t BY>
static __global__ void push_kernel(struct job j, struct lane_result *out)
{
	const uint32_t step = BY == BY_EACH ? 32 : 1;
	struct lane_result r = {};
	uint64_t until, i, first, off, end;
	struct urccl_dev_lane l;

	if (KIND != KIND_ANY)
		j.kind = KIND;
	if (BY != BY_ANY)
		j.by = BY;
	if (is_idle(&j))
		return;
	l = lane_open(&j);
	first = off = lane_index(&j) * j.span;
	end = first + j.span;
	r.begun = gpu_ns();
	until = r.begun + j.limit_ns;
	for (i = 0; i < j.n;) {
		if ((BY == BY_EACH ? each_push(&j, &l, off) : message_push(&j, &l, off)) ==
		    URCCL_DEV_FULL) {
			if (is_late(&l, until))
				break;
			continue;
		}
		i += step;
		off += step * j.len;
		off = off == end ? first : off;
	}
	__threadfence_system();
	r.pushed = gpu_ns();
	r.res = i < j.n ? -ETIME : 0;
	lane_finish(&j, &l, until, &r);
	r.ended = gpu_ns();
	result_store(&l, &r, &out[lane_index(&j)]);
}

static __global__ void latency_kernel(struct job j, uint64_t *cycles, struct lane_result *out)
{
	struct urccl_dev_lane l = urccl_dev_open(j.ring, 0);
	struct lane_result r = {};
	uint64_t i, until, off = 0, start, index;

	r.begun = gpu_ns();
	r.pushed = (uint64_t)clock64();
	until = r.begun + j.limit_ns;
	for (i = 0; i < j.n && !r.res; i++) {
		start = (uint64_t)clock64();
		index = message_push(&j, &l, off);
		while ((r.res = urccl_dev_wait(&l, index, 1000000)) == -ETIME && gpu_ns() < until)
			;
		cycles[i] = (uint64_t)clock64() - start;
		off += j.len;
		off = off == j.span ? 0 : off;
	}
	r.pushed = (uint64_t)clock64() - r.pushed;
	r.ended = gpu_ns();
	result_store(&l, &r, out);
}

/* ---- Correctness ---- */

static __device__ __forceinline__ uint64_t pattern(uint64_t place, uint64_t round)
{
	return (place * 0x9e3779b97f4a7c15u) ^ (round * 0xd1342543de82ef95u + 1);
}

/* Words of the lane's span that differ from those of the round; fill: makes them so. */
static __device__ uint64_t span_words(const struct job *j, char *base, uint64_t round, int fill)
{
	volatile uint64_t *at = (volatile uint64_t *)(base + lane_index(j) * j->span);
	uint64_t step = j->by ? 32 : 1, i, wrong = 0;

	for (i = j->by ? threadIdx.x % 32 : 0; i < j->span / 8; i += step) {
		if (fill)
			at[i] = pattern(lane_index(j) * j->span + i, round);
		else
			wrong += at[i] != pattern(lane_index(j) * j->span + i, round);
	}
	return wrong;
}

/* An entry that must fail with this errno, and is told to be it. */
static __device__ void fail_expected(struct urccl_dev_lane *l, uint64_t index, int err,
				     struct lane_result *r)
{
	int res;

	do
		res = urccl_dev_wait(l, index, 1000000000);
	while (!res && l->ended <= index);
	if (res != -err || (l->failed >> 16) - 1 != index)
		r->failed += 1000000;
	while (l->ended < l->pushed && urccl_dev_wait(l, l->pushed - 1, 1000000000) != -ETIME)
		;
}

static __device__ void fail_on_purpose(const struct job *j, struct urccl_dev_lane *l,
				       struct lane_result *r)
{
	uint64_t start;

	fail_expected(l, urccl_dev_write(l, j->remote, j->local, 8, 1ull << 40, 0), ERANGE, r);
	fail_expected(l, __urccl_dev_entry(l, URCCL_OP_WATCH, 0, 0, 0, 0, 0, 0), EINVAL, r);
	/* The next fence of the lane tells of them. */
	fail_expected(l, urccl_dev_fetch_add(l, j->counters, 8 * lane_index(j), 0, URCCL_SQE_FENCE),
		      ECANCELED, r);
	start = gpu_ns();
	if (urccl_dev_wait(l, l->pushed, 1000000) != -ETIME || gpu_ns() - start > 100000000)
		r->failed += 1000000;
}

static __global__ void check_kernel(struct job j, char *back, struct lane_result *out)
{
	uint64_t i, round, off, until, part = j.span / BLOCKS;
	struct lane_result r = {};
	struct urccl_dev_lane l;

	if (is_idle(&j))
		return;
	l = lane_open(&j);
	off = lane_index(&j) * j.span;
	r.begun = gpu_ns();
	until = r.begun + j.limit_ns;
	for (round = 0; round < j.n && r.res != -ETIME; round++) {
		span_words(&j, j.local, round + l.pushed, 1);
		urccl_dev_fence(&l);
		i = (uint64_t)l.rank % BLOCKS * part;
		if (j.by == BY_EACH)
			urccl_dev_write_each(&l, j.remote, j.local + off + i, part, off + i, 0,
					     BLOCKS);
		for (i = 0; i < BLOCKS && j.by != BY_EACH; i++)
			urccl_dev_write(&l, j.remote, j.local + off + i * part, part,
					off + i * part, 0);
		urccl_dev_fetch_add(&l, j.counters, 8 * lane_index(&j), round % 2 ? 3 : -1,
				    URCCL_SQE_FENCE);
		urccl_dev_notify(&l, j.peer, (uint64_t)lane_index(&j) << 32 | round,
				 URCCL_SQE_FENCE);
		lane_finish(&j, &l, until, &r);
		urccl_dev_read(&l, j.remote, back + off, j.span, off, 0);
		lane_finish(&j, &l, until, &r);
		r.failed += span_words(&j, back, round + l.pushed - BLOCKS - 3, 0);
	}
	if (j.by)
		for (i = 16; i; i /= 2)
			r.failed +=
				__shfl_xor_sync(0xffffffffu, (unsigned long long)r.failed, (int)i);
	fail_on_purpose(&j, &l, &r);
	r.ended = gpu_ns();
	result_store(&l, &r, &out[lane_index(&j)]);
}

/* ---- The floor of a push ---- */

template <uint32_t BY>
static __global__ void raw_kernel(struct job j, struct lane_result *out)
{
	const uint32_t mask = j.ring.entries - 1, n = (uint32_t)j.n, rank = threadIdx.x % 32;
	const uint64_t lap = 1ull << 63;
	struct lane_result r = {};
	uint64_t *slots, *at;
	uint32_t i;

	j.by = BY;
	if (is_idle(&j))
		return;
	slots = (uint64_t *)&j.ring.slots[(uint64_t)lane_index(&j) * (j.ring.entries + 1)];
	r.begun = gpu_ns();
	for (i = 0; i < n; i += BY == BY_EACH ? 32 : 1) {
		at = slots + 8 * ((BY == BY_EACH ? i + rank : i) & mask);
		if (BY == BY_WARP) {
			if (rank < 4)
				store_16(at + 2 * rank, i, lap);
			continue;
		}
		store_16(at, i, lap);
		store_16(at + 2, i, lap);
		store_16(at + 4, i, lap);
		store_16(at + 6, i, lap);
	}
	__threadfence_system();
	r.pushed = r.ended = gpu_ns();
	if (!rank)
		out[lane_index(&j)] = r;
}

/* ---- Host ---- */

void *host_alloc(size_t len)
{
	void *p;

	CUDA(cudaHostAlloc(&p, len, cudaHostAllocPortable));
	memset(p, 0, len);
	return p;
}

void *gpu_alloc(size_t len)
{
	void *p;

	CUDA(cudaMalloc(&p, len));
	CUDA(cudaMemset(p, 0, len));
	CUDA(cudaDeviceSynchronize());
	return p;
}

typedef void lane_kernel(struct job j, struct lane_result *out);

void lanes_push(const struct job *j, uint32_t lanes, struct lane_result *out)
{
	lane_kernel *kernel = push_kernel<KIND_ANY, BY_ANY>;

	if (j->kind == KIND_NOP)
		kernel = j->by == BY_EACH  ? push_kernel<KIND_NOP, BY_EACH>
			 : j->by == BY_WARP ? push_kernel<KIND_NOP, BY_WARP>
					    : push_kernel<KIND_NOP, BY_THREAD>;
	if (j->kind == KIND_WRITE && j->by != BY_WARP)
		kernel = j->by ? push_kernel<KIND_WRITE, BY_EACH>
			       : push_kernel<KIND_WRITE, BY_THREAD>;
	launch(kernel, lanes / j->per_block, 32 * j->per_block, *j, out);
	CUDA(cudaDeviceSynchronize());
}

void lanes_check(const struct job *j, uint32_t lanes, char *back, struct lane_result *out)
{
	launch(check_kernel, lanes / j->per_block, 32 * j->per_block, *j, back, out);
	CUDA(cudaDeviceSynchronize());
}

void raw_push(const struct job *j, uint32_t lanes, struct lane_result *out)
{
	lane_kernel *kernel = j->by == BY_EACH	 ? raw_kernel<BY_EACH>
			      : j->by == BY_WARP ? raw_kernel<BY_WARP>
						 : raw_kernel<BY_THREAD>;

	launch(kernel, lanes / j->per_block, 32 * j->per_block, *j, out);
	CUDA(cudaDeviceSynchronize());
}

void lane_latency(const struct job *j, uint64_t *cycles, double *khz, struct lane_result *out)
{
	launch(latency_kernel, 1u, 1u, *j, cycles, out);
	CUDA(cudaDeviceSynchronize());
	*khz = (double)out->pushed * 1e6 / (double)(out->ended - out->begun);
}
