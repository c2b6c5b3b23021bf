/* SPDX-License-Identifier: Apache-2.0 */
/* urccl_wait: counts, time limits by the clock, gathering, signals, and arguments that make no
 * sense. */
#include <pthread.h>
#include <signal.h>
#include <time.h>

#include "ring_rig.h"

#define ENTRIES 8u
#define MS	NSEC_PER_MSEC

static struct urccl_wait_args args(uint32_t min_n, uint64_t timeout_ns, uint64_t min_wait_ns)
{
	return (struct urccl_wait_args){.size = sizeof(struct urccl_wait_args),
					.min_n = min_n,
					.timeout_ns = timeout_ns,
					.min_wait_ns = min_wait_ns};
}

static void complete(struct ring *r, uint32_t n, uint64_t data)
{
	rig_submit(r, n, 0, data);
	rig_turn(r);
}

static void see_all(struct ring *r)
{
	urccl_cq_advance(&r->pub, urccl_cq_ready(&r->pub));
}

static void test_counts(struct ring *r)
{
	struct urccl_wait_args a = args(0, 0, 0);
	struct urccl_cqe *cqe = (void *)&a;

	CHECK_EQ(urccl_wait(&r->pub, &cqe, &a), -ETIME);
	CHECK(!cqe);
	complete(r, 3, 40);
	CHECK_EQ(urccl_wait(&r->pub, &cqe, NULL), 3);
	CHECK_EQ(cqe->user_data, 40);
	CHECK_EQ(urccl_wait(&r->pub, NULL, &a), 3);
	a.min_n = 4;
	CHECK_EQ(urccl_wait(&r->pub, &cqe, &a), -ETIME);
	CHECK(cqe == urccl_peek_cqe(&r->pub));
	CHECK_EQ(urccl_submit_and_wait(&r->pub, 3), 0);
	see_all(r);
}

static void test_arguments(struct ring *r)
{
	struct {
		struct urccl_wait_args a;
		uint32_t newer[2];
	} longer = {.a = args(1, 0, 0), .newer = {0}};

	longer.a.size = sizeof(longer);
	CHECK_EQ(urccl_wait(&r->pub, NULL, &longer.a), -ETIME);
	longer.newer[1] = 1;
	CHECK_EQ(urccl_wait(&r->pub, NULL, &longer.a), -E2BIG);
	longer.a.size = 0;
	CHECK_EQ(urccl_wait(&r->pub, NULL, &longer.a), -EINVAL);
	longer.a = args(r->pub.cq_mask + 2, 0, 0);
	CHECK_EQ(urccl_wait(&r->pub, NULL, &longer.a), -EINVAL);
	CHECK_EQ(urccl_submit_and_wait(&r->pub, r->pub.cq_mask + 2), -EINVAL);
}

/* Never shorter than asked for. */
static void test_times(struct ring *r)
{
	struct urccl_wait_args a = args(1, 3 * MS + 1, 0);
	uint64_t start = clock_ns();

	CHECK_EQ(urccl_wait(&r->pub, NULL, &a), -ETIME);
	CHECK_GE(clock_ns() - start, 3 * MS + 1);

	/* Gathering: fewer than min_n will do, but not before min_wait. */
	complete(r, 2, 0);
	a = args(4, UINT64_MAX, 3 * MS);
	start = clock_ns();
	CHECK_EQ(urccl_wait(&r->pub, NULL, &a), 2);
	CHECK_GE(clock_ns() - start, 3 * MS);
	a = args(2, UINT64_MAX, UINT64_MAX);
	CHECK_EQ(urccl_wait(&r->pub, NULL, &a), 2);
	a = args(4, 2 * MS, 1000000 * MS);
	CHECK_EQ(urccl_wait(&r->pub, NULL, &a), -ETIME);
	see_all(r);
	a = args(4, 4 * MS, 1 * MS);
	start = clock_ns();
	CHECK_EQ(urccl_wait(&r->pub, NULL, &a), -ETIME);
	CHECK_GE(clock_ns() - start, 4 * MS);
}

static uint32_t signals;

static void on_signal(int number)
{
	(void)number;
	count_add(&signals, 1);
}

/* A wait for ever ends with -EINTR, also where the handler asks for restarts. */
static void test_signal(struct ring *r, int flags)
{
	struct itimerspec its = {.it_value.tv_nsec = 5 * MS, .it_interval.tv_nsec = 5 * MS};
	struct sigaction sa = {.sa_handler = on_signal, .sa_flags = flags};
	struct sigevent ev = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGALRM};
	uint32_t before = load_relaxed(&signals);
	timer_t timer;

	CHECK_EQ(sigaction(SIGALRM, &sa, NULL), 0);
	CHECK_EQ(timer_create(CLOCK_MONOTONIC, &ev, &timer), 0);
	CHECK_EQ(timer_settime(timer, 0, &its, NULL), 0);
	CHECK_EQ(urccl_wait(&r->pub, NULL, NULL), -EINTR);
	CHECK(load_relaxed(&signals) != before);
	CHECK_EQ(timer_delete(timer), 0);
	CHECK_EQ(load_relaxed(&r->arm_line.cq_arm), URCCL_ARM_NONE);
}

static void *complete_when_asleep(void *arg)
{
	struct ring *r = arg;

	while (load_acquire(&r->arm_line.cq_arm) != URCCL_ARM_FUTEX)
		cpu_relax();
	rig_turn(r);
	return NULL;
}

static void test_woken(struct ring *r)
{
	pthread_t engine;

	rig_submit(r, 3, 0, 0);
	CHECK_EQ(pthread_create(&engine, NULL, complete_when_asleep, r), 0);
	CHECK_EQ(urccl_submit_and_wait(&r->pub, 3), 0);
	pthread_join(engine, NULL);
	CHECK_EQ(urccl_cq_ready(&r->pub), 3);
	see_all(r);
}

int case_ring_wait(void)
{
	struct mailbox home;
	struct ring *r = rig_open(ENTRIES, 1, 0, &home);

	rig_age(r, UINT32_MAX - 2, UINT32_MAX - 2);
	test_counts(r);
	test_arguments(r);
	test_times(r);
	test_signal(r, 0);
	test_signal(r, SA_RESTART);
	test_woken(r);
	r->spin_ns = 0;
	test_times(r);
	test_woken(r);
	rig_close(r);
	return 0;
}
