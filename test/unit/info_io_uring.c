/* SPDX-License-Identifier: Apache-2.0 */
/* What urccl_info --doctor says of io_uring where it is denied: by a sysctl, which it names, by a
 * filter, or by it knows not what. The system call fails here by a filter of this process's own;
 * the files that the machine would have are the test's. */
#include <sys/syscall.h>

#include "info/info.h"
#include "tree.h"
#include "seccomp.h"

#define SYSCTL	 "/proc/sys/kernel/io_uring_disabled"
#define STATUS	 "/proc/self/status"
#define FILTERED "Seccomp:\t2"
#define FREE	 "Seccomp:\t0"

/* io_uring_setup() fails so from now on. */
static void deny(uint16_t err)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_setup, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | err),
	};

	seccomp_set(code, sizeof(code) / sizeof(code[0]));
	if (syscall(SYS_io_uring_setup, 1, NULL) != -1 || errno != err)
		SKIP("an emulator knows no seccomp filters");
}

static void says(const char *state, const char *advice)
{
	struct finding f = {.root = root};

	check_io_uring(&f);
	CHECK_EQ(f.health, HEALTH_NOTE);
	CHECK_SAYS(f.state, state);
	CHECK_SAYS(f.state, "tcp uses epoll");
	CHECK_SAYS(f.advice, advice);
}

static void not_permitted(void)
{
	says("denied: Operation not permitted", "only tcp_driver io_uring needs it");
	put(STATUS, FREE);
	put(SYSCTL, "0");
	says("denied: Operation not permitted", "only tcp_driver io_uring needs it");
	put(SYSCTL, "2");
	says("io_uring_disabled, which is 2", "sysctl kernel.io_uring_disabled=0");
	put(SYSCTL, "1"); /* of who is not privileged */
	says("io_uring_disabled, which is 1", "sysctl kernel.io_uring_disabled=0");
	put(STATUS, FILTERED);
	says("by a seccomp filter (Operation not permitted)", "seccomp profile");
	put(SYSCTL, "2");
	says("io_uring_disabled, which is 2", "sysctl kernel.io_uring_disabled=0");
}

static void not_known(void)
{
	put(SYSCTL, "0");
	put(STATUS, FREE);
	says("this kernel has none", "only tcp_driver io_uring needs it");
	put(STATUS, FILTERED);
	says("by a seccomp filter (Function not implemented)", "seccomp profile");
}

int main(void)
{
	deny(EPERM);
	tree_begin();
	not_permitted();
	deny(ENOSYS);
	not_known();
	tree_end();
	return 0;
}
