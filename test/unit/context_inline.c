/* SPDX-License-Identifier: Apache-2.0 */
/* An INLINE context: one ring, and calls that need the engine only from the thread that drives it.
 */
#include <pthread.h>
#include <sched.h>

#include <liburccl.h>
#include "test.h"

static struct urccl *ctx;
static char memory[4096];

static int register_one(struct urccl_region *region)
{
	struct urccl_range range = {.addr = (uint64_t)(uintptr_t)memory,
				    .len = sizeof(memory),
				    .fd = -1};

	return urccl_register(ctx, &range, 1, URCCL_RIGHT_READ, region);
}

static void *from_another(void *arg)
{
	struct urccl_region region = {0};
	struct urccl_stats st = {.size = sizeof(st)};
	char blob[URCCL_METADATA_MAX];

	(void)arg;
	CHECK_EQ(register_one(&region), -EBUSY);
	CHECK(*urccl_errmsg());
	/* What needs no engine does not mind. */
	CHECK_GE(urccl_metadata(ctx, blob, sizeof(blob)), 1);
	CHECK_EQ(urccl_get_stats(ctx, &st), 0);
	return NULL;
}

static void *with_its_own_ring(void *arg)
{
	struct urccl_region region;
	struct urccl_ring *ring;

	CHECK_EQ(urccl_ring_open(ctx, NULL, &ring), 0);
	CHECK_EQ(register_one(&region), 0);
	CHECK_EQ(urccl_unregister(ctx, region), 0);
	urccl_ring_close(ring);
	return arg;
}

static void timeout_entry(struct urccl_ring *ring, uint64_t ns)
{
	struct urccl_sqe *sqe = urccl_get_sqe(ring);

	CHECK(sqe);
	urccl_prep_timeout(sqe, ns, 0, 0);
}

/* The fd's timer, set for a sleep in the program's epoll, rings while urccl_wait() sleeps for
 * something later: it disturbs that once. */
static void timer_of_another_sleep(struct urccl_ring *ring)
{
	struct urccl_wait_args two = {.size = sizeof(two), .min_n = 2, .timeout_ns = ~0ull};
	struct urccl_stats before = {.size = sizeof(before)}, after = before;

	timeout_entry(ring, 5000000);
	timeout_entry(ring, 200000000);
	CHECK_EQ(urccl_submit(ring), 2);
	/* Once the first has come there is nothing to arm for. */
	while (!urccl_cq_ready(ring) && urccl_arm(ring, URCCL_ARM_FOR_CQE, 0))
		;
	CHECK_EQ(urccl_get_stats(ctx, &before), 0);
	CHECK_EQ(urccl_wait(ring, NULL, &two), 2);
	CHECK_EQ(urccl_get_stats(ctx, &after), 0);
	CHECK_LE(after.turns - before.turns, 2000);
	urccl_cq_advance(ring, 2);
}

static struct urccl_ring *handed;
static uint32_t turn_of; /* 0 or 1: whose turn it is to drive; that one writes */

/* Hands the ring on and calls at once, before or after the other drives: it is done or refused, and
 * never runs beside the other. */
static void *hand_on(void *arg)
{
	uint32_t me = !!arg, i;
	struct urccl_region region;
	int res;

	for (i = 0; i < 300; i++) {
		while (__atomic_load_n(&turn_of, __ATOMIC_ACQUIRE) != me)
			sched_yield();
		CHECK(!urccl_peek_cqe(handed));
		__atomic_store_n(&turn_of, !me, __ATOMIC_RELEASE);
		res = register_one(&region);
		CHECK(!res || res == -EBUSY);
		if (!res)
			urccl_unregister(ctx, region);
	}
	return NULL;
}

static void handed_on(struct urccl_ring *ring)
{
	pthread_t thread;

	handed = ring;
	CHECK_EQ(pthread_create(&thread, NULL, hand_on, ring), 0);
	hand_on(NULL);
	pthread_join(thread, NULL);
}

static void in_thread(void *(*run)(void *))
{
	pthread_t thread;

	CHECK_EQ(pthread_create(&thread, NULL, run, NULL), 0);
	pthread_join(thread, NULL);
}

int case_context_inline(void)
{
	struct urccl_params p = {.size = sizeof(p)};
	struct urccl_ring *ring, *second;
	struct urccl_region region;

	urccl_params_init(&p);
	p.flags = URCCL_OPEN_INLINE;
	CHECK_EQ(urccl_open(&p, &ctx), 0);
	/* Before there is a ring, any thread may. */
	CHECK_EQ(register_one(&region), 0);
	in_thread(with_its_own_ring);
	CHECK_EQ(urccl_ring_open(ctx, NULL, &ring), 0);
	CHECK_EQ(urccl_ring_open(ctx, NULL, &second), -EBUSY);
	in_thread(from_another);
	CHECK_EQ(urccl_unregister(ctx, region), 0);
	urccl_ring_close(ring);
	CHECK_EQ(urccl_ring_open(ctx, NULL, &ring), 0);
	timer_of_another_sleep(ring);
	handed_on(ring);
	urccl_close(ctx);
	return 0;
}
