/* SPDX-License-Identifier: Apache-2.0 */
#include "common.h"

#include <errno.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

uint64_t bench_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static double seconds(struct timeval t)
{
	return (double)t.tv_sec + (double)t.tv_usec * 1e-6;
}

double bench_cpu_seconds(void)
{
	struct rusage use;

	getrusage(RUSAGE_SELF, &use);
	return seconds(use.ru_utime) + seconds(use.ru_stime);
}

/* The CPUs that the program was started with. The first call is made before any thread is. */
static const cpu_set_t *allowed_cpus(void)
{
	static cpu_set_t allowed;
	static int is_known;

	if (!is_known && sched_getaffinity(0, sizeof(allowed), &allowed) < 0)
		CPU_ZERO(&allowed);
	is_known = 1;
	return &allowed;
}

void bench_pin(int cpu)
{
	const cpu_set_t *allowed = allowed_cpus();
	cpu_set_t set;

	CPU_ZERO(&set);
	if (cpu >= 0)
		CPU_SET((unsigned int)cpu, &set);
	else if (CPU_COUNT(allowed))
		set = *allowed;
	else
		return;
	if (sched_setaffinity(0, sizeof(set), &set) < 0)
		bench_die("cannot run on cpu %d: %s", cpu, strerror(errno));
}

int bench_cpu(int n)
{
	const cpu_set_t *allowed = allowed_cpus();
	int cpu;

	for (cpu = 0; cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET((unsigned int)cpu, allowed) && !n--)
			return cpu;
	return -1;
}

int bench_cpu_after(int cpu, uint32_t n)
{
	const cpu_set_t *allowed = allowed_cpus();

	if (cpu < 0 || !CPU_COUNT(allowed))
		return cpu;
	while (n)
		if (CPU_ISSET((unsigned int)(cpu = (cpu + 1) % CPU_SETSIZE), allowed))
			n--;
	return cpu;
}

/* Adds up every "key N kB" line of a file of /proc. */
static uint64_t proc_kilobytes(const char *path, const char *key)
{
	char line[256];
	uint64_t sum = 0, kb;
	FILE *f = fopen(path, "r");

	if (!f)
		return 0;
	while (fgets(line, sizeof(line), f))
		if (!strncmp(line, key, strlen(key)) && sscanf(line + strlen(key), "%lu", &kb) == 1)
			sum += kb;
	fclose(f);
	return sum * 1024;
}

uint64_t bench_rss(void)
{
	return proc_kilobytes("/proc/self/smaps_rollup", "Rss:");
}

uint64_t bench_pss(void)
{
	return proc_kilobytes("/proc/self/smaps_rollup", "Pss:");
}

int bench_has_memory(uint64_t len)
{
	return len <= proc_kilobytes("/proc/meminfo", "MemAvailable:");
}

void *bench_try_map(size_t len, enum bench_pages pages)
{
	/* Huge pages are whole and aligned: the last one is, too, and one more is asked for. */
	size_t huge = 2u << 20, whole = (len + huge - 1) / huge * huge + huge;
	uint8_t *p = mmap(NULL, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		return NULL;
	madvise(p, whole, MADV_DONTFORK);
	madvise(p, whole, pages == BENCH_PAGES_THP ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
	p += (huge - (uintptr_t)p % huge) % huge;
	memset(p, 1, len);
	return p;
}

void *bench_map(size_t len, enum bench_pages pages)
{
	void *p = bench_try_map(len, pages);

	if (!p)
		bench_die("cannot map %zu bytes: %s", len, strerror(errno));
	return p;
}

int bench_parse_size(const char *text, uint64_t *value)
{
	static const char units[] = "kmgt";
	unsigned long long v;
	char *end;

	errno = 0;
	v = strtoull(text, &end, 0);
	if (errno || end == text || *text == '-')
		return -1;
	if (*end) {
		const char *unit = strchr(units, *end | 0x20);
		unsigned int shift;

		if (!unit || end[1])
			return -1;
		shift = 10 * (unsigned int)(unit - units + 1);
		if (v > UINT64_MAX >> shift)
			return -1;
		v <<= shift;
	}
	*value = v;
	return 0;
}

int bench_parse_double(const char *text, double *value)
{
	char *end;

	errno = 0;
	*value = strtod(text, &end);
	return errno || end == text || *end ? -1 : 0;
}

void bench_flush(void)
{
	if (fflush(stdout) || ferror(stdout))
		bench_die("cannot write the result: %s", strerror(errno));
}

void bench_die(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	fprintf(stderr, "%s: ", program_invocation_short_name);
	vfprintf(stderr, fmt, ap);
	fputc('\n', stderr);
	va_end(ap);
	/* Not exit(): a forked child must not flush what its parent has buffered. */
	_exit(1);
}
