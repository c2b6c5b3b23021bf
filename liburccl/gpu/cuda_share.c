/* SPDX-License-Identifier: Apache-2.0 */
/* Handles of memory for other processes. cudaMalloc() memory has a legacy handle; memory that was
 * mapped by hand a descriptor, if it was made so. dma-bufs are for devices of RDMA. */
#include <unistd.h>

#include "gpu/cuda_driver.h"

static int export_fd(const struct cuda *cuda, uint64_t addr, int *fd)
{
	uint64_t handle;
	int code = cuda->MemRetainAllocationHandle(&handle, (void *)(uintptr_t)addr);

	if (code)
		return code;
	code = cuda->MemExportToShareableHandle(fd, handle, CUDA_HANDLE_POSIX_FD, 0);
	(void)cuda->MemRelease(handle);
	return code;
}

int cuda_export(void *ctx, uint64_t addr, struct gpu_share *out)
{
	const struct cuda_ctx *c = ctx;
	struct cuda_ipc_handle handle;
	struct cuda_range range;
	int code = cuda_range(c->cuda, addr, &range);

	if (code)
		return code;
	out->base = range.pointer.base;
	out->len = range.pointer.end - range.pointer.base;
	if (range.pointer.is_legacy_ipc) {
		out->how = GPU_SHARE_LEGACY;
		code = c->cuda->IpcGetMemHandle(&handle, out->base);
		memcpy(out->handle, handle.bytes, sizeof(out->handle));
		return code;
	}
	if (!range.pointer.is_vmm || !(range.types & CUDA_HANDLE_POSIX_FD))
		return CUDA_NOT_SUPPORTED;
	out->how = GPU_SHARE_FD;
	return export_fd(c->cuda, addr, &out->fd);
}

/* The peer gives the length: copies must stay within the allocation at addr. */
static int check_len(struct cuda *cuda, uint64_t addr, uint64_t len, struct cuda_range *range)
{
	int code = cuda_range(cuda, addr, range);

	if (code)
		return code;
	if (range->pointer.kind != GPU_MEMORY_DEVICE || len > range->pointer.end - addr)
		return CUDA_INVALID_VALUE;
	return 0;
}

static int import_legacy(struct cuda *cuda, const struct gpu_share *share, uint64_t *addr)
{
	struct cuda_ipc_handle handle;
	struct cuda_range range;
	int code;

	memcpy(handle.bytes, share->handle, sizeof(handle.bytes));
	code = cuda->IpcOpenMemHandle(addr, handle, CUDA_IPC_LAZY_PEER_ACCESS);
	if (code)
		return code;
	code = check_len(cuda, *addr, share->len, &range);
	if (code)
		(void)cuda->IpcCloseMemHandle(*addr);
	return code;
}

static int handle_map(const struct cuda_ctx *c, uint64_t handle, uint64_t len, uint64_t *addr)
{
	const struct cuda_access access = {CUDA_LOCATION_DEVICE, c->device, CUDA_ACCESS_READ_WRITE};
	const struct cuda *cuda = c->cuda;
	int code = cuda->MemAddressReserve(addr, len, 0, 0, 0);

	if (code)
		return code;
	code = cuda->MemMap(*addr, len, 0, handle, 0);
	if (code)
		goto fail_map;
	code = cuda->MemSetAccess(*addr, len, &access, 1);
	if (code)
		goto fail_access;
	return 0;

fail_access:
	(void)cuda->MemUnmap(*addr, len);
fail_map:
	(void)cuda->MemAddressFree(*addr, len);
	return code;
}

/* The mapping holds the memory. */
static int import_fd(const struct cuda_ctx *c, const struct gpu_share *share, uint64_t *addr)
{
	uint64_t handle;
	int code = c->cuda->MemImportFromShareableHandle(&handle, (void *)(intptr_t)share->fd,
							 CUDA_HANDLE_POSIX_FD);

	if (code)
		return code;
	code = handle_map(c, handle, share->len, addr);
	(void)c->cuda->MemRelease(handle);
	return code;
}

/* Memory of this process. That of another GPU is reached as that of a peer. */
static int import_self(const struct cuda_ctx *c, const struct gpu_share *share, uint64_t *addr)
{
	struct cuda_range range;
	int code = check_len(c->cuda, share->base, share->len, &range);
	void *other;

	*addr = share->base;
	if (code || range.pointer.index == c->index)
		return code;
	code = cuda_primary(c->cuda, (int)range.pointer.index, &other);
	if (code || !other)
		return code;
	code = c->cuda->CtxEnablePeerAccess(other, 0);
	(void)c->cuda->DevicePrimaryCtxRelease((int)range.pointer.index);
	return code == CUDA_PEER_ACCESS_ALREADY_ENABLED ? 0 : code;
}

int cuda_import(void *ctx, const struct gpu_share *share, uint64_t *addr)
{
	const struct cuda_ctx *c = ctx;
	uint64_t at = 0;
	int code;

	if (share->how == GPU_SHARE_SELF)
		code = import_self(c, share, &at);
	else if (share->how == GPU_SHARE_LEGACY)
		code = import_legacy(c->cuda, share, &at);
	else
		code = import_fd(c, share, &at);
	*addr = code ? 0 : at;
	return code;
}

int cuda_unimport(void *ctx, const struct gpu_share *share, uint64_t addr)
{
	const struct cuda *cuda = ((const struct cuda_ctx *)ctx)->cuda;
	int code;

	if (share->how == GPU_SHARE_SELF)
		return 0;
	if (share->how == GPU_SHARE_LEGACY)
		return cuda->IpcCloseMemHandle(addr);
	code = cuda->MemUnmap(addr, share->len);
	return code ? code : cuda->MemAddressFree(addr, share->len);
}

int cuda_dmabuf(void *ctx, uint64_t addr, uint64_t len, int *fd)
{
	const struct cuda_ctx *c = ctx;

	return c->cuda->MemGetHandleForAddressRange(fd, addr, len, CUDA_RANGE_DMA_BUF_FD, 0);
}

int cuda_flush(void *ctx)
{
	const struct cuda_ctx *c = ctx;

	return c->cuda->FlushGPUDirectRDMAWrites(CUDA_FLUSH_CURRENT_CTX, CUDA_FLUSH_TO_ALL_DEVICES);
}
