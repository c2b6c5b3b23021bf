/* SPDX-License-Identifier: Apache-2.0 */
/* A data entry that names its memory by address and waits for the REGISTER of it: the address is
 * looked up when the entry starts, not when it is taken. */
#include <sys/mman.h>
#include "pair.h"

#define LEN 8192u

static struct pair p;
static struct target t;
static uint8_t *local;
static struct urccl_range range;

static void registers(uint32_t flags, uint64_t data)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);

	urccl_prep_register(sqe, &range, 1, 0);
	urccl_sqe_add_flags(sqe, flags);
	urccl_sqe_set_data64(sqe, data);
}

static void moves(int reads, uint32_t flags, uint64_t data)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);

	if (reads)
		urccl_prep_read(sqe, t.remote, local, LEN, 0);
	else
		urccl_prep_write(sqe, t.remote, local, LEN, 0);
	urccl_sqe_add_flags(sqe, flags);
	urccl_sqe_set_data64(sqe, data);
}

static void unregister(struct urccl_cqe cqe)
{
	CHECK_EQ(cqe.res, 0);
	CHECK_EQ(urccl_unregister(p.a.ctx, (struct urccl_region){(uint32_t)cqe.handle}), 0);
}

/* The one after the other, across submits, and a third behind both. */
static void linked(void)
{
	struct urccl_cqe region;

	pattern_fill(local, LEN, 0, 1);
	registers(URCCL_SQE_LINK, 1);
	moves(0, URCCL_SQE_LINK, 2);
	CHECK_EQ(urccl_submit(p.a.ring), 2);
	moves(1, 0, 3);
	CHECK_EQ(urccl_submit(p.a.ring), 1);
	region = pair_end(&p, &p.a, 1);
	CHECK_EQ(pair_end(&p, &p.a, 2).res, LEN);
	CHECK_EQ(pair_end(&p, &p.a, 3).res, LEN);
	CHECK(pattern_holds(t.bytes, LEN, 0, 1));
	unregister(region);
}

static void drained(void)
{
	struct urccl_cqe region;

	pattern_fill(t.bytes, LEN, 0, 2);
	registers(0, 1);
	moves(1, URCCL_SQE_DRAIN, 2);
	CHECK_EQ(urccl_submit(p.a.ring), 2);
	region = pair_end(&p, &p.a, 1);
	CHECK_EQ(pair_end(&p, &p.a, 2).res, LEN);
	CHECK(pattern_holds(local, LEN, 0, 2));
	unregister(region);
}

/* What is not there then either is said then, and ends what waits for it in turn. */
static void never(void)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);
	struct urccl_cqe cqe;

	urccl_prep_timeout(sqe, 10000000, 0, 0);
	urccl_sqe_set_data64(sqe, 1);
	moves(0, URCCL_SQE_DRAIN | URCCL_SQE_LINK, 2);
	moves(0, 0, 3);
	CHECK_EQ(urccl_submit(p.a.ring), 3);
	CHECK_EQ(pair_end(&p, &p.a, 1).res, -ETIME);
	cqe = pair_end(&p, &p.a, 2);
	CHECK_EQ(cqe.res, -EFAULT);
	CHECK_EQ(cqe.fail.segment, 0);
	check_sentence(&p.a, &cqe, "register them first");
	CHECK_EQ(pair_end(&p, &p.a, 3).res, -ECANCELED);
}

/* Stopped while it waits: nothing was looked up yet. */
static void stopped(void)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);

	urccl_prep_timeout(sqe, 1000000000000, 0, 0);
	urccl_sqe_set_data64(sqe, 1);
	moves(0, URCCL_SQE_DRAIN, 2);
	CHECK_EQ(urccl_submit(p.a.ring), 2);
	sqe = side_sqe(&p.a);
	urccl_prep_cancel(sqe, URCCL_CANCEL_BY_USER_DATA, 2);
	urccl_sqe_set_data64(sqe, 3);
	CHECK_EQ(urccl_submit(p.a.ring), 1);
	CHECK_EQ(pair_end(&p, &p.a, 2).res, -ECANCELED);
	CHECK_EQ(pair_end(&p, &p.a, 3).res, 1);
	sqe = side_sqe(&p.a);
	urccl_prep_cancel(sqe, URCCL_CANCEL_BY_USER_DATA, 1);
	urccl_sqe_set_data64(sqe, 4);
	CHECK_EQ(urccl_submit(p.a.ring), 1);
	CHECK_EQ(pair_end(&p, &p.a, 1).res, -ECANCELED);
	CHECK_EQ(pair_end(&p, &p.a, 4).res, 1);
}

int main(int argc, char **argv)
{
	pair_begin(&p, argc, argv);
	local = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(local != MAP_FAILED);
	range = (struct urccl_range){.addr = (uintptr_t)local, .len = LEN, .fd = -1};
	target_open(&p, &t, LEN, 0);
	linked();
	drained();
	never();
	stopped();
	target_close(&p, &t);
	pair_close(&p);
	return 0;
}
