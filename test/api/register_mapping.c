/* SPDX-License-Identifier: Apache-2.0 */
/* REGISTER looks at what is mapped. Other memory at the address of a region that was left
 * registered is refused, as the old one's bytes would move. So are pages that a file lacks: a
 * peer's write would end this process by SIGBUS; PREFAULT makes them, or fails where the file
 * system is full. With resident=check files outside of memory are refused. */
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include "meet.h"
#include "ns.h"

#define LEN   (1u << 20)
#define LARGE (32u << 20) /* of a file system of 4 MiB */

static struct pair p;

static int sealed(void)
{
	int fd = memfd_create("mapping", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	CHECK(fd >= 0);
	CHECK_EQ(fallocate(fd, 0, 0, LEN), 0);
	CHECK_EQ(fcntl(fd, F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL), 0);
	return fd;
}

static void *map_at(void *at, int fd, size_t len)
{
	int how = fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
	void *m = mmap(at, len, PROT_READ | PROT_WRITE, how | (at ? MAP_FIXED : 0), fd, 0);

	CHECK(m != MAP_FAILED);
	return m;
}

static int reg(void *m, size_t len, int fd, uint32_t rights, struct urccl_region *region)
{
	struct urccl_range range = {.addr = (uintptr_t)m, .len = len, .fd = fd};

	return urccl_register(p.a.ctx, &range, 1, rights, region);
}

static void taken(void *m, size_t len, int fd)
{
	struct urccl_region region;

	CHECK_EQ(reg(m, len, fd, URCCL_RIGHT_WRITE, &region), 0);
	CHECK_EQ(urccl_unregister(p.a.ctx, region), 0);
}

static void refused(void *m, size_t len, uint32_t more, int res, const char *words)
{
	struct urccl_region region;

	CHECK_EQ(reg(m, len, -1, URCCL_RIGHT_WRITE | more, &region), res);
	CHECK_SAYS(urccl_errmsg(), words);
}

/* again: the descriptor of what is mapped later, or -1. */
static void stale(int first, int again)
{
	struct urccl_region left, region;
	void *m = map_at(NULL, first, LEN);

	CHECK_EQ(reg(m, LEN, first, URCCL_RIGHT_WRITE, &left), 0);
	CHECK_EQ(reg(m, LEN / 2, -1, URCCL_RIGHT_WRITE, &region), 0);
	CHECK_EQ(urccl_unregister(p.a.ctx, region), 0);
	map_at(m, again, LEN);
	CHECK_EQ(reg(m, LEN, again, URCCL_RIGHT_WRITE, &region), -ESTALE);
	CHECK_SAYS(urccl_errmsg(), "unregister that region first");
	CHECK_EQ(urccl_unregister(p.a.ctx, left), 0);
	taken(m, LEN, again);
	CHECK_EQ(munmap(m, LEN), 0);
}

/* 1: the kernel tells of one mapping, which Linux does since 6.11. Without that the library does
 * not look at memory that it knows by its address. */
static int can_ask(void)
{
	uint64_t query[13] = {0};
	int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC), err;

	CHECK(fd >= 0);
	CHECK_EQ(ioctl(fd, _IOWR('f', 17, query), query), -1);
	err = errno;
	close(fd);
	return err != ENOTTY;
}

static int unsealed(void)
{
	int fd = memfd_create("unsealed", MFD_CLOEXEC);

	CHECK(fd >= 0);
	CHECK_EQ(fallocate(fd, 0, 0, LEN), 0);
	return fd;
}

/* The program names no file, and the library keeps none: the mapping alone tells. */
static void stale_by_address(void)
{
	struct urccl_region left, region;
	int a = unsealed(), b = unsealed();
	void *m = map_at(NULL, a, LEN);

	CHECK_EQ(reg(m, LEN, -1, URCCL_RIGHT_WRITE, &left), 0);
	map_at(m, b, LEN);
	CHECK_EQ(reg(m, LEN, -1, URCCL_RIGHT_WRITE, &region), -ESTALE);
	CHECK_SAYS(urccl_errmsg(), "unregister that region first");
	CHECK_EQ(urccl_unregister(p.a.ctx, left), 0);
	taken(m, LEN, -1);
	CHECK_EQ(munmap(m, LEN), 0);
	close(a);
	close(b);
}

static void lacking(const char *dir)
{
	char path[128];
	uint8_t *m;
	int fd;

	snprintf(path, sizeof(path), "%s/pool", dir);
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	CHECK(fd >= 0);
	CHECK_EQ(ftruncate(fd, LARGE), 0);
	m = map_at(NULL, fd, LARGE);
	refused(m, LARGE, 0, -EFAULT, "fallocate()");
	CHECK_EQ(fallocate(fd, 0, 0, LEN), 0);
	memset(m, 1, LEN);
	taken(m, LEN, -1);
	refused(m, 2 * LEN, 0, -EFAULT, "fallocate()");
	refused(m, LARGE, URCCL_REG_PREFAULT, -ENOSPC, "ENOSPC");
	CHECK_EQ(ftruncate(fd, LEN), 0);
	taken(m, LEN, -1);
	refused(m, 2 * LEN, 0, -EFAULT, "fallocate()");
	CHECK_EQ(munmap(m, LARGE), 0);
	close(fd);
}

static void resident(const char *dir)
{
	int fd = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600), memory = sealed();
	void *m;

	p.params.resident = URCCL_RESIDENT_CHECK;
	side_open(&p, &p.a);
	m = map_at(NULL, memory, LEN);
	taken(m, LEN, -1);
	taken(m, LEN, memory);
	CHECK_EQ(munmap(m, LEN), 0);
	m = map_at(NULL, -1, LEN);
	taken(m, LEN, -1);
	CHECK_EQ(munmap(m, LEN), 0);
	if (fd >= 0 && !fallocate(fd, 0, 0, LEN)) {
		m = map_at(NULL, fd, LEN);
		refused(m, LEN, 0, -EACCES, "resident=check");
		CHECK_EQ(munmap(m, LEN), 0);
	}
	side_close(&p.a);
	close(fd);
	close(memory);
}

int main(int argc, char **argv)
{
	char dir[] = "/tmp/urccl-mapping-XXXXXX", *here = getcwd(NULL, 0);
	int a = sealed(), b = sealed(), has_mount;

	CHECK(here);
	CHECK(mkdtemp(dir));
	has_mount = !ns_enter(CLONE_NEWNS, 1) && !mount("none", dir, "tmpfs", 0, "size=4m");
	pair_options(&p, argc, argv);
	side_open(&p, &p.a);
	stale(a, b);
	stale(b, -1);
	if (can_ask())
		stale_by_address();
	if (has_mount)
		lacking(dir);
	side_close(&p.a);
	resident(here);
	free(here);
	(void)umount(dir);
	CHECK_EQ(rmdir(dir), 0);
	if (!has_mount)
		SKIP("no file system may be mounted here");
	return 0;
}
