/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that peers of this host can map. */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "memory/memory.h"

/* Allocates every page now: a lack of memory then fails here and not with SIGBUS at the first
 * touch. Seals the size, so that no peer's mapping can lose its pages. */
static int memfd_fill(int fd, uint64_t len)
{
	while (fallocate(fd, 0, 0, (off_t)len)) {
		if (errno == EINTR)
			continue;
		return fail(-ENOMEM, "no memory for %llu bytes: %s", (unsigned long long)len,
			    errno_text(errno));
	}
	if (fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)) {
		int err = -errno;

		return fail(err, "a memfd cannot be sealed: %s", errno_text(-err));
	}
	return 0;
}

/* Maps the memfd and populates it, so that no transfer takes a page fault. Huge pages, if shared
 * memory has them, must be asked for before small pages exist. */
static int memfd_map(int fd, uint64_t len, uint64_t *addr)
{
	void *p;
	int err;

	if (ftruncate(fd, (off_t)len))
		return fail(-ENOMEM, "no memfd of %llu bytes: %s", (unsigned long long)len,
			    errno_text(errno));
	p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED)
		return fail(-ENOMEM, "no address space for %llu bytes: %s", (unsigned long long)len,
			    errno_text(errno));
	*addr = (uint64_t)(uintptr_t)p;
	large_pages_ours(*addr, len);
	err = memory_populate(*addr, len);
	if (!err || err == -EOPNOTSUPP)
		return 0;
	munmap(p, len);
	return fail(-ENOMEM, "no memory for %llu bytes: %s", (unsigned long long)len,
		    errno_text(-err));
}

int memory_file_fits(uint64_t len)
{
	struct rlimit limit;

	return getrlimit(RLIMIT_FSIZE, &limit) || len <= limit.rlim_cur;
}

int memory_file_check(uint64_t len)
{
	struct rlimit limit = {0};

	if (memory_file_fits(len))
		return 0;
	getrlimit(RLIMIT_FSIZE, &limit);
	return fail(
		-EFBIG,
		"a memfd of %llu bytes is above the limit of %llu: raise RLIMIT_FSIZE (ulimit -f)",
		(unsigned long long)len, (unsigned long long)limit.rlim_cur);
}

int memory_alloc(uint64_t len, struct allocation **out)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), room = memory_room();
	struct allocation *a;
	int err;

	if (!len)
		return fail(-EINVAL, "an allocation of 0 bytes");
	/* Leave a sixteenth to others: the room is an estimate. */
	room -= room / 16;
	if (len > room || len > INT64_MAX - page)
		return fail(-ENOMEM, "no memory for %llu bytes: %llu can be had; ask for less",
			    (unsigned long long)len, (unsigned long long)room);
	a = calloc(1, sizeof(*a));
	if (!a)
		return fail(-ENOMEM, "no memory for an allocation's record");
	list_init(&a->link);
	a->len = (len + page - 1) / page * page;
	err = memory_file_check(a->len);
	if (err)
		goto free_record;
	a->fd = memfd_open("urccl");
	if (a->fd < 0) {
		err = fail(a->fd, "no memfd: %s", errno_text(-a->fd));
		goto free_record;
	}
	err = memfd_map(a->fd, a->len, &a->addr);
	if (err)
		goto close_fd;
	err = memfd_fill(a->fd, a->len);
	if (err)
		goto unmap;
	*out = a;
	return 0;

unmap:
	munmap((void *)(uintptr_t)a->addr, a->len);
close_fd:
	close(a->fd);
free_record:
	free(a);
	return err;
}

void memory_leave(struct allocation *a)
{
	fd_close(a->fd);
	free(a);
}

void memory_free(struct allocation *a)
{
	if (a->kind != ALLOCATION_VIEW)
		munmap((void *)(uintptr_t)a->addr, a->len);
	memory_leave(a);
}

struct allocation *memory_allocation(struct list *list, uint64_t addr, uint64_t len)
{
	struct allocation *a;

	list_for_each_entry(a, list, link) {
		if (addr >= a->addr && addr - a->addr < a->len && len <= a->len - (addr - a->addr))
			return a;
	}
	return NULL;
}
