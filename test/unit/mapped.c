/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel's list of mappings, asked for one by one and read as text: both ways give the same,
 * and say what may be done with memory of several of them, as they are then. */
#include <sys/mman.h>

#include "memory/memory.h"
#include "test.h"

#define MAX 4096u

struct seen {
	uint64_t start, end, inode, offset;
	uint32_t major, minor;
	int prot, shared;
};

static struct seen asked[MAX], listed[MAX];
static uint64_t page;

static void open_as(struct mappings *m, int reads)
{
	CHECK_EQ(mappings_open(m), 0);
	m->reads = (uint32_t)reads;
}

/* All that is the process's own; how many. */
static uint32_t walk(struct seen *out, int reads)
{
	struct mappings m;
	uint64_t addr = 0;
	uint32_t n = 0;

	open_as(&m, reads);
	for (; mappings_find(&m, addr) && m.start < 1ull << 63; addr = m.end) {
		CHECK(n < MAX && m.start >= addr && m.end > m.start);
		out[n++] = (struct seen){m.start, m.end,   m.inode, m.offset,
					 m.major, m.minor, m.prot,  m.shared};
	}
	CHECK_EQ(m.reads, reads);
	mappings_close(&m);
	return n;
}

static void both_ways(void)
{
	struct mappings m;
	uint32_t n, i;

	open_as(&m, 0);
	CHECK(mappings_find(&m, page));
	i = m.reads;
	mappings_close(&m);
	if (i) /* this kernel cannot be asked */
		return;
	n = walk(asked, 0);
	CHECK_GE(n, 10);
	CHECK_EQ(walk(listed, 1), n);
	for (i = 0; i < n; i++) {
		CHECK_EQ(asked[i].start, listed[i].start);
		CHECK_EQ(asked[i].end, listed[i].end);
		CHECK_EQ(asked[i].prot, listed[i].prot);
		CHECK_EQ(asked[i].shared, listed[i].shared);
		CHECK_EQ(asked[i].inode, listed[i].inode);
		CHECK_EQ(asked[i].major, listed[i].major);
		CHECK_EQ(asked[i].minor, listed[i].minor);
		CHECK(!asked[i].inode || asked[i].offset == listed[i].offset);
	}
}

static void allowed(struct mappings *m, uint64_t at, uint64_t len, int prot, int res,
		    uint64_t where)
{
	uint64_t found = 0;

	CHECK_EQ(mappings_allow(m, at, len, prot, &found), res);
	CHECK(!res || found == where);
}

/* Pages of it: to read and write, the same of a file, to read, none, a hole. */
static void several(uint64_t at, int reads)
{
	int rw = PROT_READ | PROT_WRITE;
	struct mappings m;

	open_as(&m, reads);
	allowed(&m, at, 2 * page, rw, 0, 0);
	allowed(&m, at + 1, 2 * page, rw, -EACCES, at + 2 * page);
	allowed(&m, at, 3 * page, PROT_READ, 0, 0);
	allowed(&m, at + 2 * page, 1, rw, -EACCES, at + 2 * page);
	allowed(&m, at, 4 * page, PROT_READ, -EACCES, at + 3 * page);
	allowed(&m, at + 4 * page, page, PROT_READ, -EFAULT, at + 4 * page);
	/* Back again, also from beyond the end. */
	allowed(&m, at, page, rw, 0, 0);
	CHECK(!mappings_find(&m, UINT64_MAX - 1));
	allowed(&m, at, page, rw, 0, 0);
	mappings_close(&m);
}

/* A file of two pages, each mapped by itself, and what is not that. */
static void views(int fd, uint64_t at, int reads)
{
	struct mappings m;
	struct stat file, other;
	int prot = 0;

	CHECK_EQ(fstat(fd, &file), 0);
	other = file;
	other.st_ino++;
	open_as(&m, reads);
	CHECK_EQ(mappings_view(&m, at, 2 * page, &file, 0, &prot), 1);
	CHECK_EQ(prot, PROT_READ);
	CHECK_EQ(mappings_view(&m, at + 9, page, &file, 9, &prot), 1);
	CHECK_EQ(mappings_view(&m, at, page, &file, 0, &prot), 1);
	CHECK_EQ(prot, PROT_READ | PROT_WRITE);
	CHECK_EQ(mappings_view(&m, at, page, &other, 0, &prot), -EINVAL);
	CHECK_EQ(mappings_view(&m, at, page, &file, page, &prot), -EINVAL);
	CHECK_EQ(mappings_view(&m, at, 3 * page, &file, 0, &prot), -EINVAL); /* a private one */
	CHECK_EQ(mappings_view(&m, at + 3 * page, page, &file, 0, &prot), 0);
	CHECK_EQ(mappings_view(&m, at + page, 3 * page, &file, page, &prot), -EINVAL);
	mappings_close(&m);
}

static void map_views(int fd)
{
	uint8_t *at = mmap(NULL, 4 * page, PROT_READ, MAP_PRIVATE, fd, 0);

	CHECK(at != MAP_FAILED);
	CHECK(mmap(at, page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) == at);
	CHECK(mmap(at + page, page, PROT_READ, MAP_SHARED | MAP_FIXED, fd, (off_t)page) ==
	      at + page);
	CHECK_EQ(munmap(at + 3 * page, page), 0);
	views(fd, (uintptr_t)at, 0);
	views(fd, (uintptr_t)at, 1);
	CHECK_EQ(munmap(at, 3 * page), 0);
}

/* What was there when it was first asked, and is not any more. */
static void changes(int reads)
{
	uint8_t *at = mmap(NULL, 2 * page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct mappings m;

	CHECK(at != MAP_FAILED);
	open_as(&m, reads);
	allowed(&m, (uintptr_t)at, 2 * page, PROT_READ, 0, 0);
	CHECK_EQ(munmap(at + page, page), 0);
	mappings_anew(&m);
	allowed(&m, (uintptr_t)at, 2 * page, PROT_READ, -EFAULT, (uintptr_t)at + page);
	mappings_close(&m);
	CHECK_EQ(munmap(at, page), 0);
}

int case_mapped(void)
{
	uint8_t *at;
	int fd = memfd_open("mapped");

	page = (uint64_t)sysconf(_SC_PAGESIZE);
	both_ways();
	CHECK_EQ(ftruncate(fd, (off_t)page), 0);
	at = mmap(NULL, 5 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(at != MAP_FAILED);
	CHECK_EQ(mprotect(at, page, PROT_READ | PROT_WRITE), 0);
	CHECK(mmap(at + page, page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) ==
	      at + page);
	CHECK_EQ(mprotect(at + 2 * page, page, PROT_READ), 0);
	CHECK_EQ(munmap(at + 4 * page, page), 0);
	several((uintptr_t)at, 0);
	several((uintptr_t)at, 1);
	changes(0);
	changes(1);
	CHECK_EQ(ftruncate(fd, (off_t)(2 * page)), 0);
	map_views(fd);
	return 0;
}
