/* SPDX-License-Identifier: Apache-2.0 */
/* An importer that does nothing: where it has the memory mapped, UNREGISTER and REVOKE end by their
 * deadline or by CANCEL, with a reason, and succeed when it goes on; where the owner enforces its
 * adverts it is not waited for. */
#include <sys/mman.h>
#include "pair.h"

#define LEN	 65536u
#define LATE_US	 1000u	      /* before the memory is taken from who does nothing */
#define TAKEN_NS 280000000ull /* not sooner than that */
#define TRIES	 5u
#define RW	 (URCCL_RIGHT_READ | URCCL_RIGHT_WRITE)

static struct pair p;
static uint8_t *bytes;
static struct urccl_region region;
static struct urccl_remote remote; /* b's */

static int64_t b_writes(void)
{
	static uint8_t local[64];
	struct urccl_region here = side_register(&p.b, local, sizeof(local), 0);
	struct urccl_sqe *sqe = side_sqe(&p.b);
	int64_t res;

	urccl_prep_write(sqe, remote, local, sizeof(local), 0);
	res = pair_run(&p, &p.b, sqe).res;
	CHECK_EQ(urccl_unregister(p.b.ctx, here), 0);
	return res;
}

static void begin(int shared)
{
	struct urccl_advert ad;
	void *addr = calloc(1, LEN);

	CHECK(addr);
	if (shared) {
		free(addr);
		CHECK_EQ(urccl_alloc(p.a.ctx, LEN, &addr), 0);
	}
	bytes = addr;
	region = side_register(&p.a, bytes, LEN, RW);
	CHECK_EQ(urccl_advertise(p.a.ctx, region, 0, LEN, RW, 0, &ad), 0);
	CHECK_EQ(urccl_import(p.b.ctx, p.b.peer, &ad, 1, &remote), 0);
	CHECK_EQ(b_writes(), 64);
}

static void post(int unregisters, uint32_t us, uint64_t user_data)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);

	if (unregisters)
		urccl_prep_unregister(sqe, region);
	else
		urccl_prep_revoke(sqe, region);
	urccl_sqe_set_deadline_us(sqe, us);
	urccl_sqe_set_data64(sqe, user_data);
	CHECK_EQ(urccl_submit(p.a.ring), 1);
}

/* The end of an entry of a's, b doing nothing. */
static struct urccl_cqe take(uint64_t user_data)
{
	struct urccl_cqe cqe;

	do {
		side_take(&p.a, NULL, &cqe, NULL);
		CHECK_EQ(cqe.user_data, user_data);
	} while (pair_is_outcome(&p, &cqe));
	CHECK_EQ(cqe.flags & URCCL_CQE_MORE, 0);
	return cqe;
}

static void enforced(void)
{
	begin(0);
	post(0, 5000000, 1);
	CHECK_EQ(take(1).res, 0);
	post(1, 5000000, 2);
	CHECK_EQ(take(2).res, 0);
	CHECK_EQ(b_writes(), -ESTALE);
	CHECK_EQ(urccl_unimport(p.b.ctx, remote), 0);
	free(bytes);
}

/* An end without an error: the memory was taken, which is right after some time, and whoever lost
 * the processor for that time saw nothing else. */
static int was_taken(const struct urccl_cqe *cqe, uint64_t since)
{
	return !cqe->res && now_ns() - since >= TAKEN_NS;
}

/* 1, or 0: it was taken meanwhile. */
static int late(int unregisters, uint64_t since)
{
	struct urccl_cqe cqe;

	post(unregisters, LATE_US, 3);
	cqe = take(3);
	if (was_taken(&cqe, since))
		return 0;
	CHECK_EQ(cqe.res, -ETIMEDOUT);
	check_sentence(&p.a, &cqe, "still in use");
	check_sentence(&p.a, &cqe, "after 1000 us");
	return 1;
}

static int cancelled(int unregisters, uint64_t since)
{
	struct urccl_sqe *sqe;
	struct urccl_cqe cqe[2];

	post(unregisters, 0, 4);
	sqe = side_sqe(&p.a);
	urccl_prep_cancel(sqe, URCCL_CANCEL_BY_REGION, region.id);
	urccl_sqe_set_data64(sqe, 5);
	CHECK_EQ(urccl_submit(p.a.ring), 1);
	side_take(&p.a, NULL, &cqe[0], NULL);
	side_take(&p.a, NULL, &cqe[1], NULL);
	if (was_taken(&cqe[0], since))
		return 0;
	CHECK_EQ(cqe[0].user_data, 4);
	CHECK_EQ(cqe[0].res, -ECANCELED);
	CHECK_EQ(cqe[1].user_data, 5);
	CHECK_EQ(cqe[1].res, 1);
	return 1;
}

/* Whoever is second is told so. */
static int busy(uint64_t since)
{
	struct urccl_cqe cqe;
	int res = urccl_free(p.a.ctx, bytes);

	if (now_ns() - since >= TAKEN_NS)
		return 0;
	CHECK_EQ(res, -EBUSY);
	post(1, 0, 6);
	post(1, 0, 7);
	side_take(&p.a, NULL, &cqe, NULL);
	if (cqe.user_data == 6 && was_taken(&cqe, since)) {
		take(7);
		return 0;
	}
	CHECK_EQ(cqe.user_data, 7);
	CHECK_EQ(cqe.res, -EBUSY);
	return 1;
}

/* b does something. */
static void goes_on(void)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);

	urccl_prep_nop(sqe);
	urccl_sqe_add_flags(sqe, URCCL_SQE_DRAIN);
	urccl_sqe_set_data64(sqe, 8);
	CHECK_EQ(urccl_submit(p.a.ring), 1);
}

static int revokes(void)
{
	struct urccl_advert ad;
	uint64_t since = now_ns();

	if (!late(0, since) || !cancelled(0, since))
		return 0;
	/* Its adverts are void; the region is there. */
	CHECK_EQ(b_writes(), -EACCES);
	CHECK_EQ(urccl_advertise(p.a.ctx, region, 0, LEN, RW, 0, &ad), 0);
	CHECK_EQ(urccl_unimport(p.b.ctx, remote), 0);
	CHECK_EQ(urccl_import(p.b.ctx, p.b.peer, &ad, 1, &remote), 0);
	CHECK_EQ(b_writes(), 64);
	return 1;
}

static int unregisters(void)
{
	struct urccl_advert ad;
	uint64_t since = now_ns();

	if (!late(1, since) || !cancelled(1, since))
		return 0;
	CHECK_EQ(urccl_advertise(p.a.ctx, region, 0, LEN, RW, 0, &ad), -ESTALE);
	return busy(since);
}

/* 1, or 0: the memory was taken before all was seen. */
static int mapped(void)
{
	struct urccl_cqe cqe;
	int saw;

	begin(1);
	saw = revokes() && unregisters();
	if (!saw)
		post(1, 0, 6);
	goes_on();
	cqe = pair_end(&p, &p.a, 6);
	CHECK(!cqe.res || (!saw && cqe.res == -ESTALE));
	CHECK_EQ(pair_end(&p, &p.a, 8).res, 0);
	CHECK_EQ(urccl_free(p.a.ctx, bytes), 0);
	CHECK_EQ(b_writes(), -ESTALE);
	CHECK_EQ(urccl_unimport(p.b.ctx, remote), 0);
	return saw;
}

int main(int argc, char **argv)
{
	uint32_t tries;

	pair_begin_idle(&p, argc, argv);
	enforced();
	for (tries = 1; p.transport == URCCL_TRANSPORT_SHM && !mapped(); tries++)
		CHECK(tries < TRIES);
	pair_close(&p);
	return 0;
}
