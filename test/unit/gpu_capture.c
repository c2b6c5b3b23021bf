/* SPDX-License-Identifier: Apache-2.0 */
/* A program records a graph. No call of the room ends the recording: the stand-in aborts if one
 * does. */
#include <pthread.h>

#include "gpu_rig.h"

int case_gpu_capture(void);

#define LEN (1u << 20)

static struct gpu_rig r;
static uint64_t ptr;
static uint8_t *pinned;

/* A helper thread of the library. */
static void *helper(void *arg)
{
	void *memory = aligned_alloc(4096, LEN);
	struct gpu_dev *dev = rig_dev(&r, 0);
	struct gpu_share share;
	struct gpu_pointer p;
	int code;

	CHECK(memory);
	CHECK_EQ(gpu_pointer_info(r.gpu, ptr, LEN, &p), 0);
	CHECK_EQ(p.kind, GPU_MEMORY_DEVICE);
	CHECK_EQ(gpu_export(dev, ptr, &share, &code), 0);
	CHECK_EQ(gpu_host_register(dev, rig_addr(memory), LEN, &code), 0);
	CHECK_EQ(gpu_host_register(dev, rig_addr(memory), LEN, &code), -EALREADY);
	CHECK_EQ(gpu_host_unregister(dev, rig_addr(memory), &code), 0);
	CHECK_EQ(gpu_host_unregister(dev, rig_addr(memory), &code), -EINVAL);
	free(memory);
	return arg;
}

int case_gpu_capture(void)
{
	pthread_t thread;

	rig_open(&r, 0);
	ptr = rig_alloc(&r, 0, LEN);
	pinned = rig_pinned(&r, LEN);
	rig_words(&r, "capture,delay=50000"); /* so that the copy thread asks for an error */
	CHECK_EQ(pthread_create(&thread, NULL, helper, NULL), 0);
	CHECK_EQ(pthread_join(thread, NULL), 0);
	rig_copy(&r, rig_dev(&r, 0), GPU_IN, ptr, rig_addr(pinned), LEN);
	CHECK_GE(r.calls("urccl-gpu", "cuStreamQuery"), 1);
	CHECK_EQ(gpu_close(r.gpu), 0);
	return 0;
}
