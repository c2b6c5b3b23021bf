/* SPDX-License-Identifier: Apache-2.0 */
/* Start, devices and what they tell. */
#include <dlfcn.h>
#include "double.h"

#define ERROR(name)         \
	{                   \
		name, #name \
	}

static const struct {
	int code;
	const char *name;
} errors[] = {
	ERROR(CUDA_SUCCESS),
	ERROR(CUDA_ERROR_INVALID_VALUE),
	ERROR(CUDA_ERROR_OUT_OF_MEMORY),
	ERROR(CUDA_ERROR_NOT_INITIALIZED),
	ERROR(CUDA_ERROR_NO_DEVICE),
	ERROR(CUDA_ERROR_INVALID_DEVICE),
	ERROR(CUDA_ERROR_INVALID_IMAGE),
	ERROR(CUDA_ERROR_INVALID_CONTEXT),
	ERROR(CUDA_ERROR_MAP_FAILED),
	ERROR(CUDA_ERROR_NO_BINARY_FOR_GPU),
	ERROR(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED),
	ERROR(CUDA_ERROR_INVALID_HANDLE),
	ERROR(CUDA_ERROR_NOT_FOUND),
	ERROR(CUDA_ERROR_NOT_READY),
	ERROR(CUDA_ERROR_ILLEGAL_ADDRESS),
	ERROR(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED),
	ERROR(CUDA_ERROR_PEER_ACCESS_NOT_ENABLED),
	ERROR(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED),
	ERROR(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED),
	ERROR(CUDA_ERROR_LAUNCH_FAILED),
	ERROR(CUDA_ERROR_NOT_SUPPORTED),
};

/* ---- start ---- */

EXPORT int cuInit(unsigned flags)
{
	ENTER(CLASS_NONE, 0);
	if (flags)
		return CUDA_ERROR_INVALID_VALUE;
	if (!words_now().gpus)
		return CUDA_ERROR_NO_DEVICE;
	lock();
	double_started = true;
	unlock();
	return 0;
}

EXPORT int cuDriverGetVersion(int *version)
{
	ENTER(CLASS_NONE, 0);
	*version = words_now().driver;
	return 0;
}

EXPORT int cuGetErrorName(int code, const char **name)
{
	size_t i;

	*name = NULL;
	for (i = 0; i < sizeof(errors) / sizeof(errors[0]); i++)
		if (errors[i].code == code)
			*name = errors[i].name;
	return *name ? 0 : CUDA_ERROR_INVALID_VALUE;
}

/* The driver has sentences; here they are the names. */
EXPORT int cuGetErrorString(int code, const char **text)
{
	return cuGetErrorName(code, text);
}

/* The exported name of `symbol` as a program of that version means it; NULL: there is none. */
static void *symbol_of(const char *symbol, int version, bool *later)
{
	bool batch = !strcmp(symbol, "cuMemcpyBatchAsync");
	static void *self;
	char name[80];
	Dl_info info;
	void *found;

	if (!self && dladdr((void *)(uintptr_t)cuInit, &info))
		self = dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD);
	if (!self)
		die("cuGetProcAddress: %s", dlerror());
	*later = batch && version < 12080;
	if (strstr(symbol, "_v2") || strncmp(symbol, "cu", 2) || !strncmp(symbol, "cuda", 4))
		return NULL;
	snprintf(name, sizeof(name), "%s_v2", symbol);
	found = batch && version < 13000 ? NULL : dlsym(self, name);
	return found ? found : dlsym(self, symbol);
}

EXPORT int cuGetProcAddress_v2(const char *symbol, void **to, int version, uint64_t flags,
			       int *status)
{
	bool later;

	ENTER(CLASS_NONE, 0);
	if (version > words_now().driver || flags > 2)
		return CUDA_ERROR_INVALID_VALUE;
	*to = symbol_of(symbol, version, &later);
	if (status)
		*status = !*to ? CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND
			       : later * CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT;
	if (later)
		*to = NULL;
	return 0;
}

EXPORT int cuGetProcAddress(const char *symbol, void **to, int version, uint64_t flags)
{
	return cuGetProcAddress_v2(symbol, to, version, flags, NULL);
}

/* ---- devices ---- */

EXPORT int cuDeviceGetCount(int *n)
{
	ENTER(CLASS_NONE, NEEDS_INIT);
	*n = words_now().gpus;
	return 0;
}

EXPORT int cuDeviceGet(int *device, int ordinal)
{
	ENTER_DEVICE(ordinal);
	*device = ordinal;
	return 0;
}

EXPORT int cuDeviceGetName(char *name, int len, int device)
{
	ENTER_DEVICE(device);
	snprintf(name, (size_t)len, "Stand-in GPU");
	return 0;
}

EXPORT int cuDeviceGetUuid_v2(char uuid[16], int device)
{
	ENTER_DEVICE(device);
	memcpy(uuid, "urccl-test-gpu-", 15);
	uuid[15] = (char)('0' + device);
	return 0;
}

EXPORT int cuDeviceGetPCIBusId(char *id, int len, int device)
{
	ENTER_DEVICE(device);
	if (len < 13)
		return CUDA_ERROR_INVALID_VALUE;
	snprintf(id, (size_t)len, "FFFF:%02X:00.0", device + 1);
	return 0;
}

EXPORT int cuDeviceGetAttribute(int *value, int attribute, int device)
{
	const struct words w = words_now();
	const struct {
		int attribute, value;
	} values[] = {
		{CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 1024},
		{CU_DEVICE_ATTRIBUTE_WARP_SIZE, 32},
		{CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 132},
		{CU_DEVICE_ATTRIBUTE_INTEGRATED, 0},
		{CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY, 1},
		{CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, device + 1},
		{CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID, 0},
		{CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT, 3},
		{CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 1},
		{CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID, 0xffff},
		{CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 9},
		{CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 0},
		{CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, 1},
		{CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS, 0},
		{CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM, 1},
		{CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED, 1},
		{CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, !w.novmm},
		{CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, !w.novmm},
		{CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED, !w.novmm},
		{CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, 1},
		{CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED, !w.nodmabuf},
		{CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS, 1},
		{CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING, 0},
		{CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS, 1},
		{CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR, 1},
		{CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED, !w.nodmabuf},
		{CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED, !w.nolegacy},
		{CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID, 0},
	};
	size_t i;

	ENTER_DEVICE(device);
	for (i = 0; i < sizeof(values) / sizeof(values[0]); i++)
		if (values[i].attribute == attribute)
			return *value = values[i].value, 0;
	die("cuDeviceGetAttribute: attribute %d has no value here: add it", attribute);
}
