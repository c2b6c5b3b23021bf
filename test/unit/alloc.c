/* SPDX-License-Identifier: Apache-2.0 */
/* Shareable memory is zeroed, whole pages, writable through its descriptor, and cannot change size.
 */
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "memory/memory.h"
#include "test.h"

#define LEN 100000u

static void check_sealed(int fd, uint64_t len)
{
	int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
	struct stat st;

	CHECK_EQ(fcntl(fd, F_GET_SEALS) & seals, seals);
	CHECK(ftruncate(fd, 0) && errno == EPERM);
	CHECK(ftruncate(fd, (off_t)len * 2) && errno == EPERM);
	CHECK_EQ(fstat(fd, &st), 0);
	CHECK_EQ(st.st_size, len);
	CHECK_GE((uint64_t)st.st_blocks * 512, len);
	CHECK_EQ(fcntl(fd, F_GETFD), FD_CLOEXEC);
}

/* Another mapping of the descriptor is the same memory, as a peer's will be. */
static void check_shared(const struct allocation *a)
{
	uint8_t *mine = (uint8_t *)(uintptr_t)a->addr;
	uint8_t *peers = mmap(NULL, a->len, PROT_READ | PROT_WRITE, MAP_SHARED, a->fd, 0);

	CHECK(peers != MAP_FAILED);
	peers[a->len - 1] = 42;
	CHECK_EQ(mine[a->len - 1], 42);
	munmap(peers, a->len);
}

static void check_lookup(struct allocation *a)
{
	struct list list;

	list_init(&list);
	CHECK(!memory_allocation(&list, a->addr, 1));
	list_add_tail(&a->link, &list);
	CHECK(memory_allocation(&list, a->addr, a->len) == a);
	CHECK(memory_allocation(&list, a->addr + a->len - 1, 1) == a);
	CHECK(!memory_allocation(&list, a->addr, a->len + 1));
	CHECK(!memory_allocation(&list, a->addr - 1, 2));
	CHECK(!memory_allocation(&list, a->addr + 1, UINT64_MAX));
	CHECK(!memory_allocation(&list, a->addr + a->len, 0));
	list_del(&a->link);
}

static void check_refused(void)
{
	struct rlimit old, none = {0, 0}, gib = {1u << 30, 1u << 30};
	struct allocation *a = NULL;

	/* Should the library try all the same, this stops it before the machine is full. */
	signal(SIGXFSZ, SIG_IGN);
	CHECK_EQ(setrlimit(RLIMIT_FSIZE, &gib), 0);
	CHECK_EQ(memory_alloc(0, &a), -EINVAL);
	CHECK_EQ(memory_alloc(UINT64_MAX, &a), -ENOMEM);
	CHECK_EQ(memory_alloc(INT64_MAX - 8192, &a), -ENOMEM);
	CHECK(strstr(urccl_errmsg(), "can be had"));
	CHECK(memory_room() > LEN);
	CHECK_EQ(getrlimit(RLIMIT_NOFILE, &old), 0);
	none.rlim_max = old.rlim_max;
	CHECK_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
	CHECK_EQ(memory_alloc(LEN, &a), -EMFILE);
	CHECK_EQ(setrlimit(RLIMIT_NOFILE, &old), 0);
	CHECK(!a);
}

int case_alloc(void)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), i;
	struct allocation *a;

	check_refused();
	CHECK_EQ(memory_alloc(LEN, &a), 0);
	CHECK_EQ(a->addr % page, 0);
	CHECK_EQ(a->len, (LEN + page - 1) / page * page);
	CHECK_EQ(a->users, 0);
	for (i = 0; i < a->len; i++)
		CHECK_EQ(((uint8_t *)(uintptr_t)a->addr)[i], 0);
	check_sealed(a->fd, a->len);
	check_shared(a);
	check_lookup(a);
	memory_free(a);
	return 0;
}
