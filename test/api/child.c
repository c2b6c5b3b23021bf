/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include "child.h"
#include "meet.h"

#define RIGHTS_ALL (URCCL_RIGHT_READ | URCCL_RIGHT_WRITE | URCCL_RIGHT_ATOMIC)
#define OPTION	   "--child="
#define LISTEN_MAX 64
#define ARGS_MAX   16

/* What it is told: OPTION TO:LEN:DEAD_AFTER_MS:LISTEN, and the pair's command line. */
struct order {
	int to; /* its end of the pipe */
	unsigned long long len;
	unsigned dead_after_ms;
	char listen[LISTEN_MAX]; /* or empty */
};

void *(*child_memory)(uint64_t len);

static void *ordinary(uint64_t len)
{
	void *m = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK(m != MAP_FAILED);
	return m;
}

__attribute__((noreturn)) static void serve(struct pair p, uint64_t len, int to)
{
	uint32_t rights = child_memory ? URCCL_RIGHT_READ | URCCL_RIGHT_WRITE : RIGHTS_ALL;
	void *m = child_memory ? child_memory(len) : ordinary(len);
	struct child c = {0};
	struct urccl_cqe *cqe;
	struct side *s = &p.b;
	int n;

	side_open(&p, s);
	side_accept(s, 1);
	side_watch(s, (struct urccl_peer){0}, 2);
	CHECK_EQ(urccl_advertise(s->ctx, side_register(s, m, len, rights), 0, len, rights, 0,
				 &c.advert),
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

/* How this program was started, up to its options: by another C library's loader, it may be. */
static struct {
	char text[4096];
	char *words[ARGS_MAX];
	int n;
} start;

static void start_read(int argc)
{
	int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
	ssize_t len = read(fd, start.text, sizeof(start.text));
	char *at;

	close(fd);
	CHECK(len > 0 && (size_t)len < sizeof(start.text));
	for (at = start.text; at < start.text + len; at += strlen(at) + 1) {
		CHECK(start.n < ARGS_MAX);
		start.words[start.n++] = at;
	}
	start.n -= argc - 1;
	CHECK(start.n > 0);
}

void child_main(int argc, char **argv)
{
	struct order o = {0};
	struct pair p;

	if (argc < 2 || strncmp(argv[1], OPTION, strlen(OPTION))) {
		start_read(argc);
		return;
	}
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	CHECK_GE(sscanf(argv[1] + strlen(OPTION), "%d:%llu:%u:%63s", &o.to, &o.len,
			&o.dead_after_ms, o.listen),
		 3);
	pair_options(&p, argc - 1, argv + 1);
	p.params.flags = 0;
	p.params.dead_after_ms = o.dead_after_ms;
	p.params.listen = o.listen[0] ? o.listen : NULL;
	serve(p, o.len, o.to);
}

/* A program of its own: what other libraries opened here they do not give to a forked process. */
__attribute__((noreturn)) static void become(const struct pair *p, int to, uint64_t len,
					     const char *listen)
{
	char order[128], *argv[2 * ARGS_MAX + 2];
	int i, n = start.n;

	snprintf(order, sizeof(order), OPTION "%d:%llu:%u:%s", to, (unsigned long long)len,
		 p->params.dead_after_ms, listen ? listen : "");
	CHECK(p->argc <= ARGS_MAX);
	memcpy(argv, start.words, sizeof(start.words));
	argv[n++] = order;
	for (i = 1; i < p->argc; i++)
		argv[n++] = p->argv[i];
	argv[n] = NULL;
	fcntl(to, F_SETFD, 0);
	execv("/proc/self/exe", argv);
	_exit(1);
}

void child_start(const struct pair *p, struct child *c, uint64_t len, const char *listen)
{
	int fds[2];
	pid_t pid;

	CHECK_EQ(pipe2(fds, O_CLOEXEC), 0);
	fflush(stdout);
	pid = fork();
	CHECK(pid >= 0);
	if (!pid)
		become(p, fds[1], len, listen);
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
