/* SPDX-License-Identifier: Apache-2.0 */
/* A dump and the log go to descriptors of the program that take nothing, or only part: the dump
 * fails with the reason, no SIGPIPE ends the program, and its mask and its own SIGPIPE stay. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <liburccl/inspect.h>
#include "test.h"
#include "liburccl.h"

#define PIPE_BYTES 4096
#define ROOM	   64 /* the dump's first line fits, and the dump does not */

static struct urccl *context_new(void)
{
	struct urccl_params p = {.size = sizeof(p)};
	struct urccl *ctx;

	urccl_params_init(&p);
	CHECK_EQ(setenv("URCCL_LOG_LEVEL", "info", 1), 0);
	CHECK_EQ(urccl_params_from_env(&p), 0);
	p.transport = "tcp";
	CHECK_EQ(urccl_open(&p, &ctx), 0);
	return ctx;
}

static int is_blocked(void)
{
	sigset_t now;

	CHECK_EQ(pthread_sigmask(SIG_BLOCK, NULL, &now), 0);
	return sigismember(&now, SIGPIPE);
}

static int is_pending(void)
{
	sigset_t now;

	CHECK_EQ(sigpending(&now), 0);
	return sigismember(&now, SIGPIPE);
}

static void block(int how)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGPIPE);
	CHECK_EQ(pthread_sigmask(how, &set, NULL), 0);
}

static void nobody_reads(struct urccl *ctx, int fd)
{
	CHECK_EQ(urccl_dump(ctx, fd), -EPIPE);
	CHECK_SAYS(urccl_errmsg(), "Broken pipe");
	CHECK(!is_blocked() && !is_pending());
	block(SIG_BLOCK);
	CHECK_EQ(urccl_dump(ctx, fd), -EPIPE);
	CHECK(is_blocked() && !is_pending());
	CHECK_EQ(raise(SIGPIPE), 0);
	CHECK_EQ(urccl_dump(ctx, fd), -EPIPE);
	CHECK(is_blocked() && is_pending());
	CHECK_EQ(signal(SIGPIPE, SIG_IGN), SIG_DFL); /* takes the pending one away */
	CHECK_EQ(signal(SIGPIPE, SIG_DFL), SIG_IGN);
	block(SIG_UNBLOCK);
	close(fd);
}

static void takes_part(struct urccl *ctx)
{
	static char fill[PIPE_BYTES];
	int fd[2];

	CHECK_EQ(pipe2(fd, O_NONBLOCK), 0);
	CHECK_EQ(fcntl(fd[1], F_SETPIPE_SZ, PIPE_BYTES), PIPE_BYTES);
	CHECK_EQ(write(fd[1], fill, PIPE_BYTES - ROOM), PIPE_BYTES - ROOM);
	CHECK_EQ(urccl_dump(ctx, fd[1]), -EAGAIN);
	close(fd[0]);
	close(fd[1]);
	fd[0] = open("/dev/full", O_WRONLY);
	CHECK_EQ(urccl_dump(ctx, fd[0]), -ENOSPC);
	close(fd[0]);
	CHECK_EQ(urccl_dump(ctx, -1), -EBADF);
}

int main(void)
{
	int fd[2], terminal = dup(STDERR_FILENO);
	struct urccl *ctx;

	CHECK_EQ(pipe(fd), 0);
	close(fd[0]);
	CHECK_EQ(dup2(fd[1], STDERR_FILENO), STDERR_FILENO);
	ctx = context_new(); /* writes to the log */
	CHECK_EQ(dup2(terminal, STDERR_FILENO), STDERR_FILENO);
	nobody_reads(ctx, fd[1]);
	CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, fd), 0);
	close(fd[0]);
	nobody_reads(ctx, fd[1]);
	takes_part(ctx);
	urccl_close(ctx);
	return 0;
}
