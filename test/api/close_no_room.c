/* SPDX-License-Identifier: Apache-2.0 */
/* A context is closed while a peer that is not driven has a file of the program's mapped, and there
 * is no room for other pages: the close ends in time all the same, and the log says that the peer
 * may still write. Where there is room it says nothing. */
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>
#include "lateness.h"
#include "pair.h"

#define LEN    (1u << 20)
#define RIGHTS (URCCL_RIGHT_READ | URCCL_RIGHT_WRITE)

static struct pair p;
static uint32_t told;

static void hear(void *arg, int level, const char *text)
{
	(void)arg;
	if (!strstr(text, "not taken from a peer"))
		return;
	CHECK_EQ(level, URCCL_LOG_WARN);
	__atomic_add_fetch(&told, 1, __ATOMIC_RELAXED);
}

static int file_open(void **at)
{
	int fd = memfd_create("close_no_room", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	CHECK_EQ(fallocate(fd, 0, 0, LEN), 0);
	CHECK_EQ(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL), 0);
	*at = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	CHECK(*at != MAP_FAILED);
	return fd;
}

/* b maps the file of a by writing to it. */
static void b_writes(void *at, int fd)
{
	static uint8_t local[LEN];
	struct urccl_range range = {.addr = (uint64_t)(uintptr_t)at, .len = LEN, .fd = fd};
	struct urccl_advert advert;
	struct urccl_region region;
	struct urccl_remote remote;
	struct urccl_sqe *sqe;

	CHECK_EQ(urccl_register(p.a.ctx, &range, 1, RIGHTS, &region), 0);
	CHECK_EQ(urccl_advertise(p.a.ctx, region, 0, LEN, RIGHTS, 0, &advert), 0);
	side_register(&p.b, local, LEN, 0);
	CHECK_EQ(urccl_import(p.b.ctx, p.b.peer, &advert, 1, &remote), 0);
	sqe = side_sqe(&p.b);
	urccl_prep_write(sqe, remote, local, LEN, 0);
	CHECK_EQ(pair_run(&p, &p.b, sqe).res, LEN);
}

static void close_with(int room)
{
	struct rlimit was, none;
	uint64_t start;

	CHECK_EQ(getrlimit(RLIMIT_DATA, &was), 0);
	none = (struct rlimit){.rlim_cur = 1, .rlim_max = was.rlim_max};
	if (!room)
		CHECK_EQ(setrlimit(RLIMIT_DATA, &none), 0);
	canary_reset();
	start = now_ns();
	side_close(&p.a);
	check_within(start, 2000000000ull);
	CHECK_EQ(setrlimit(RLIMIT_DATA, &was), 0);
	CHECK_EQ(__atomic_load_n(&told, __ATOMIC_RELAXED), !room);
}

static void one(int argc, char **argv, int room)
{
	uint32_t flags;
	void *at;
	int fd = file_open(&at);

	told = 0;
	pair_options(&p, argc, argv);
	p.params.log = hear;
	p.params.log_level = URCCL_LOG_WARN;
	flags = p.params.flags;
	p.params.flags |= URCCL_OPEN_INLINE;
	side_open(&p, &p.b);
	p.params.flags = flags;
	pair_open(&p);
	b_writes(at, fd);
	close_with(room);
	side_close(&p.b);
	munmap(at, LEN);
	close(fd);
}

int main(int argc, char **argv)
{
	canary_start();
	one(argc, argv, 1);
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	SKIP("a sanitizer needs room itself");
#endif
	one(argc, argv, 0);
	return 0;
}
