/* SPDX-License-Identifier: Apache-2.0 */
/* A range that is advertised is pinned once a device, for whichever peers and by whichever rails
 * they come, and stays so while a rail goes and comes back; a range apart is pinned apart. */
#include "pins_rig.h"

#define PULLED 1u

static struct pins_rig r;
static struct target whole;

static void watches(void)
{
	struct urccl_sqe *sqe = urccl_get_sqe(r.a.ring);

	CHECK(sqe);
	urccl_prep_watch(sqe, r.ab);
	urccl_sqe_set_data64(sqe, 9);
	CHECK_EQ(urccl_submit(r.a.ring), 1);
}

static void hears_of(uint32_t rail, int up)
{
	struct urccl_cqe cqe;

	do
		cqe = side_next(&r.a);
	while (urccl_cqe_kind(&cqe) != URCCL_KIND_RAIL || cqe.tag != rail || (cqe.res == 0) != up);
}

/* The second to ask, and the second rail, find it there. */
static void is_shared(void)
{
	struct urccl_remote of_a = imports(&r.a, r.ab, &whole), of_c = imports(&r.c, r.cb, &whole);

	CHECK_EQ(writes(&r, &r.a, of_a).res, LEN);
	warms(&r.a, r.ab);
	CHECK_EQ(seen.pins, RAILS);
	CHECK_EQ(writes(&r, &r.c, of_c).res, LEN);
	warms(&r.c, r.cb);
	CHECK_EQ(seen.pins, RAILS);
	CHECK_EQ(urccl_unimport(r.c.ctx, of_c), 0);
}

static void outlives_rails(void)
{
	uint32_t round;

	watches();
	hears_of(PULLED, 1);
	for (round = 0; round < 3; round++) {
		urccl_sim_pull(r.sim, PULLED, 1);
		hears_of(PULLED, 0);
		urccl_sim_pull(r.sim, PULLED, 0);
		hears_of(PULLED, 1);
		warms(&r.a, r.ab);
	}
	CHECK_EQ(seen.pins, RAILS);
	CHECK_EQ(seen.unpins, 0);
}

/* Less of it, or fewer rights, is not reached by the same key. */
static void is_narrow(void)
{
	struct target part = {.region = whole.region};
	struct urccl_remote remote;

	CHECK_EQ(urccl_advertise(r.b.ctx, whole.region, 64, LEN - 64, RIGHTS, 0, &part.advert), 0);
	remote = imports(&r.a, r.ab, &part);
	warms(&r.a, r.ab);
	CHECK_EQ(seen.pins, 2 * RAILS);
	CHECK_EQ(urccl_advertise(r.b.ctx, whole.region, 0, LEN, URCCL_RIGHT_READ, 0, &part.advert),
		 0);
	imports(&r.a, r.ab, &part);
	warms(&r.a, r.ab);
	CHECK_EQ(seen.pins, 3 * RAILS);
	CHECK_EQ(urccl_unimport(r.a.ctx, remote), 0);
}

int case_pins_shared(void)
{
	rig_open(&r);
	rig_connect(&r);
	target_open(&r, &whole, 0);
	is_shared();
	outlives_rails();
	is_narrow();
	/* While one of those who have it goes on it stays. */
	side_hang_up(&r.c, r.cb.id, 3);
	CHECK_EQ(side_end_of(&r.c, 3), 0);
	CHECK_EQ(urccl_unregister(r.b.ctx, whole.region), 0);
	CHECK_EQ(seen.unpins, 3 * RAILS);
	rig_close(&r);
	return 0;
}
