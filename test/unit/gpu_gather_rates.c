/* SPDX-License-Identifier: Apache-2.0 */
/* Of kernel and batch call the faster one is used, as both are now, and the other one is tried for
 * a small part of the time. */
#include "gpu_rig.h"

int case_gpu_gather_rates(void);

#define LEN    (1u << 20)
#define PIECES 16u
#define ROUND  320u
#define MOST   (ROUND - ROUND / 16)

static uint64_t from, to;

static enum gpu_method one(struct gpu_rig *r, struct gpu_dev *dev, int foreign)
{
	struct gpu_pieces *t = gpu_pieces_get(dev);
	struct gpu_job job = rig_gather(t);
	uint32_t i;

	for (i = 0; i < PIECES; i++)
		gpu_pieces_add(t, from + i * LEN / PIECES, to + i * LEN / PIECES, LEN / PIECES);
	job.foreign = (uint8_t)foreign;
	CHECK_EQ(gpu_submit(dev, &job), 1);
	CHECK_EQ(rig_wait(r, &job), 0);
	return job.method;
}

/* Returns once most jobs of a round take that method. A busy machine holds up some jobs, which
 * makes their method the slower one for a while. */
static void settles(struct gpu_rig *r, struct gpu_dev *dev, enum gpu_method method)
{
	uint32_t i, n, rounds;

	for (rounds = n = 0; n < MOST; rounds++) {
		CHECK_LE(rounds, 100);
		for (i = n = 0; i < ROUND; i++)
			n += one(r, dev, 0) == method;
	}
}

int case_gpu_gather_rates(void)
{
	struct gpu_dev *dev;
	struct gpu_rig r;

	rig_load(&r);
	rig_start(&r, 1);
	from = rig_alloc(&r, 0, LEN);
	to = rig_alloc(&r, 0, LEN);
	rig_gpu_sms(&r, 0, -1);
	dev = rig_dev(&r, 0);
	rig_ready(&r, dev);
	rig_words(&r, "delay=20000");
	settles(&r, dev, GPU_METHOD_KERNEL);
	rig_words(&r, "delay=0,kernel=20000");
	settles(&r, dev, GPU_METHOD_BATCH);
	rig_words(&r, "delay=20000,kernel=0");
	settles(&r, dev, GPU_METHOD_KERNEL);
	CHECK_EQ(one(&r, dev, 1), GPU_METHOD_BATCH);
	CHECK_EQ(gpu_close(r.gpu), 0);
	return 0;
}
