/* SPDX-License-Identifier: Apache-2.0 */
/* Populates pages ahead of use, and asks for huge pages. */
#include <inttypes.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "memory/memory.h"

#define LARGE (2u << 20)
#define SLICE (64ull << 20) /* bytes per madvise(): it blocks mmap() meanwhile */

/* Since Linux 5.14; older C libraries lack the names. */
#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ  22
#define MADV_POPULATE_WRITE 23
#endif

/* ---- huge pages ---- */

static void advise_large(uint64_t from, uint64_t to)
{
	from = (from + LARGE - 1) & ~(uint64_t)(LARGE - 1);
	to &= ~(uint64_t)(LARGE - 1);
	if (from < to)
		madvise((void *)(uintptr_t)from, to - from, MADV_HUGEPAGE);
}

/* Reads the next line, cut to the buffer; 0: there is none. */
static int next_line(FILE *f, char *line, int size)
{
	size_t len;
	int c;

	if (!fgets(line, size, f))
		return 0;
	len = strlen(line);
	if (len && line[len - 1] != '\n')
		while ((c = getc_unlocked(f)) != EOF && c != '\n')
			;
	return 1;
}

/* Reads up to the next mapping; 0: there is none. */
static int next_mapping(struct large_pages *l)
{
	uint64_t start, end;
	char line[256];

	while (next_line(l->smaps, line, sizeof(line))) {
		if (sscanf(line, "%" SCNx64 "-%" SCNx64 " ", &start, &end) == 2) {
			l->start = start;
			l->end = end;
		} else if (!strncmp(line, "VmFlags:", 8)) {
			l->unwanted = strstr(line, " nh") != NULL;
			l->userfault =
				strstr(line, " um") || strstr(line, " uw") || strstr(line, " ui");
			return 1;
		}
	}
	return 0;
}

int large_pages_open(struct large_pages *l)
{
	memset(l, 0, sizeof(*l));
	if (prctl(PR_GET_THP_DISABLE, 0, 0, 0, 0))
		return -EPERM;
	l->smaps = fopen("/proc/self/smaps", "re");
	return l->smaps ? 0 : -errno;
}

void large_pages_close(struct large_pages *l)
{
	fclose(l->smaps);
}

void large_pages_ask(struct large_pages *l, uint64_t addr, uint64_t len)
{
	uint64_t to = addr + len;

	for (; len >= LARGE && addr < to; addr = l->end) {
		while (l->end <= addr)
			if (!next_mapping(l))
				return;
		if (l->start >= to)
			return;
		if (!l->unwanted)
			advise_large(l->start > addr ? l->start : addr, l->end < to ? l->end : to);
	}
}

void large_pages_ours(uint64_t addr, uint64_t len)
{
	if (!prctl(PR_GET_THP_DISABLE, 0, 0, 0, 0))
		advise_large(addr, addr + len);
}

int memory_by_userfaultfd(uint64_t addr, uint64_t len)
{
	struct large_pages l = {.smaps = fopen("/proc/self/smaps", "re")};
	int found = 0;

	while (l.smaps && !found && l.start < addr + len && next_mapping(&l))
		found = l.userfault && l.end > addr && l.start < addr + len;
	if (l.smaps)
		large_pages_close(&l);
	return found;
}

/* ---- populate ---- */

static int populate(uint64_t from, uint64_t to, int how)
{
	while (madvise((void *)(uintptr_t)from, to - from, how))
		if (errno != EINTR && errno != EAGAIN)
			return -errno;
	return 0;
}

int memory_populate(uint64_t addr, uint64_t len)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), from = addr & ~(page - 1);
	int err = populate(from, addr + len, MADV_POPULATE_WRITE);

	/* The memory is read-only, or the kernel does not know the request. */
	if (err == -EINVAL)
		err = populate(from, addr + len, MADV_POPULATE_READ);
	return err == -EINVAL ? -EOPNOTSUPP : err;
}

int memory_readable(uint64_t addr, uint64_t len)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), from = addr & ~(page - 1), n;

	for (len += addr - from; len; from += n, len -= n) {
		n = len < SLICE ? len : SLICE;
		if (populate(from, from + n, MADV_POPULATE_READ))
			return 0;
	}
	return 1;
}
