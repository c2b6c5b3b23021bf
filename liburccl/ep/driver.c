/* SPDX-License-Identifier: Apache-2.0 */
#include "driver.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>

#define FUNCTION(member, symbol, optional)                           \
	{                                                            \
		symbol, offsetof(struct ep_driver, member), optional \
	}

static const struct {
	const char *symbol;
	size_t offset;
	bool optional;
} functions[] = {
	FUNCTION(cuCtxGetCurrent, "cuCtxGetCurrent", false),
	FUNCTION(cuCtxGetDevice, "cuCtxGetDevice", false),
	FUNCTION(cuCtxSynchronize, "cuCtxSynchronize", false),
	FUNCTION(cuDeviceGetAttribute, "cuDeviceGetAttribute", false),
	FUNCTION(cuModuleLoadData, "cuModuleLoadData", false),
	FUNCTION(cuModuleUnload, "cuModuleUnload", false),
	FUNCTION(cuModuleGetFunction, "cuModuleGetFunction", false),
	FUNCTION(cuFuncSetAttribute, "cuFuncSetAttribute", false),
	FUNCTION(cuFuncLoad, "cuFuncLoad", true),
	FUNCTION(cuLaunchKernelEx, "cuLaunchKernelEx", false),
	FUNCTION(cuMemAlloc, "cuMemAlloc_v2", false),
	FUNCTION(cuMemFree, "cuMemFree_v2", false),
	FUNCTION(cuMemsetD8, "cuMemsetD8_v2", false),
	FUNCTION(cuMemsetD32Async, "cuMemsetD32Async", false),
	FUNCTION(cuMemHostAlloc, "cuMemHostAlloc", false),
	FUNCTION(cuMemHostGetDevicePointer, "cuMemHostGetDevicePointer_v2", false),
	FUNCTION(cuMemFreeHost, "cuMemFreeHost", false),
	FUNCTION(cuGetErrorName, "cuGetErrorName", false),
};

int ep_driver_load(struct ep_driver *driver, const char *name, const char **why)
{
	*driver = (struct ep_driver){.so = dlopen(name ? name : "libcuda.so.1", RTLD_NOW)};
	if (!driver->so) {
		*why = dlerror();
		return -ENODEV;
	}
	for (size_t i = 0; i < sizeof(functions) / sizeof(*functions); i++) {
		void *function = dlsym(driver->so, functions[i].symbol);

		if (!function && !functions[i].optional) {
			*why = functions[i].symbol;
			ep_driver_unload(driver);
			return -ENODEV;
		}
		memcpy((char *)driver + functions[i].offset, &function, sizeof(function));
	}
	return 0;
}

void ep_driver_unload(struct ep_driver *driver)
{
	dlclose(driver->so);
	driver->so = NULL;
}

const char *ep_driver_error(const struct ep_driver *driver, int error)
{
	const char *name = NULL;

	return driver->cuGetErrorName(error, &name) == CUDA_SUCCESS && name ? name
									    : "unknown error";
}
