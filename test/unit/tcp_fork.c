/* SPDX-License-Identifier: Apache-2.0 */
/* A child that was forked holds copies of every descriptor: an end is one for the peer all the
 * same, and epoll says no more of what was closed. */
#include <sys/wait.h>
#include "sleeper.h"
#include "tcp_pair.h"

static struct tcp_node a, b;

static int epoll_is_silent(const struct tcp_node *n)
{
	struct epoll_event e;

	return epoll_wait(n->dev->fd, &e, 1, 0) == 0;
}

static void run(uint32_t driver)
{
	struct urccl_params p = tcp_params();
	pid_t pid;

	p.tcp_driver = driver;
	if (tcp_try_open(&a, &p, AF_INET)) {
		fprintf(stderr, "skipped: %s\n", urccl_errmsg());
		return;
	}
	CHECK_EQ(tcp_try_open(&b, &p, AF_INET), 0);
	tcp_up(&a, &b, AF_INET);
	pid = fork_sleeper();
	backend_tcp.ep_close(a.ep);
	TCP_WAIT(&a, &b, a.closed && b.down);
	backend_tcp.ep_close(b.ep);
	TCP_WAIT(&a, &b, b.closed);
	backend_tcp.ep_free(a.ep);
	backend_tcp.ep_free(b.ep);
	TCP_WAIT(&a, &b, epoll_is_silent(&a) && epoll_is_silent(&b));
	backend_tcp.close(a.dev);
	backend_tcp.close(b.dev);
	CHECK_EQ(kill(pid, SIGKILL), 0);
	CHECK_EQ(waitpid(pid, NULL, 0), pid);
}

int case_tcp_fork(void)
{
	run(URCCL_TCP_READINESS);
	run(URCCL_TCP_IO_URING);
	return 0;
}
