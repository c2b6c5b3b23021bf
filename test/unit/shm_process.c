/* SPDX-License-Identifier: Apache-2.0 */
/* The process at the other end of a link: where the kernel names it by number alone, one that began
 * at another time than the peer says has the number of one that is gone, and is not taken. */
#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <backend/shm/shm.h>
#include "seccomp.h"
#include "test.h"

/* A kernel without SO_PEERPIDFD. */
static void deny(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getsockopt, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2])),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 77, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOPROTOOPT),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};

	seccomp_set(code, sizeof(code) / sizeof(code[0]));
}

/* The peer is the parent. */
static void child(int sock, uint64_t started)
{
	struct pollfd fd = {.events = POLLIN};

	deny();
	if (syscall(SYS_pidfd_open, getppid(), 0) < 0)
		SKIP("no descriptor of a process can be had here");
	CHECK_EQ(shm_process_open(sock, started + 1), -ESRCH);
	CHECK_EQ(shm_process_open(sock, 0), -ESRCH);
	fd.fd = shm_process_open(sock, started);
	CHECK_GE(fd.fd, 0);
	CHECK_EQ(poll(&fd, 1, 0), 0);
	test_end(0);
}

int case_shm_process(void)
{
	uint64_t started = shm_process_started();
	int socks[2], status;
	pid_t pid;

	CHECK(started);
	CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, socks), 0);
	pid = fork();
	CHECK(pid >= 0);
	if (!pid)
		child(socks[0], started);
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK(WIFEXITED(status));
	close(socks[0]);
	close(socks[1]);
	return WEXITSTATUS(status);
}
