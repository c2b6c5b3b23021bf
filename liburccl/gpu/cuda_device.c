/* SPDX-License-Identifier: Apache-2.0 */
/* GPUs and their primary contexts. */
#include <stdlib.h>

#include "gpu/cuda_driver.h"

int cuda_primary(struct cuda *cuda, int device, void **ctx)
{
	unsigned int flags;
	int active = 0, code = cuda->DevicePrimaryCtxGetState(device, &flags, &active);

	*ctx = NULL;
	return code || !active ? code : cuda->DevicePrimaryCtxRetain(ctx, device);
}

static int attribute(const struct cuda *cuda, int device, enum cuda_device_attribute which)
{
	int value;

	return cuda->DeviceGetAttribute(&value, (int)which, device) ? 0 : value;
}

static uint32_t peers_of(const struct cuda *cuda, int device)
{
	int n = 0, i, peer, can;
	uint32_t peers = 0;

	if (cuda->DeviceGetCount(&n))
		return 0;
	for (i = 0; i < n && i < (int)GPUS_MAX; i++)
		if (!cuda->DeviceGet(&peer, i) && peer != device &&
		    !cuda->DeviceCanAccessPeer(&can, device, peer) && can)
			peers |= 1u << i;
	return peers;
}

/* Each is left out if the driver does not tell it. */
static void describe(const struct cuda *cuda, int device, struct gpu_about *about)
{
	int version;
	char *c;

	if (!cuda->DriverGetVersion(&version))
		about->driver = (uint32_t)version;
	if (cuda->DeviceGetName(about->name, sizeof(about->name), device))
		about->name[0] = 0;
	if (cuda->DeviceGetPCIBusId(about->pci, sizeof(about->pci), device))
		about->pci[0] = 0;
	for (c = about->pci; *c; c++) /* as /sys has it */
		*c = ascii_lower(*c);
	(void)cuda->DeviceGetUuid(about->uuid, device);
	about->major = (uint32_t)attribute(cuda, device, CUDA_MAJOR);
	about->minor = (uint32_t)attribute(cuda, device, CUDA_MINOR);
	about->multiprocessors = (uint32_t)attribute(cuda, device, CUDA_MULTIPROCESSORS);
	about->fds = attribute(cuda, device, CUDA_POSIX_FD_SUPPORTED) == 1;
	about->dmabufs = attribute(cuda, device, CUDA_DMA_BUF_SUPPORTED) == 1;
	about->flushes =
		attribute(cuda, device, CUDA_RDMA_WRITES_ORDERING) < CUDA_RDMA_ORDERED_FOR_ALL;
	about->peers = peers_of(cuda, device);
}

/* Streams of the lanes for kernels get it. */
static int priority(struct cuda_ctx *c)
{
	int least, code = cuda_enter(c);

	if (code)
		return code;
	code = c->cuda->CtxGetStreamPriorityRange(&least, &c->urgent);
	cuda_leave(c);
	return code;
}

int cuda_open(void *lib, uint32_t index, struct gpu_about *about, void **ctx)
{
	struct cuda *cuda = lib;
	struct cuda_ctx *c = calloc(1, sizeof(*c));
	int code;

	*ctx = NULL;
	if (!c)
		return CUDA_OUT_OF_MEMORY;
	c->cuda = cuda;
	c->index = index;
	code = cuda->DeviceGet(&c->device, (int)index);
	if (!code)
		code = cuda_primary(cuda, c->device, &c->ctx);
	if (!code && c->ctx)
		code = priority(c);
	if (code || !c->ctx) {
		if (c->ctx)
			cuda->DevicePrimaryCtxRelease(c->device);
		free(c);
		return code;
	}
	about->index = index;
	describe(cuda, c->device, about);
	store_release(&cuda->primary[index], c->ctx);
	*ctx = c;
	return 0;
}

void cuda_close(void *ctx)
{
	struct cuda_ctx *c = ctx;

	store_release(&c->cuda->primary[c->index], NULL);
	(void)c->cuda->DevicePrimaryCtxRelease(c->device);
	free(c);
}
