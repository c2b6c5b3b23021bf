/* SPDX-License-Identifier: Apache-2.0 */
/* At which NUMA node memory is: asked without touching it, so that what nobody touched is nowhere.
 */
#include <sys/mman.h>
#include <sys/syscall.h>
#include "memory/memory.h"
#include "test.h"

#define LEN (64u << 12)

/* In core or not, of each page. */
static uint32_t resident(const void *at)
{
	unsigned char pages[LEN >> 12];
	uint32_t i, n = 0;

	CHECK_EQ(mincore((void *)(uintptr_t)at, LEN, pages), 0);
	for (i = 0; i < sizeof(pages); i++)
		n += pages[i] & 1;
	return n;
}

int main(void)
{
	char *at = mmap(NULL, 2 * LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint64_t addr = (uint64_t)(uintptr_t)at;
	unsigned int cpu, node;
	int got;

	CHECK(at != MAP_FAILED);
	got = memory_node(addr, LEN);
	if (got == -EPERM || got == -ENOSYS)
		SKIP("move_pages(2) is denied here");
	CHECK_EQ(got, -ENODATA);
	CHECK_EQ(resident(at), 0);

	/* Where the kernel puts pages by itself: at the node of the CPU that touches them. */
	memset(at, 1, LEN);
	got = memory_node(addr, LEN);
	CHECK(got >= 0 || got == -EXDEV);
	if (got >= 0 && !syscall(SYS_getcpu, &cpu, &node, NULL))
		printf("at node %d, touched from node %u\n", got, node);
	CHECK_GE(memory_node(addr, 1), 0);
	CHECK_GE(memory_node(addr + 100, 4096), 0);
	/* What is there counts, also where the rest is not, or is not mapped. */
	CHECK_EQ(memory_node(addr, 2 * LEN), got);
	CHECK_EQ(munmap(at + LEN, LEN), 0);
	CHECK_EQ(memory_node(addr, 2 * LEN), got);
	CHECK_EQ(memory_node(addr + LEN, LEN), -ENODATA);

	CHECK_EQ(memory_node(addr, 0), -ENODATA);
	CHECK_EQ(memory_node(UINT64_MAX - 10, 100), -ENODATA);
	CHECK_EQ(munmap(at, LEN), 0);
	return 0;
}
