/* SPDX-License-Identifier: Apache-2.0 */
/* Ranges that are views of a memfd of the program's own: bytes go to and from the file, whether its
 * size is sealed, so that peers of this host may map it, or not; mapped by the program, or by the
 * library where nothing was. The descriptor is the program's to close. */
#include <fcntl.h>
#include <sys/mman.h>
#include "fds.h"
#include "pair.h"

#define LEN    (256u << 10)
#define SEALS  (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)
#define RIGHTS (URCCL_RIGHT_READ | URCCL_RIGHT_WRITE)

static struct pair p;
static uint8_t local[LEN];

static int file_of(int seals)
{
	int fd = memfd_create("file", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	CHECK(fd >= 0);
	CHECK_EQ(ftruncate(fd, LEN), 0);
	CHECK_EQ(fallocate(fd, 0, 0, LEN), 0);
	CHECK_EQ(fcntl(fd, F_ADD_SEALS, seals), 0);
	return fd;
}

static uint8_t *map(int fd)
{
	void *at = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	CHECK(at != MAP_FAILED);
	return at;
}

/* Where nothing is. */
static uint8_t *hole(void)
{
	void *at = mmap(NULL, LEN, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK(at != MAP_FAILED);
	CHECK_EQ(munmap(at, LEN), 0);
	return at;
}

static struct urccl_range range_of(int fd, uint8_t *at, uint64_t off, uint64_t len)
{
	return (struct urccl_range){.addr = (uint64_t)(uintptr_t)at,
				    .len = len,
				    .fd = fd,
				    .fd_off = off};
}

static int is_mapped(uint8_t *at)
{
	return !msync(at, LEN, MS_ASYNC);
}

/* b's, for a. */
static void target_of(struct target *t, const struct urccl_range *ranges, uint32_t n)
{
	memset(t, 0, sizeof(*t));
	t->bytes = (uint8_t *)(uintptr_t)ranges[0].addr;
	t->len = LEN;
	CHECK_EQ(urccl_register(p.b.ctx, ranges, n, RIGHTS, &t->region), 0);
	CHECK_EQ(urccl_advertise(p.b.ctx, t->region, 0, LEN, RIGHTS, 0, &t->advert), 0);
	CHECK_EQ(urccl_import(p.a.ctx, p.a.peer, &t->advert, 1, &t->remote), 0);
}

static void move(const struct target *t, int reads)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);

	if (reads)
		urccl_prep_read(sqe, t->remote, local, LEN, 0);
	else
		urccl_prep_write(sqe, t->remote, local, LEN, 0);
	CHECK_EQ(pair_run(&p, &p.a, sqe).res, LEN);
	settle();
}

static void check_way(const struct target *t, int seals)
{
	struct urccl_region_info region = {.size = sizeof(region)};
	struct urccl_remote_info remote = {.size = sizeof(remote)};

	CHECK_EQ(urccl_region_info(p.b.ctx, t->region, &region), 0);
	CHECK_EQ(region.mappable, seals == SEALS);
	CHECK_EQ(urccl_remote_info(p.a.ctx, t->remote, &remote), 0);
	CHECK_EQ(remote.enforced, p.transport == URCCL_TRANSPORT_SHM && seals == SEALS
					  ? URCCL_ENFORCED_BY_IMPORTER
					  : URCCL_ENFORCED_BY_OWNER);
}

/* Both ways; the file is looked at by a view of its own. */
static void of_the_peer(int seals, int mapped)
{
	int fd = file_of(seals);
	uint8_t *view = map(fd), *at = mapped ? map(fd) : hole();
	struct urccl_range range = range_of(fd, at, 0, LEN);
	struct target t;

	target_of(&t, &range, 1);
	close(fd);
	pattern_fill(local, LEN, 0, 1);
	move(&t, 0);
	CHECK(pattern_holds(view, LEN, 0, 1));
	check_way(&t, seals);
	pattern_fill(view, LEN, 0, 2);
	move(&t, 1);
	CHECK(pattern_holds(local, LEN, 0, 2));
	if (!mapped)
		t.bytes = NULL; /* the library unmaps it */
	target_close(&p, &t);
	CHECK(!is_mapped(at));
	munmap(view, LEN);
}

/* The second half of a file before the first: one that peers may map, in two parts. */
static void halves(void)
{
	int fd = file_of(SEALS);
	uint8_t *view = map(fd), *at = map(fd);
	struct urccl_range ranges[2] = {range_of(fd, at + LEN / 2, LEN / 2, LEN / 2),
					range_of(fd, at, 0, LEN / 2)};
	struct target t;

	target_of(&t, ranges, 2);
	t.bytes = at;
	close(fd);
	pattern_fill(local, LEN, 0, 3);
	move(&t, 0);
	CHECK(pattern_holds(view + LEN / 2, LEN / 2, 0, 3));
	CHECK(pattern_holds(view, LEN / 2, LEN / 2, 3));
	check_way(&t, SEALS);
	target_close(&p, &t);
	munmap(view, LEN);
}

/* The same memory was registered as memory before, and that region ends first. */
static void after_plain(void)
{
	int fd = file_of(SEALS);
	uint8_t *at = map(fd);
	struct urccl_region plain = side_register(&p.b, at, LEN, RIGHTS);
	struct urccl_range range = range_of(fd, at, 0, LEN);
	struct target t;

	target_of(&t, &range, 1);
	close(fd);
	CHECK_EQ(urccl_unregister(p.b.ctx, plain), 0);
	pattern_fill(local, LEN, 0, 5);
	move(&t, 0);
	CHECK(pattern_holds(at, LEN, 0, 5));
	check_way(&t, SEALS);
	target_close(&p, &t);
}

/* A buffer of ours: entries name it where the library mapped it, two regions have it. */
static void of_ours(void)
{
	int fd = file_of(SEALS);
	uint8_t *view = map(fd), *at;
	struct urccl_region region, inside;
	struct urccl_range range;
	struct urccl_sqe *sqe;
	struct target t;

	target_open(&p, &t, LEN, 0);
	at = hole();
	range = range_of(fd, at, 0, LEN);
	CHECK_EQ(urccl_register(p.a.ctx, &range, 1, 0, &region), 0);
	range = range_of(fd, at + 4096, 4096, 8192);
	CHECK_EQ(urccl_register(p.a.ctx, &range, 1, 0, &inside), 0);
	close(fd);
	pattern_fill(view, LEN, 0, 4);
	CHECK_EQ(urccl_unregister(p.a.ctx, region), 0);
	sqe = side_sqe(&p.a);
	urccl_prep_write(sqe, t.remote, at + 4096, 8192, 4096);
	CHECK_EQ(pair_run(&p, &p.a, sqe).res, 8192);
	settle();
	CHECK(pattern_holds(t.bytes + 4096, 8192, 4096, 4));
	CHECK_EQ(urccl_unregister(p.a.ctx, inside), 0);
	CHECK(!is_mapped(at));
	target_close(&p, &t);
	munmap(view, LEN);
}

int main(int argc, char **argv)
{
	uint32_t fds = 0, i;

	pair_begin(&p, argc, argv);
	side_register(&p.a, local, LEN, 0);
	for (i = 0; i < 3; i++) {
		of_the_peer(SEALS, 1);
		of_the_peer(SEALS, 0);
		of_the_peer(F_SEAL_SHRINK, 1);
		of_the_peer(F_SEAL_SHRINK, 0);
		halves();
		after_plain();
		of_ours();
		CHECK(!i || fds_open() == fds); /* both sides keep one from the first time on */
		fds = fds_open();
	}
	pair_close(&p);
	return 0;
}
