/* SPDX-License-Identifier: Apache-2.0 */
/* Memory is readable only if every byte of it is, without a look at more than it. */
#include <sys/mman.h>
#include <unistd.h>

#include "memory/memory.h"
#include "test.h"

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif

#define SMALL 8u
#define MANY  (96ull << 20) /* more than is looked at in one go */

static uint64_t page;

static uint64_t map(uint64_t len, int prot)
{
	void *p = mmap(NULL, len, prot, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	CHECK(p != MAP_FAILED);
	return (uint64_t)(uintptr_t)p;
}

static void protect(uint64_t addr, uint64_t len, int prot)
{
	CHECK_EQ(mprotect((void *)(uintptr_t)addr, len, prot), 0);
}

static void test_small(void)
{
	uint64_t at = map(SMALL * page, PROT_READ | PROT_WRITE), hole = at + 5 * page;

	CHECK_EQ(memory_readable(at, SMALL * page), 1);
	protect(hole, page, PROT_NONE);
	CHECK_EQ(memory_readable(at, SMALL * page), 0);
	CHECK_EQ(memory_readable(hole, 1), 0);
	CHECK_EQ(memory_readable(hole + page - 1, 1), 0);
	CHECK_EQ(memory_readable(hole - 1, 1), 1);
	CHECK_EQ(memory_readable(hole - 1, 2), 0);
	CHECK_EQ(memory_readable(hole + page - 1, 2), 0);
	CHECK_EQ(memory_readable(hole + page, 2 * page), 1);
	protect(at, page, PROT_READ);
	CHECK_EQ(memory_readable(at + 1, page), 1);
	munmap((void *)(uintptr_t)hole, page);
	CHECK_EQ(memory_readable(hole - 1, 2), 0);
	munmap((void *)(uintptr_t)at, SMALL * page);
}

static void test_many(void)
{
	uint64_t at = map(MANY, PROT_READ);

	CHECK_EQ(memory_readable(at, MANY), 1);
	protect(at + MANY - page, page, PROT_NONE);
	CHECK_EQ(memory_readable(at + 1, MANY - page - 1), 1);
	CHECK_EQ(memory_readable(at + 1, MANY - page), 0);
	munmap((void *)(uintptr_t)at, MANY);
}

int case_readable(void)
{
	uint64_t at;

	page = (uint64_t)sysconf(_SC_PAGESIZE);
	at = map(page, PROT_READ);
	if (madvise((void *)(uintptr_t)at, page, MADV_POPULATE_READ))
		SKIP("this kernel cannot be asked: Linux before 5.14");
	test_small();
	test_many();
	return 0;
}
