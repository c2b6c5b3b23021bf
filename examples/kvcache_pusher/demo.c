/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Both roles on this machine, a process each. They are forked before either opens a context: in a
 * forked child a context is dead. Decode's metadata goes to prefill through a pipe, so no port
 * needs to be agreed on.
 */
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include "pusher.h"

#define SECONDS_TO_END 10 /* for decode, when prefill has ended well; else it gets one */

static const int watched[] = {SIGCHLD, SIGINT, SIGTERM};

static void watched_set(sigset_t *set)
{
	size_t i;

	sigemptyset(set);
	for (i = 0; i < sizeof(watched) / sizeof(watched[0]); i++)
		sigaddset(set, watched[i]);
}

/* A child of the demo does not outlive it. */
static pid_t fork_role(pid_t parent)
{
	pid_t pid = fork();

	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (getppid() != parent)
		_exit(EXIT_FAILED);
	return 0;
}

static int run_decode(const struct job *job, int ready)
{
	struct options o = *job->o;
	struct job mine = *job;

	/* A prefill that is gone is an error of the pipe's. */
	signal(SIGPIPE, SIG_IGN);
	/* Prefill tells the whole story. */
	o.once = o.quiet = true;
	o.json = false;
	mine.o = &o;
	return serve_run(&mine, ready);
}

static int run_prefill(const struct job *job, int ready)
{
	struct dial dials[CONTEXTS_MAX];
	size_t want = job->o->contexts * sizeof(*dials), got = 0;
	ssize_t n = 1;

	for (; got < want && n > 0; got += n > 0 ? (size_t)n : 0)
		n = read(ready, (char *)dials + got, want - got);
	/* Decode has said why it cannot. */
	return got == want ? push_run(job, dials, job->o->contexts) : EXIT_FAILED;
}

struct demo {
	pid_t decode, prefill; /* 0: has ended */
	int status;
	bool told; /* decode was told to end: its status is no news */
};

static int exit_status(int status)
{
	return WIFEXITED(status) ? WEXITSTATUS(status) : EXIT_FAILED;
}

static void reap_children(struct demo *d)
{
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		const char *who = pid == d->decode ? "decode" : "prefill";

		if (WIFSIGNALED(status))
			say("%s was ended by %s", who, strsignal(WTERMSIG(status)));
		if (exit_status(status) > d->status && !d->told)
			d->status = exit_status(status);
		if (pid == d->decode)
			d->decode = 0;
		if (pid == d->prefill)
			d->prefill = 0;
	}
}

/* Prefill first: if decode closed before prefill has the signal, prefill would report a loss. */
static void pass_on(const struct demo *d, int sig)
{
	if (d->prefill > 0)
		kill(d->prefill, sig);
	if (d->decode > 0)
		kill(d->decode, sig);
}

/* Until both have ended. A terminal's Ctrl-C reaches the children by itself; what another
 * process sends is passed on. */
static void watch(struct demo *d)
{
	siginfo_t info;
	sigset_t set;

	watched_set(&set);
	while (d->decode || d->prefill) {
		struct timespec limit = {d->status ? 1 : SECONDS_TO_END, 0};
		int sig = d->prefill ? sigwaitinfo(&set, &info) : sigtimedwait(&set, &info, &limit);

		if (sig < 0 && errno == EAGAIN) {
			/* Of a prefill that never came decode knows nothing. */
			if (!d->status)
				say("decode does not end: it is told to");
			d->status = d->status ? d->status : EXIT_FAILED;
			d->told = true;
			pass_on(d, SIGTERM);
		} else if (sig == SIGCHLD) {
			reap_children(d);
		} else if (sig > 0 && info.si_code != SI_KERNEL) {
			pass_on(d, sig);
		}
	}
}

int demo_run(const struct job *job)
{
	struct demo d = {0};
	pid_t parent = getpid();
	sigset_t set;
	int ready[2];

	if (pipe(ready)) {
		say("cannot make a pipe: %s", strerror(errno));
		return EXIT_FAILED;
	}
	watched_set(&set);
	sigprocmask(SIG_BLOCK, &set, NULL);
	d.decode = fork_role(parent);
	/* The roles leave signals blocked: a Ctrl-C that comes before they listen to it waits. */
	if (!d.decode) {
		close(ready[0]);
		_exit(run_decode(job, ready[1]));
	}
	close(ready[1]);
	d.prefill = d.decode > 0 ? fork_role(parent) : -1;
	if (!d.prefill)
		_exit(run_prefill(job, ready[0]));
	close(ready[0]);
	if (d.decode < 0 || d.prefill < 0) {
		say("cannot make two processes: %s", strerror(errno));
		pass_on(&d, SIGTERM);
		return EXIT_FAILED;
	}
	watch(&d);
	return d.status;
}
