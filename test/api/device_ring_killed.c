/* SPDX-License-Identifier: Apache-2.0 */
/* A peer process is killed, or stopped, while 256 lanes push: the word of each lane tells of a
 * failure within the deadline of its entries, and each entry ends. A lane whose producer has died
 * in the middle of an entry holds nobody up. */
#include <signal.h>
#include <sys/wait.h>
#include "child.h"
#include "lanes.h"
#include "lateness.h"

#define LANES	    256u
#define ENTRIES	    8u
#define THREADS	    4u
#define MINE	    (LANES / THREADS)
#define LEN	    1024u
#define DEADLINE_MS (PAIR_SLOW ? 10000u : 500u)
#define PROMISED_NS (DEADLINE_MS * 1000000ull + 100000000)
#define NORMAL	    20u /* entries of each lane before */

static struct pair p;
static struct child child;
static struct urccl_remote remote;
static struct urccl_device_ring ring;
static uint8_t bytes[LANES][LEN];
static uint32_t ready;		  /* lanes that have done some */
static uint64_t told_ns[THREADS]; /* since when all words of a thread's lanes tell */

/* Three of four parts. */
static void die(struct urccl_dev_lane *l)
{
	uint64_t *at = (uint64_t *)(void *)&l->slots[l->pushed & (l->entries - 1)];

	__urccl_dev_store(&at[0], URCCL_OP_WRITE | (uint64_t)URCCL_SQE_LAP << 16, 0, 1, 1);
	__urccl_dev_store(&at[4], LEN, 1ull << 63, 0, 1);
	__urccl_dev_store(&at[6], 0, 1ull << 63, 0, 1);
}

/* 1: its word tells of a failure. */
static int go_on(struct urccl_dev_lane *l, uint32_t lane)
{
	uint64_t before = l->ended;
	int res;

	while (urccl_dev_write(l, remote, bytes[lane], LEN, lane * LEN, 0) != URCCL_DEV_FULL)
		;
	res = urccl_dev_wait(l, ~0ull, 0);
	if (before < NORMAL && l->ended >= NORMAL)
		__atomic_fetch_add(&ready, 1, __ATOMIC_RELAXED);
	if (res == -ETIME)
		return 0;
	CHECK(res == -ECONNRESET || res == -ETIMEDOUT);
	CHECK_GE(l->ended, NORMAL); /* run() waits for them */
	return 1;
}

static void *push(void *arg)
{
	uint32_t first = (uint32_t)(uintptr_t)arg * MINE, left = MINE, i;
	struct urccl_dev_lane l[MINE];
	uint8_t failed[MINE] = {0};

	for (i = 0; i < MINE; i++)
		l[i] = urccl_dev_open(ring, first + i);
	while (left) {
		for (i = 0; i < MINE; i++) {
			if (failed[i] || !go_on(&l[i], first + i))
				continue;
			failed[i] = 1;
			left--;
		}
		usleep(200);
	}
	told_ns[first / MINE] = now_ns();
	for (i = 0; i < MINE; i++)
		(void)lane_wait(&l[i]);
	return NULL;
}

static void run(int signal)
{
	pthread_t threads[THREADS];
	uint64_t start, until, late, worst = 0;
	struct urccl_dev_lane dead;
	uint32_t i;

	ready = 0;
	child_start(&p, &child, sizeof(bytes), NULL);
	child_connect(&p, &child);
	CHECK_EQ(urccl_import(p.a.ctx, p.a.peer, &child.advert, 1, &remote), 0);
	ring = lanes_open(&p.a, LANES, ENTRIES);
	for (i = 0; i < THREADS; i++)
		CHECK_EQ(pthread_create(&threads[i], NULL, push, (void *)(uintptr_t)i), 0);
	until = now_ns() + PAIR_LATE_NS;
	while (__atomic_load_n(&ready, __ATOMIC_RELAXED) < LANES) {
		CHECK(!is_late(until));
		usleep(1000);
	}
	canary_reset();
	start = now_ns();
	CHECK_EQ(kill(child.pid, signal), 0);
	for (i = 0; i < THREADS; i++)
		CHECK_EQ(pthread_join(threads[i], NULL), 0);
	check_within(start, 2 * PROMISED_NS); /* entries were pushed until the words told */
	late = canary_ns();
	for (i = 0; i < THREADS; i++)
		worst = told_ns[i] - start > worst ? told_ns[i] - start : worst;
	printf("%s: told after %llu ms\n", strsignal(signal), (unsigned long long)worst / 1000000);
	check_took(worst, PROMISED_NS, late);
	child_kill(&child);
	for (i = 0; i < LANES; i++)
		CHECK(ring.words[i].failed);
	dead = urccl_dev_open(ring, 0);
	dead.pushed = ring.words[0].ended;
	die(&dead);
	urccl_device_ring_close(&ring);
}

int main(int argc, char **argv)
{
	child_main(argc, argv);
	pair_options(&p, argc, argv);
	p.params.deadline_ms = DEADLINE_MS;
	side_open(&p, &p.a);
	side_register(&p.a, bytes, sizeof(bytes), URCCL_RIGHT_READ);
	canary_start();
	run(SIGKILL);
	run(SIGSTOP);
	side_close(&p.a);
	return 0;
}
