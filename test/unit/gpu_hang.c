/* SPDX-License-Identifier: Apache-2.0 */
/* A lane that hangs holds up no other lane. Its jobs neither end nor can be cancelled. The close
 * leaves its GPU after a second and says that memory may still be used. */
#include "gpu_rig.h"

int case_gpu_hang(void);

#define LEN 4096u

static char told[256];

static void callback(void *arg, int level, const char *text)
{
	(void)arg;
	(void)level;
	snprintf(told, sizeof(told), "%s", text);
}

int case_gpu_hang(void)
{
	struct log log = {.callback = callback, .level = URCCL_LOG_WARN};
	struct gpu_config config = {.so = rig_so(), .log = &log};
	struct gpu_job stuck;
	struct gpu_dev *dev;
	struct gpu_rig r;
	uint64_t ptr, start;
	uint8_t *host;
	int i;

	rig_load(&r);
	CHECK_EQ(gpu_open(&config, &r.gpu), 0);
	rig_start(&r, 1);
	rig_words(&r, "hang=1");
	dev = rig_dev(&r, 0);
	ptr = rig_alloc(&r, 0, LEN);
	host = rig_pinned(&r, LEN);
	stuck = rig_job(GPU_OUT, rig_addr(host), ptr, LEN);
	CHECK_EQ(gpu_submit(dev, &stuck), 1);
	while (!r.calls("urccl-gpu", "cuStreamWriteValue64"))
		usleep(100);
	for (i = 0; i < 100; i++) {
		rig_copy(&r, dev, GPU_IN, ptr, rig_addr(host), LEN);
		CHECK_EQ(gpu_job_done(&stuck), 0);
		CHECK_EQ(gpu_cancel(&stuck), 0);
	}
	start = clock_ns();
	CHECK_EQ(gpu_close(r.gpu), -EBUSY);
	CHECK_GE(clock_ns() - start, 900000000);
	CHECK_SAYS(told, "GPU 0");
	CHECK_SAYS(told, "copies have not ended");
	test_end(0); /* without a look for leaks: the GPU was left */
}
