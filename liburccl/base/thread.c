/* SPDX-License-Identifier: Apache-2.0 */
/* Starts threads with a name, CPUs and a nice value. thread_start() returns after the new thread
 * has applied these settings, so it can report a setting that failed. */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/base.h"

#define NAME_MAX_BYTES 16u /* The limit of the kernel, including the final 0 */

enum settled { SETTLED, NO_CPU, NO_NICE };

/* On the stack of the caller of thread_start() until done. */
struct start {
	const struct thread_how *how;
	void *(*run)(void *arg);
	void *arg;
	struct cpus cpus;
	/* Set to 1 by the new thread, which touches this struct no more. */
	uint32_t done;
	/* Written by the new thread, like the fields below. */
	enum settled settled;
	int err;
	/* With NO_CPU: the CPU that the thread could not get. */
	int cpu;
};

static void thread_name(const char *prefix, const char *part, pthread_t thread)
{
	char name[NAME_MAX_BYTES];

	snprintf(name, sizeof(name), "%.*s-%s", THREAD_NAME_MAX, prefix ? prefix : THREAD_PREFIX,
		 part);
	(void)pthread_setname_np(thread, name);
}

void thread_cpus(struct cpus *cpus)
{
	if (sched_getaffinity(0, sizeof(cpus->bits), (cpu_set_t *)(void *)cpus->bits))
		memset(cpus, 0, sizeof(*cpus));
}

/* Sets the CPUs of this thread. The kernel silently leaves out CPUs that it cannot give, so a
 * partial success must be detected here. */
static int settle_cpus(struct start *s)
{
	cpu_set_t *wanted = (cpu_set_t *)(void *)s->cpus.bits;
	struct cpus got;
	int err;

	memset(&got, 0, sizeof(got));
	err = sched_setaffinity(0, sizeof(s->cpus.bits), wanted) ? errno : 0;
	if (err && err != EINVAL)
		return -err;
	if (!err)
		thread_cpus(&got);
	s->cpu = cpus_missing(&s->cpus, &got);
	return s->cpu < 0 ? 0 : -EINVAL;
}

static enum settled settle(struct start *s)
{
	thread_name(s->how->prefix, s->how->part, pthread_self());
	s->err = s->how->cpus ? settle_cpus(s) : 0;
	if (s->err)
		return NO_CPU;
	if (s->how->nice && setpriority(PRIO_PROCESS, 0, s->how->nice))
		s->err = -errno;
	return s->err ? NO_NICE : SETTLED;
}

static void *begin(void *p)
{
	struct start *s = p;
	void *(*run)(void *arg) = s->run;
	void *arg = s->arg;
	int goes_on;

	s->settled = settle(s);
	goes_on = s->settled == SETTLED;
	store_release(&s->done, 1);
	futex_wake(&s->done);
	return goes_on ? run(arg) : NULL;
}

static int no_cpu(const struct start *s)
{
	const struct thread_how *how = s->how;
	char path[64];

	if (s->cpu < 0)
		return fail(s->err, "%s_cpus \"%s\" cannot be had: %s", how->setting, how->cpus,
			    errno_text(-s->err));
	snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%d", s->cpu);
	if (access(path, F_OK))
		return fail(s->err, "%s_cpus \"%s\": this machine has no CPU %d: see lscpu",
			    how->setting, how->cpus, s->cpu);
	return fail(s->err,
		    "%s_cpus \"%s\": CPU %d is offline, or the cpuset of this process "
		    "does not have it",
		    how->setting, how->cpus, s->cpu);
}

static int no_nice(const struct start *s)
{
	return fail(s->err,
		    "%s_nice %d cannot be had: %s; what is below 0 needs CAP_SYS_NICE or "
		    "RLIMIT_NICE",
		    s->how->setting, s->how->nice, errno_text(-s->err));
}

/* Starts the thread with all signals blocked: signals belong to the threads of the program. */
static int create(pthread_t *thread, struct start *s)
{
	sigset_t all, old;
	int err;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	err = pthread_create(thread, NULL, begin, s);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return -err;
}

/* pthread_create() gives EAGAIN for a limit of threads, and for memory of a stack as well. Maps a
 * stack as pthread_create() does and gives it back. Returns 0, or -1 with errno. */
static int stack_try(void)
{
	size_t len = 0, guard = 0;
	pthread_attr_t attr;
	char *stack;
	int err;

	pthread_attr_init(&attr);
	pthread_attr_getstacksize(&attr, &len);
	pthread_attr_getguardsize(&attr, &guard);
	pthread_attr_destroy(&attr);
	stack = mmap(NULL, len, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
	if (stack == MAP_FAILED)
		return -1;
	err = mprotect(stack + guard, len - guard, PROT_READ | PROT_WRITE) ? errno : 0;
	munmap(stack, len);
	errno = err;
	return err ? -1 : 0;
}

int thread_start(pthread_t *thread, const struct thread_how *how, void *(*run)(void *arg),
		 void *arg)
{
	struct start s = {.how = how, .run = run, .arg = arg, .cpu = -1};
	int err;

	if (how->cpus && cpus_parse(how->cpus, &s.cpus))
		return fail(-EINVAL, "%s_cpus \"%s\": a list like \"0-3,8\" is wanted",
			    how->setting, how->cpus);
	err = create(thread, &s);
	if (err == -EAGAIN && stack_try())
		return fail(err,
			    "no %s thread can be started: no memory for its stack: %s; see "
			    "vm.max_map_count and ulimit -v",
			    how->part, errno_text(errno));
	if (err == -EAGAIN)
		return fail(err,
			    "no %s thread can be started: RLIMIT_NPROC (ulimit -u) or pids.max of "
			    "the control group allows no more",
			    how->part);
	if (err)
		return fail(err, "no %s thread can be started: %s", how->part, errno_text(-err));
	while (!load_acquire(&s.done))
		futex_wait(&s.done, 0, NEVER_NS);
	if (s.settled == SETTLED)
		return 0;
	pthread_join(*thread, NULL);
	return s.settled == NO_CPU ? no_cpu(&s) : no_nice(&s);
}

/* Sets the CPUs as an attribute, before the thread runs. Setting them afterwards needs the thread's
 * kernel id, which is gone if the thread has already ended. */
static int create_on(pthread_t *thread, const struct cpus *cpus, void *(*run)(void *arg), void *arg)
{
	pthread_attr_t attr;
	int err;

	pthread_attr_init(&attr);
	err = pthread_attr_setaffinity_np(&attr, sizeof(cpus->bits),
					  (const cpu_set_t *)(const void *)cpus->bits);
	if (!err)
		err = pthread_create(thread, &attr, run, arg);
	pthread_attr_destroy(&attr);
	return -err;
}

int helper_start(pthread_t *thread, const char *prefix, const char *part, const struct cpus *cpus,
		 void *(*run)(void *arg), void *arg)
{
	int err = cpus ? create_on(thread, cpus, run, arg) : -EINVAL;

	if (err)
		err = -pthread_create(thread, NULL, run, arg);
	if (!err)
		thread_name(prefix, part, *thread);
	return err;
}
