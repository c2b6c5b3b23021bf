/* SPDX-License-Identifier: Apache-2.0 */
/* A system that refuses memory files which could be executed (vm.memfd_noexec is 2): everything
 * opens all the same. In a PID namespace of the test's own, which the setting ends with. */
#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "memory/memory.h"
#include "segment/segment.h"
#include "test.h"

#ifndef F_SEAL_EXEC
#define F_SEAL_EXEC 0x0020
#endif
#ifndef MFD_EXEC
#define MFD_EXEC 0x0010u
#endif

static int set_strict(void)
{
	FILE *f = fopen("/proc/sys/vm/memfd_noexec", "w");
	int bad;

	if (!f)
		return 0;
	bad = fputs("2", f) < 0;
	return !fclose(f) && !bad;
}

static void never_executed(int fd)
{
	CHECK(fcntl(fd, F_GET_SEALS) & F_SEAL_EXEC);
	CHECK(fchmod(fd, 0700) && errno == EPERM);
}

/* Ends by _exit(): what looks for leaks finds no /proc of this namespace. */
static void strict(void)
{
	struct urccl_params p = {.size = sizeof(p)};
	struct allocation *a;
	struct urccl *ctx;
	void *m;

	if (!set_strict())
		_exit(77);
	CHECK(memfd_create("for exec", MFD_EXEC) < 0 && errno == EACCES);
	CHECK_EQ(memory_alloc(4096, &a), 0);
	never_executed(a->fd);
	memory_free(a);
	urccl_params_init(&p);
	p.transport = "shm,tcp";
	CHECK_EQ(urccl_open(&p, &ctx), 0);
	CHECK_EQ(urccl_alloc(ctx, 4096, &m), 0);
	CHECK_EQ(urccl_free(ctx, m), 0);
	urccl_close(ctx);
	_exit(0);
}

static int status_of(pid_t child)
{
	int status;

	CHECK(child > 0);
	CHECK_EQ(waitpid(child, &status, 0), child);
	CHECK(WIFEXITED(status));
	return WEXITSTATUS(status);
}

/* Nothing can be forked in it any more once its first process has ended. */
static void in_namespace(void)
{
	pid_t child;

	if (unshare(CLONE_NEWPID))
		_exit(77);
	child = fork();
	if (!child)
		strict();
	_exit(status_of(child));
}

int case_memfd_noexec(void)
{
	pid_t child = fork();
	int status;

	if (!child)
		in_namespace();
	status = status_of(child);
	if (status == 77)
		SKIP("no PID namespace to set vm.memfd_noexec in, or it cannot be set");
	return status;
}
