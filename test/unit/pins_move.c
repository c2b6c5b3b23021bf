/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that a peer has mapped and does not let go of is given other pages under the same
 * addresses, but not while a device is being told of a region in it, whatever that device knows
 * memory by: a region of which the move knew nothing would have peers map what is not there any
 * more. a is INLINE and not called once it has the memory mapped. */
#include "pins_rig.h"

#define WAIT_NS (600 * NSEC_PER_MSEC) /* three times what peers have to let go */

static struct pins_rig r;
static struct target mapped, late;
static uint32_t regs, held;

/* Of b's memory; others have one of their own. */
static int waits_reg(struct device *dev, struct extent *x)
{
	if (x->fd >= 0) {
		count(&regs);
		while (load_acquire(&held))
			futex_wait(&held, 1, NEVER_NS);
	}
	return __real_backend_sim.reg(dev, x);
}

static int only_pins(const struct device_config *config, struct device **dev)
{
	int rc = rig_dev_open(config, dev);

	if (!rc)
		(*dev)->by_pages = 0;
	return rc;
}

static void connect_all(void)
{
	struct urccl_params p = r.params;
	uint32_t unused;

	side_open(&r.b, &p);
	side_open(&r.c, &p);
	p.flags = URCCL_OPEN_INLINE;
	side_open(&r.a, &p);
	sides_connect(&r.a, &r.b, &r.ab.id, &unused);
	r.cb.id = side_connected(&r.c, &r.b, 0);
	(void)side_next(&r.b); /* its PEER event */
	rig_register(&r.a, r.local, 0);
	rig_register(&r.c, r.local, 0);
}

static void give(struct target *t)
{
	CHECK_EQ(urccl_advertise(r.b.ctx, t->region, 0, LEN, RIGHTS, 0, &t->advert), 0);
}

/* An entry of b for the second half of its memory. */
static void registers(const struct urccl_range *range)
{
	struct urccl_sqe *sqe = urccl_get_sqe(r.b.ring);

	urccl_prep_register(sqe, range, 1, RIGHTS);
	urccl_sqe_set_data64(sqe, 11);
	CHECK_EQ(urccl_submit(r.b.ring), 1);
	until(&regs, RAILS + 1);
}

static void revokes(void)
{
	struct urccl_sqe *sqe = urccl_get_sqe(r.b.ring);

	urccl_prep_revoke(sqe, mapped.region);
	urccl_sqe_set_data64(sqe, 12);
	CHECK_EQ(urccl_submit(r.b.ring), 1);
}

static void nothing_yet(void)
{
	struct urccl_wait_args args = {.size = sizeof(args), .min_n = 1, .timeout_ns = WAIT_NS};
	struct urccl_cqe *cqe;

	CHECK_EQ(urccl_wait(r.b.ring, &cqe, &args), -ETIME);
}

/* What b's engine did before comes before what follows, also for a sanitizer, to which memory that
 * is mapped twice is two memories. */
static void b_says(void)
{
	struct urccl_sqe *sqe = urccl_get_sqe(r.b.ring);

	urccl_prep_nop(sqe);
	urccl_sqe_set_data64(sqe, 13);
	CHECK_EQ(urccl_submit(r.b.ring), 1);
	CHECK_EQ(side_end_of(&r.b, 13), 0);
}

int main(void)
{
	struct urccl_range range = {.len = LEN, .fd = -1};
	struct urccl_cqe cqe;
	uint8_t *bytes;
	void *at;

	rig_open(&r);
	__wrap_backend_sim.open = only_pins;
	__wrap_backend_sim.reg = waits_reg;
	r.params.transport = "shm,sim";
	connect_all();
	CHECK_EQ(urccl_alloc(r.b.ctx, 2 * LEN, &at), 0);
	bytes = at;
	mapped.region = rig_register(&r.b, bytes, RIGHTS);
	give(&mapped);
	cqe = writes(&r, &r.a, imports(&r.a, r.ab, &mapped));
	CHECK_EQ(cqe.res, LEN);
	CHECK_EQ(cqe.path & URCCL_PATH_TRANSPORT, URCCL_TRANSPORT_SHM);

	store_release(&held, 1);
	range.addr = (uintptr_t)bytes + LEN;
	registers(&range);
	revokes();
	nothing_yet();
	store_release(&held, 0);
	futex_wake(&held);
	cqe = side_next(&r.b);
	CHECK_EQ(cqe.user_data, 11);
	CHECK_EQ(cqe.res, 0);
	late.region.id = (uint32_t)cqe.handle;
	CHECK_EQ(side_end_of(&r.b, 12), 0);
	give(&late);
	memset(r.local, 0x5a, LEN);
	CHECK_EQ(writes(&r, &r.c, imports(&r.c, r.cb, &late)).res, LEN);
	b_says();
	CHECK(!memcmp(bytes + LEN, r.local, LEN));
	rig_close(&r);
	return 0;
}
