/* SPDX-License-Identifier: Apache-2.0 */
/* CUDA's runtime, as the benches of lanes use it. CUDA's errors end the program. */
#ifndef BENCH_GPU_LAUNCH_H
#define BENCH_GPU_LAUNCH_H

#include "gather.h"

template <typename... Args>
static void launch(void (*kernel)(Args...), uint32_t blocks, uint32_t threads, Args... args)
{
	kernel<<<blocks, threads>>>(args...);
	CUDA(cudaGetLastError());
}

/* Nanoseconds, the same clock on all multiprocessors. */
static __device__ __forceinline__ uint64_t gpu_ns(void)
{
	uint64_t ns;

	asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
	return ns;
}

static __device__ __forceinline__ void store_16(uint64_t *at, uint64_t a, uint64_t b)
{
	asm volatile("{\n\t.reg .b128 both;\n\tmov.b128 both, {%1, %2};\n\t"
		     "st.relaxed.sys.b128 [%0], both;\n\t}"
		     :
		     : "l"(at), "l"(a), "l"(b)
		     : "memory");
}

#endif
