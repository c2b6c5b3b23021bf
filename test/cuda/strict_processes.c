/* SPDX-License-Identifier: Apache-2.0 */
/* The stand-in shares memory between processes by legacy handles and by descriptors, and the death
 * of either side leaves the other one's memory and calls as they were. */
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include "cuda/calls.h"
#include "cuda/device.h"

#define LEN  300000u
#define UNIT (2u << 20)

static int ours, theirs; /* of the other process */

static void say(const void *bytes, size_t len)
{
	CHECK_EQ(send(ours, bytes, len, MSG_NOSIGNAL), len);
}

static void hear(void *bytes, size_t len)
{
	CHECK_EQ(recv(ours, bytes, len, MSG_WAITALL), len);
}

static void say_fd(int fd)
{
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(sizeof(int))];
	} control = {.head = {CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS}};
	struct iovec byte = {"f", 1};
	struct msghdr m = {.msg_iov = &byte,
			   .msg_iovlen = 1,
			   .msg_control = &control,
			   .msg_controllen = sizeof(control)};

	memcpy(CMSG_DATA(&control.head), &fd, sizeof(fd));
	CHECK_EQ(sendmsg(ours, &m, 0), 1);
}

static int hear_fd(void)
{
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(sizeof(int))];
	} control;
	char c;
	struct iovec byte = {&c, 1};
	struct msghdr m = {.msg_iov = &byte,
			   .msg_iovlen = 1,
			   .msg_control = &control,
			   .msg_controllen = sizeof(control)};
	int fd;

	CHECK_EQ(recvmsg(ours, &m, MSG_CMSG_CLOEXEC), 1);
	memcpy(&fd, CMSG_DATA(&control.head), sizeof(fd));
	return fd;
}

/* Both processes begin without CUDA. */
static pid_t begin(void (*other)(void))
{
	int pair[2];
	pid_t pid;

	CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	pid = fork();
	CHECK(pid >= 0);
	ours = pair[!pid];
	theirs = pair[!!pid];
	close(theirs);
	if (!pid)
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	device_load();
	device_enter(0);
	if (!pid) {
		other();
		test_end(0);
	}
	return pid;
}

static void end(pid_t pid, int signal)
{
	int status;

	if (signal)
		CHECK_EQ(kill(pid, signal), 0);
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK(signal ? WIFSIGNALED(status) && WTERMSIG(status) == signal
		     : WIFEXITED(status) && !WEXITSTATUS(status));
	close(ours);
}

static struct cu_ipc_handle share(uint64_t addr)
{
	struct cu_ipc_handle h;

	CHECK_EQ(cuIpcGetMemHandle(&h, addr), 0);
	return h;
}

static uint64_t open_handle(struct cu_ipc_handle h)
{
	uint64_t addr;

	CHECK_EQ(cuIpcOpenMemHandle_v2(&addr, h, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS), 0);
	return addr;
}

/* Reads what the exporter wrote, writes an answer and stays. */
static void import_legacy(void)
{
	struct cu_ipc_handle h;
	uint64_t addr, size = 0;
	unsigned legacy = 9;

	hear(&h, sizeof(h));
	addr = open_handle(h);
	CHECK_EQ(open_handle(h), addr);
	CHECK_EQ(cuIpcCloseMemHandle(addr), 0);
	CHECK_EQ(cuPointerGetAttribute(&size, CU_POINTER_ATTRIBUTE_RANGE_SIZE, addr), 0);
	CHECK_EQ(size, LEN);
	CHECK_EQ(cuPointerGetAttribute(&legacy, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE,
				       addr),
		 0);
	CHECK_EQ(legacy, 0);
	CHECK(device_check(addr, LEN, 0, 1));
	device_fill(addr, LEN, 0, 2);
	say("a", 1);
	hear(&h, 1);
	CHECK_EQ(cuIpcCloseMemHandle(addr), 0);
}

static void legacy_importer(int killed)
{
	pid_t pid = begin(import_legacy);
	uint64_t addr = device_alloc(LEN, 1), same;
	struct cu_ipc_handle h = share(addr);
	char c;

	CHECK_EQ(cuIpcOpenMemHandle_v2(&same, h, 1), CUDA_ERROR_INVALID_CONTEXT);
	device_fill(addr, LEN, 0, 1);
	say(&h, sizeof(h));
	hear(&c, 1);
	CHECK(device_check(addr, LEN, 0, 2));
	if (!killed)
		say("e", 1);
	end(pid, killed ? SIGKILL : 0);
	device_fill(addr, LEN, 0, 3);
	CHECK(device_check(addr, LEN, 0, 3));
	device_free(addr); /* aborts while it is open */
}

static void free_while_open(void)
{
	uint64_t addr = device_alloc(LEN, 0);
	struct cu_ipc_handle h = share(addr);
	char c;

	say(&h, sizeof(h));
	hear(&c, 1);
	signal(SIGABRT, SIG_DFL);
	device_free(addr);
}

static void freeing_what_is_open_aborts(void)
{
	struct cu_ipc_handle h;
	pid_t pid = begin(free_while_open);
	int status;

	hear(&h, sizeof(h));
	open_handle(h);
	say("o", 1);
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
	close(ours);
}

static void export_both(void)
{
	struct cu_prop prop = {CU_MEM_ALLOCATION_TYPE_PINNED,
			       1,
			       {CU_MEM_LOCATION_TYPE_DEVICE, 1},
			       NULL,
			       0,
			       0,
			       0,
			       {0}};
	struct cu_access rw = {{CU_MEM_LOCATION_TYPE_DEVICE, 0}, 3};
	uint64_t addr = device_alloc(LEN, 0), handle, mapped;
	struct cu_ipc_handle h = share(addr);
	char c;
	int fd;

	device_fill(addr, LEN, 0, 4);
	CHECK_EQ(cuMemCreate(&handle, UNIT, &prop, 0), 0);
	CHECK_EQ(cuMemExportToShareableHandle(&fd, handle, 1, 0), 0);
	CHECK_EQ(cuMemAddressReserve(&mapped, UNIT, 0, 0, 0), 0);
	CHECK_EQ(cuMemMap(mapped, UNIT, 0, handle, 0), 0);
	CHECK_EQ(cuMemSetAccess(mapped, UNIT, &rw, 1), 0);
	device_fill(mapped, UNIT, 0, 5);
	say(&h, sizeof(h));
	say_fd(fd);
	hear(&c, 1);
}

/* The exporter is killed: what is open stays, and its handle opens no more. */
static void killed_exporter(void)
{
	struct cu_access rw = {{CU_MEM_LOCATION_TYPE_DEVICE, 0}, 3};
	pid_t pid = begin(export_both);
	uint64_t addr, handle, mapped, none;
	struct cu_ipc_handle h;
	int fd;

	hear(&h, sizeof(h));
	addr = open_handle(h);
	fd = hear_fd();
	CHECK_EQ(cuMemImportFromShareableHandle(&handle, (void *)(intptr_t)ours, 1),
		 CUDA_ERROR_INVALID_VALUE);
	CHECK_EQ(cuMemImportFromShareableHandle(&handle, (void *)(intptr_t)fd, 1), 0);
	close(fd);
	end(pid, SIGKILL);
	CHECK(device_check(addr, LEN, 0, 4));
	CHECK_EQ(cuIpcCloseMemHandle(addr), 0);
	CHECK_EQ(cuIpcOpenMemHandle_v2(&none, h, 1), CUDA_ERROR_INVALID_VALUE);
	CHECK_EQ(cuMemAddressReserve(&mapped, UNIT, 0, 0, 0), 0);
	CHECK_EQ(cuMemMap(mapped, UNIT, 0, handle, 0), 0);
	CHECK_EQ(cuMemRelease(handle), 0);
	CHECK_EQ(cuMemSetAccess(mapped, UNIT, &rw, 1), 0);
	CHECK(device_check(mapped, UNIT, 0, 5));
	CHECK_EQ(cuMemUnmap(mapped, UNIT), 0);
	CHECK_EQ(cuMemAddressFree(mapped, UNIT), 0);
}

static void in_a_process(void (*run)(void))
{
	pid_t pid = fork();

	CHECK(pid >= 0);
	if (!pid) {
		run();
		test_end(0);
	}
	end(pid, 0);
}

static void importer_ends(void)
{
	legacy_importer(0);
}

static void importer_is_killed(void)
{
	legacy_importer(1);
}

/* CUDA that a process began is dead in its child. */
static void forked_child(void)
{
	int n;
	pid_t pid;

	device_load();
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		CHECK_EQ(cuDeviceCanAccessPeer(&n, 0, 1), CUDA_ERROR_NOT_INITIALIZED);
		test_end(0);
	}
	end(pid, 0);
}

int main(void)
{
	in_a_process(importer_ends);
	in_a_process(importer_is_killed);
	in_a_process(freeing_what_is_open_aborts);
	in_a_process(killed_exporter);
	in_a_process(forked_child);
	return 0;
}
