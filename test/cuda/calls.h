/* SPDX-License-Identifier: Apache-2.0 */
/* Functions of the driver, for tests that link with the stand-in. */
#ifndef CUDA_CALLS_H
#define CUDA_CALLS_H

#include "abi.h"

int cuInit(unsigned flags);
int cuDriverGetVersion(int *version);
int cuGetErrorName(int code, const char **name);
int cuGetProcAddress_v2(const char *symbol, void **to, int version, uint64_t flags, int *status);
int cuDeviceGetAttribute(int *value, int attribute, int device);
int cuDeviceGetUuid_v2(char uuid[16], int device);
int cuDeviceGetPCIBusId(char *id, int len, int device);
int cuDeviceCanAccessPeer(int *can, int device, int peer);
int cuDevicePrimaryCtxRetain(void **context, int device);
int cuDevicePrimaryCtxRelease_v2(int device);
int cuDevicePrimaryCtxGetState(int device, unsigned *flags, int *active);
int cuCtxCreate_v2(void **context, unsigned flags, int device);
int cuCtxDestroy_v2(void *context);
int cuCtxSetCurrent(void *context);
int cuCtxPushCurrent_v2(void *context);
int cuCtxPopCurrent_v2(void **context);
int cuCtxEnablePeerAccess(void *peer, unsigned flags);
int cuCtxDisablePeerAccess(void *peer);
int cuThreadExchangeStreamCaptureMode(int *mode);
int cuFlushGPUDirectRDMAWrites(int target, int scope);

int cuMemAlloc_v2(uint64_t *to, size_t len);
int cuMemAllocAsync(uint64_t *to, size_t len, void *stream);
int cuMemAllocManaged(uint64_t *to, size_t len, unsigned flags);
int cuMemFree_v2(uint64_t addr);
int cuMemGetAddressRange_v2(uint64_t *base, size_t *len, uint64_t addr);
int cuMemHostAlloc(void **to, size_t len, unsigned flags);
int cuMemFreeHost(void *p);
int cuMemHostRegister_v2(void *p, size_t len, unsigned flags);
int cuMemHostUnregister(void *p);
int cuMemHostGetDevicePointer_v2(uint64_t *to, void *p, unsigned flags);
int cuPointerGetAttribute(void *data, int attribute, uint64_t addr);
int cuPointerGetAttributes(unsigned n, int *attributes, void **data, uint64_t addr);

int cuMemCreate(uint64_t *to, size_t len, const struct cu_prop *prop, uint64_t flags);
int cuMemRelease(uint64_t handle);
int cuMemRetainAllocationHandle(uint64_t *to, void *addr);
int cuMemExportToShareableHandle(void *to, uint64_t handle, int type, uint64_t flags);
int cuMemImportFromShareableHandle(uint64_t *to, void *fd, int type);
int cuMemAddressReserve(uint64_t *to, size_t len, size_t align, uint64_t hint, uint64_t flags);
int cuMemAddressFree(uint64_t addr, size_t len);
int cuMemMap(uint64_t addr, size_t len, size_t off, uint64_t handle, uint64_t flags);
int cuMemUnmap(uint64_t addr, size_t len);
int cuMemSetAccess(uint64_t addr, size_t len, const struct cu_access *access, size_t n);

int cuIpcGetMemHandle(struct cu_ipc_handle *to, uint64_t addr);
int cuIpcOpenMemHandle_v2(uint64_t *to, struct cu_ipc_handle handle, unsigned flags);
int cuIpcCloseMemHandle(uint64_t addr);
int cuMemGetHandleForAddressRange(void *to, uint64_t addr, size_t len, int type, uint64_t flags);

int cuMemcpy(uint64_t dst, uint64_t src, size_t len);
int cuMemcpyDtoH_v2(void *dst, uint64_t src, size_t len);
int cuMemcpyAsync(uint64_t dst, uint64_t src, size_t len, void *stream);
int cuMemcpyPeerAsync(uint64_t dst, void *dst_context, uint64_t src, void *src_context, size_t len,
		      void *stream);
int cuMemcpyBatchAsync_v2(uint64_t *dsts, uint64_t *srcs, size_t *sizes, size_t n,
			  struct cu_copy_attributes *attrs, size_t *firsts, size_t nattrs,
			  void *stream);
int cuMemsetD8_v2(uint64_t dst, unsigned char value, size_t n);

int cuStreamCreateWithPriority(void **to, unsigned flags, int priority);
int cuStreamDestroy_v2(void *stream);
int cuStreamQuery(void *stream);
int cuStreamSynchronize(void *stream);
int cuStreamWriteValue64_v2(void *stream, uint64_t addr, uint64_t value, unsigned flags);
int cuStreamWaitValue64_v2(void *stream, uint64_t addr, uint64_t value, unsigned flags);
int cuEventCreate(void **to, unsigned flags);
int cuEventDestroy_v2(void *event);
int cuEventRecord(void *event, void *stream);
int cuEventQuery(void *event);
int cuModuleLoadData(void **to, const void *image);
int cuModuleUnload(void *module);
int cuModuleGetFunction(void **to, void *module, const char *name);
int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
		   unsigned bz, unsigned shared, void *stream, void **params, void **extra);

#endif
