/* SPDX-License-Identifier: Apache-2.0 */
/* How long the threads of this process waited for a processor, so that no bound on time fails on a
 * busy machine: the kernel counts it. */
#ifndef WAITED_H
#define WAITED_H

#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>

static inline uint64_t waited_of(const char *schedstat)
{
	FILE *f = fopen(schedstat, "r");
	unsigned long long waited;

	if (!f)
		return 0;
	if (fscanf(f, "%*u %llu", &waited) != 1)
		waited = 0;
	fclose(f);
	return waited;
}

/* ns, of this thread; 0 where the kernel does not count it. */
static inline uint64_t thread_waited_ns(void)
{
	return waited_of("/proc/thread-self/schedstat");
}

/* ns, of all threads that there are now together: at least what they delayed one another by. */
static inline uint64_t waited_ns(void)
{
	DIR *tasks = opendir("/proc/self/task");
	struct dirent *task;
	uint64_t sum = 0;
	char path[300];

	while (tasks && (task = readdir(tasks))) {
		snprintf(path, sizeof(path), "/proc/self/task/%s/schedstat", task->d_name);
		sum += waited_of(path);
	}
	if (tasks)
		closedir(tasks);
	return sum;
}

/* The same since waited_ns() returned before; threads may have ended meanwhile. */
static inline uint64_t waited_since(uint64_t before)
{
	uint64_t now = waited_ns();

	return now > before ? now - before : 0;
}

/* Whether it is later than until, of CLOCK_MONOTONIC in ns, and would be if no thread had waited
 * for a processor since the process began. Cheap before until. */
static inline int is_late(uint64_t until)
{
	struct timespec ts;
	uint64_t now;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	now = (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
	return now > until && now > until + waited_ns();
}

#endif
