/* SPDX-License-Identifier: Apache-2.0 */
/* One remote of two adverts: memory of a GPU, which a GPU of this side reaches, and memory of the
 * host, which it does not. Large writes and reads of both at once touch nothing else. */
#include "pair.h"
#include "cuda/device.h"

#define LEN    (8u << 20)
#define MANY   6u /* more bytes than there are slots */
#define RIGHTS (URCCL_RIGHT_READ | URCCL_RIGHT_WRITE)

static struct pair p;
static struct target t;
static struct urccl_remote remote;
static uint64_t local, theirs;

static void import_both(void)
{
	struct urccl_region r = side_register(&p.b, (void *)(uintptr_t)theirs, LEN, RIGHTS);
	struct urccl_advert adverts[2];

	CHECK_EQ(urccl_advertise(p.b.ctx, r, 0, LEN, RIGHTS, 0, &adverts[0]), 0);
	adverts[1] = t.advert;
	CHECK_EQ(urccl_import(p.a.ctx, p.a.peer, adverts, 2, &remote), 0);
}

/* The first is half of each, the others are of the host. */
static uint64_t offset(uint32_t i)
{
	return i ? LEN / 2 + i * LEN : LEN / 2;
}

static void all(int reads)
{
	struct urccl_cqe cqe;
	uint32_t i;

	for (i = 0; i < MANY; i++) {
		struct urccl_sqe *sqe = side_sqe(&p.a);
		void *at = (void *)(uintptr_t)(local + i * LEN);

		if (reads)
			urccl_prep_read(sqe, remote, at, LEN, offset(i));
		else
			urccl_prep_write(sqe, remote, at, LEN, offset(i));
	}
	CHECK_EQ(urccl_submit(p.a.ring), (int)MANY);
	for (i = 0; i < MANY; i++) {
		side_take(&p.a, &p.b, &cqe, NULL);
		CHECK_EQ(cqe.res, LEN);
	}
}

int main(int argc, char **argv)
{
	uint64_t i;

	device_load();
	pair_begin(&p, argc, argv);
	local = device_alloc(MANY * LEN, 0);
	theirs = device_alloc(LEN, 0);
	side_register(&p.a, (void *)(uintptr_t)local, MANY * LEN, 0);
	target_open(&p, &t, MANY * LEN, 1);
	import_both();
	device_fill(local, MANY * LEN, LEN / 2, 1);
	all(0);
	CHECK(device_check(theirs + LEN / 2, LEN / 2, LEN / 2, 1));
	for (i = 0; i < MANY * LEN - LEN / 2; i++)
		CHECK_EQ(t.bytes[i], device_byte(LEN + i, 1));
	device_fill(local, MANY * LEN, 0, 2);
	all(1);
	CHECK(device_check(local, MANY * LEN, LEN / 2, 1));
	target_close(&p, &t);
	pair_close(&p);
	return 0;
}
