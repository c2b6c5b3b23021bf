/* SPDX-License-Identifier: Apache-2.0 */
/* Pages of the kernel's pool of huge ones, at both ends: prefaulted, registered whole and in part,
 * written and read. */
#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include "pair.h"

#define HUGE_2M (21 << 26) /* MAP_HUGE_2MB */
#define POOL	"/proc/sys/vm/nr_hugepages"
#define LEN	(4u << 20)
#define PAGES	4 /* that both ends take */
#define RW	(URCCL_RIGHT_READ | URCCL_RIGHT_WRITE)

static struct pair p;
static uint8_t *here, *there;

static long pool(int fd)
{
	char text[32] = "";

	return pread(fd, text, sizeof(text) - 1, 0) > 0 ? strtol(text, NULL, 10) : 0;
}

/* 1, or 0: that is not allowed here. */
static int pool_set(int fd, long n)
{
	char text[32];
	int len = snprintf(text, sizeof(text), "%ld\n", n);

	return pwrite(fd, text, (size_t)len, 0) == len;
}

/* Either both, or none. */
static int map_both(void)
{
	void *m = mmap(NULL, 2 * LEN, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | HUGE_2M, -1, 0);

	here = m == MAP_FAILED ? NULL : m;
	there = here ? here + LEN : NULL;
	return here != NULL;
}

/* Where the pool has none some are put into it; who has them keeps them when it is smaller again,
 * until they are unmapped. One test at a time does so, to its end: a pool that grows takes first
 * those that another has beyond it. */
static void map_huge(void)
{
	int fd = open(POOL, O_RDWR | O_CLOEXEC);
	long before;

	if (map_both())
		return;
	if (fd < 0 || flock(fd, LOCK_EX))
		SKIP("no huge pages: " POOL " cannot be opened or locked");
	before = pool(fd);
	if (!pool_set(fd, before + PAGES))
		SKIP("no huge pages: " POOL " cannot be set (sysctl vm.nr_hugepages=4)");
	map_both();
	CHECK(pool_set(fd, before));
	if (!here)
		SKIP("no huge pages: this machine has no memory left in pieces of that size");
}

static int64_t moves(struct urccl_remote remote, int read, uint64_t at, uint64_t off, uint64_t len)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);

	if (read)
		urccl_prep_read(sqe, remote, here + at, len, off);
	else
		urccl_prep_write(sqe, remote, here + at, len, off);
	return pair_run(&p, &p.a, sqe).res;
}

static struct urccl_region prefaulted(struct side *s, uint8_t *addr)
{
	struct urccl_range r = {.addr = (uintptr_t)addr, .len = LEN, .fd = -1};
	struct urccl_region region;
	int res = urccl_register(s->ctx, &r, 1, RW | URCCL_REG_PREFAULT, &region);

	if (res == -EOPNOTSUPP)
		return side_register(s, addr, LEN, RW);
	CHECK_EQ(res, 0);
	return region;
}

int main(int argc, char **argv)
{
	struct urccl_region ours, theirs, part;
	struct urccl_remote remote;
	struct urccl_advert ad;

	pair_begin(&p, argc, argv);
	map_huge();
	ours = prefaulted(&p.a, here);
	theirs = prefaulted(&p.b, there);
	CHECK_EQ(urccl_advertise(p.b.ctx, theirs, 0, LEN, RW, 0, &ad), 0);
	CHECK_EQ(urccl_import(p.a.ctx, p.a.peer, &ad, 1, &remote), 0);

	pattern_fill(here, LEN, 0, 1);
	CHECK_EQ(moves(remote, 0, 0, 0, LEN), LEN);
	CHECK(pattern_holds(there, LEN, 0, 1));
	/* Across the two pages, from no place in particular. */
	pattern_fill(there + 77, LEN / 2 + 5000, 3, 2);
	CHECK_EQ(moves(remote, 1, 1001, 77, LEN / 2 + 5000), LEN / 2 + 5000);
	CHECK(pattern_holds(here + 1001, LEN / 2 + 5000, 3, 2));
	CHECK_EQ(urccl_unregister(p.a.ctx, ours), 0);
	/* Not whole pages of that size. */
	part = side_register(&p.a, here + 4096, 8192, RW);
	pattern_fill(here + 4096, 8192, 5, 3);
	CHECK_EQ(moves(remote, 0, 4096, LEN - 8192, 8192), 8192);
	CHECK(pattern_holds(there + LEN - 8192, 8192, 5, 3));
	CHECK_EQ(moves(remote, 0, 0, 0, 8), -EFAULT);

	CHECK_EQ(urccl_unregister(p.a.ctx, part), 0);
	CHECK_EQ(urccl_unimport(p.a.ctx, remote), 0);
	CHECK_EQ(urccl_unregister(p.b.ctx, theirs), 0);
	pair_close(&p);
	munmap(here, 2 * LEN);
	return 0;
}
