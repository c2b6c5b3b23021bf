/* SPDX-License-Identifier: Apache-2.0 */
/* Used by every kernel: memory operations with an order, bounded waits, bulk copies. */
#ifndef EP_DEVICE_CUH
#define EP_DEVICE_CUH

#include "args.h"

#define EP_POISON 0xffffffffu /* a word that no low-latency row has */

/* ---- ordered memory operations --------------------------------------------------------------- */

__device__ __forceinline__ uint32_t load_acquire(const uint32_t *p)
{
	uint32_t v;

	asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
	return v;
}

__device__ __forceinline__ uint64_t load_acquire(const uint64_t *p)
{
	uint64_t v;

	asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(v) : "l"(p) : "memory");
	return v;
}

__device__ __forceinline__ uint32_t load_relaxed(const uint32_t *p)
{
	uint32_t v;

	asm volatile("ld.relaxed.sys.global.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
	return v;
}

__device__ __forceinline__ uint64_t load_relaxed(const uint64_t *p)
{
	uint64_t v;

	asm volatile("ld.relaxed.sys.global.u64 %0, [%1];" : "=l"(v) : "l"(p) : "memory");
	return v;
}

__device__ __forceinline__ uint4 load_relaxed(const uint4 *p)
{
	uint4 v;

	asm volatile("ld.relaxed.sys.global.v4.u32 {%0, %1, %2, %3}, [%4];"
		     : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
		     : "l"(p)
		     : "memory");
	return v;
}

__device__ __forceinline__ void store_release(uint32_t *p, uint32_t v)
{
	asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(p), "r"(v) : "memory");
}

__device__ __forceinline__ void store_release(uint64_t *p, uint64_t v)
{
	asm volatile("st.release.sys.global.u64 [%0], %1;" ::"l"(p), "l"(v) : "memory");
}

__device__ __forceinline__ void add_release(uint32_t *p, uint32_t v)
{
	asm volatile("red.release.sys.global.add.u32 [%0], %1;" ::"l"(p), "r"(v) : "memory");
}

__device__ __forceinline__ void store_relaxed(uint32_t *p, uint32_t v)
{
	asm volatile("st.relaxed.sys.global.u32 [%0], %1;" ::"l"(p), "r"(v) : "memory");
}

__device__ __forceinline__ void store_relaxed(uint64_t *p, uint64_t v)
{
	asm volatile("st.relaxed.sys.global.u64 [%0], %1;" ::"l"(p), "l"(v) : "memory");
}

__device__ __forceinline__ void store_relaxed(uint4 *p, uint4 v)
{
	asm volatile("st.relaxed.sys.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(p), "r"(v.x),
		     "r"(v.y), "r"(v.z), "r"(v.w)
		     : "memory");
}

/* Orders ordinary accesses and bulk copies of the same memory. */
__device__ __forceinline__ void fence_proxy(void)
{
	asm volatile("fence.proxy.async;" ::: "memory");
}

/* ---- failure and bounded waits --------------------------------------------------------------- */

__device__ __forceinline__ uint64_t now_ns(void)
{
	uint64_t t;

	asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t));
	return t;
}

/* Has the epoch or count "have" reached "expected", modulo 2^32? */
__device__ __forceinline__ bool reached(uint32_t have, uint32_t expected)
{
	return (int32_t)(have - expected) >= 0;
}

/* The first failure of a group stays. */
__device__ inline void ep_fail(const struct ep_common *ep, enum ep_code code, uint32_t rank)
{
	uint32_t status = (1 + rank) << 8 | code;

	if (atomicCAS(&ep->control->status, 0, status) == 0)
		store_relaxed(&ep->host->status, status);
}

__device__ __forceinline__ bool failed(const struct ep_common *ep)
{
	return load_relaxed(&ep->control->status) != 0;
}

/* Leaves a rank out of later low-latency calls. */
__device__ inline void mark_dead(const struct ep_common *ep, uint32_t rank)
{
	atomicOr(&ep->control->dead, 1u << rank);
	store_relaxed(&ep->host->dead[rank], 1);
}

/* A bounded wait. Its loop calls expired() after each poll; the clock is read every 64 polls. */
struct wait {
	uint64_t end;
	uint32_t polls;

	__device__ explicit wait(const struct ep_common *ep)
	    : end(now_ns() + ep->timeout_ns), polls(0)
	{
	}
	__device__ bool expired()
	{
		return (++polls & 63) == 0 && now_ns() > end;
	}
};

/* Waits until *flag has reached epoch. False: it did not in time, or the group has failed. */
__device__ inline bool wait_epoch(const struct ep_common *ep, const uint32_t *flag, uint32_t epoch,
				  uint32_t rank)
{
	wait w(ep);

	while (!reached(load_acquire(flag), epoch)) {
		if (failed(ep))
			return false;
		if (w.expired()) {
			ep_fail(ep, EP_TIMEOUT, rank);
			return false;
		}
	}
	return true;
}

__device__ __forceinline__ struct ep_flags *flags_of(const struct ep_common *ep, uint32_t rank)
{
	return (struct ep_flags *)ep->window.base[rank];
}

/* The element of a u64 array at an offset of a rank's window. */
__device__ __forceinline__ uint64_t *words_of(const struct ep_common *ep, uint32_t rank,
					      uint64_t offset)
{
	return (uint64_t *)(ep->window.base[rank] + offset);
}

/* True in every thread of the last block that calls it; the writes of all blocks are then
 * visible to that block. Each block of a kernel calls it once. */
__device__ inline bool last_block(const struct ep_common *ep)
{
	__shared__ bool last;

	__syncthreads();
	if (threadIdx.x == 0) {
		__threadfence();
		last = atomicInc(&ep->control->ticket, gridDim.x - 1) == gridDim.x - 1;
		__threadfence();
	}
	__syncthreads();
	return last;
}

/* Tells all ranks that this one has started the kernel: from then on they may read and write its
 * window. Every block calls it, as early as it can. */
__device__ inline void announce_start(const struct ep_common *ep, uint32_t epoch)
{
	if (blockIdx.x == 0 && threadIdx.x < ep->ranks)
		store_release(&flags_of(ep, threadIdx.x)->arrived[ep->rank], epoch);
}

/* Waits until each rank has started this kernel. Every block calls it. */
__device__ inline bool await_start(const struct ep_common *ep, uint32_t epoch)
{
	bool ok = true;

	if (threadIdx.x < ep->ranks)
		ok = wait_epoch(ep, &flags_of(ep, ep->rank)->arrived[threadIdx.x], epoch,
				threadIdx.x);
	return __syncthreads_and(ok);
}

/* Every block calls it at its end; ok: it has done its part. Block 0 waits until no rank writes to
 * or reads from another one's window in this epoch, and begins the next. Each block adds a share to
 * a count at each rank, and block 0 so many that a kernel adds EP_SHARES, however many blocks it
 * has: so blocks need not wait for one another first. */
__device__ inline void end_barrier(const struct ep_common *ep, bool ok, uint32_t epoch)
{
	const uint32_t r = threadIdx.x;
	const uint32_t ends = blockIdx.x == 0 ? load_relaxed(&ep->control->ends) + 1 : 0;

	__syncthreads();
	if (ok && r < ep->ranks)
		add_release(&flags_of(ep, r)->done[ep->rank],
			    blockIdx.x == 0 ? EP_SHARES + 1 - gridDim.x : 1);
	if (blockIdx.x != 0)
		return;
	if (ok && r < ep->ranks)
		wait_epoch(ep, &flags_of(ep, ep->rank)->done[r], ends * EP_SHARES, r);
	__syncthreads();
	if (threadIdx.x == 0) {
		ep->control->claimed = 0;
		ep->control->ends = ends;
		store_relaxed(&ep->control->epoch, epoch);
	}
}

/* ---- launches that overlap ------------------------------------------------------------------- */

/* The next kernel may be launched now; it waits in await_previous(). */
__device__ __forceinline__ void launch_next(void)
{
	asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}

/* Waits until the kernel before this one has ended, where it has not by itself. */
__device__ __forceinline__ void await_previous(void)
{
	asm volatile("griddepcontrol.wait;" ::: "memory");
}

/* ---- bulk copies ----------------------------------------------------------------------------- */

__device__ __forceinline__ uint32_t shared_address(const void *p)
{
	return (uint32_t)__cvta_generic_to_shared(p);
}

__device__ __forceinline__ void barrier_init(uint64_t *barrier)
{
	asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(barrier))
		     : "memory");
}

/* Makes initialised barriers visible to bulk copies. */
__device__ __forceinline__ void barrier_init_fence(void)
{
	asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
	fence_proxy();
}

/* Arrives, and expects so many bytes of bulk copies before the phase ends. */
__device__ __forceinline__ void barrier_expect(uint64_t *barrier, uint32_t bytes)
{
	asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(
			     shared_address(barrier)),
		     "r"(bytes)
		     : "memory");
}

__device__ __forceinline__ void barrier_wait(uint64_t *barrier, uint32_t parity)
{
	uint32_t done;

	do {
		asm volatile("{\n\t.reg .pred p;\n\t"
			     "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n\t"
			     "selp.u32 %0, 1, 0, p;\n\t}"
			     : "=r"(done)
			     : "r"(shared_address(barrier)), "r"(parity)
			     : "memory");
	} while (!done);
}

/* Addresses and sizes of bulk copies are multiples of 16. */
__device__ __forceinline__ void bulk_load(void *shared, const void *global, uint32_t bytes,
					  uint64_t *barrier)
{
	asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
		     "[%0], [%1], %2, [%3];" ::"r"(shared_address(shared)),
		     "l"(global), "r"(bytes), "r"(shared_address(barrier))
		     : "memory");
}

__device__ __forceinline__ void bulk_store(void *global, const void *shared, uint32_t bytes)
{
	asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(global),
		     "r"(shared_address(shared)), "r"(bytes)
		     : "memory");
}

__device__ __forceinline__ void bulk_commit(void)
{
	asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

/* Waits until at most LEFT of the thread's latest groups still read shared memory. */
template <int LEFT> __device__ __forceinline__ void bulk_wait_read(void)
{
	asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(LEFT) : "memory");
}

/* Waits until the thread's bulk stores are in place. */
__device__ __forceinline__ void bulk_wait(void)
{
	asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}

/* ---- numbers --------------------------------------------------------------------------------- */

__device__ __forceinline__ int64_t load_idx(const void *topk_idx, uint32_t idx32, size_t i)
{
	return idx32 ? ((const int32_t *)topk_idx)[i] : ((const int64_t *)topk_idx)[i];
}

__device__ __forceinline__ float bf16_low(uint32_t two)
{
	return __uint_as_float(two << 16);
}

__device__ __forceinline__ float bf16_high(uint32_t two)
{
	return __uint_as_float(two & 0xffff0000u);
}

/* Rounds to nearest even. */
__device__ __forceinline__ uint32_t bf16_pair(float low, float high)
{
	uint32_t two;

	asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(two) : "f"(high), "f"(low));
	return two;
}

/* Adds the eight bf16 of v. */
__device__ __forceinline__ void add_eight(float (&sum)[8], uint4 v)
{
	const uint32_t word[4] = {v.x, v.y, v.z, v.w};

#pragma unroll
	for (int i = 0; i < 4; i++) {
		sum[2 * i] += bf16_low(word[i]);
		sum[2 * i + 1] += bf16_high(word[i]);
	}
}

__device__ __forceinline__ uint4 round8(const float (&sum)[8])
{
	return make_uint4(bf16_pair(sum[0], sum[1]), bf16_pair(sum[2], sum[3]),
			  bf16_pair(sum[4], sum[5]), bf16_pair(sum[6], sum[7]));
}

#endif
