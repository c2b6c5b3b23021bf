/* SPDX-License-Identifier: Apache-2.0 */
/* A call that fails ends its job alone. An error that stays breaks the GPU: all its jobs end with
 * -EIO and the error's number, issued ones no sooner than 100 ms after the report; other GPUs go
 * on. */
#include "gpu_rig.h"

int case_gpu_fail(void);

#define JOBS 300u
#define LEN  4096u

static struct gpu_job jobs[JOBS];
static uint64_t ptr;
static uint8_t *host;

static void submit_all(struct gpu_dev *dev)
{
	uint32_t i;

	for (i = 0; i < JOBS; i++) {
		jobs[i] = rig_job(i % 2 ? GPU_IN : GPU_OUT, i % 2 ? ptr : rig_addr(host),
				  i % 2 ? rig_addr(host) + LEN : ptr + LEN, LEN);
		CHECK_EQ(gpu_submit(dev, &jobs[i]), 1);
	}
}

static uint32_t failed(struct gpu_rig *r, int code)
{
	uint32_t i, n = 0;

	for (i = 0; i < JOBS; i++) {
		if (!rig_wait(r, &jobs[i]))
			continue;
		CHECK_EQ(jobs[i].res, -EIO);
		CHECK_EQ(jobs[i].code, code);
		n++;
	}
	return n;
}

static void one_fails(struct gpu_rig *r, struct gpu_dev *dev)
{
	rig_words(r, "fail=1:1");
	submit_all(dev);
	CHECK_EQ(failed(r, 1), 1);
	CHECK_EQ(gpu_dev_code(dev), 0);
}

/* Operations begin late, so that jobs are issued when the first fails. */
static void all_fail(struct gpu_rig *r, struct gpu_dev *dev)
{
	uint64_t start;

	rig_words(r, "delay=2000,fail=1:700");
	start = clock_ns();
	submit_all(dev);
	CHECK_EQ(failed(r, 700), JOBS);
	CHECK_GE(clock_ns() - start, 100000000);
	CHECK_EQ(gpu_dev_code(dev), 700);
	rig_words(r, "delay=0");
	submit_all(dev);
	CHECK_EQ(failed(r, 700), JOBS);
	CHECK_EQ(gpu_sleep_ns(r->gpu, clock_ns()), NEVER_NS);
}

int case_gpu_fail(void)
{
	struct gpu_share share = {.how = GPU_SHARE_LEGACY, .fd = -1};
	struct gpu_import *imp;
	uint64_t other;
	struct gpu_dev *dev, *dev1;
	struct gpu_rig r;

	rig_open(&r, 0);
	if (r.ngpus < 2)
		SKIP("two GPUs are needed");
	dev = rig_dev(&r, 0);
	dev1 = rig_dev(&r, 1);
	ptr = rig_alloc(&r, 0, 2 * LEN);
	other = rig_alloc(&r, 1, LEN);
	host = rig_pinned(&r, 2 * LEN);
	one_fails(&r, dev);
	all_fail(&r, dev);
	imp = rig_import(dev, &share);
	CHECK_EQ(imp->res, -EIO);
	CHECK_EQ(imp->code, 700);
	gpu_unimport(dev, imp);
	rig_copy(&r, dev1, GPU_IN, other, rig_addr(host), LEN);
	CHECK_EQ(gpu_dev_code(dev1), 0);
	CHECK_EQ(gpu_close(r.gpu), 0);
	return 0;
}
