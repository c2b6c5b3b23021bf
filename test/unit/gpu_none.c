/* SPDX-License-Identifier: Apache-2.0 */
/* The library does not load CUDA and does not start it: without it all memory is the host's. */
#include <fcntl.h>

#include "gpu_rig.h"

int case_gpu_none(void);

static void all_is_host(struct gpu *g)
{
	struct gpu_pointer p = {0};
	uint64_t at = rig_addr(&p);

	CHECK_EQ(gpu_pointer_info(g, at, 100, &p), 0);
	CHECK_EQ(p.kind, GPU_MEMORY_HOST);
	CHECK_EQ(p.base, at);
	CHECK_EQ(p.end, at + 100);
	CHECK_EQ(gpu_sleep_ns(g, clock_ns()), NEVER_NS);
}

int case_gpu_none(void)
{
	struct gpu_config config = {.so = rig_so()};
	struct gpu_dev *dev;
	struct gpu_rig r;
	struct gpu *g;
	int code;

	CHECK_EQ(gpu_open(&config, &g), 0);
	all_is_host(g);
	CHECK_EQ(gpu_dev_get(g, 0, &dev, &code), -ENODEV);
	CHECK(!gpu_dev_find(g, 0));
	CHECK_SAYS(gpu_code_name(g, 700), "unknown");
	rig_load(&r);
	all_is_host(g);
	CHECK_NE(gpu_dev_get(g, 0, &dev, &code), 0);
	rig_start(&r, 0); /* started, but no context */
	all_is_host(g);
	CHECK_EQ(gpu_dev_get(g, 0, &dev, &code), -ENODEV);
	CHECK_EQ(gpu_dev_get(g, 31, &dev, &code), -ENODEV);
	CHECK(!strcmp(gpu_code_name(g, 700), "CUDA_ERROR_ILLEGAL_ADDRESS"));
	if (r.calls) {
		CHECK_EQ(r.calls(NULL, "cuInit"), 1);
		CHECK_EQ(r.calls(NULL, "cuDevicePrimaryCtxRetain"), 0);
	}
	CHECK_EQ(gpu_close(g), 0);
	CHECK_EQ(gpu_close(NULL), 0);
	return 0;
}
