/* SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include "child.h"
#include "meet.h"

#define RIGHTS_ALL (URCCL_RIGHT_READ | URCCL_RIGHT_WRITE | URCCL_RIGHT_ATOMIC)

__attribute__((noreturn)) static void serve(struct pair p, uint64_t len, int to)
{
	struct child c = {0};
	struct urccl_cqe *cqe;
	struct side *s = &p.b;
	void *m = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int n;

	CHECK(m != MAP_FAILED);
	side_open(&p, s);
	side_accept(s, 1);
	side_watch(s, (struct urccl_peer){0}, 2);
	CHECK_EQ(urccl_advertise(s->ctx, side_register(s, m, len, RIGHTS_ALL), 0, len, RIGHTS_ALL,
				 0, &c.advert),
		 0);
	n = urccl_metadata(s->ctx, c.blob, sizeof(c.blob));
	CHECK_GE(n, 1);
	c.blob_len = (uint32_t)n;
	CHECK_EQ(write(to, &c, sizeof(c)), sizeof(c));
	for (;;) {
		if (urccl_wait(s->ring, &cqe, NULL) <= 0)
			continue;
		if (urccl_cqe_kind(cqe) == URCCL_KIND_LOST)
			CHECK_EQ(write(to, "", 1), 1);
		urccl_cqe_seen(s->ring, cqe);
	}
}

void child_start(const struct pair *p, struct child *c, uint64_t len, const char *listen)
{
	struct pair its = *p;
	int fds[2];
	pid_t pid;

	CHECK_EQ(pipe(fds), 0);
	its.params.listen = listen;
	its.params.flags = 0;
	fflush(stdout);
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(fds[0]);
		serve(its, len, fds[1]);
	}
	close(fds[1]);
	CHECK_EQ(read(fds[0], c, sizeof(*c)), sizeof(*c));
	c->lost = fds[0];
	c->pid = pid;
}

void child_kill(struct child *c)
{
	kill(c->pid, SIGKILL);
	CHECK_EQ(waitpid(c->pid, NULL, 0), c->pid);
	close(c->lost);
}

void child_lost(const struct child *c)
{
	char byte;

	CHECK_EQ(read(c->lost, &byte, 1), 1);
}

void child_connect(struct pair *p, const struct child *c)
{
	struct urccl_cqe cqe = side_dialled(&p->a, NULL, c->blob, c->blob_len, 20000000);

	CHECK_EQ(cqe.res, 0);
	p->a.peer.id = (uint32_t)cqe.handle;
}
