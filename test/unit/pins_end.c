/* SPDX-License-Identifier: Apache-2.0 */
/* While a device takes its time to give back what was pinned, REVOKE and UNREGISTER are not done,
 * and everybody else goes on; where it does not, they fail and may be tried again; and what has
 * expired is given back. */
#include "pins_rig.h"

#define MANY 50u

static struct pins_rig r;
static struct target other, t;
static struct urccl_remote beside;

static void ask(int revoke, uint64_t data)
{
	struct urccl_sqe *sqe = urccl_get_sqe(r.b.ring);

	CHECK(sqe);
	if (revoke)
		urccl_prep_revoke(sqe, t.region);
	else
		urccl_prep_unregister(sqe, t.region);
	urccl_sqe_set_data64(sqe, data);
	CHECK_EQ(urccl_submit(r.b.ring), 1);
}

static void not_yet(void)
{
	struct urccl_region_info info = {.size = sizeof(info)};
	uint32_t i;

	for (i = 0; i < MANY; i++)
		CHECK_EQ(writes(&r, &r.a, beside).res, LEN);
	CHECK_EQ(urccl_get_region_info(r.b.ctx, t.region, &info), 0);
	CHECK(!urccl_peek_cqe(r.b.ring));
}

static void is_waited_for(int revoke)
{
	uint32_t unpins = seen.unpins, unregs = seen.unregs;
	struct urccl_remote remote = imports(&r.a, r.ab, &t);

	CHECK_EQ(writes(&r, &r.a, remote).res, LEN);
	warms(&r.a, r.ab);
	rig_hold(1);
	ask(revoke, 11);
	until(&seen.unpins, unpins + RAILS);
	not_yet();
	rig_hold(0);
	CHECK_EQ(side_end_of(&r.b, 11), 0);
	CHECK_EQ(seen.unpins, unpins + RAILS);
	CHECK_EQ(seen.unregs, unregs + (revoke ? 0 : RAILS));
	CHECK_EQ(writes(&r, &r.a, remote).res, revoke ? -EACCES : -ESTALE);
	CHECK_EQ(urccl_unimport(r.a.ctx, remote), 0);
}

/* Nobody had its memory: it alone is given back. */
static void unreg_is_waited_for(void)
{
	uint32_t unregs = seen.unregs;

	target_open(&r, &t, 0);
	rig_hold(1);
	ask(0, 12);
	until(&seen.unregs, unregs + 1);
	not_yet();
	rig_hold(0);
	CHECK_EQ(side_end_of(&r.b, 12), 0);
	CHECK_EQ(seen.unregs, unregs + RAILS);
}

static void fails(int revoke)
{
	uint32_t unpins = seen.unpins;

	target_open(&r, &t, 0);
	CHECK_EQ(writes(&r, &r.a, imports(&r.a, r.ab, &t)).res, LEN);
	warms(&r.a, r.ab);
	store_release(&seen.unpin_fails, -EBUSY);
	CHECK_EQ(revoke ? urccl_revoke(r.b.ctx, t.region) : urccl_unregister(r.b.ctx, t.region),
		 -EIO);
	CHECK(strstr(urccl_errmsg(), "does not give the 65536 bytes of the region back: EBUSY"));
	store_release(&seen.unpin_fails, 0);
	CHECK_EQ(revoke ? urccl_revoke(r.b.ctx, t.region) : 0, 0);
	CHECK_EQ(urccl_unregister(r.b.ctx, t.region), 0);
	CHECK_EQ(seen.unpins, unpins + 2 * RAILS);
}

static void expires(void)
{
	uint32_t pins = seen.pins, unpins = seen.unpins;
	struct urccl_remote remote;
	int64_t res;

	target_open(&r, &t, 300);
	remote = imports(&r.a, r.ab, &t);
	res = writes(&r, &r.a, remote).res;
	CHECK(res == LEN || res == -EACCES);
	if (res == LEN)
		until(&seen.unpins, unpins + 1);
	CHECK_EQ(writes(&r, &r.a, remote).res, -EACCES);
	CHECK_EQ(urccl_unregister(r.b.ctx, t.region), 0);
	CHECK_EQ(seen.unpins - unpins, seen.pins - pins);
}

int case_pins_end(void)
{
	rig_open(&r);
	rig_connect(&r);
	target_open(&r, &other, 0);
	beside = imports(&r.a, r.ab, &other);
	CHECK_EQ(writes(&r, &r.a, beside).res, LEN);
	warms(&r.a, r.ab);
	target_open(&r, &t, 0);
	is_waited_for(1);
	CHECK_EQ(urccl_advertise(r.b.ctx, t.region, 0, LEN, RIGHTS, 0, &t.advert), 0);
	is_waited_for(0);
	unreg_is_waited_for();
	fails(1);
	fails(0);
	expires();
	/* What a device does not give back at the end goes with it. */
	store_release(&seen.unpin_fails, -EBUSY);
	rig_close(&r);
	return 0;
}
