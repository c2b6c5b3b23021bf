/* SPDX-License-Identifier: Apache-2.0 */
/* By hand there is no copy thread: a step does all jobs and leaves the thread's context as it was.
 * One that cannot end delays the first step alone. */
#include "gpu_rig.h"
#include "waited.h"

int case_gpu_step(void);

#define LEN (1u << 20)

static struct gpu_job job[2];

static void submit(struct gpu_dev *dev, uint64_t dst, uint64_t src)
{
	job[0] = rig_job(GPU_IN, dst, src, LEN);
	job[1] = rig_job(GPU_OUT, src, dst, LEN);
	CHECK(gpu_submit(dev, &job[0]) && gpu_submit(dev, &job[1]));
}

int case_gpu_step(void)
{
	struct gpu_dev *dev;
	struct gpu_rig r;
	uint64_t ptr, start;
	void *then, *now;
	uint8_t *host;
	int i;

	rig_open(&r, 1);
	dev = rig_dev(&r, 0);
	ptr = rig_alloc(&r, 0, LEN);
	host = rig_pinned(&r, LEN);
	CHECK_EQ(r.cuCtxSetCurrent(NULL), 0);
	CHECK_EQ(gpu_step(r.gpu), 0);
	submit(dev, ptr, rig_addr(host));
	CHECK_EQ(gpu_cancel(&job[1]), 1);
	CHECK_EQ(gpu_job_done(&job[0]), 0);
	CHECK_EQ(gpu_step(r.gpu), 1);
	CHECK_EQ(gpu_job_done(&job[0]), 1);
	CHECK_EQ(job[0].res, 0);
	CHECK_EQ(gpu_step(r.gpu), 0);
	CHECK_EQ(r.cuCtxGetCurrent(&now), 0);
	CHECK(!now);
	CHECK_EQ(r.cuCtxSetCurrent(r.ctx[0]), 0);
	CHECK_EQ(r.cuCtxGetCurrent(&then), 0);
	CHECK_EQ(gpu_close(r.gpu), 0);
	CHECK_EQ(r.cuCtxGetCurrent(&now), 0);
	CHECK(now == then);
	rig_gpu(&r, 1);
	dev = rig_dev(&r, 0);
	rig_words(&r, "hang=7"); /* the streams of the first context had 1 to 6 */
	submit(dev, ptr, rig_addr(host));
	CHECK_EQ(gpu_step(r.gpu), 1);
	start = clock_ns();
	for (i = 0; i < 100; i++)
		CHECK_EQ(gpu_step(r.gpu), 1);
	CHECK(!is_late(start + 500000000));
	CHECK_EQ(gpu_job_done(&job[0]), 1);
	CHECK_EQ(gpu_job_done(&job[1]), 0);
	rig_words(&r, "hang=0");
	CHECK_EQ(gpu_close(r.gpu), 0);
	return 0;
}
