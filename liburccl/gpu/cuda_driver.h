/* SPDX-License-Identifier: Apache-2.0 */
/* The part of the CUDA driver API that the room uses, with own declarations: the build needs no
 * CUDA headers. Values and layouts are those of CUDA 12.0, which later drivers keep. */
#ifndef GPU_CUDA_DRIVER_H
#define GPU_CUDA_DRIVER_H

#include "gpu/gpu_api.h"

#define CUDA_VERSION	   12000 /* of the functions that are asked for */
#define CUDA_VERSION_BATCH 12080 /* likewise, of cuMemcpyBatchAsync() */

enum cuda_error {
	CUDA_INVALID_VALUE = 1,
	CUDA_OUT_OF_MEMORY = 2,
	CUDA_NOT_INITIALIZED = 3,
	CUDA_DEINITIALIZED = 4,
	CUDA_NO_DEVICE = 100,
	CUDA_INVALID_DEVICE = 101,
	CUDA_INVALID_IMAGE = 200,
	CUDA_INVALID_CONTEXT = 201,
	CUDA_MAP_FAILED = 205,
	CUDA_ALREADY_MAPPED = 208,
	CUDA_NO_BINARY_FOR_GPU = 209,
	CUDA_PEER_ACCESS_UNSUPPORTED = 217,
	CUDA_INVALID_PTX = 218,
	CUDA_JIT_COMPILER_NOT_FOUND = 221,
	CUDA_UNSUPPORTED_PTX_VERSION = 222,
	CUDA_JIT_COMPILATION_DISABLED = 223,
	CUDA_INVALID_HANDLE = 400,
	CUDA_NOT_FOUND = 500,
	CUDA_NOT_READY = 600,
	CUDA_LAUNCH_OUT_OF_RESOURCES = 701,
	CUDA_PEER_ACCESS_ALREADY_ENABLED = 704,
	CUDA_HOST_MEMORY_ALREADY_REGISTERED = 712,
	CUDA_HOST_MEMORY_NOT_REGISTERED = 713,
	CUDA_NOT_PERMITTED = 800,
	CUDA_NOT_SUPPORTED = 801,
	CUDA_CAPTURE_FIRST = 900, /* the program records a graph, */
	CUDA_CAPTURE_LAST = 908,  /* which forbids the call */
};

enum cuda_device_attribute {
	CUDA_MULTIPROCESSORS = 16,
	CUDA_MAJOR = 75,
	CUDA_MINOR = 76,
	CUDA_POSIX_FD_SUPPORTED = 103,
	CUDA_RDMA_WRITES_ORDERING = 118,
	CUDA_DMA_BUF_SUPPORTED = 124,
};

enum cuda_pointer_attribute {
	CUDA_POINTER_CONTEXT = 1,
	CUDA_POINTER_MEMORY_TYPE = 2,
	CUDA_POINTER_SYNC_MEMOPS = 6,
	CUDA_POINTER_BUFFER_ID = 7,
	CUDA_POINTER_IS_MANAGED = 8,
	CUDA_POINTER_DEVICE = 9,
	CUDA_POINTER_IS_LEGACY_IPC = 10,
	CUDA_POINTER_RANGE_START = 11,
	CUDA_POINTER_RANGE_SIZE = 12,
	CUDA_POINTER_HANDLE_TYPES = 14,
	CUDA_POINTER_MAPPING_SIZE = 18,
	CUDA_POINTER_MAPPING_START = 19,
};

enum cuda_number {
	CUDA_MEMORY_HOST = 1,
	CUDA_MEMORY_DEVICE = 2,
	CUDA_HANDLE_POSIX_FD = 1,
	CUDA_RANGE_DMA_BUF_FD = 1,
	CUDA_RDMA_ORDERED_FOR_ALL = 200,
	CUDA_FLUSH_CURRENT_CTX = 0,
	CUDA_FLUSH_TO_ALL_DEVICES = 200,
	CUDA_LOCATION_DEVICE = 1,
	CUDA_ACCESS_READ_WRITE = 3,
	CUDA_HOST_PORTABLE = 1,
	CUDA_HOST_MAPPED = 2,
	CUDA_STREAM_NON_BLOCKING = 1,
	CUDA_IPC_LAZY_PEER_ACCESS = 1,
	CUDA_CAPTURE_RELAXED = 2,
	CUDA_SRC_ORDER_STREAM = 1,
};

struct cuda_copy_attributes {
	int order;
	struct {
		int type, id;
	} src, dst;
	unsigned int flags;
};

struct cuda_ipc_handle {
	char bytes[64];
};

struct cuda_access {
	int location, device;
	int flags;
};

/* Each returns a CUresult. The second column is the name for dlsym(), with the version of the
 * function's layout. */
#define CUDA_FUNCTIONS(X)                                                                          \
	X(DriverGetVersion, "", (int *version))                                                    \
	X(DeviceGet, "", (int *device, int ordinal))                                               \
	X(DeviceGetCount, "", (int *n))                                                            \
	X(DeviceGetName, "", (char *name, int len, int device))                                    \
	X(DeviceGetUuid, "_v2", (void *uuid, int device))                                          \
	X(DeviceGetPCIBusId, "", (char *id, int len, int device))                                  \
	X(DeviceGetAttribute, "", (int *value, int attribute, int device))                         \
	X(DeviceCanAccessPeer, "", (int *can, int device, int peer))                               \
	X(DevicePrimaryCtxGetState, "", (int device, unsigned int *flags, int *active))            \
	X(DevicePrimaryCtxRetain, "", (void **ctx, int device))                                    \
	X(DevicePrimaryCtxRelease, "_v2", (int device))                                            \
	X(CtxPushCurrent, "_v2", (void *ctx))                                                      \
	X(CtxPopCurrent, "_v2", (void **ctx))                                                      \
	X(CtxGetStreamPriorityRange, "", (int *least, int *greatest))                              \
	X(CtxEnablePeerAccess, "", (void *ctx, unsigned int flags))                                \
	X(PointerGetAttributes, "", (unsigned int n, const int *attributes, void **data,           \
				     uint64_t ptr))                                                \
	X(PointerSetAttribute, "", (const void *value, int attribute, uint64_t ptr))               \
	X(MemcpyAsync, "", (uint64_t dst, uint64_t src, size_t len, void *stream))                 \
	X(StreamCreateWithPriority, "", (void **stream, unsigned int flags, int priority))         \
	X(StreamDestroy, "_v2", (void *stream))                                                    \
	X(StreamQuery, "", (void *stream))                                                         \
	X(EventQuery, "", (void *event))                                                           \
	X(StreamWriteValue64, "_v2", (void *stream, uint64_t addr, uint64_t value,                 \
				      unsigned int flags))                                         \
	X(MemHostAlloc, "", (void **memory, size_t len, unsigned int flags))                       \
	X(MemFreeHost, "", (void *memory))                                                         \
	X(MemHostRegister, "_v2", (void *memory, size_t len, unsigned int flags))                  \
	X(MemHostUnregister, "", (void *memory))                                                   \
	X(IpcGetMemHandle, "", (struct cuda_ipc_handle *handle, uint64_t ptr))                     \
	X(IpcOpenMemHandle, "_v2", (uint64_t *ptr, struct cuda_ipc_handle handle,                  \
				    unsigned int flags))                                           \
	X(IpcCloseMemHandle, "", (uint64_t ptr))                                                   \
	X(MemRetainAllocationHandle, "", (uint64_t *handle, void *addr))                           \
	X(MemExportToShareableHandle, "", (void *out, uint64_t handle, int type, uint64_t flags))  \
	X(MemImportFromShareableHandle, "", (uint64_t *handle, void *shared, int type))            \
	X(MemAddressReserve, "", (uint64_t *ptr, size_t len, size_t align, uint64_t addr,          \
				  uint64_t flags))                                                 \
	X(MemAddressFree, "", (uint64_t ptr, size_t len))                                          \
	X(MemMap, "", (uint64_t ptr, size_t len, size_t off, uint64_t handle, uint64_t flags))     \
	X(MemUnmap, "", (uint64_t ptr, size_t len))                                                \
	X(MemSetAccess, "", (uint64_t ptr, size_t len, const struct cuda_access *access,           \
			     size_t n))                                                            \
	X(MemRelease, "", (uint64_t handle))                                                       \
	X(MemGetHandleForAddressRange, "", (void *handle, uint64_t ptr, size_t len, int type,      \
					    uint64_t flags))                                       \
	X(FlushGPUDirectRDMAWrites, "", (int target, int scope))                                   \
	X(ModuleLoadData, "", (void **module, const void *image))                                  \
	X(ModuleUnload, "", (void *module))                                                        \
	X(ModuleGetFunction, "", (void **function, void *module, const char *name))                \
	X(LaunchKernel, "", (void *function, unsigned int gx, unsigned int gy, unsigned int gz,    \
			     unsigned int bx, unsigned int by, unsigned int bz,                    \
			     unsigned int shared, void *stream, void **params, void **extra))      \
	X(GetErrorName, "", (int error, const char **name))

struct cuda {
	void *so;
	void *primary[GPUS_MAX];	/* contexts that are open; stored with release */
#define X(name, version, args) int(*name) args;
	CUDA_FUNCTIONS(X)
#undef X
	int (*ThreadExchangeStreamCaptureMode)(int *mode); /* or NULL */
	int (*MemcpyBatchAsync)(uint64_t *dst, uint64_t *src, size_t *len, size_t n,
				struct cuda_copy_attributes *how, size_t *first, size_t nhow,
				size_t *failed, void *stream); /* of CUDA 12.8; or NULL */
};

/* The arguments of MemcpyBatchAsync(). */
struct cuda_batch {
	uint64_t dst[GPU_PIECES], src[GPU_PIECES];
	size_t	 len[GPU_PIECES];
};

/* A GPU's primary context. */
struct cuda_ctx {
	struct cuda *cuda;
	void	*ctx;
	int	 device;
	uint32_t index;
	int	 urgent;		/* stream priority */
	void	*module, *gather;	/* the kernels; NULL: not loaded */
	struct cuda_batch batch;	/* the copy thread's */
};

/* ---- cuda_load.c ---- */

int cuda_load(const char *so, void **lib);
void cuda_unload(void *lib);
int cuda_error(int code);
const char *cuda_name(void *lib, int code);

/* ---- cuda_pointer.c ---- */

struct cuda_range {
	struct gpu_pointer pointer;	/* its end is the end of the allocation or VMM mapping */
	uint32_t types;			/* of handles that it may be shared by, as bits */
};

int cuda_pointer(void *lib, uint64_t addr, uint64_t len, struct gpu_pointer *out);
/* The allocation or VMM mapping that holds addr. */
int cuda_range(struct cuda *cuda, uint64_t addr, struct cuda_range *out);

/* ---- cuda_device.c ---- */

int cuda_open(void *lib, uint32_t index, struct gpu_about *about, void **ctx);
void cuda_close(void *ctx);
/* The context if it exists, else *ctx is NULL. It is retained. */
int cuda_primary(struct cuda *cuda, int device, void **ctx);

/* ---- cuda_copy.c ---- */

int cuda_enter(void *ctx);
void cuda_leave(void *ctx);
int cuda_stream_new(void *ctx, int urgent, void **stream);
void cuda_stream_free(void *ctx, void *stream);
int cuda_copy(void *ctx, void *stream, uint64_t dst, uint64_t src, uint64_t len);
int cuda_mark(void *ctx, void *stream, uint64_t *word, uint64_t value);
int cuda_query(void *ctx, void *stream);
int cuda_event_query(void *ctx, void *event);
int cuda_pinned_new(void *ctx, size_t len, void **memory);
void cuda_pinned_free(void *ctx, void *memory);
int cuda_host_register(void *ctx, uint64_t addr, uint64_t len);
int cuda_host_unregister(void *ctx, uint64_t addr);

/* ---- cuda_kernels.c ---- */

extern const char cuda_gather_ptx[];		/* a string */
extern const void *const cuda_gather_binary;	/* NULL: the build had no nvcc */

int cuda_kernels_load(void *ctx);
void cuda_kernels_unload(void *ctx);
int cuda_gather(void *ctx, void *stream, const struct gpu_feed_launch *how);
int cuda_has_batch(void *ctx);
int cuda_batch(void *ctx, void *stream, const struct gpu_pieces *pieces);

/* ---- cuda_module.c ---- */

int cuda_module_open(void *lib, uint32_t index, const void *image, void **module, uint32_t *sms);
void cuda_module_close(void *module);
int cuda_module_enter(void *module);
void cuda_module_leave(void *module);
int cuda_module_function(void *module, const char *name, void **function);
int cuda_module_launch(void *module, void *function, const struct gpu_launch *launch, void *stream);

/* ---- cuda_share.c ---- */

int cuda_export(void *ctx, uint64_t addr, struct gpu_share *out);
int cuda_import(void *ctx, const struct gpu_share *share, uint64_t *addr);
int cuda_unimport(void *ctx, const struct gpu_share *share, uint64_t addr);
int cuda_dmabuf(void *ctx, uint64_t addr, uint64_t len, int *fd);
int cuda_flush(void *ctx);

#endif
