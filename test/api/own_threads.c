/* SPDX-License-Identifier: Apache-2.0 */
/* The library's threads have the names, CPUs and nice levels that were asked for, and those of the
 * opener where nothing was; what cannot be had is an error that names it, and leaves no thread. */
#include <dirent.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include "pair.h"

static struct pair p;

/* The thread of this process with this name, or -1; *n: how many threads there are. */
static pid_t thread_named(const char *name, int *n)
{
	DIR *dir = opendir("/proc/self/task");
	struct dirent *d;
	pid_t found = -1;

	if (!dir)
		SKIP("no /proc to find threads in");
	for (*n = 0; (d = readdir(dir));) {
		char path[300], comm[64] = "";
		FILE *f;

		if (d->d_name[0] == '.')
			continue;
		(*n)++;
		snprintf(path, sizeof(path), "/proc/self/task/%s/comm", d->d_name);
		f = fopen(path, "r");
		if (!f)
			continue;
		if (fgets(comm, sizeof(comm), f))
			comm[strcspn(comm, "\n")] = 0;
		fclose(f);
		if (!strcmp(comm, name))
			found = (pid_t)atoi(d->d_name);
	}
	closedir(dir);
	return found;
}

static pid_t there(const char *name)
{
	int n;
	pid_t tid = thread_named(name, &n);

	if (tid < 0)
		fprintf(stderr, "no thread %s\n", name);
	CHECK(tid > 0);
	return tid;
}

static int threads(void)
{
	int n;

	thread_named("", &n);
	return n;
}

/* One that was joined is listed until the kernel is through with it. */
static void gone(const char *name)
{
	uint64_t late = now_ns() + PAIR_LATE_NS;
	int n;

	while (thread_named(name, &n) > 0)
		CHECK(!is_late(late));
}

static void runs_at(pid_t tid, const cpu_set_t *cpus, int level)
{
	cpu_set_t got;

	CPU_ZERO(&got);
	CHECK_EQ(sched_getaffinity(tid, sizeof(got), &got), 0);
	CHECK(CPU_EQUAL(&got, cpus));
	CHECK_EQ(getpriority(PRIO_PROCESS, (id_t)tid), level);
}

static int last_cpu(const cpu_set_t *set)
{
	int i, last = -1;

	for (i = 0; i < CPU_SETSIZE; i++)
		if (CPU_ISSET(i, set))
			last = i;
	return last;
}

static void refused(const struct urccl_params *bad, int err, const char *words)
{
	struct urccl *ctx = NULL;
	uint64_t late = now_ns() + PAIR_LATE_NS;
	int before = threads();

	CHECK_EQ(urccl_open(bad, &ctx), err);
	CHECK_SAYS(urccl_errmsg(), words);
	while (threads() > before)
		CHECK(!is_late(late));
}

static void refusals(void)
{
	struct urccl_params bad = p.params;
	char cpus[32];
	int gone;

	bad.progress_cpus = "8191";
	if (!(bad.flags & URCCL_OPEN_INLINE))
		refused(&bad, -EINVAL, "CPU 8191");
	bad.progress_cpus = NULL;
	bad.control_cpus = "0,8190";
	refused(&bad, -EINVAL, "CPU 8190");
	/* The first that this machine does not have. */
	for (gone = 0; gone < CPU_SETSIZE; gone++) {
		struct stat st;
		char path[64];

		snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%d", gone);
		if (stat(path, &st))
			break;
	}
	snprintf(cpus, sizeof(cpus), "%d", gone);
	bad.control_cpus = cpus;
	refused(&bad, -EINVAL, "this machine has no CPU");
	bad.control_cpus = NULL;
	if (geteuid()) { /* root may */
		bad.control_nice = -20;
		refused(&bad, -EACCES, "control_nice -20");
	}
}

int main(int argc, char **argv)
{
	cpu_set_t all, one;
	char cpus[32];
	int is_inline, level;

	pair_options(&p, argc, argv);
	is_inline = !!(p.params.flags & URCCL_OPEN_INLINE);
	CHECK_EQ(sched_getaffinity(0, sizeof(all), &all), 0);
	level = getpriority(PRIO_PROCESS, 0);
	CPU_ZERO(&one);
	CPU_SET(last_cpu(&all), &one);
	snprintf(cpus, sizeof(cpus), "%d", last_cpu(&all));
	pair_sim(&p);

	side_open(&p, &p.a);
	runs_at(there("urccl-control"), &all, level);
	if (!is_inline)
		runs_at(there("urccl-engine"), &all, level);
	side_close(&p.a);

	p.params.thread_name = "kvcache";
	p.params.progress_cpus = cpus;
	p.params.control_cpus = cpus;
	p.params.progress_nice = 5;
	p.params.control_nice = 7;
	side_open(&p, &p.a);
	runs_at(there("kvcache-control"), &one, 7);
	if (!is_inline)
		runs_at(there("kvcache-engine"), &one, 5);
	gone("urccl-control");
	gone("urccl-engine");
	/* Those of the program are left where they are. */
	runs_at(getpid(), &all, level);
	side_close(&p.a);
	gone("kvcache-control");
	gone("kvcache-engine");
	refusals();
	if (p.sim)
		CHECK_EQ(urccl_sim_close(p.sim), 0);
	return 0;
}
