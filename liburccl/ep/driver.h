/* SPDX-License-Identifier: Apache-2.0 */
/* The CUDA driver, loaded when a group is created: the library links with libc alone. */
#ifndef EP_DRIVER_H
#define EP_DRIVER_H

#include <stddef.h>
#include <stdint.h>

enum ep_driver_numbers {
	CUDA_SUCCESS = 0,
	CUDA_MULTIPROCESSORS = 16, /* CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT */
	CUDA_MAJOR = 75,	   /* CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR */
	CUDA_FUNC_SHARED = 8,	   /* CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES */
	CUDA_HOST_PORTABLE_MAPPED = 3,
	CUDA_LAUNCH_EARLY = 6, /* CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION */
};

/* CUlaunchConfig and CUlaunchAttribute. */
struct ep_launch_attribute {
	uint32_t id;
	uint32_t pad;
	union {
		int32_t allowed;
		char bytes[64];
	} value;
};

struct ep_launch_config {
	uint32_t grid[3], block[3], shared_bytes;
	void *stream;
	struct ep_launch_attribute *attributes;
	uint32_t n;
};

/* Members are named after the driver's functions; each returns a CUresult. */
struct ep_driver {
	void *so;
	int (*cuCtxGetCurrent)(void **ctx);
	int (*cuCtxGetDevice)(int *device);
	int (*cuCtxSynchronize)(void);
	int (*cuDeviceGetAttribute)(int *value, int attribute, int device);
	int (*cuModuleLoadData)(void **module, const void *image);
	int (*cuModuleUnload)(void *module);
	int (*cuModuleGetFunction)(void **function, void *module, const char *name);
	int (*cuFuncSetAttribute)(void *function, int attribute, int value);
	int (*cuFuncLoad)(void *function); /* NULL before CUDA 12.4 */
	int (*cuLaunchKernelEx)(const struct ep_launch_config *config, void *function,
				void **params, void **extra);
	int (*cuMemAlloc)(uint64_t *address, size_t bytes);
	int (*cuMemFree)(uint64_t address);
	int (*cuMemsetD8)(uint64_t address, unsigned char value, size_t n);
	int (*cuMemsetD32Async)(uint64_t address, unsigned value, size_t n, void *stream);
	int (*cuMemHostAlloc)(void **memory, size_t bytes, unsigned flags);
	int (*cuMemHostGetDevicePointer)(uint64_t *address, void *memory, unsigned flags);
	int (*cuMemFreeHost)(void *memory);
	int (*cuGetErrorName)(int error, const char **name);
};

/* Loads the driver; name NULL: "libcuda.so.1". 0, or -ENODEV with the reason in why. */
int ep_driver_load(struct ep_driver *driver, const char *name, const char **why);
void ep_driver_unload(struct ep_driver *driver);

/* "CUDA_ERROR_..." of a CUresult; never NULL. */
const char *ep_driver_error(const struct ep_driver *driver, int error);

#endif
