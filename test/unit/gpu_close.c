/* SPDX-License-Identifier: Apache-2.0 */
/* A close cancels queued jobs and waits for issued ones; it leaves a copy thread that CUDA blocks,
 * which frees everything itself later. */
#include "gpu_rig.h"

int case_gpu_close(void);

#define JOBS 40u
#define LEN  (1u << 20)

static char told[256];

static void callback(void *arg, int level, const char *text)
{
	(void)arg;
	(void)level;
	snprintf(told, sizeof(told), "%s", text);
}

static struct log log_told = {.callback = callback, .level = URCCL_LOG_WARN};

static struct gpu_dev *open_again(struct gpu_rig *r)
{
	struct gpu_config config = {.so = r->so, .log = &log_told};

	CHECK_EQ(gpu_open(&config, &r->gpu), 0);
	return rig_dev(r, 0);
}

static void submit_all(struct gpu_dev *dev, uint64_t dst, uint64_t src)
{
	static struct gpu_job jobs[JOBS];
	uint32_t i;

	for (i = 0; i < JOBS; i++) {
		jobs[i] = rig_job(GPU_OUT, dst, src, LEN);
		CHECK_EQ(gpu_submit(dev, &jobs[i]), 1);
	}
}

int case_gpu_close(void)
{
	unsigned long before;
	struct gpu_dev *dev;
	struct gpu_rig r;
	uint64_t ptr;
	uint8_t *host;

	rig_load(&r);
	rig_start(&r, 1);
	dev = open_again(&r);
	ptr = rig_alloc(&r, 0, LEN);
	host = rig_pinned(&r, LEN);
	rig_words(&r, "delay=2000");
	submit_all(dev, rig_addr(host), ptr);
	CHECK_EQ(gpu_close(r.gpu), 0);
	/* The stand-in aborts if an operation still uses it. */
	CHECK_EQ(r.cuMemFreeHost(host), 0);
	rig_words(&r, "delay=0");
	host = rig_pinned(&r, LEN);
	dev = open_again(&r);
	rig_words(&r, "hold=memcpy");
	before = r.calls("urccl-gpu", "cuMemcpyAsync");
	submit_all(dev, rig_addr(host), ptr);
	while (r.calls("urccl-gpu", "cuMemcpyAsync") == before)
		usleep(100);
	CHECK_EQ(gpu_close(r.gpu), -EBUSY);
	CHECK_SAYS(told, "copy thread");
	rig_words(&r, "hold=none");
	while (r.calls("urccl-gpu", "cuDevicePrimaryCtxRelease") < 2)
		usleep(1000);
	CHECK_EQ(r.cuMemFreeHost(host), 0);
	test_end(0); /* without a look for leaks: the GPU was left */
}
