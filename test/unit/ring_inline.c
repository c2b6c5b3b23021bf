/* SPDX-License-Identifier: Apache-2.0 */
/* A ring without a progress thread: submit, peek, wait and arm drive the engine, waits sleep on its
 * fd. */
#include "ring_rig.h"

/* Stands for the engine: completes an entry every `every` turns; what the ring asked of it is
 * counted. */
struct machine {
	struct ring *r;
	uint32_t drives, every, sleeps, wants;
	uint64_t slept_ns;
	int sleep_res;
};

static void drive(void *arg)
{
	struct machine *m = arg;

	if (++m->drives % m->every || !ring_submitted(m->r))
		return;
	rig_end(m->r, &(struct urccl_sqe){.user_data = rig_take(m->r).user_data});
	CHECK_EQ(ring_publish(m->r), 0);
}

static int nap(void *arg, uint64_t ns)
{
	struct machine *m = arg;

	if (!ns)
		return (int)m->wants;
	m->sleeps++;
	m->slept_ns = ns;
	if (ns != NEVER_NS)
		futex_wait(&m->sleeps, m->sleeps, ns);
	return m->sleep_res;
}

static void start(struct machine *m, uint32_t every)
{
	m->every = every;
	m->drives = m->sleeps = m->wants = 0;
	m->sleep_res = 0;
}

static void see_all(struct ring *r)
{
	urccl_cq_advance(&r->pub, urccl_cq_ready(&r->pub));
}

static void test_drives(struct ring *r, struct machine *m)
{
	start(m, 1);
	rig_submit(r, 1, 0, 0);
	CHECK_EQ(m->drives, 1);
	CHECK(urccl_peek_cqe(&r->pub));
	CHECK_EQ(m->drives, 1);
	see_all(r);
	CHECK(!urccl_peek_cqe(&r->pub));
	CHECK_EQ(m->drives, 2);
	start(m, 3);
	rig_submit(r, 1, 0, 0);
	CHECK(!urccl_peek_cqe(&r->pub));
	CHECK(urccl_peek_cqe(&r->pub));
	CHECK_EQ(m->drives, 3);
	see_all(r);
}

static void test_wait(struct ring *r, struct machine *m)
{
	struct urccl_wait_args a = {.size = sizeof(a), .timeout_ns = 2 * NSEC_PER_MSEC};
	uint64_t start_ns;
	int tries = 0;

	/* Who had no processor for all of that time does not sleep. */
	do {
		start(m, 100);
		start_ns = clock_ns();
		CHECK_EQ(urccl_wait(&r->pub, NULL, &a), -ETIME);
		CHECK_GE(clock_ns() - start_ns, a.timeout_ns);
	} while (!m->sleeps && ++tries < 100);
	CHECK(m->sleeps && m->slept_ns <= a.timeout_ns);
	start(m, 100);
	rig_submit(r, 1, 0, 0);
	CHECK_EQ(urccl_wait(&r->pub, NULL, NULL), 1);
	CHECK_EQ(m->drives, 100);
	CHECK(!m->sleeps || m->slept_ns == NEVER_NS);
	see_all(r);
	start(m, 5);
	m->sleep_res = -EINTR;
	CHECK_EQ(urccl_wait(&r->pub, NULL, NULL), -EINTR);
	/* Polling once drives. */
	start(m, 2);
	rig_submit(r, 1, 0, 0);
	a.timeout_ns = 0;
	CHECK_EQ(urccl_wait(&r->pub, NULL, &a), 1);
	see_all(r);
}

static void test_arm(struct ring *r, struct machine *m)
{
	start(m, 100);
	CHECK_EQ(urccl_arm(&r->pub, URCCL_ARM_FOR_CQE, 0), 0);
	CHECK_EQ(m->drives, 1);
	/* A device has something already: drive again before sleeping. */
	m->wants = 1;
	CHECK_EQ(urccl_arm(&r->pub, URCCL_ARM_FOR_CQE, 0), 1);
	start(m, 2);
	rig_submit(r, 1, 0, 0);
	CHECK_EQ(urccl_arm(&r->pub, URCCL_ARM_FOR_CQE, 0), 1);
	CHECK_EQ(m->drives, 2);
	see_all(r);
	/* The fd is the engine's: nothing is written to it. */
	CHECK_EQ(load_relaxed(&r->arm_line.cq_arm), URCCL_ARM_NONE);
}

int case_ring_inline(void)
{
	struct machine m = {.every = 1};
	struct mailbox home;
	struct ring *r = rig_open(4, 1, URCCL_RING_INLINE, &home);

	m.r = r;
	r->drive = drive;
	r->sleep = nap;
	r->arg = &m;
	CHECK_EQ(urccl_ring_fd(&r->pub), -1);
	test_drives(r, &m);
	test_wait(r, &m);
	test_arm(r, &m);
	r->spin_ns = 0;
	test_wait(r, &m);
	rig_close(r);
	return 0;
}
