/* SPDX-License-Identifier: Apache-2.0 */
/* The least that a call between GPUs costs: launches of an empty kernel, and a kernel that sends a
 * flag to the next rank and waits for the flag of the one before it. */
#include "perf.h"

enum { THREADS = 512 };

/* Block 0 alone does it. Word 0 at "mine" counts the flags that have come, word 1 those sent. */
static const char ptx[] = ".version 8.0\n"
			  ".target sm_90\n"
			  ".address_size 64\n"
			  ".visible .entry empty() { ret; }\n"
			  ".visible .entry exchange(.param .u64 mine, .param .u64 next)\n"
			  "{\n"
			  "	.reg .pred %p;\n"
			  "	.reg .u32 %r<3>;\n"
			  "	.reg .u64 %a<2>;\n"
			  "	mov.u32 %r0, %ctaid.x;\n"
			  "	mov.u32 %r1, %tid.x;\n"
			  "	or.b32 %r0, %r0, %r1;\n"
			  "	setp.ne.u32 %p, %r0, 0;\n"
			  "	@%p ret;\n"
			  "	ld.param.u64 %a0, [mine];\n"
			  "	ld.param.u64 %a1, [next];\n"
			  "	ld.global.u32 %r1, [%a0+4];\n"
			  "	add.u32 %r1, %r1, 1;\n"
			  "	st.global.u32 [%a0+4], %r1;\n"
			  "	red.release.sys.global.add.u32 [%a1], 1;\n"
			  "again:\n"
			  "	ld.acquire.sys.global.u32 %r2, [%a0];\n"
			  "	setp.lt.u32 %p, %r2, %r1;\n"
			  "	@%p bra again;\n"
			  "	ret;\n"
			  "}\n";

static struct {
	void *module, *empty, *exchange, *words;
} ranks[URCCL_EP_MAX_RANKS];

static uint32_t blocks;

static void launch_empty(struct gpu_group *g, uint32_t r)
{
	gpu_launch(ranks[r].empty, blocks, THREADS, NULL, g->rank[r].stream);
}

static void launch_two(struct gpu_group *g, uint32_t r)
{
	launch_empty(g, r);
	launch_empty(g, r);
}

static void exchange(struct gpu_group *g, uint32_t r)
{
	void *params[] = {&ranks[r].words, &ranks[(r + 1) % g->attr.ranks].words};

	gpu_launch(ranks[r].exchange, blocks, THREADS, params, g->rank[r].stream);
}

void perf_raw(struct gpu_group *g, const struct perf *p, uint32_t sms)
{
	blocks = sms;
	for (uint32_t r = 0; r < g->attr.ranks; r++) {
		gpu_use(g, r);
		ranks[r].module = gpu_module_new(ptx);
		ranks[r].empty = gpu_kernel(ranks[r].module, "empty");
		ranks[r].exchange = gpu_kernel(ranks[r].module, "exchange");
		ranks[r].words = gpu_alloc(8);
		gpu_fill(ranks[r].words, 0, 8);
	}
	perf_time(g, p, "empty kernel (raw)", sms, NULL, launch_empty);
	perf_time(g, p, "two empty kernels (raw)", sms, NULL, launch_two);
	perf_time(g, p, "exchange of flags (raw)", sms, NULL, exchange);
	for (uint32_t r = 0; r < g->attr.ranks; r++) {
		gpu_use(g, r);
		gpu_module_free(ranks[r].module);
		gpu_free(ranks[r].words);
	}
}
