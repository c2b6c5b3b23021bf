/* SPDX-License-Identifier: Apache-2.0 */
/* PREFAULT: every page is there when the region is; a deadline or a CANCEL stops it, and then no
 * page more is touched; what cannot be had is said. */
#include <sys/mman.h>
#include "pair.h"

#define LEN  (64u << 20)
#define MUCH (8ull << 30)
#define RW   (URCCL_RIGHT_READ | URCCL_RIGHT_WRITE | URCCL_REG_PREFAULT)

static struct pair p;

static uint8_t *map(uint64_t len, int prot)
{
	uint8_t *m = mmap(NULL, len, prot, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	CHECK(m != MAP_FAILED);
	return m;
}

/* Pages of the range that are there. */
static uint64_t resident(uint8_t *m, uint64_t len)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), n = 0, i;
	unsigned char *there = malloc(len / page);

	CHECK(there);
	CHECK_EQ(mincore(m, len, there), 0);
	for (i = 0; i < len / page; i++)
		n += there[i] & 1;
	free(there);
	return n * page;
}

static void post(uint8_t *m, struct urccl_range *r, uint64_t len, uint32_t us)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);

	*r = (struct urccl_range){.addr = (uintptr_t)m, .len = len, .fd = -1};
	urccl_prep_register(sqe, r, 1, RW);
	urccl_sqe_set_deadline_us(sqe, us);
	urccl_sqe_set_data64(sqe, 1);
	CHECK_EQ(urccl_submit(p.a.ring), 1);
}

static void by_call(void)
{
	uint8_t *m = map(LEN, PROT_READ | PROT_WRITE), *only = map(4096, PROT_READ);
	struct urccl_range r[2] = {{.addr = (uintptr_t)m, .len = LEN, .fd = -1},
				   {.addr = (uintptr_t)only, .len = 4096, .fd = -1}};
	struct urccl_region region;
	int res = urccl_register(p.a.ctx, r, 1, RW, &region);

	if (res == -EOPNOTSUPP)
		SKIP("this kernel cannot be asked for pages");
	CHECK_EQ(res, 0);
	CHECK_EQ(resident(m, LEN), LEN);
	CHECK_EQ(urccl_unregister(p.a.ctx, region), 0);
	CHECK_EQ(urccl_register(p.a.ctx, r, 2, RW & ~URCCL_RIGHT_WRITE, &region), 0);
	CHECK_EQ(resident(only, 4096), 4096);
	CHECK_EQ(urccl_unregister(p.a.ctx, region), 0);
	munmap(m, LEN);
	munmap(only, 4096);
}

static void by_entry(void)
{
	uint8_t *m = map(LEN, PROT_READ | PROT_WRITE);
	struct urccl_range r;
	struct urccl_cqe cqe;

	post(m, &r, LEN, 0);
	cqe = pair_end(&p, &p.a, 1);
	CHECK_EQ(cqe.res, 0);
	CHECK_EQ(resident(m, LEN), LEN);
	CHECK_EQ(urccl_unregister(p.a.ctx, (struct urccl_region){(uint32_t)cqe.handle}), 0);
	munmap(m, LEN);
}

static void none_to_be_had(void)
{
	uint8_t *m = map(8192, PROT_READ | PROT_WRITE);
	struct urccl_range r = {.addr = (uintptr_t)m, .len = 8192, .fd = -1};
	struct urccl_region region = {0};

	CHECK_EQ(mprotect(m + 4096, 4096, PROT_NONE), 0);
	CHECK(urccl_register(p.a.ctx, &r, 1, URCCL_REG_PREFAULT, &region) < 0);
	CHECK(strstr(urccl_errmsg(), "pages could not be had"));
	CHECK(!region.id);
	munmap(m, 8192);
}

/* Its end comes soon, and after it nobody touches the memory. */
static void stopped(int by_cancel)
{
	uint8_t *m = map(MUCH, PROT_READ | PROT_WRITE);
	struct urccl_sqe *sqe;
	struct urccl_range r;
	struct urccl_cqe cqe;
	uint64_t there;

	post(m, &r, MUCH, by_cancel ? 0 : 20000);
	if (by_cancel) {
		sqe = side_sqe(&p.a);
		urccl_prep_cancel(sqe, URCCL_CANCEL_BY_USER_DATA, 1);
		urccl_sqe_set_data64(sqe, 2);
		CHECK_EQ(urccl_submit(p.a.ring), 1);
	}
	do /* the outcome, if the end takes longer */
		side_take(&p.a, &p.b, &cqe, NULL);
	while (cqe.flags & URCCL_CQE_MORE);
	CHECK_EQ(cqe.user_data, 1);
	CHECK_EQ(cqe.res, by_cancel ? -ECANCELED : -ETIMEDOUT);
	there = resident(m, MUCH);
	CHECK(there < MUCH);
	if (by_cancel)
		CHECK_EQ(pair_end(&p, &p.a, 2).res, 1);
	CHECK(!side_take_within(&p.a, &p.b, 50000000, &cqe, NULL));
	CHECK_EQ(resident(m, MUCH), there);
	munmap(m, MUCH);
}

int main(int argc, char **argv)
{
	pair_begin(&p, argc, argv);
	by_call();
	by_entry();
	none_to_be_had();
	stopped(0);
	stopped(1);
	pair_close(&p);
	return 0;
}
