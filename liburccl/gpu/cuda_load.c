/* SPDX-License-Identifier: Apache-2.0 */
/* The CUDA driver, found only where the program has loaded it, and its table of functions. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "gpu/cuda_driver.h"

typedef int (*get_function)(const char *symbol, void **to, int version, uint64_t flags,
			    int *status);

/* By cuGetProcAddress(), which knows the layout of each version, or else by the name that has this
 * layout. NULL: the driver has none. */
static void *driver_find(void *so, get_function get, const char *symbol, const char *version)
{
	void *function = NULL;
	char name[64];
	int status;

	if (get && !get(symbol, &function, CUDA_VERSION, 0, &status) && function)
		return function;
	snprintf(name, sizeof(name), "%s%s", symbol, version);
	return dlsym(so, name);
}

/* Its layout differs from CUDA 13.0 on; drivers before 12.8 refuse that version, or have none. */
static void *find_batch(get_function get)
{
	void *function = NULL;
	int status;

	return get("cuMemcpyBatchAsync", &function, CUDA_VERSION_BATCH, 0, &status) ? NULL
										    : function;
}

static int find_all(struct cuda *cuda)
{
	void *found = dlsym(cuda->so, "cuGetProcAddress_v2");
	get_function get;

	memcpy(&get, &found, sizeof(get));
#define X(name, version, args)                                   \
	found = driver_find(cuda->so, get, "cu" #name, version); \
	if (!found)                                              \
		return -EOPNOTSUPP;                              \
	memcpy(&cuda->name, &found, sizeof(found));
	CUDA_FUNCTIONS(X)
#undef X
	found = driver_find(cuda->so, get, "cuThreadExchangeStreamCaptureMode", "");
	memcpy(&cuda->ThreadExchangeStreamCaptureMode, &found, sizeof(found));
	found = get ? find_batch(get) : NULL;
	memcpy(&cuda->MemcpyBatchAsync, &found, sizeof(found));
	return 0;
}

int cuda_load(const char *so, void **lib)
{
	struct cuda *cuda;
	int err;
	void *handle = dlopen(so ? so : CUDA_SO, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);

	if (!handle)
		return -ENOENT;
	cuda = calloc(1, sizeof(*cuda));
	if (!cuda) {
		dlclose(handle);
		return -ENOMEM;
	}
	cuda->so = handle;
	err = find_all(cuda);
	if (err)
		cuda_unload(cuda);
	else
		*lib = cuda;
	return err;
}

void cuda_unload(void *lib)
{
	struct cuda *cuda = lib;

	dlclose(cuda->so);
	free(cuda);
}

int cuda_error(int code)
{
	switch (code) {
	case 0:
		return 0;
	case CUDA_NOT_READY:
		return -EAGAIN;
	case CUDA_OUT_OF_MEMORY:
		return -ENOMEM;
	case CUDA_NO_DEVICE:
	case CUDA_INVALID_DEVICE:
		return -ENODEV;
	case CUDA_NOT_PERMITTED:
		return -EPERM;
	case CUDA_NOT_SUPPORTED:
	case CUDA_INVALID_IMAGE:
	case CUDA_NO_BINARY_FOR_GPU:
	case CUDA_INVALID_PTX:
	case CUDA_JIT_COMPILER_NOT_FOUND:
	case CUDA_UNSUPPORTED_PTX_VERSION:
	case CUDA_JIT_COMPILATION_DISABLED:
	case CUDA_LAUNCH_OUT_OF_RESOURCES:
	case CUDA_PEER_ACCESS_UNSUPPORTED:
		return -EOPNOTSUPP;
	case CUDA_PEER_ACCESS_ALREADY_ENABLED:
	case CUDA_HOST_MEMORY_ALREADY_REGISTERED:
		return -EALREADY;
	case CUDA_INVALID_VALUE:
	case CUDA_MAP_FAILED:
	case CUDA_ALREADY_MAPPED:
	case CUDA_INVALID_HANDLE:
	case CUDA_NOT_FOUND:
	case CUDA_HOST_MEMORY_NOT_REGISTERED:
		return -EINVAL;
	default:
		return code >= CUDA_CAPTURE_FIRST && code <= CUDA_CAPTURE_LAST ? -EBUSY : -EIO;
	}
}

const char *cuda_name(void *lib, int code)
{
	const struct cuda *cuda = lib;
	const char *name = NULL;

	return cuda->GetErrorName(code, &name) ? NULL : name;
}

const struct gpu_api gpu_cuda = {
	.load = cuda_load,
	.unload = cuda_unload,
	.error = cuda_error,
	.name = cuda_name,
	.pointer = cuda_pointer,
	.open = cuda_open,
	.close = cuda_close,
	.enter = cuda_enter,
	.leave = cuda_leave,
	.stream_new = cuda_stream_new,
	.stream_free = cuda_stream_free,
	.copy = cuda_copy,
	.mark = cuda_mark,
	.query = cuda_query,
	.event_query = cuda_event_query,
	.kernels_load = cuda_kernels_load,
	.kernels_unload = cuda_kernels_unload,
	.gather = cuda_gather,
	.has_batch = cuda_has_batch,
	.batch = cuda_batch,
	.module_open = cuda_module_open,
	.module_close = cuda_module_close,
	.module_enter = cuda_module_enter,
	.module_leave = cuda_module_leave,
	.module_function = cuda_module_function,
	.module_launch = cuda_module_launch,
	.pinned_new = cuda_pinned_new,
	.pinned_free = cuda_pinned_free,
	.host_register = cuda_host_register,
	.host_unregister = cuda_host_unregister,
	.export_memory = cuda_export,
	.import_memory = cuda_import,
	.unimport_memory = cuda_unimport,
	.dmabuf = cuda_dmabuf,
	.flush = cuda_flush,
};
