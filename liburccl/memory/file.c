/* SPDX-License-Identifier: Apache-2.0 */
/* Memfds that the program passes in. */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/vfs.h>
#include <unistd.h>
#include <linux/magic.h>

#include "memory/memory.h"

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

/* Files without shared memory pages have no seals. */
int memory_file_is(int fd)
{
	return fcntl(fd, F_GET_SEALS) >= 0;
}

/* Refuses hugetlbfs: huge pages may run out at first touch, which gives the peer SIGBUS. */
int memory_file_shareable(int fd)
{
	struct statfs fs;
	struct stat st;
	int seals = fcntl(fd, F_GET_SEALS);

	return seals >= 0 && (seals & SEALS) == SEALS && !fstatfs(fd, &fs) &&
	       fs.f_type == TMPFS_MAGIC && !fstat(fd, &st) &&
	       (uint64_t)st.st_blocks * 512 >= (uint64_t)st.st_size;
}

/* A file that may not be written is mapped read-only. */
static int file_map(int fd, const struct allocation *a)
{
	const int how = MAP_SHARED | MAP_FIXED_NOREPLACE;
	void *at = (void *)(uintptr_t)a->addr, *p;

	p = mmap(at, a->len, PROT_READ | PROT_WRITE, how, fd, (off_t)a->fd_off);
	if (p == MAP_FAILED && (errno == EACCES || errno == EPERM))
		p = mmap(at, a->len, PROT_READ, how, fd, (off_t)a->fd_off);
	if (p == MAP_FAILED)
		return -errno;
	if (p == at)
		return 0;
	munmap(p, a->len); /* a kernel that does not know MAP_FIXED_NOREPLACE */
	return -EEXIST;
}

int memory_file(int fd, uint64_t addr, uint64_t len, uint64_t off, enum allocation_kind kind,
		struct allocation **out)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), before = addr % page;
	struct allocation *a;
	int err = 0;

	if (off % page != before)
		return -EINVAL;
	a = calloc(1, sizeof(*a));
	if (!a)
		return -ENOMEM;
	list_init(&a->link);
	a->kind = kind;
	a->addr = addr - before;
	a->len = (before + len + page - 1) / page * page;
	a->fd_off = off - before;
	if (kind == ALLOCATION_MAPPED)
		err = file_map(fd, a);
	if (err) {
		free(a);
		return err;
	}
	a->fd = memory_file_shareable(fd) ? fcntl(fd, F_DUPFD_CLOEXEC, 3) : -1;
	*out = a;
	return 0;
}
