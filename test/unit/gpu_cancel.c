/* SPDX-License-Identifier: Apache-2.0 */
/* A program that blocks CUDA delays no submitter: jobs that were not issued are taken back at once,
 * their structs and memory can be used again, and an issued job can only be waited for. */
#include "gpu_rig.h"

int case_gpu_cancel(void);

#define JOBS 100u
#define LEN  4096u

static struct gpu_job jobs[JOBS];

static void submit_all(struct gpu_dev *dev, uint64_t ptr, const uint8_t *host, uint32_t from)
{
	uint32_t i;

	for (i = from; i < JOBS; i++) {
		jobs[i] = rig_job(GPU_IN, ptr + (uint64_t)i * LEN, rig_addr(host) + i * LEN, LEN);
		CHECK_EQ(gpu_submit(dev, &jobs[i]), 1);
	}
}

/* The copy thread is in its first copy, or will be. */
static void wait_issued(struct gpu_rig *r)
{
	while (!r->calls("urccl-gpu", "cuMemcpyAsync"))
		usleep(100);
}

int case_gpu_cancel(void)
{
	uint8_t *host, *back;
	struct gpu_dev *dev;
	struct gpu_rig r;
	uint64_t ptr;
	uint32_t i;

	rig_open(&r, 0);
	dev = rig_dev(&r, 0);
	ptr = rig_alloc(&r, 0, JOBS * LEN);
	host = rig_pinned(&r, JOBS * LEN);
	back = rig_pinned(&r, JOBS * LEN);
	memset(host, 1, JOBS * LEN);
	rig_words(&r, "hold=memcpy");
	submit_all(dev, ptr, host, 0);
	wait_issued(&r);
	CHECK_EQ(gpu_cancel(&jobs[0]), 0);
	for (i = 1; i < JOBS; i++) {
		CHECK_EQ(gpu_job_done(&jobs[i]), 0);
		CHECK_EQ(gpu_cancel(&jobs[i]), 1);
		CHECK_EQ(jobs[i].res, -ECANCELED);
	}
	memset(host, 2, JOBS * LEN);
	submit_all(dev, ptr, host, 1);
	CHECK_NE(gpu_sleep_ns(r.gpu, clock_ns()), NEVER_NS);
	for (i = 1; i < JOBS; i += 2)
		CHECK_EQ(gpu_cancel(&jobs[i]), 1);
	rig_words(&r, "hold=none");
	for (i = 0; i < JOBS; i += 2)
		CHECK_EQ(rig_wait(&r, &jobs[i]), 0);
	CHECK_EQ(gpu_sleep_ns(r.gpu, clock_ns()), NEVER_NS);
	CHECK_EQ(r.cuMemcpyDtoH_v2(back, ptr, JOBS * LEN), 0);
	for (i = 0; i < JOBS; i++)
		CHECK_EQ(back[i * LEN], i % 2 ? 0 : 2);
	CHECK_EQ(r.calls("urccl-gpu", "cuMemcpyAsync"), JOBS / 2);
	CHECK_EQ(gpu_close(r.gpu), 0);
	return 0;
}
