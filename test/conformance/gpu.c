/* SPDX-License-Identifier: Apache-2.0 */
/* --memory=device: areas are memory of GPUs, of the stand-in for libcuda. */
#include <unistd.h>
#include "cuda/device.h"
#include "cuda/view.h"
#include "rig.h"

#define PAGE 4096u

void gpu_node_open(struct node *node)
{
	const struct gpu_config config = {.sms = URCCL_AUTO, .thread_name = "conformance"};

	if (!device_cuda.so)
		device_load();
	CHECK_EQ(gpu_open(&config, &node->gpu), 0);
}

void gpu_node_close(struct node *node)
{
	CHECK_EQ(gpu_close(node->gpu), 0);
}

/* What region/staging.c does for a region. */
void gpu_area_open(struct area *area, uint64_t size)
{
	struct node *node = area->node;
	int code, number = (int)(node - node->rig->node) % device_cuda.gpus;
	struct extent *x = &area->extent;

	/* Whole pages of its own: CUDA makes a dma-buf of those. */
	size = size < 1u << 20 ? 1u << 20 : size;
	area->device = device_alloc(size, number);
	area->bytes = cuda_view(area->device, size);
	if (!area->bytes)
		SKIP("not the stand-in for libcuda");
	x->addr = area->device;
	x->kind = GPU_MEMORY_DEVICE;
	x->gpu_index = (uint32_t)number;
	x->gpu_id = area->device;
	CHECK_EQ(gpu_dev_get(node->gpu, x->gpu_index, &x->gpu, &code), 0);
	if (node->dev->caps & CAP_GPU_DIRECT)
		CHECK_EQ(gpu_dmabuf(x->gpu, x->addr, (x->len + PAGE - 1) & ~(PAGE - 1ull), &x->fd),
			 0);
}

void gpu_area_close(struct area *area)
{
	if (area->extent.fd >= 0)
		close(area->extent.fd);
	device_free(area->device);
}
