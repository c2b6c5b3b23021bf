/* SPDX-License-Identifier: Apache-2.0 */
/* An owner of memory (b) and two who import it (a, c), on transport sim with two rails, of whose
 * devices each is one that pins: what they are asked for is counted, may be held up, and may fail.
 * The program is linked with --wrap=backend_sim. */
#ifndef PINS_RIG_H
#define PINS_RIG_H

#include "backend/backend.h"
#include "control_rig.h"

#define LEN    65536u
#define RAILS  2u
#define RIGHTS (URCCL_RIGHT_READ | URCCL_RIGHT_WRITE)

extern const struct backend __real_backend_sim;
extern struct backend __wrap_backend_sim;

/* What b's devices were asked for: nobody else's memory is touched by peers. Words are futexes. */
static struct {
	uint32_t pins, unpins;	    /* that were begun */
	uint32_t unregs;	    /* likewise, of the three */
	uint32_t held;		    /* unpin and unreg wait while it is 1 */
	int pin_fails, unpin_fails; /* -errno */
} seen;

static inline void count(uint32_t *n)
{
	__atomic_add_fetch(n, 1, __ATOMIC_SEQ_CST);
	futex_wake(n);
}

static inline void until(uint32_t *n, uint32_t least)
{
	uint64_t late = clock_ns() + RIG_NS;
	uint32_t now;

	while ((now = load_acquire(n)) < least) {
		CHECK(!is_late(late));
		futex_wait(n, now, NSEC_PER_SEC);
	}
}

static inline void wait_held(void)
{
	while (load_acquire(&seen.held))
		futex_wait(&seen.held, 1, NEVER_NS);
}

static inline int rig_pin(struct device *dev, struct pin *pin)
{
	(void)dev;
	count(&seen.pins);
	pin->mr = pin;
	return load_acquire(&seen.pin_fails);
}

static inline int rig_unpin(struct device *dev, struct pin *pin)
{
	(void)dev;
	CHECK(pin->mr == pin);
	count(&seen.unpins);
	wait_held();
	return load_acquire(&seen.unpin_fails);
}

static inline int rig_unreg(struct device *dev, struct extent *extent)
{
	count(&seen.unregs);
	wait_held();
	return __real_backend_sim.unreg(dev, extent);
}

static inline int rig_dev_open(const struct device_config *config, struct device **dev)
{
	int rc = __real_backend_sim.open(config, dev);

	if (rc)
		return rc;
	(*dev)->ops = &__wrap_backend_sim;
	(*dev)->caps |= CAP_PIN | CAP_SLOW_REG | CAP_BY_PAGES;
	return 0;
}

static inline void rig_hold(uint32_t on)
{
	store_release(&seen.held, on);
	futex_wake(&seen.held);
}

/* ---- who is there ---- */

struct pins_rig {
	struct urccl_sim *sim;
	struct side a, b, c;
	struct urccl_peer ab, cb;   /* b, as these call it */
	struct urccl_params params; /* may be changed before rig_open() */
	uint8_t local[LEN];
};

struct target {
	struct urccl_region region;
	struct urccl_advert advert;
	uint8_t bytes[LEN];
};

static inline struct urccl_region rig_register(struct side *s, void *at, uint32_t rights)
{
	struct urccl_range range = {.addr = (uintptr_t)at, .len = LEN, .fd = -1};
	struct urccl_region region;

	CHECK_EQ(urccl_register(s->ctx, &range, 1, rights, &region), 0);
	return region;
}

static inline void rig_open(struct pins_rig *r)
{
	__wrap_backend_sim = __real_backend_sim;
	__wrap_backend_sim.open = rig_dev_open;
	__wrap_backend_sim.pin = rig_pin;
	__wrap_backend_sim.unpin = rig_unpin;
	__wrap_backend_sim.unreg = rig_unreg;
	CHECK_EQ(urccl_sim_open("rails=2", &r->sim), 0);
	r->params = rig_params();
	r->params.transport = "sim";
	r->params.sim_network = r->sim;
}

/* a and c dial b. */
static inline void rig_connect(struct pins_rig *r)
{
	uint32_t handle, unused;

	side_open(&r->a, &r->params);
	side_open(&r->b, &r->params);
	side_open(&r->c, &r->params);
	sides_connect(&r->a, &r->b, &handle, &unused);
	r->ab.id = handle;
	handle = side_connected(&r->c, &r->b, 0);
	r->cb.id = handle;
	(void)side_next(&r->b); /* its PEER event */
	rig_register(&r->a, r->local, 0);
	rig_register(&r->c, r->local, 0);
}

static inline void rig_close(struct pins_rig *r)
{
	side_close(&r->a);
	side_close(&r->c);
	side_close(&r->b);
	CHECK_EQ(urccl_sim_close(r->sim), 0);
}

static inline void target_open(struct pins_rig *r, struct target *t, uint64_t ttl_ms)
{
	t->region = rig_register(&r->b, t->bytes, RIGHTS);
	CHECK_EQ(urccl_advertise(r->b.ctx, t->region, 0, LEN, RIGHTS, ttl_ms, &t->advert), 0);
}

/* ---- what they do ---- */

static inline struct urccl_remote imports(struct side *s, struct urccl_peer peer,
					  const struct target *t)
{
	struct urccl_remote remote;

	CHECK_EQ(urccl_import(s->ctx, peer, &t->advert, 1, &remote), 0);
	return remote;
}

static inline struct urccl_cqe writes(struct pins_rig *r, struct side *s,
				      struct urccl_remote remote)
{
	struct urccl_sqe *sqe = urccl_get_sqe(s->ring);
	struct urccl_cqe cqe;

	CHECK(sqe);
	urccl_prep_write(sqe, remote, r->local, LEN, 0);
	urccl_sqe_set_data64(sqe, 7);
	CHECK_EQ(urccl_submit(s->ring), 1);
	do
		cqe = side_next(s);
	while (cqe.user_data != 7 || cqe.flags & URCCL_CQE_MORE);
	return cqe;
}

/* All keys by all rails that are up. */
static inline void warms(struct side *s, struct urccl_peer peer)
{
	struct urccl_sqe *sqe = urccl_get_sqe(s->ring);
	struct urccl_cqe cqe;

	CHECK(sqe);
	urccl_prep_warm(sqe, peer);
	urccl_sqe_set_data64(sqe, 8);
	CHECK_EQ(urccl_submit(s->ring), 1);
	do
		cqe = side_next(s);
	while (cqe.user_data != 8 || cqe.flags & URCCL_CQE_MORE);
	CHECK_EQ(cqe.res, 0);
}

#endif
