/* SPDX-License-Identifier: Apache-2.0 */
/* A piece that fails ends its job, once its other pieces have ended; an error that stays ends all
 * jobs. A job is taken back whole or not at all. */
#include "gpu_rig.h"

int case_gpu_gather_fail(void);

#define EACH 64u
#define LEN  (GPU_PIECES * EACH)

static uint64_t from, to;

static struct gpu_job submit(struct gpu_dev *dev)
{
	struct gpu_pieces *t = gpu_pieces_get(dev);
	struct gpu_job job = rig_gather(t);
	uint32_t i;

	CHECK(t);
	for (i = 0; i < GPU_PIECES; i++)
		gpu_pieces_add(t, from + i * EACH, to + i * EACH, EACH);
	CHECK_EQ(gpu_submit(dev, &job), 1);
	return job;
}

static void set(struct gpu_rig *r, uint64_t addr, int byte)
{
	static uint8_t bytes[LEN];

	memset(bytes, byte, LEN);
	rig_put(r, addr, bytes, LEN);
}

/* How many pieces arrived. */
static uint32_t arrived(struct gpu_rig *r, int byte)
{
	static uint8_t bytes[LEN];
	uint32_t i, n = 0;

	CHECK_EQ(r->cuMemcpyDtoH_v2(bytes, to, LEN), 0);
	for (i = 0; i < GPU_PIECES; i++)
		n += bytes[i * EACH] == byte;
	return n;
}

/* An operation at one place after another: a piece, or the word, which is tried again. A job behind
 * it is well. */
static void pieces(struct gpu_rig *r, struct gpu_dev *dev)
{
	struct gpu_job bad, good;
	uint32_t i, failed = 0;
	char words[32];

	for (i = 0; i < 2 * 64u; i++) {
		set(r, to, 0);
		snprintf(words, sizeof(words), "fail=%u:1", 1 + i * 8);
		rig_words(r, words);
		bad = submit(dev);
		failed += rig_wait(r, &bad) != 0;
		CHECK_EQ(bad.code, bad.res ? 1 : 0);
		CHECK(bad.res ? arrived(r, 7) <= i * 8 : arrived(r, 7) == GPU_PIECES);
		good = submit(dev);
		CHECK_EQ(rig_wait(r, &good), 0);
		CHECK_EQ(arrived(r, 7), GPU_PIECES);
	}
	CHECK_GE(failed, 64u / 2);
	CHECK_EQ(gpu_dev_code(dev), 0);
}

/* CUDA does not return from the first copy of the first job. */
static void cancel(struct gpu_rig *r, struct gpu_dev *dev)
{
	unsigned long before = r->calls("urccl-gpu", "cuMemcpyAsync");
	struct gpu_job first, second;

	set(r, to, 0);
	rig_words(r, "hold=memcpy");
	first = submit(dev);
	while (r->calls("urccl-gpu", "cuMemcpyAsync") == before)
		usleep(100);
	second = submit(dev);
	CHECK_EQ(gpu_cancel(&first), 0);
	CHECK_EQ(gpu_cancel(&second), 1);
	CHECK_EQ(second.res, -ECANCELED);
	CHECK(!second.pieces);
	rig_words(r, "hold=none");
	CHECK_EQ(rig_wait(r, &first), 0);
	CHECK_EQ(arrived(r, 7), GPU_PIECES);
}

static void broken(struct gpu_rig *r, struct gpu_dev *dev)
{
	struct gpu_job jobs[8];
	uint32_t i, failed = 0;

	rig_words(r, "delay=100,fail=300:700");
	for (i = 0; i < ARRAY_SIZE(jobs); i++)
		jobs[i] = submit(dev);
	for (i = 0; i < ARRAY_SIZE(jobs); i++) {
		if (!rig_wait(r, &jobs[i]))
			continue;
		CHECK_EQ(jobs[i].res, -EIO);
		CHECK_EQ(jobs[i].code, 700);
		failed++;
	}
	CHECK_EQ(failed, ARRAY_SIZE(jobs));
	CHECK_EQ(gpu_dev_code(dev), 700);
	CHECK_EQ(gpu_sleep_ns(r->gpu, clock_ns()), NEVER_NS);
}

int case_gpu_gather_fail(void)
{
	struct gpu_dev *dev;
	struct gpu_rig r;

	rig_load(&r);
	rig_words(&r, "driver=12070");
	rig_start(&r, 1);
	from = rig_alloc(&r, 0, LEN);
	to = rig_alloc(&r, 0, LEN);
	set(&r, from, 7);
	rig_gpu_sms(&r, 0, 0);
	dev = rig_dev(&r, 0);
	pieces(&r, dev);
	cancel(&r, dev);
	broken(&r, dev);
	CHECK_EQ(gpu_close(r.gpu), 0);
	return 0;
}
