/* SPDX-License-Identifier: Apache-2.0 */
/* A process that has a few descriptors left takes a connection, and cannot take what follows: the
 * dialler hears EMFILE, at once, and neither waits for its deadline nor is left to guess. */
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include "meet.h"

#define MOST 5

static struct pair p;

static void lower_limit(uint32_t more)
{
	int next = fcntl(0, F_DUPFD_CLOEXEC, 0);
	struct rlimit limit = {(rlim_t)next + more, (rlim_t)next + more};

	CHECK(next >= 0);
	close(next);
	CHECK_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

__attribute__((noreturn)) static void serve(int out, uint32_t more)
{
	uint8_t blob[URCCL_METADATA_MAX];
	struct urccl_cqe cqe;
	int len;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	side_open(&p, &p.b);
	side_accept(&p.b, 1);
	len = urccl_metadata(p.b.ctx, blob, sizeof(blob));
	CHECK_GE(len, 1);
	lower_limit(more);
	CHECK_EQ(write(out, blob, (size_t)len), len);
	for (;;)
		side_take_within(&p.b, NULL, 1000000000, &cqe, NULL);
}

/* 1: it was refused. */
static int dials(uint32_t more)
{
	uint8_t blob[URCCL_METADATA_MAX];
	char why[512];
	struct urccl_cqe cqe;
	int fd[2];
	ssize_t len;
	pid_t pid;

	CHECK_EQ(pipe(fd), 0);
	pid = fork();
	CHECK(pid >= 0);
	if (!pid)
		serve(fd[1], more);
	len = read(fd[0], blob, sizeof(blob));
	CHECK_GE(len, 1);
	side_open(&p, &p.a);
	cqe = side_dialled(&p.a, NULL, blob, (uint32_t)len, 60000000);
	if (cqe.res) {
		CHECK_GE(urccl_explain(p.a.ctx, &cqe, why, sizeof(why)), 1);
		CHECK_SAYS(why, "EMFILE");
		CHECK_NE(cqe.res, -ETIMEDOUT);
	}
	side_close(&p.a);
	CHECK_EQ(kill(pid, SIGKILL), 0);
	CHECK_EQ(waitpid(pid, NULL, 0), pid);
	close(fd[0]);
	close(fd[1]);
	return cqe.res != 0;
}

int main(int argc, char **argv)
{
	static const char *const transports[] = {"tcp", "shm"};
	uint32_t i, more, refused;

	pair_options(&p, argc, argv);
	for (i = 0; i < 2; i++) {
		p.params.transport = transports[i];
		for (more = refused = 0; more < MOST; more++)
			refused += (uint32_t)dials(more);
		CHECK_GE(refused, 2); /* without any, and without one for the data */
	}
	return 0;
}
