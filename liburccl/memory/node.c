/* SPDX-License-Identifier: Apache-2.0 */
/* At which NUMA node memory is. */
#include <sys/syscall.h>
#include <unistd.h>

#include "memory/memory.h"

#define SAMPLES 16u

/* Pages spread evenly, the first and the last among them: how many. */
static unsigned long samples_of(uint64_t addr, uint64_t len, void *pages[SAMPLES])
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), first = addr / page;
	uint64_t n = (addr + len - 1) / page - first + 1, count = n < SAMPLES ? n : SAMPLES;
	uint64_t i;

	for (i = 0; i < count; i++) {
		uint64_t at = count > 1 ? (uint64_t)((__uint128_t)i * (n - 1) / (count - 1)) : 0;

		pages[i] = (void *)(uintptr_t)((first + at) * page);
	}
	return count;
}

/* move_pages(2) that moves nothing tells where pages are, and makes none be there. */
int memory_node(uint64_t addr, uint64_t len)
{
	void *pages[SAMPLES];
	int status[SAMPLES], node = -ENODATA;
	unsigned long i, n;

	if (!len || addr + len < addr)
		return -ENODATA;
	n = samples_of(addr, len, pages);
	if (syscall(SYS_move_pages, 0, n, pages, NULL, status, 0))
		return errno == ENOSYS || errno == EPERM ? -errno : -ENODATA;
	for (i = 0; i < n; i++) {
		if (status[i] < 0)
			continue;
		if (node >= 0 && node != status[i])
			return -EXDEV;
		node = status[i];
	}
	return node;
}
