/* SPDX-License-Identifier: Apache-2.0 */
/* The stand-in for libcuda aborts, with a sentence, where a program does what CUDA leaves undefined
 * or what only a mistake does. Each case is a process of its own. */
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include "cuda/calls.h"
#include "cuda/device.h"

#define LEN  5000u
#define UNIT (2u << 20)

static uint64_t addr, other;
static void *stream, *event;
static uint8_t host[2 * LEN];

static void no_context(void)
{
	cuCtxSetCurrent(NULL);
	cuMemAlloc_v2(&addr, LEN);
}

static void context_destroyed(void)
{
	void *c;

	CHECK_EQ(cuCtxCreate_v2(&c, 0, 0), 0);
	CHECK_EQ(cuCtxDestroy_v2(c), 0);
	cuCtxPushCurrent_v2(c);
}

static void freed_twice(void)
{
	CHECK_EQ(cuMemFree_v2(addr), 0);
	cuMemFree_v2(addr);
}

static void freed_in_the_middle(void)
{
	cuMemFree_v2(addr + 512);
}

static void copied_when_freed(void)
{
	CHECK_EQ(cuMemFree_v2(addr), 0);
	cuMemcpyAsync((uintptr_t)host, addr, LEN, stream);
}

static void overrun(void)
{
	cuMemcpyAsync((uintptr_t)host, addr + 1, LEN, stream);
}

static void overrun_of_pinned(void)
{
	CHECK_EQ(cuMemHostRegister_v2(host, LEN - 1, 0), 0);
	cuMemcpyAsync((uintptr_t)host, addr, LEN, stream);
}

static void unknown_pointer(void)
{
	cuMemcpyDtoH_v2(host, (uintptr_t)host + LEN, LEN);
}

static void reserved(uint64_t *handle)
{
	struct cu_prop prop = {CU_MEM_ALLOCATION_TYPE_PINNED,
			       0,
			       {CU_MEM_LOCATION_TYPE_DEVICE, 0},
			       NULL,
			       0,
			       0,
			       0,
			       {0}};

	CHECK_EQ(cuMemAddressReserve(&addr, UNIT, 0, 0, 0), 0);
	CHECK_EQ(cuMemCreate(handle, UNIT, &prop, 0), 0);
}

static void not_mapped(void)
{
	uint64_t handle;

	reserved(&handle);
	cuMemcpyAsync((uintptr_t)host, addr, LEN, stream);
}

static void no_access(void)
{
	uint64_t handle;

	reserved(&handle);
	CHECK_EQ(cuMemMap(addr, UNIT, 0, handle, 0), 0);
	cuMemcpyAsync((uintptr_t)host, addr, LEN, stream);
}

static void handle_released(void)
{
	uint64_t handle;

	reserved(&handle);
	CHECK_EQ(cuMemRelease(handle), 0);
	cuMemMap(addr, UNIT, 0, handle, 0);
}

static void unmapped_in_use(void)
{
	struct cu_access rw = {{CU_MEM_LOCATION_TYPE_DEVICE, 0},
			       CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	uint64_t handle;

	reserved(&handle);
	CHECK_EQ(cuMemMap(addr, UNIT, 0, handle, 0), 0);
	CHECK_EQ(cuMemSetAccess(addr, UNIT, &rw, 1), 0);
	CHECK_EQ(cuStreamWaitValue64_v2(stream, addr, 1, CU_STREAM_WAIT_VALUE_EQ), 0);
	cuMemUnmap(addr, UNIT);
}

static void unregistered_in_use(void)
{
	CHECK_EQ(cuMemHostRegister_v2(host, LEN, 0), 0);
	CHECK_EQ(cuStreamWaitValue64_v2(stream, (uintptr_t)host, 1, CU_STREAM_WAIT_VALUE_EQ), 0);
	cuMemHostUnregister(host);
}

static void stream_destroyed(void)
{
	CHECK_EQ(cuStreamDestroy_v2(stream), 0);
	cuStreamQuery(stream);
}

static void event_destroyed(void)
{
	CHECK_EQ(cuEventDestroy_v2(event), 0);
	cuEventQuery(event);
}

static void shared_from_the_middle(void)
{
	struct cu_ipc_handle h;

	cuIpcGetMemHandle(&h, addr + 512);
}

static void closed_unopened(void)
{
	cuIpcCloseMemHandle(addr);
}

static void graph_lost(void)
{
	int mode = CU_STREAM_CAPTURE_MODE_RELAXED;

	device_set("capture");
	CHECK_EQ(cuThreadExchangeStreamCaptureMode(&mode), 0);
	CHECK_EQ(cuStreamQuery(stream), 0);
	CHECK_EQ(cuThreadExchangeStreamCaptureMode(&mode), 0);
	cuStreamQuery(stream);
}

static void touched_by_the_cpu(void)
{
	*(volatile char *)(uintptr_t)addr = 1;
}

static const struct {
	void (*run)(void);
	const char *says; /* NULL: SIGSEGV */
} cases[] = {
	{no_context, "no context is current"},
	{context_destroyed, "is no context"},
	{freed_twice, "was freed already"},
	{freed_in_the_middle, "is not what an allocation gave"},
	{copied_when_freed, "was freed"},
	{overrun, "overruns an allocation of 5000 bytes"},
	{overrun_of_pinned, "overruns an allocation of 4999 bytes"},
	{unknown_pointer, "is no pointer of CUDA's"},
	{not_mapped, "is reserved and not mapped"},
	{no_access, "see cuMemSetAccess()"},
	{handle_released, "is no handle"},
	{unmapped_in_use, "while an operation on it is under way"},
	{unregistered_in_use, "while an operation on it is under way"},
	{stream_destroyed, "is no stream"},
	{event_destroyed, "is no event"},
	{shared_from_the_middle, "is not where its memory begins"},
	{closed_unopened, "is not open"},
	{graph_lost, "the program records a graph"},
	{touched_by_the_cpu, NULL},
};

static void child(void (*run)(void), int err)
{
	/* Sanitizers would report either signal in their own way. */
	signal(SIGSEGV, SIG_DFL);
	signal(SIGABRT, SIG_DFL);
	dup2(err, STDERR_FILENO);
	device_load();
	device_enter(0);
	CHECK_EQ(cuMemAlloc_v2(&addr, LEN), 0);
	CHECK_EQ(cuMemAlloc_v2(&other, LEN), 0);
	CHECK_EQ(cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, 0), 0);
	CHECK_EQ(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING), 0);
	run();
	test_end(0);
}

int main(void)
{
	char said[4096];
	int status, err;
	ssize_t n;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		err = memfd_create("stderr", MFD_CLOEXEC);
		CHECK(err >= 0);
		pid_t pid = fork();

		CHECK(pid >= 0);
		if (!pid)
			child(cases[i].run, err);
		CHECK_EQ(waitpid(pid, &status, 0), pid);
		n = pread(err, said, sizeof(said) - 1, 0);
		CHECK(n >= 0);
		said[n] = 0;
		close(err);
		printf("case %zu: %s", i, n ? said : "\n");
		CHECK(WIFSIGNALED(status));
		CHECK_EQ(WTERMSIG(status), cases[i].says ? SIGABRT : SIGSEGV);
		if (cases[i].says)
			CHECK_SAYS(said, cases[i].says);
	}
	return 0;
}
