/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ring_litmus [ROUNDS]: no wake-up is lost and few are empty. One thread plays the engine, this one
 * the program, which sleeps in every way there is, mixed at random, with a second fd in its epoll
 * loop; both sides wait odd times so that announcing and posting meet in every order. Each thread
 * has a CPU of its own: on one they would take turns and never meet.
 */
#include <pthread.h>
#include <sched.h>
#include <sys/epoll.h>

#include "ring_rig.h"
#include "random.h"

#define ENTRIES 32u
#define LOST_MS 30000 /* a wake-up that takes longer is lost */
#define TRIES	10u   /* on a machine that is busy with others they seldom run at once */

static struct ring *ring;
static int other_fd, epoll_fd;
static uint32_t stop;
static cpu_set_t cpus;
/* Met: an announcement found that what it was for had come since the look before it. */
static uint64_t engine_sleeps, engine_met, engine_wakes;	    /* engine's */
static uint64_t fd_sleeps, fd_met, other_wakes, empty_wakes, waits; /* program's */

/* This thread, to the nth of the CPUs that we may use. */
static void pin(uint32_t nth)
{
	uint32_t cpu;
	cpu_set_t one;

	for (cpu = 0; !CPU_ISSET(cpu, &cpus) || nth--; cpu++)
		;
	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	CHECK_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
}

/* Up to about a microsecond, in steps of a nanosecond or so: the races are that narrow. */
static void dawdle(uint64_t *seed)
{
	uint64_t n = random_below(seed, 3) ? random_below(seed, 800) : 0;

	while (n--)
		__asm__ volatile("");
}

static void engine_sleep(void)
{
	struct pollfd p = {.fd = ring->home->fd, .events = POLLIN};

	if (ring_arm_sq(ring)) {
		count_add(&engine_met, 1);
		return;
	}
	count_add(&engine_sleeps, 1);
	CHECK_EQ(poll(&p, 1, LOST_MS), 1);
	wake_drain(ring->home->fd);
}

/* Mostly long enough to be awake when the next entry comes, so that it ends while the program goes
 * to sleep. */
static uint64_t engine_looks(uint64_t *seed)
{
	return random_below(seed, random_below(seed, 4) ? 100000 : 5000);
}

/* Ends what was submitted, in bursts, and now and then makes the program's other fd readable. */
static void *engine(void *arg)
{
	uint64_t seed = 0x9e3779b97f4a7c15ull;
	uint64_t looks = 0;

	pin(1);
	while (!load_acquire(&stop)) {
		uint32_t n = ring_submitted(ring);

		if (!n && !looks--) {
			engine_sleep();
			looks = engine_looks(&seed);
		}
		for (; n; n--) {
			struct urccl_sqe sqe = rig_take(ring);

			rig_end(ring, &sqe);
			if (random_below(&seed, 2))
				ring_show(ring);
			if (n > 1 && random_below(&seed, 3))
				continue;
			dawdle(&seed);
			if (!random_below(&seed, 16))
				wake_write(other_fd);
			count_add(&engine_wakes, (uint64_t)ring_publish(ring));
			looks = engine_looks(&seed);
		}
	}
	return arg;
}

static uint32_t reap(uint64_t *next)
{
	struct urccl_cqe *cqe;
	uint32_t head, n = 0;

	urccl_for_each_cqe(&ring->pub, head, cqe) {
		CHECK_EQ(cqe->user_data, *next);
		++*next;
		n++;
	}
	urccl_cq_advance(&ring->pub, n);
	return n;
}

/* Sleeps on both fds. 1: the ring's was readable. */
static int fd_sleep(void)
{
	struct epoll_event ev[2];
	int n = epoll_wait(epoll_fd, ev, 2, LOST_MS), i, ours = 0;

	CHECK(n > 0);
	fd_sleeps++;
	for (i = 0; i < n; i++) {
		if (ev[i].data.fd == other_fd) {
			wake_drain(other_fd);
			other_wakes++;
		} else {
			ours = 1;
		}
	}
	return ours;
}

static void wait_by_fd(uint64_t *seed, uint64_t *next, uint64_t until)
{
	int woken = 0;

	for (;;) {
		uint32_t n = reap(next);

		empty_wakes += woken && !n;
		woken = 0;
		if (*next == until)
			return;
		dawdle(seed);
		if (urccl_arm(&ring->pub, URCCL_ARM_FOR_CQE, 0))
			fd_met++;
		else
			woken = fd_sleep();
	}
}

static void wait_by_call(uint64_t *seed, uint64_t *next, uint64_t until)
{
	struct urccl_wait_args a = {.size = sizeof(a), .timeout_ns = LOST_MS * NSEC_PER_MSEC};

	while (*next != until) {
		a.min_n = 1 + (uint32_t)random_below(seed, until - *next);
		a.min_wait_ns = random_below(seed, 8) ? 0 : random_below(seed, 20000);
		dawdle(seed);
		waits++;
		CHECK(urccl_wait(&ring->pub, NULL, &a) >= (a.min_wait_ns ? 1 : (int)a.min_n));
		reap(next);
	}
}

/* Waits for the room of all that is unfinished, by call or fd. */
static void wait_for_room(uint64_t *seed)
{
	uint32_t by_fd = (uint32_t)random_below(seed, 2), what = URCCL_ARM_FOR_ROOM;

	dawdle(seed);
	while (by_fd && !urccl_arm(&ring->pub, what, ENTRIES)) {
		int woken = fd_sleep();

		empty_wakes += woken && ring->pub.sqe_tail != load_acquire(ring->pub.sq_done);
	}
	waits += !by_fd;
	CHECK_EQ(urccl_wait_room(&ring->pub, ENTRIES, LOST_MS * NSEC_PER_MSEC), ENTRIES);
}

static void run(uint64_t rounds)
{
	static uint64_t seed = 88172645463325252ull, next, made;
	uint64_t round;

	for (round = 0; round < rounds; round++) {
		uint32_t n =
			1 + (uint32_t)random_below(&seed, random_below(&seed, 4) ? 3 : ENTRIES);

		/* Some of them wake nobody; the last one does. */
		for (made += n; n > 1; n--)
			rig_submit(ring, 1, random_below(&seed, 2) ? URCCL_SQE_NO_WAKE : 0,
				   made - n);
		rig_submit(ring, 1, 0, made - 1);
		ring->spin_ns = random_below(&seed, 8) ? 0 : 1000;
		if (!random_below(&seed, 4))
			wait_for_room(&seed);
		if (random_below(&seed, 3))
			wait_by_fd(&seed, &next, made);
		else
			wait_by_call(&seed, &next, made);
	}
}

/* Both slept, and were about to: some 10 times and once where threads take turns. */
static int have_met(uint64_t rounds)
{
	return fd_sleeps >= rounds / 50 && fd_met >= rounds / 50 &&
	       load_relaxed(&engine_sleeps) >= rounds / 1000 &&
	       load_relaxed(&engine_met) >= rounds / 10000;
}

int main(int argc, char **argv)
{
	uint64_t rounds = argc > 1 ? strtoull(argv[1], NULL, 10) : 100000, tries;
	struct epoll_event ev = {.events = EPOLLIN};
	struct mailbox home;
	pthread_t thread;

	CHECK_EQ(sched_getaffinity(0, sizeof(cpus), &cpus), 0);
	if (CPU_COUNT(&cpus) < 2)
		SKIP("needs two CPUs");
	pin(0);
	ring = rig_open(ENTRIES, 1, 0, &home);
	rig_age(ring, UINT32_MAX - 1000, 0x7fffffff - 1000);
	other_fd = wake_open();
	epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	ev.data.fd = other_fd;
	CHECK_EQ(epoll_ctl(epoll_fd, EPOLL_CTL_ADD, other_fd, &ev), 0);
	ev.data.fd = ring->pub.fd;
	CHECK_EQ(epoll_ctl(epoll_fd, EPOLL_CTL_ADD, ring->pub.fd, &ev), 0);
	CHECK_EQ(pthread_create(&thread, NULL, engine, NULL), 0);
	run(rounds);
	for (tries = 1; tries < TRIES && !have_met(rounds); tries++)
		run(rounds);
	store_release(&stop, 1);
	wake_write(home.fd);
	pthread_join(thread, NULL);
	printf("%llu x %llu rounds: the program slept %llu times on its fds (%llu for the other one, %llu "
	       "empty), was about to %llu times and called wait %llu times; the engine slept %llu "
	       "times, was about to %llu times, woke the program %llu times\n",
	       (unsigned long long)tries, (unsigned long long)rounds, (unsigned long long)fd_sleeps,
	       (unsigned long long)other_wakes, (unsigned long long)empty_wakes,
	       (unsigned long long)fd_met, (unsigned long long)waits,
	       (unsigned long long)engine_sleeps, (unsigned long long)engine_met,
	       (unsigned long long)engine_wakes);
	CHECK_LE(empty_wakes, fd_sleeps / 100 + 10);
	CHECK(have_met(rounds));
	rig_close(ring);
	return 0;
}
