/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels at both ends of a flow: a warp a lane. */
#include "flow.h"

#include <liburccl/device.cuh>

#define WAIT_CYCLES 1000000

static __device__ __forceinline__ uint32_t lane_index(const struct flow *f)
{
	return blockIdx.x * f->j.per_block + threadIdx.x / 32;
}

static __device__ __forceinline__ int is_late(const struct urccl_dev_lane *l, uint64_t until)
{
	return (int)__urccl_dev_agree(l, gpu_ns() > until);
}

/* 0, or -ETIME. */
static __device__ __forceinline__ int
counter_wait(const struct flow *f, const struct urccl_dev_lane *l, uint64_t value, uint64_t until)
{
	while (urccl_dev_signal_wait(l, &f->arrived[lane_index(f)], value, WAIT_CYCLES))
		if (is_late(l, until))
			return -ETIME;
	return 0;
}

/* 0, or -ETIME; failures of entries are counted. */
static __device__ __forceinline__ int room_wait(struct urccl_dev_lane *l, uint32_t n,
						uint64_t until)
{
	while (!urccl_dev_has_room(l, n)) {
		if (is_late(l, until))
			return -ETIME;
	}
	return 0;
}

static __device__ __forceinline__ void lane_end(struct urccl_dev_lane *l, uint64_t until,
						struct lane_result *r, struct lane_result *out)
{
	int res;

	while (l->ended < l->pushed && !is_late(l, until)) {
		res = urccl_dev_wait(l, l->pushed - 1, WAIT_CYCLES);
		if (res && res != -ETIME) {
			r->failed++;
			r->res = r->res ? r->res : res;
		}
	}
	if (l->ended < l->pushed && !r->res)
		r->res = -ETIME;
	r->ended = gpu_ns();
	urccl_dev_close(l);
	if (!l->rank)
		*out = *r;
}

static __device__ __forceinline__ uint64_t word_of(uint64_t lane, uint64_t message, uint64_t i)
{
	return (message << 24 | lane << 16) + i;
}

static __device__ __forceinline__ void message_fill(const struct flow *f, char *slot,
						    uint64_t message)
{
	uint64_t i;

	for (i = threadIdx.x % 32; i < f->j.len / 8; i += 32)
		((uint64_t *)slot)[i] = word_of(lane_index(f), message, i);
}

/* The words that are wrong, of this thread. */
static __device__ __forceinline__ uint64_t message_check(const struct flow *f, const char *slot,
							 uint64_t message)
{
	uint64_t i, wrong = 0;

	for (i = threadIdx.x % 32; i < f->j.len / 8; i += 32)
		wrong += __ldcg((const unsigned long long *)slot + i) !=
			 word_of(lane_index(f), message, i);
	return wrong;
}

static __device__ __forceinline__ void message_push(const struct flow *f, struct urccl_dev_lane *l,
						    uint64_t off)
{
	urccl_dev_write(l, f->j.remote, f->j.local + off, f->j.len, off, 0);
	urccl_dev_fetch_add(l, f->j.counters, 8 * lane_index(f), 1, URCCL_SQE_FENCE);
}

static __global__ void send_kernel(struct flow f, struct lane_result *out)
{
	struct urccl_dev_lane l = urccl_dev_open_warp(f.j.ring, lane_index(&f));
	uint64_t window = f.j.span / f.j.len, base = lane_index(&f) * f.j.span, i, off, until;
	struct lane_result r = {};

	r.begun = gpu_ns();
	until = r.begun + f.j.limit_ns;
	for (i = 0; i < f.j.n && !r.res; i++) {
		off = base + i % window * f.j.len;
		if (i >= window)
			r.res = counter_wait(&f, &l, i - window + 1, until);
		if (!r.res)
			r.res = room_wait(&l, 2, until);
		if (r.res)
			break;
		if (f.checked) {
			message_fill(&f, f.j.local + off, i);
			urccl_dev_fence(&l);
		}
		message_push(&f, &l, off);
	}
	r.pushed = gpu_ns();
	if (!r.res)
		r.res = counter_wait(&f, &l, f.j.n, until);
	lane_end(&l, until, &r, &out[lane_index(&f)]);
}

/* Acknowledges half a window at a time. */
static __global__ void receive_kernel(struct flow f, struct lane_result *out)
{
	struct urccl_dev_lane l = urccl_dev_open_warp(f.j.ring, lane_index(&f));
	uint64_t window = f.j.span / f.j.len, base = lane_index(&f) * f.j.span, i, until, due = 0;
	struct lane_result r = {};

	r.begun = gpu_ns();
	until = r.begun + f.j.limit_ns;
	for (i = 0; i < f.j.n && !r.res; i++) {
		r.res = counter_wait(&f, &l, i + 1, until);
		if (f.checked && !r.res)
			r.failed += message_check(&f, f.memory + base + i % window * f.j.len, i);
		due++;
		if (r.res || (due < (window + 1) / 2 && i + 1 < f.j.n))
			continue;
		r.res = room_wait(&l, 1, until);
		__syncwarp();
		urccl_dev_fetch_add(&l, f.j.counters, 8 * lane_index(&f), (int64_t)due, 0);
		due = 0;
	}
	r.pushed = gpu_ns();
	for (i = 16; i; i /= 2)
		r.failed += __shfl_xor_sync(0xffffffffu, (unsigned long long)r.failed, (int)i);
	lane_end(&l, until, &r, &out[lane_index(&f)]);
}

static __global__ void ping_kernel(struct flow f, int first, uint64_t *cycles,
				   struct lane_result *out)
{
	struct urccl_dev_lane l = urccl_dev_open_warp(f.j.ring, 0);
	struct lane_result r = {};
	uint64_t i, start, until;

	r.begun = gpu_ns();
	until = r.begun + f.j.limit_ns;
	for (i = 0; i < f.j.n && !r.res; i++) {
		start = (uint64_t)clock64();
		if (!first)
			r.res = counter_wait(&f, &l, i + 1, until);
		if (!r.res)
			r.res = room_wait(&l, 2, until);
		if (!r.res)
			message_push(&f, &l, 0);
		if (first && !r.res)
			r.res = counter_wait(&f, &l, i + 1, until);
		if (first && !l.rank)
			cycles[i] = (uint64_t)clock64() - start;
	}
	r.pushed = gpu_ns();
	lane_end(&l, until, &r, out);
}

static __global__ void failure_kernel(struct flow f, uint32_t *told, struct lane_result *out)
{
	struct urccl_dev_lane l = urccl_dev_open_warp(f.j.ring, lane_index(&f));
	uint64_t base = lane_index(&f) * f.j.span, until;
	struct lane_result r = {};
	int res = -ETIME;

	r.begun = gpu_ns();
	until = r.begun + f.j.limit_ns;
	while (res == -ETIME && !is_late(&l, until)) {
		while (urccl_dev_has_room(&l, 2))
			message_push(&f, &l, base);
		res = urccl_dev_wait(&l, l.pushed - 1, 10000);
		res = res ? res : -ETIME;
	}
	if (!l.rank && res != -ETIME)
		__nv_atomic_store_n(&told[lane_index(&f)], 1u, __NV_ATOMIC_RELEASE,
				    __NV_THREAD_SCOPE_SYSTEM);
	r.res = res;
	r.pushed = gpu_ns();
	lane_end(&l, until, &r, &out[lane_index(&f)]);
}

/* ---- Host ---- */

void flow_send(const struct flow *f, uint32_t lanes, struct lane_result *out)
{
	launch(send_kernel, lanes / f->j.per_block, 32 * f->j.per_block, *f, out);
}

void flow_receive(const struct flow *f, uint32_t lanes, struct lane_result *out)
{
	launch(receive_kernel, lanes / f->j.per_block, 32 * f->j.per_block, *f, out);
}

void flow_ping(const struct flow *f, int first, uint64_t *cycles, struct lane_result *out)
{
	launch(ping_kernel, 1u, 32u, *f, first, cycles, out);
}

void flow_until_failure(const struct flow *f, uint32_t lanes, uint32_t *told,
			struct lane_result *out)
{
	launch(failure_kernel, lanes / f->j.per_block, 32 * f->j.per_block, *f, told, out);
}

void flow_wait(void)
{
	CUDA(cudaDeviceSynchronize());
}
