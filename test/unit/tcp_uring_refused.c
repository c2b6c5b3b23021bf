/* SPDX-License-Identifier: Apache-2.0 */
/* Where the kernel gives no io_uring, opening says which of its reasons it was, and how to change
 * it. The readiness driver opens all the same. */
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include "tcp_pair.h"
#include "seccomp.h"

static void refuse(int err)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_setup, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (uint32_t)err),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};

	seccomp_set(code, sizeof(code) / sizeof(code[0]));
}

__attribute__((noreturn)) static void child(int err, const char *says)
{
	const struct rlimit lim = {.rlim_cur = 65536, .rlim_max = 65536};
	struct urccl_params p = tcp_params();
	struct tcp_node n;

	CHECK_EQ(setrlimit(RLIMIT_MEMLOCK, &lim), 0);
	refuse(err);
	p.tcp_driver = URCCL_TCP_IO_URING;
	CHECK_EQ(tcp_try_open(&n, &p, AF_INET), -err);
	CHECK_SAYS(urccl_errmsg(), says);
	CHECK(strstr(urccl_errmsg(), "tcp_driver io_uring"));
	p.tcp_driver = URCCL_TCP_READINESS;
	CHECK_EQ(tcp_try_open(&n, &p, AF_INET), 0);
	backend_tcp.close(n.dev);
	test_end(0);
}

static void run(int err, const char *says)
{
	int status;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	CHECK(pid >= 0);
	if (!pid)
		child(err, says);
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK(WIFEXITED(status));
	if (WEXITSTATUS(status))
		test_end(WEXITSTATUS(status));
}

int case_tcp_uring_refused(void)
{
	run(ENOMEM, "RLIMIT_MEMLOCK is 64 KiB");
	run(EPERM, "kernel.io_uring_disabled");
	run(ENOSYS, "does not have it");
	run(EINVAL, "older than 6.1");
	run(EMFILE, "RLIMIT_NOFILE");
	return 0;
}
