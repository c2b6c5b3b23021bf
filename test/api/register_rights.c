/* SPDX-License-Identifier: Apache-2.0 */
/* Rights that peers could not use without a fault in our threads are refused when the memory is
 * registered: to write where it is mapped read-only, any where it cannot be read. */
#include <sys/mman.h>
#include "pair.h"

#define R  URCCL_RIGHT_READ
#define RW (R | URCCL_RIGHT_WRITE)

static struct pair p;
static struct target t;
static uint64_t page;
static uint8_t *m;

static struct urccl_range pages(uint64_t from, uint64_t n)
{
	return (struct urccl_range){.addr = (uintptr_t)m + from * page, .len = n * page, .fd = -1};
}

static void refused(const struct urccl_range *r, uint32_t n, uint32_t rights, const char *why)
{
	struct urccl_region region = {0};
	struct urccl_sqe *sqe = side_sqe(&p.a);
	struct urccl_cqe cqe;

	CHECK_EQ(urccl_register(p.a.ctx, r, n, rights, &region), -EACCES);
	CHECK_SAYS(urccl_errmsg(), why);
	CHECK(!region.id);
	urccl_prep_register(sqe, r, n, rights);
	cqe = pair_run(&p, &p.a, sqe);
	CHECK_EQ(cqe.res, -EACCES);
	check_sentence(&p.a, &cqe, why);
}

static struct urccl_region taken(const struct urccl_range *r, uint32_t n, uint32_t rights)
{
	struct urccl_region region = {0};
	int res = urccl_register(p.a.ctx, r, n, rights, &region);

	if (res)
		fprintf(stderr, "%s\n", urccl_errmsg());
	CHECK_EQ(res, 0);
	return region;
}

static void one_mapping(void)
{
	struct urccl_range none = pages(6, 1), ro = pages(4, 2), rw = pages(0, 2);

	refused(&ro, 1, RW, "read-only");
	refused(&ro, 1, R | URCCL_RIGHT_ATOMIC, "read-only");
	refused(&ro, 1, URCCL_RIGHT_WRITE | URCCL_REG_PREFAULT, "PROT_WRITE");
	refused(&none, 1, R, "PROT_NONE");
	refused(&none, 1, URCCL_RIGHT_WRITE, "PROT_NONE");
	CHECK_EQ(urccl_unregister(p.a.ctx, taken(&rw, 1, RW | URCCL_RIGHT_ATOMIC)), 0);
	CHECK_EQ(urccl_unregister(p.a.ctx, taken(&ro, 1, R)), 0);
	CHECK_EQ(urccl_unregister(p.a.ctx, taken(&none, 1, 0)), 0);
}

/* Mappings that touch are one range to a program: 0 to 3 to read and write, of two mappings, 4 and
 * 5 to read, 6 nothing, 7 to read and write. */
static void across(void)
{
	struct urccl_range whole = pages(0, 4), into = pages(0, 5), over = pages(0, 8);
	struct urccl_range three[3] = {pages(7, 1), pages(0, 2), pages(3, 2)};

	CHECK_EQ(urccl_unregister(p.a.ctx, taken(&whole, 1, RW)), 0);
	into.addr += 100;
	refused(&into, 1, RW, "range 0");
	refused(&over, 1, RW, "range 0");
	refused(&over, 1, R, "PROT_NONE");
	refused(three, 3, RW, "range 2");
	CHECK_EQ(urccl_unregister(p.a.ctx, taken(three, 3, R)), 0);
}

/* To be read by a peer, and written out of, it is as good as any. */
static void read_only_moves(void)
{
	struct urccl_range ro = pages(4, 2);
	struct urccl_region region = taken(&ro, 1, R);
	struct urccl_sqe *sqe = side_sqe(&p.a);
	static uint8_t there[4096];
	struct urccl_remote remote;
	struct urccl_advert ad;

	urccl_prep_write(sqe, t.remote, m + 4 * page, page, 0);
	CHECK_EQ(pair_run(&p, &p.a, sqe).res, (int64_t)page);
	CHECK(!memcmp(t.bytes, m + 4 * page, page));
	side_register(&p.b, there, sizeof(there), 0);
	CHECK_EQ(urccl_advertise(p.a.ctx, region, 0, page, R, 0, &ad), 0);
	CHECK_EQ(urccl_advertise(p.a.ctx, region, 0, page, RW, 0, &ad), -EACCES);
	CHECK_EQ(urccl_import(p.b.ctx, p.b.peer, &ad, 1, &remote), 0);
	sqe = side_sqe(&p.b);
	urccl_prep_read(sqe, remote, there, 64, 0);
	CHECK_EQ(pair_run(&p, &p.b, sqe).res, 64);
	CHECK(!memcmp(there, m + 4 * page, 64));
	CHECK_EQ(urccl_unimport(p.b.ctx, remote), 0);
	CHECK_EQ(urccl_unregister(p.a.ctx, region), 0);
}

int main(int argc, char **argv)
{
	int fd = memfd_create("rights", MFD_CLOEXEC);

	page = (uint64_t)sysconf(_SC_PAGESIZE);
	CHECK_EQ(ftruncate(fd, (off_t)(2 * page)), 0);
	m = mmap(NULL, 8 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(m != MAP_FAILED);
	CHECK(mmap(m + 2 * page, 2 * page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) ==
	      m + 2 * page);
	close(fd);
	pattern_fill(m, 8 * page, 0, 1);
	CHECK_EQ(mprotect(m + 4 * page, 2 * page, PROT_READ), 0);
	CHECK_EQ(mprotect(m + 6 * page, page, PROT_NONE), 0);
	pair_begin(&p, argc, argv);
	target_open(&p, &t, page, 0);
	one_mapping();
	across();
	read_only_moves();
	target_close(&p, &t);
	pair_close(&p);
	return 0;
}
