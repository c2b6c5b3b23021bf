/* SPDX-License-Identifier: Apache-2.0 */
/* Start, devices, contexts and their access to each other. */
#include <dlfcn.h>
#include "double.h"

#define STACK_MAX 32

static struct context *contexts, *ended_contexts; /* streams that hang keep the latter */
static struct context *primary[GPUS_MAX];
static __thread struct context *stack[STACK_MAX];
static __thread int depth;

static const struct {
	int code;
	const char *name, *text;
} errors[] = {
	{CUDA_SUCCESS, "CUDA_SUCCESS", "no error"},
	{CUDA_ERROR_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
	{CUDA_ERROR_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
	{CUDA_ERROR_NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
	{CUDA_ERROR_NO_DEVICE, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
	{CUDA_ERROR_INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
	{CUDA_ERROR_INVALID_IMAGE, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
	{CUDA_ERROR_INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
	{CUDA_ERROR_MAP_FAILED, "CUDA_ERROR_MAP_FAILED", "mapping of buffer object failed"},
	{CUDA_ERROR_NO_BINARY_FOR_GPU, "CUDA_ERROR_NO_BINARY_FOR_GPU",
	 "no kernel image is available for execution on the device"},
	{CUDA_ERROR_PEER_ACCESS_UNSUPPORTED, "CUDA_ERROR_PEER_ACCESS_UNSUPPORTED",
	 "peer access is not supported between these two devices"},
	{CUDA_ERROR_INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
	{CUDA_ERROR_NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
	{CUDA_ERROR_NOT_READY, "CUDA_ERROR_NOT_READY", "device not ready"},
	{CUDA_ERROR_ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS",
	 "an illegal memory access was encountered"},
	{CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, "CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED",
	 "peer access is already enabled"},
	{CUDA_ERROR_PEER_ACCESS_NOT_ENABLED, "CUDA_ERROR_PEER_ACCESS_NOT_ENABLED",
	 "peer access has not been enabled"},
	{CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED",
	 "part or all of the requested memory range is already mapped"},
	{CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED",
	 "pointer does not correspond to a registered memory region"},
	{CUDA_ERROR_LAUNCH_FAILED, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
	{CUDA_ERROR_NOT_SUPPORTED, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
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

static int error_at(int code, const char **to, bool name)
{
	size_t i;

	for (i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
		if (errors[i].code == code) {
			*to = name ? errors[i].name : errors[i].text;
			return 0;
		}
	}
	*to = NULL;
	return CUDA_ERROR_INVALID_VALUE;
}

EXPORT int cuGetErrorName(int code, const char **name)
{
	return error_at(code, name, true);
}

EXPORT int cuGetErrorString(int code, const char **text)
{
	return error_at(code, text, false);
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

#define ENTER_DEVICE(device)                                      \
	do {                                                      \
		ENTER(CLASS_NONE, NEEDS_INIT);                    \
		if ((device) < 0 || (device) >= words_now().gpus) \
			return CUDA_ERROR_INVALID_DEVICE;         \
	} while (0)

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

EXPORT int cuDeviceGetUuid(char uuid[16], int device)
{
	return cuDeviceGetUuid_v2(uuid, device);
}

EXPORT int cuDeviceGetPCIBusId(char *id, int len, int device)
{
	ENTER_DEVICE(device);
	if (len < 13)
		return CUDA_ERROR_INVALID_VALUE;
	snprintf(id, (size_t)len, "FFFF:%02X:00.0", device + 1);
	return 0;
}

EXPORT int cuDeviceTotalMem_v2(size_t *bytes, int device)
{
	ENTER_DEVICE(device);
	*bytes = words_now().memory;
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

/* ---- contexts ---- */

struct context *current(void)
{
	return depth ? stack[depth - 1] : NULL;
}

struct context *context_of(void *handle)
{
	struct context *c;

	for (c = contexts; c && c != handle; c = c->next)
		;
	if (!c)
		die("%p is no context, or was destroyed", handle);
	return c;
}

void context_break(struct context *c, int error)
{
	if (!c->sticky)
		c->sticky = error;
}

static struct context *context_new(int gpu, bool is_primary)
{
	struct context *c = calloc(1, sizeof(*c));

	if (!c)
		die("no memory");
	*c = (struct context){.gpu = gpu, .primary = is_primary, .next = contexts};
	contexts = c;
	return c;
}

/* Its memory, streams and the error that stuck to it go. */
static void context_end(struct context *c)
{
	struct context **at;

	context_streams_end(c);
	context_frees(c);
	for (at = &contexts; *at != c; at = &(*at)->next)
		;
	*at = c->next;
	c->next = ended_contexts;
	ended_contexts = c;
}

EXPORT int cuDevicePrimaryCtxRetain(void **context, int device)
{
	ENTER_DEVICE(device);
	lock();
	if (!primary[device])
		primary[device] = context_new(device, true);
	primary[device]->refs++;
	*context = primary[device];
	unlock();
	return 0;
}

EXPORT int cuDevicePrimaryCtxRelease_v2(int device)
{
	ENTER_DEVICE(device);
	lock();
	if (!primary[device])
		die("cuDevicePrimaryCtxRelease: GPU %d's context was not retained", device);
	if (!--primary[device]->refs) {
		context_end(primary[device]);
		primary[device] = NULL;
	}
	unlock();
	return 0;
}

EXPORT int cuDevicePrimaryCtxGetState(int device, unsigned *flags, int *active)
{
	ENTER_DEVICE(device);
	lock();
	*flags = 0;
	*active = !!primary[device];
	unlock();
	return 0;
}

EXPORT int cuCtxCreate_v2(void **context, unsigned flags, int device)
{
	(void)flags;
	ENTER_DEVICE(device);
	if (depth == STACK_MAX)
		die("cuCtxCreate: the stack of contexts is full");
	lock();
	*context = stack[depth++] = context_new(device, false);
	unlock();
	return 0;
}

EXPORT int cuCtxDestroy_v2(void *context)
{
	ENTER(CLASS_NONE, NEEDS_INIT);
	lock();
	if (context_of(context)->primary)
		die("cuCtxDestroy: it is a primary context");
	context_end(context);
	unlock();
	if (current() == context)
		depth--;
	return 0;
}

EXPORT int cuCtxPushCurrent_v2(void *context)
{
	ENTER(CLASS_NONE, NEEDS_INIT);
	lock();
	context_of(context);
	unlock();
	if (depth == STACK_MAX)
		die("cuCtxPushCurrent: the stack of contexts is full");
	stack[depth++] = context;
	return 0;
}

EXPORT int cuCtxPopCurrent_v2(void **context)
{
	ENTER(CLASS_NONE, NEEDS_INIT);
	if (!depth)
		return CUDA_ERROR_INVALID_CONTEXT;
	depth--;
	if (context)
		*context = stack[depth];
	return 0;
}

EXPORT int cuCtxSetCurrent(void *context)
{
	ENTER(CLASS_NONE, NEEDS_INIT);
	if (context) {
		lock();
		context_of(context);
		unlock();
	}
	if (depth)
		depth--;
	if (context)
		stack[depth++] = context;
	return 0;
}

EXPORT int cuCtxGetCurrent(void **context)
{
	ENTER(CLASS_NONE, NEEDS_INIT);
	*context = current();
	return 0;
}

EXPORT int cuCtxGetDevice(int *device)
{
	ENTER(CLASS_NONE, NEEDS_INIT | NEEDS_CONTEXT | PASSES_STICKY);
	*device = current()->gpu;
	return 0;
}

EXPORT int cuCtxGetStreamPriorityRange(int *least, int *greatest)
{
	ENTER(CLASS_NONE, NEEDS_INIT | NEEDS_CONTEXT);
	if (least)
		*least = 0;
	if (greatest)
		*greatest = -5;
	return 0;
}

EXPORT int cuCtxSynchronize(void)
{
	int res;

	ENTER(CLASS_STREAM, NEEDS_INIT | NEEDS_CONTEXT);
	lock();
	streams_wait(current(), false);
	res = current()->sticky;
	unlock();
	return res;
}

EXPORT int cuFlushGPUDirectRDMAWrites(int target, int scope)
{
	ENTER(CLASS_NONE, NEEDS_INIT | NEEDS_CONTEXT);
	if (target || (scope != CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER &&
		       scope != CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_ALL_DEVICES))
		return CUDA_ERROR_INVALID_VALUE;
	return 0;
}

/* ---- peer access ---- */

EXPORT int cuDeviceCanAccessPeer(int *can, int device, int peer)
{
	ENTER_DEVICE(device);
	if (peer < 0 || peer >= words_now().gpus)
		return CUDA_ERROR_INVALID_DEVICE;
	*can = device != peer && !words_now().nopeer;
	return 0;
}

static int peer_access(void *peer, bool on)
{
	struct context *c = current(), *p;

	if (peer == c)
		return CUDA_ERROR_INVALID_CONTEXT;
	p = context_of(peer);
	if (on && (double_words.nopeer || p->gpu == c->gpu))
		return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
	if (c->peers[p->gpu] == on)
		return on ? CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED
			  : CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
	c->peers[p->gpu] = on;
	return 0;
}

EXPORT int cuCtxEnablePeerAccess(void *peer, unsigned flags)
{
	int res;

	ENTER(CLASS_NONE, NEEDS_INIT | NEEDS_CONTEXT);
	if (flags)
		return CUDA_ERROR_INVALID_VALUE;
	lock();
	res = peer_access(peer, true);
	unlock();
	return res;
}

EXPORT int cuCtxDisablePeerAccess(void *peer)
{
	int res;

	ENTER(CLASS_NONE, NEEDS_INIT | NEEDS_CONTEXT);
	lock();
	res = peer_access(peer, false);
	unlock();
	return res;
}
