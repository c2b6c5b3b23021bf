/* SPDX-License-Identifier: Apache-2.0 */
/* Ranges that are views of a memfd of the program's own, whose descriptor is the program's to
 * close. */
#ifndef API_REGISTER_FILE_H
#define API_REGISTER_FILE_H

#include <fcntl.h>
#include <sys/mman.h>
#include "fds.h"
#include "pair.h"

#define LEN    (256u << 10)
#define SEALS  (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) /* peers of this host may map it */
#define RIGHTS (URCCL_RIGHT_READ | URCCL_RIGHT_WRITE)

static struct pair p;
static uint8_t local[LEN]; /* a's */

static inline int file_of(int seals)
{
	int fd = memfd_create("file", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	CHECK(fd >= 0);
	CHECK_EQ(ftruncate(fd, LEN), 0);
	CHECK_EQ(fallocate(fd, 0, 0, LEN), 0);
	CHECK_EQ(fcntl(fd, F_ADD_SEALS, seals), 0);
	return fd;
}

static inline uint8_t *map(int fd)
{
	void *at = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	CHECK(at != MAP_FAILED);
	return at;
}

/* Where nothing is. */
static inline uint8_t *hole(void)
{
	void *at = mmap(NULL, LEN, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK(at != MAP_FAILED);
	CHECK_EQ(munmap(at, LEN), 0);
	return at;
}

static inline struct urccl_range range_of(int fd, uint8_t *at, uint64_t off, uint64_t len)
{
	return (struct urccl_range){.addr = (uint64_t)(uintptr_t)at,
				    .len = len,
				    .fd = fd,
				    .fd_off = off};
}

static inline int is_mapped(uint8_t *at)
{
	return !msync(at, LEN, MS_ASYNC);
}

/* b's, for a. */
static inline void target_of(struct target *t, const struct urccl_range *ranges, uint32_t n)
{
	memset(t, 0, sizeof(*t));
	t->bytes = (uint8_t *)(uintptr_t)ranges[0].addr;
	t->len = LEN;
	CHECK_EQ(urccl_register(p.b.ctx, ranges, n, RIGHTS, &t->region), 0);
	CHECK_EQ(urccl_advertise(p.b.ctx, t->region, 0, LEN, RIGHTS, 0, &t->advert), 0);
	CHECK_EQ(urccl_import(p.a.ctx, p.a.peer, &t->advert, 1, &t->remote), 0);
}

static inline void move(const struct target *t, int reads)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);

	if (reads)
		urccl_prep_read(sqe, t->remote, local, LEN, 0);
	else
		urccl_prep_write(sqe, t->remote, local, LEN, 0);
	CHECK_EQ(pair_run(&p, &p.a, sqe).res, LEN);
	settle();
}

static inline void check_way(const struct target *t, int seals)
{
	struct urccl_region_info region = {.size = sizeof(region)};
	struct urccl_remote_info remote = {.size = sizeof(remote)};

	CHECK_EQ(urccl_get_region_info(p.b.ctx, t->region, &region), 0);
	CHECK_EQ(region.mappable, seals == SEALS);
	CHECK_EQ(urccl_get_remote_info(p.a.ctx, t->remote, &remote), 0);
	CHECK_EQ(remote.enforced, p.transport == URCCL_TRANSPORT_SHM && seals == SEALS
					  ? URCCL_ENFORCED_BY_IMPORTER
					  : URCCL_ENFORCED_BY_OWNER);
}

/* No descriptor stays, but one that both sides keep from the first time on. */
static inline void thrice(int argc, char **argv, void (*once)(void))
{
	uint32_t fds = 0, i;

	pair_begin(&p, argc, argv);
	side_register(&p.a, local, LEN, 0);
	for (i = 0; i < 3; i++) {
		once();
		CHECK(!i || fds_open() == fds);
		fds = fds_open();
	}
	pair_close(&p);
}

/* The parts of register_file.c, each with a pair of its own. */
void register_file_again(int argc, char **argv);
void register_file_halves(int argc, char **argv);
void register_file_local(int argc, char **argv);

#endif
