/* SPDX-License-Identifier: Apache-2.0 */
/* What came to memory of a device, which a NIC's word does not prove to be there, is said to be
 * NOT_FLUSHED: by the CQE of a write to a peer's and of a read into one's own, and by notifications
 * of who may have written to it; and nothing else is. */
#include "device.h"

#define LEN   8192u
#define PLACE 0x10000u /* nothing is mapped there */
#define RW    (URCCL_RIGHT_READ | URCCL_RIGHT_WRITE)

static struct pair p;
static uint8_t local[LEN];

/* NOT_FLUSHED, or 0. */
static uint32_t owes(const struct urccl_cqe *cqe)
{
	return cqe->flags & URCCL_CQE_NOT_FLUSHED;
}

static uint32_t writes(struct urccl_remote to, const void *from, uint32_t flags)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);
	struct urccl_cqe cqe;

	urccl_prep_write(sqe, to, from, LEN, 0);
	urccl_sqe_add_flags(sqe, flags);
	cqe = pair_run(&p, &p.a, sqe);
	CHECK_EQ(cqe.res, LEN);
	return owes(&cqe);
}

static uint32_t reads(struct urccl_remote from, void *to)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);
	struct urccl_cqe cqe;

	urccl_prep_read(sqe, from, to, LEN, 0);
	cqe = pair_run(&p, &p.a, sqe);
	CHECK_EQ(cqe.res, LEN);
	return owes(&cqe);
}

/* By b's event. */
static uint32_t notified(void)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);
	struct urccl_cqe cqe;

	urccl_prep_notify(sqe, p.a.peer, 7, NULL, 0);
	cqe = pair_run(&p, &p.a, sqe);
	CHECK_EQ(cqe.res, 0);
	CHECK(!owes(&cqe));
	side_take(&p.b, &p.a, &cqe, NULL);
	CHECK_EQ(urccl_cqe_kind(&cqe), URCCL_KIND_NOTE);
	return owes(&cqe);
}

int main(int argc, char **argv)
{
	void *place = (void *)(uintptr_t)PLACE;
	struct device theirs, ours;
	struct urccl_remote remote;
	struct urccl_advert ad;
	struct target host;

	pair_begin(&p, argc, argv);
	device_needs();
	target_open(&p, &host, LEN, 0);
	side_register(&p.a, local, LEN, 0);
	device_open(&theirs, &p.b, PLACE, LEN);
	device_open(&ours, &p.a, PLACE, LEN);
	CHECK_EQ(urccl_advertise(p.b.ctx, theirs.region, 0, LEN, RW, 0, &ad), 0);
	CHECK_EQ(urccl_import(p.a.ctx, p.a.peer, &ad, 1, &remote), 0);

	pattern_fill(local, LEN, 0, 1);
	CHECK(!writes(host.remote, local, 0));
	CHECK(!notified());
	CHECK(writes(remote, local, 0));
	CHECK(pattern_holds(theirs.bytes, LEN, 0, 1));
	CHECK(notified());
	CHECK(writes(remote, local, URCCL_SQE_ACKED));
	CHECK(!writes(host.remote, local, 0));
	CHECK(!reads(remote, local));
	CHECK(pattern_holds(local, LEN, 0, 1));
	CHECK(reads(host.remote, place));
	CHECK(pattern_holds(ours.bytes, LEN, 0, 1));
	pattern_fill(ours.bytes, LEN, 0, 2);
	CHECK(!writes(host.remote, place, 0));
	CHECK(pattern_holds(host.bytes, LEN, 0, 2));

	target_close(&p, &host);
	device_close(&theirs, &p.b);
	device_close(&ours, &p.a);
	pair_close(&p);
	return 0;
}
