/* SPDX-License-Identifier: Apache-2.0 */
/* Words of a GPU are read and written, many by one job, and events are asked for, without a stream
 * of the program. A call that fails is told of its own word alone; jobs that were not issued are
 * taken back. */
#include "gpu_rig.h"

int case_gpu_words(void);

#define N GPU_LOOKS

static struct gpu_rig r;
static struct gpu_dev *dev;
static uint64_t memory;

static struct gpu_job looking(enum gpu_kind kind, uint32_t n)
{
	return (struct gpu_job){.kind = (uint8_t)kind, .lane = GPU_CONTROL, .len = n};
}

static void run(struct gpu_job job)
{
	CHECK_EQ(gpu_submit(dev, &job), 1);
	CHECK_EQ(rig_wait(&r, &job), 0);
}

static void write_words(void)
{
	struct gpu_job job = {.kind = GPU_WRITE_WORD, .lane = GPU_CONTROL, .len = 8};
	uint32_t i;

	for (i = 0; i < N; i++) {
		job.src = 1ull << 40 | i;
		job.dst = memory + 16 * i;
		run(job);
	}
}

static void read_words(uint32_t bad)
{
	struct gpu_table *t = gpu_table(dev, GPU_READ_WORDS);
	uint32_t i;

	for (i = 0; i < N; i++) {
		t->at[i] = memory + 16 * i;
		t->value[i] = 0;
	}
	run(looking(GPU_READ_WORDS, N));
	for (i = 0; i < N; i++) {
		CHECK_EQ(t->res[i], i == bad ? -EINVAL : 0);
		CHECK_EQ(t->code[i], i == bad ? 1 : 0);
		CHECK_EQ(t->value[i], i == bad ? 0 : 1ull << 40 | i);
	}
}

static void query(uint32_t n)
{
	struct gpu_table *t = gpu_table(dev, GPU_QUERY_EVENTS);
	void *events[3];
	uint32_t i;

	for (i = 0; i < n; i++) {
		CHECK_EQ(r.cuCtxSetCurrent(r.ctx[i && r.ngpus > 1]), 0);
		CHECK_EQ(r.cuEventCreate(&events[i], 0), 0);
		CHECK_EQ(r.cuEventRecord(events[i], NULL), 0);
		t->at[i] = rig_addr(events[i]);
		t->value[i] = 0;
	}
	do
		run(looking(GPU_QUERY_EVENTS, n));
	while (!t->value[0] || !t->value[1] || !t->value[2]);
	for (i = 0; i < n; i++)
		CHECK_EQ(t->res[i], 0);
	CHECK_EQ(r.cuCtxSetCurrent(r.ctx[0]), 0);
}

/* A call for the first holds up the second. */
static void taken_back(void)
{
	struct gpu_job first = looking(GPU_QUERY_EVENTS, 3), second = looking(GPU_READ_WORDS, N);
	unsigned long before = r.calls("urccl-gpu", "cuEventQuery");

	rig_words(&r, "hold=stream");
	CHECK_EQ(gpu_submit(dev, &first), 1);
	while (r.calls("urccl-gpu", "cuEventQuery") == before)
		usleep(100);
	CHECK_EQ(gpu_submit(dev, &second), 1);
	CHECK_EQ(gpu_cancel(&first), 0);
	CHECK_EQ(gpu_cancel(&second), 1);
	CHECK_EQ(second.res, -ECANCELED);
	rig_words(&r, "hold=none");
	CHECK_EQ(rig_wait(&r, &first), 0);
}

int case_gpu_words(void)
{
	rig_open(&r, 0);
	dev = rig_dev(&r, 0);
	CHECK(gpu_dev_any(r.gpu) == dev);
	memory = rig_alloc(&r, 0, 16 * N);
	write_words();
	read_words(N);
	query(3);
	rig_words(&r, "fail=3:1");
	read_words(2);
	taken_back();
	CHECK_EQ(gpu_sleep_ns(r.gpu, clock_ns()), NEVER_NS);
	CHECK_EQ(gpu_close(r.gpu), 0);
	return 0;
}
