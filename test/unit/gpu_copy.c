/* SPDX-License-Identifier: Apache-2.0 */
/* Copies between all kinds of memory, in every lane, more of them than a lane has slots. The thread
 * that submits makes no call of CUDA. */
#include "gpu_rig.h"

int case_gpu_copy(void);

#define LEN  (4u << 20)
#define SOME 4000u
#define EACH 1000u

static unsigned long calls(struct gpu_rig *r)
{
	return r->calls_here ? r->calls_here() : 0;
}

static void fill(uint8_t *p, size_t len, uint32_t seed)
{
	size_t i;

	for (i = 0; i < len; i++)
		p[i] = (uint8_t)(seed = seed * 1664525u + 1013904223u, seed >> 24);
}

/* Host to GPU, there to another place, back. */
static void round_trip(struct gpu_rig *r, uint32_t gpu, uint64_t len)
{
	struct gpu_dev *dev = rig_dev(r, gpu);
	uint64_t a = rig_alloc(r, gpu, GPU_COPY_MAX), b = rig_alloc(r, gpu, GPU_COPY_MAX);
	uint8_t *from = rig_pinned(r, GPU_COPY_MAX), *to = rig_pinned(r, GPU_COPY_MAX);
	unsigned long before;

	fill(from, len, 7);
	memset(to, 0, len);
	before = calls(r);
	rig_copy(r, dev, GPU_IN, a, rig_addr(from), len);
	rig_copy(r, dev, GPU_PEER, b, a, len);
	rig_copy(r, dev, GPU_OUT, rig_addr(to), b, len);
	CHECK_EQ(calls(r), before);
	CHECK(!memcmp(from, to, len));
}

/* As many as fit, then more as soon as some have ended. */
static void many(struct gpu_rig *r)
{
	static struct gpu_job jobs[SOME];
	struct gpu_dev *dev = rig_dev(r, 0);
	uint64_t ptr = rig_alloc(r, 0, LEN);
	uint8_t *from = rig_pinned(r, LEN), *to = rig_pinned(r, LEN);
	uint32_t first = 0, last = 0, full = 0;

	fill(from, LEN, 9);
	rig_copy(r, dev, GPU_IN, ptr, rig_addr(from), LEN);
	while (first < SOME) {
		for (; last < SOME; last++) {
			jobs[last] = rig_job(GPU_OUT, rig_addr(to) + (uint64_t)last * EACH,
					     ptr + (uint64_t)last * EACH, EACH);
			if (!gpu_submit(dev, &jobs[last]))
				break;
		}
		full += last - first == GPU_SLOTS;
		CHECK_LE(last - first, GPU_SLOTS);
		CHECK_EQ(rig_wait(r, &jobs[first]), 0);
		first++;
	}
	CHECK(full);
	CHECK(!memcmp(from, to, (size_t)SOME * EACH));
	CHECK_EQ(gpu_sleep_ns(r->gpu, clock_ns()), NEVER_NS);
}

/* What one job wrote the next one of its lane reads. */
static void in_order(struct gpu_rig *r)
{
	struct gpu_dev *dev = rig_dev(r, 0);
	uint64_t ptr = rig_alloc(r, 0, LEN);
	uint8_t *from = rig_pinned(r, LEN), *to = rig_pinned(r, LEN);
	struct gpu_job in, out;
	uint32_t i;

	for (i = 1; i < 50; i++) {
		memset(from, (int)i, LEN / 16);
		in = rig_job(GPU_PEER, ptr, rig_addr(from), LEN / 16);
		out = rig_job(GPU_PEER, rig_addr(to), ptr, LEN / 16);
		CHECK(gpu_submit(dev, &in) && gpu_submit(dev, &out));
		CHECK_EQ(rig_wait(r, &out), 0);
		CHECK_EQ(gpu_job_done(&in), 1);
		CHECK(to[0] == i && to[LEN / 16 - 1] == i);
	}
}

int case_gpu_copy(void)
{
	static const uint64_t lens[] = {1, 13, 4096, 1000003, GPU_COPY_MAX};
	struct gpu_rig r;
	uint32_t i;

	rig_open(&r, 0);
	for (i = 0; i < ARRAY_SIZE(lens); i++)
		round_trip(&r, i % (uint32_t)r.ngpus, lens[i]);
	in_order(&r);
	many(&r);
	CHECK_EQ(gpu_close(r.gpu), 0);
	return 0;
}
