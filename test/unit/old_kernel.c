/* SPDX-License-Identifier: Apache-2.0 */
/* A kernel, or a filter, that has no epoll_pwait2(): the threads sleep all the same, and a deadline
 * comes in time. Both answers that such a call gets are tried, each in a process of its own. */
#include <errno.h>
#include <liburccl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "seccomp.h"
#include "test.h"

static void deny(uint32_t with)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_epoll_pwait2, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | with),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};

	seccomp_set(code, sizeof(code) / sizeof(code[0]));
}

/* A TIMEOUT of 200 ms ends then, and the engine did next to nothing meanwhile. */
static void sleeps(uint32_t flags)
{
	struct urccl_wait_args args = {.size = sizeof(args), .min_n = 1, .timeout_ns = ~0ull};
	struct urccl_stats before = {.size = sizeof(before)}, after = before;
	struct urccl_params p = {.size = sizeof(p)};
	struct urccl_ring *ring;
	struct urccl_cqe *cqe;
	struct urccl *ctx;

	urccl_params_init(&p);
	p.flags = flags;
	CHECK_EQ(urccl_open(&p, &ctx), 0);
	CHECK_EQ(urccl_ring_open(ctx, NULL, &ring), 0);
	CHECK_EQ(urccl_get_stats(ctx, &before), 0);
	urccl_prep_timeout(urccl_get_sqe(ring), 200000000, 0, 0);
	CHECK_EQ(urccl_submit(ring), 1);
	CHECK_EQ(urccl_wait(ring, &cqe, &args), 1);
	CHECK_EQ(cqe->res, -ETIME);
	CHECK_EQ(urccl_get_stats(ctx, &after), 0);
	CHECK_LE(after.turns - before.turns, 20000);
	urccl_close(ctx);
}

static void child(uint32_t with)
{
	deny(with);
	CHECK_EQ(syscall(SYS_epoll_pwait2, -1, NULL, 0, NULL, NULL, 0), -1);
	CHECK_EQ(errno, with);
	sleeps(0);
	sleeps(URCCL_OPEN_INLINE);
	_exit(0);
}

int case_old_kernel(void)
{
	static const uint32_t answers[] = {ENOSYS, EPERM};
	int status, i;

	for (i = 0; i < 2; i++) {
		if (!fork())
			child(answers[i]);
		CHECK(wait(&status) > 0);
		CHECK(WIFEXITED(status));
		if (WEXITSTATUS(status))
			return WEXITSTATUS(status);
	}
	return 0;
}
