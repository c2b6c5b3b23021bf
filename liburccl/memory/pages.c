/* SPDX-License-Identifier: Apache-2.0 */
/* Pages that are there before they are needed. */
#include <sys/mman.h>
#include <unistd.h>

#include "memory/memory.h"

#define LARGE (2u << 20)

/* Since Linux 5.14; C libraries have the names later. */
#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ  22
#define MADV_POPULATE_WRITE 23
#endif

void memory_large_pages(uint64_t addr, uint64_t len)
{
	uint64_t from = (addr + LARGE - 1) & ~(uint64_t)(LARGE - 1);
	uint64_t to = (addr + len) & ~(uint64_t)(LARGE - 1);

	if (from < to)
		madvise((void *)(uintptr_t)from, to - from, MADV_HUGEPAGE);
}

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

	/* Memory that is only to be read, or a kernel that does not know the request. */
	if (err == -EINVAL)
		err = populate(from, addr + len, MADV_POPULATE_READ);
	return err == -EINVAL ? -EOPNOTSUPP : err;
}
