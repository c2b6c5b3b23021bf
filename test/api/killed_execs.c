/* SPDX-License-Identifier: Apache-2.0 */
/* A peer is not lost while its process lives: neither where a child of it executes another program
 * and ends, nor where it does so itself and a forked child holds its sockets. */
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>
#include "killed.h"

#define SILENT_NS 50000000ull

static struct pair p;

static void child_executes(struct side *s, struct killed_page *page)
{
	int status;
	pid_t pid = fork();

	(void)s;
	(void)page;
	if (!pid) {
		execlp("true", "true", NULL);
		_exit(1);
	}
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK(WIFEXITED(status) && !WEXITSTATUS(status));
}

static void executes(struct side *s, struct killed_page *page)
{
	(void)s;
	(void)page;
	execlp("sleep", "sleep", "600", NULL);
	_exit(1);
}

static int is_our_program(pid_t pid)
{
	char path[64], ours[4096] = "", its[4096] = "";

	snprintf(path, sizeof(path), "/proc/%d/exe", (int)pid);
	CHECK(readlink("/proc/self/exe", ours, sizeof(ours) - 1) > 0);
	CHECK(readlink(path, its, sizeof(its) - 1) > 0);
	return !strcmp(ours, its);
}

int main(int argc, char **argv)
{
	uint64_t until = now_ns() + PAIR_LATE_NS;
	struct killed k;

	killed_possible();
	pair_options(&p, argc, argv);
	p.params.dead_after_ms = 600000;
	side_open(&p, &p.a);
	killed_open(&p, &k);
	k.use = child_executes;
	killed_start(&p, &k);
	CHECK_EQ(side_tell(&p.a, NULL, p.a.peer.id, 1), 0);
	killed_signal(&k, SIGKILL);
	killed_lost(&p.a, 0, "process has ended");
	killed_end(&k);

	k.use = NULL;
	k.serve = executes;
	killed_start(&p, &k);
	while (is_our_program(k.pid)) {
		CHECK(!is_late(until));
		sched_yield();
	}
	side_silent(&p.a, NULL, SILENT_NS);
	killed_signal(&k, SIGKILL);
	killed_lost(&p.a, 0, "process has ended");
	killed_end(&k);
	side_close(&p.a);
	return 0;
}
