/* SPDX-License-Identifier: Apache-2.0 */
/* Ranges with a descriptor that are not what they say: refused with a sentence each, and nothing of
 * it stays, no descriptor and no mapping. */
#include <fcntl.h>
#include <sys/mman.h>
#include "fds.h"
#include "pair.h"

#define LEN 65536u

static struct pair p;
static uint64_t page;

static void bad(int fd, const void *at, uint64_t off, uint64_t len, int res, const char *why)
{
	struct urccl_range range = {.addr = (uint64_t)(uintptr_t)at,
				    .len = len,
				    .fd = fd,
				    .fd_off = off};
	struct urccl_region region = {0};

	CHECK_EQ(urccl_register(p.a.ctx, &range, 1, URCCL_RIGHT_READ, &region), res);
	CHECK_SAYS(urccl_errmsg(), why);
	CHECK(!region.id);
}

static uint8_t *map(int how, int fd)
{
	void *at = mmap(NULL, LEN, PROT_READ | PROT_WRITE, how, fd, 0);

	CHECK(at != MAP_FAILED);
	return at;
}

/* The first is good, the second is not. */
static void second(int fd, uint8_t *at, uint8_t *other)
{
	struct urccl_range ranges[2] = {
		{.addr = (uint64_t)(uintptr_t)at, .len = LEN, .fd = fd},
		{.addr = (uint64_t)(uintptr_t)other, .len = LEN, .fd = fd},
	};
	struct urccl_region region = {0};

	CHECK_EQ(urccl_register(p.a.ctx, ranges, 2, 0, &region), -EINVAL);
	CHECK(strstr(urccl_errmsg(), "range 1"));
}

static void all(void)
{
	int fd = memfd_create("file", MFD_CLOEXEC | MFD_ALLOW_SEALING), null, other;
	uint8_t *at, *private, *anonymous, *hole;

	CHECK_EQ(ftruncate(fd, LEN), 0);
	CHECK_EQ(fallocate(fd, 0, 0, LEN), 0);
	CHECK_EQ(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL), 0);
	other = memfd_create("other", MFD_CLOEXEC);
	CHECK_EQ(ftruncate(other, LEN), 0);
	null = open("/dev/null", O_RDWR | O_CLOEXEC);
	at = map(MAP_SHARED, fd);
	private = map(MAP_PRIVATE, fd);
	anonymous = map(MAP_PRIVATE | MAP_ANONYMOUS, -1);
	hole = map(MAP_PRIVATE | MAP_ANONYMOUS, -1);
	CHECK_EQ(munmap(hole, LEN), 0);
	bad(null, at, 0, LEN, -EOPNOTSUPP, "dma-buf");
	bad(999, at, 0, LEN, -EOPNOTSUPP, "(999)");
	bad(-2, at, 0, LEN, -EINVAL, "fd is -1");
	bad(-1, at, 1, LEN - 1, -EINVAL, "fd_off 0");
	bad(fd, at, 0, LEN + 1, -ERANGE, "has 65536 bytes");
	bad(fd, at, LEN + 1, 1, -ERANGE, "end of its file");
	bad(fd, at, UINT64_MAX, 2, -ERANGE, "end of its file");
	bad(fd, at, page, page, -EINVAL, "MAP_SHARED");
	bad(fd, at + 1, 0, page, -EINVAL, "MAP_SHARED");
	bad(other, at, 0, LEN, -EINVAL, "MAP_SHARED");
	bad(fd, private, 0, LEN, -EINVAL, "MAP_SHARED");
	bad(fd, anonymous, 0, LEN, -EINVAL, "MAP_SHARED");
	bad(fd, hole + 1, 0, page, -EINVAL, "could not be mapped");
	CHECK_EQ(munmap(at + LEN / 2, LEN / 2), 0);
	bad(fd, at, 0, LEN, -EINVAL, "MAP_SHARED");
	second(fd, hole, anonymous);
	CHECK(msync(hole, LEN, MS_ASYNC));
	munmap(at, LEN / 2);
	munmap(private, LEN);
	munmap(anonymous, LEN);
	close(null);
	close(other);
	close(fd);
}

int main(int argc, char **argv)
{
	uint32_t fds;

	page = (uint64_t)sysconf(_SC_PAGESIZE);
	pair_begin(&p, argc, argv);
	all();
	fds = fds_open();
	all();
	CHECK_EQ(fds_open(), fds);
	pair_close(&p);
	return 0;
}
