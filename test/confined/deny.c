/* SPDX-License-Identifier: Apache-2.0 */
/* deny COMMAND...: runs it with io_uring answered by EPERM. */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Jumps to the last instruction but one, EPERM, which is ahead by this many. */
#define DENY(nr, ahead) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (nr), (ahead), 0)

int main(int argc, char **argv)
{
	static struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		DENY(SYS_io_uring_setup, 3),
		DENY(SYS_io_uring_enter, 2),
		DENY(SYS_io_uring_register, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
	};
	static const struct sock_fprog filter = {
		.len = sizeof(code) / sizeof(code[0]),
		.filter = code,
	};

	if (argc < 2)
		return 2;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter)) {
		perror("deny");
		return 3;
	}
	execvp(argv[1], argv + 1);
	perror(argv[1]);
	return 127;
}
