/* SPDX-License-Identifier: Apache-2.0 */
/* The stand-in's streams keep their order, and its faults are as told: delays, calls that are held,
 * streams that hang, errors that stick. */
#include <pthread.h>
#include <stdatomic.h>
#include <sys/prctl.h>
#include "cuda/calls.h"
#include "cuda/control.h"
#include "cuda/device.h"

#define LEN   100000u
#define QUEUE 1021

static uint64_t addr;
static void *stream;
static _Atomic uint64_t *word;
static uint8_t *host;
static atomic_int returned;

static void *stream_new(void)
{
	void *s;

	CHECK_EQ(cuStreamCreateWithPriority(&s, CU_STREAM_NON_BLOCKING, 0), 0);
	return s;
}

static void write_word(void *s, uint64_t value)
{
	CHECK_EQ(cuStreamWriteValue64_v2(s, (uintptr_t)word, value, 0), 0);
}

static void await(uint64_t value)
{
	while (atomic_load_explicit(word, memory_order_acquire) != value)
		;
}

/* A word that is there means that the bytes before it are, also the last ones of a slow copy. */
static void words_follow_bytes(void)
{
	device_set("delay=200,late=3000");
	for (uint64_t i = 1; i <= 20; i++) {
		device_fill(addr, LEN, 0, i);
		CHECK_EQ(cuMemcpyAsync((uintptr_t)host, addr, LEN, stream), 0);
		write_word(stream, i);
		await(i);
		for (unsigned j = 0; j < LEN; j++)
			CHECK_EQ(host[j], device_byte(j, i));
	}
	device_set("delay=0,late=0");
}

static void events_and_waits(void)
{
	void *event, *second = stream_new();

	CHECK_EQ(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING), 0);
	CHECK_EQ(cuEventQuery(event), 0); /* never recorded */
	CHECK_EQ(cuStreamWaitValue64_v2(stream, (uintptr_t)word, 100, CU_STREAM_WAIT_VALUE_GEQ), 0);
	CHECK_EQ(cuEventRecord(event, stream), 0);
	CHECK_EQ(cuEventQuery(event), CUDA_ERROR_NOT_READY);
	CHECK_EQ(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
	write_word(second, 100);
	CHECK_EQ(cuStreamSynchronize(stream), 0);
	CHECK_EQ(cuEventQuery(event), 0);
	CHECK_EQ(cuEventDestroy_v2(event), 0);
	CHECK_EQ(cuStreamDestroy_v2(second), 0);
}

static void *copier(void *arg)
{
	prctl(PR_SET_NAME, arg);
	device_enter(0);
	CHECK_EQ(cuMemcpyAsync((uintptr_t)host, addr, 8, stream), 0);
	atomic_store(&returned, 1);
	device_leave();
	return NULL;
}

/* A held call returns when it is let go, and others go on meanwhile. */
static void calls_are_held(void)
{
	unsigned long before = device_calls(NULL, "cuStreamQuery");
	pthread_t thread;

	device_set("hold=memcpy");
	CHECK_EQ(pthread_create(&thread, NULL, copier, "copier"), 0);
	while (!device_calls("copier", "cuMemcpyAsync"))
		;
	CHECK_EQ(cuStreamQuery(stream), 0);
	CHECK_EQ(atomic_load(&returned), 0);
	CHECK_EQ(device_calls(NULL, "cuStreamQuery"), before + 1);
	device_set("hold=none");
	CHECK_EQ(pthread_join(thread, NULL), 0);
	CHECK_EQ(device_calls("copier", NULL), 3);
}

static void *overfill(void *s)
{
	device_enter(0);
	for (int i = 0; i < QUEUE + 1; i++)
		write_word(s, 1000 + (uint64_t)i);
	atomic_store(&returned, 2);
	device_leave();
	return NULL;
}

/* The third stream hangs; a call waits when its queue is full. What a destroyed one has queued is
 * done when it hangs no more. */
static void a_stream_hangs(void)
{
	pthread_t thread;
	void *s;

	device_set("hang=3");
	s = stream_new();
	CHECK_EQ(pthread_create(&thread, NULL, overfill, s), 0);
	while (device_calls(NULL, "cuStreamWriteValue64") < 21 + QUEUE + 1)
		;
	CHECK_EQ(cuStreamQuery(s), CUDA_ERROR_NOT_READY);
	write_word(stream, 7);
	await(7);
	CHECK_EQ(atomic_load(&returned), 1);
	device_set("hang=0");
	await(1000 + QUEUE);
	CHECK_EQ(pthread_join(thread, NULL), 0);
	CHECK_EQ(cuStreamDestroy_v2(s), 0);

	device_set("hang=4");
	s = stream_new();
	write_word(s, 8);
	CHECK_EQ(cuStreamDestroy_v2(s), 0);
	device_set("hang=0");
	await(8);
}

static void calls_are_refused(void)
{
	device_set("refuse=cuMemHostAlloc:2");
	CHECK_EQ(cuMemHostAlloc((void **)&host, 10, 0), CUDA_ERROR_OUT_OF_MEMORY);
	device_set("refuse=none,fail=1:801");
	CHECK_EQ(cuMemcpyAsync((uintptr_t)host, addr, 8, stream), CUDA_ERROR_NOT_SUPPORTED);
	CHECK_EQ(cuMemcpyAsync((uintptr_t)host, addr, 8, stream), 0);
	CHECK_EQ(cuda_double_set("nonsense"), -1);
}

/* The third operation fails: what is behind it does not happen, in this context alone. */
static void an_error_sticks(void)
{
	uint64_t there = device_alloc(8, 1);

	device_set("fail=3:700");
	write_word(stream, 1);
	await(1);
	write_word(stream, 2);
	CHECK_EQ(cuMemcpyAsync((uintptr_t)host, addr, 8, stream), 0);
	CHECK_EQ(cuStreamWriteValue64_v2(stream, (uintptr_t)word, 3, 0) % 700, 0);
	while (cuStreamQuery(stream) == CUDA_ERROR_NOT_READY)
		;
	CHECK_EQ(cuStreamQuery(stream), CUDA_ERROR_ILLEGAL_ADDRESS);
	CHECK_EQ(cuStreamSynchronize(stream), CUDA_ERROR_ILLEGAL_ADDRESS);
	CHECK_EQ(*word, 2);
	CHECK_EQ(cuMemcpyAsync((uintptr_t)host, addr, 8, stream), CUDA_ERROR_ILLEGAL_ADDRESS);
	CHECK_EQ(cuMemFree_v2(addr), CUDA_ERROR_ILLEGAL_ADDRESS);
	device_enter(1);
	CHECK_EQ(cuMemsetD8_v2(there, 1, 8), 0);
	device_leave();
}

static void found_by_name(void)
{
	void *p, *q;
	int status;

	CHECK_EQ(cuGetProcAddress_v2("cuMemAlloc", &p, 12000, 0, &status), 0);
	CHECK(p == device_symbol("cuMemAlloc_v2", 1) && !status);
	CHECK_EQ(cuGetProcAddress_v2("cuMemAlloc_v2", &p, 12000, 0, &status), 0);
	CHECK(!p && status == CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
	CHECK_EQ(cuGetProcAddress_v2("cuMemcpyBatchAsync", &p, 12000, 0, &status), 0);
	CHECK(!p && status == CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
	CHECK_EQ(cuGetProcAddress_v2("cuMemcpyBatchAsync", &p, 12080, 0, &status), 0);
	CHECK_EQ(cuGetProcAddress_v2("cuMemcpyBatchAsync", &q, 13000, 0, &status), 0);
	CHECK(p && q && p != q);
	CHECK_EQ(cuGetProcAddress_v2("cuInit", &p, 13010, 0, &status), CUDA_ERROR_INVALID_VALUE);
	CHECK(dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD) == device_cuda.so);
}

int main(void)
{
	int active;
	unsigned flags;

	CHECK_EQ(cuDevicePrimaryCtxGetState(0, &flags, &active), CUDA_ERROR_NOT_INITIALIZED);
	device_load();
	device_needs_gpus(2);
	CHECK_EQ(cuDevicePrimaryCtxGetState(0, &flags, &active), 0);
	CHECK_EQ(active, 1);
	device_enter(0);
	addr = device_alloc(LEN, 0);
	CHECK_EQ(cuMemHostAlloc((void **)&host, LEN, 0), 0);
	CHECK_EQ(cuMemHostAlloc((void **)&word, 8, 0), 0);
	stream = stream_new();
	words_follow_bytes();
	events_and_waits();
	calls_are_held();
	a_stream_hangs();
	calls_are_refused();
	found_by_name();
	an_error_sticks();
	return 0;
}
