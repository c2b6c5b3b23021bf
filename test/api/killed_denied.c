/* SPDX-License-Identifier: Apache-2.0 */
/* A container that denies pidfd_open(), with either answer, or a kernel without SO_PEERPIDFD: peers
 * of this host meet and move data. Without SO_PEERPIDFD alone a killed peer is lost although a
 * forked child holds its sockets; without both it is when these are closed. */
#include <errno.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include "killed.h"
#include "seccomp.h"

#define PEER_PIDFD 77 /* SO_PEERPIDFD */

static struct pair p;

/* open: what pidfd_open() answers; 0: it is not denied. */
static void deny(uint32_t open)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_pidfd_open, 4, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getsockopt, 0, 4),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2])),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, PEER_PIDFD, 0, 2),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOPROTOOPT),
		BPF_STMT(BPF_RET | BPF_K, open ? SECCOMP_RET_ERRNO | open : SECCOMP_RET_ALLOW),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};

	seccomp_set(code, sizeof(code) / sizeof(code[0]));
}

static void writes(const struct killed *k)
{
	static uint8_t local[4096];
	struct urccl_remote remote;
	struct urccl_sqe *sqe;

	side_register(&p.a, local, sizeof(local), 0);
	CHECK_EQ(urccl_import(p.a.ctx, p.a.peer, &k->page->advert, 1, &remote), 0);
	sqe = side_sqe(&p.a);
	urccl_prep_write(sqe, remote, local, sizeof(local), 0);
	CHECK_EQ(pair_run(&p, &p.a, sqe).res, sizeof(local));
}

static void peers(uint32_t open)
{
	struct killed k;

	deny(open);
	p.params.dead_after_ms = 600000;
	side_open(&p, &p.a);
	killed_open(&p, &k);
	killed_start(&p, &k);
	writes(&k);
	killed_signal(&k, SIGKILL);
	if (open)
		killed_end(&k);
	killed_lost(&p.a, 0, open ? "the connection broke" : "process has ended");
	if (!open)
		killed_end(&k);
	side_close(&p.a);
	test_end(0);
}

int main(int argc, char **argv)
{
	static const uint32_t answers[] = {0, EPERM, ENOSYS};
	uint32_t i;
	int status;

	killed_possible();
	pair_options(&p, argc, argv);
	for (i = 0; i < 3; i++) {
		fflush(stdout);
		if (!fork())
			peers(answers[i]);
		CHECK(wait(&status) > 0);
		CHECK(WIFEXITED(status));
		if (WEXITSTATUS(status))
			return WEXITSTATUS(status);
	}
	return 0;
}
