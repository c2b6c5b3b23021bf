/* SPDX-License-Identifier: Apache-2.0 */
/* A FETCH_ADD with FENCE in a lane signals the write before it: a consumer at the peer that polls
 * the counter sees one more for each write, never before its bytes, and acknowledges by a lane of
 * its own. Over transport sim the rail in use goes meanwhile, and comes back. */
#include "lanes.h"

#define LANES	 4u
#define WINDOW	 4u /* messages of a lane that are not acknowledged */
#define LEN	 3000u
#define AREA	 (WINDOW * LEN)
#define MESSAGES (PAIR_SLOW ? 60u : 200u)
#define TURN_NS	 20000u

static struct pair p;
static struct target t;
static struct urccl_remote acks, counters;
static struct urccl_device_ring ring, back;
static uint8_t out[LANES][AREA];
static uint64_t acked[LANES], arrived[LANES];
static uint32_t checked; /* messages, of all lanes */

static void signal_wait(const struct urccl_dev_lane *l, const uint64_t *counter, uint64_t value)
{
	uint64_t until = now_ns() + PAIR_LATE_NS;

	while (urccl_dev_signal_wait(l, counter, value, TURN_NS)) {
		CHECK_LE(now_ns(), until);
		sched_yield();
	}
}

static void *produce(void *arg)
{
	uint32_t lane = (uint32_t)(uintptr_t)arg, i;
	struct urccl_dev_lane l = urccl_dev_open(ring, lane);
	uint8_t *from;

	for (i = 0; i < MESSAGES; i++) {
		if (i >= WINDOW)
			signal_wait(&l, &acked[lane], i - WINDOW + 1);
		from = out[lane] + i % WINDOW * LEN;
		pattern_fill(from, LEN, lane, i);
		urccl_dev_fence(&l);
		urccl_dev_write(&l, t.remote, from, LEN, lane * AREA + i % WINDOW * LEN, 0);
		urccl_dev_fetch_add(&l, counters, 8ull * lane, 1, URCCL_SQE_FENCE);
	}
	CHECK_EQ(lane_wait(&l), 0);
	urccl_dev_close(&l);
	return NULL;
}

static void *consume(void *arg)
{
	uint32_t lane = (uint32_t)(uintptr_t)arg, i;
	struct urccl_dev_lane l = urccl_dev_open(back, lane);

	for (i = 0; i < MESSAGES; i++) {
		signal_wait(&l, &arrived[lane], i + 1);
		CHECK(pattern_holds(t.bytes + lane * AREA + i % WINDOW * LEN, LEN, lane, i));
		CHECK_LE(__atomic_load_n(&arrived[lane], __ATOMIC_ACQUIRE), i + WINDOW);
		urccl_dev_fetch_add(&l, acks, 8ull * lane, 1, 0);
		CHECK_EQ(lane_wait(&l), 0);
		__atomic_fetch_add(&checked, 1, __ATOMIC_RELAXED);
	}
	urccl_dev_close(&l);
	return NULL;
}

static void checked_wait(uint32_t n)
{
	uint64_t until = now_ns() + PAIR_LATE_NS;

	while (__atomic_load_n(&checked, __ATOMIC_RELAXED) < n) {
		CHECK_LE(now_ns(), until);
		usleep(1000);
	}
}

static struct urccl_remote counters_of(struct side *owner, struct side *user, uint64_t words[LANES])
{
	struct urccl_region region = side_register(owner, words, 8 * LANES, URCCL_RIGHT_ATOMIC);
	struct urccl_advert advert;
	struct urccl_remote remote;

	CHECK_EQ(urccl_advertise(owner->ctx, region, 0, 8 * LANES, URCCL_RIGHT_ATOMIC, 0, &advert),
		 0);
	CHECK_EQ(urccl_import(user->ctx, user->peer, &advert, 1, &remote), 0);
	return remote;
}

static void rail_leaves(void)
{
	checked_wait(LANES * MESSAGES / 4);
	pair_pull(&p, 0, 1);
	checked_wait(LANES * MESSAGES / 2);
	pair_pull(&p, 0, 0);
}

int main(int argc, char **argv)
{
	pthread_t threads[2 * LANES];
	uint32_t i;

	pair_options(&p, argc, argv);
	p.faults = "rails=2,delay=1us..100us,early=50%,duplicate=12.5%";
	pair_open(&p);
	target_open(&p, &t, LANES * AREA, p.shared);
	side_register(&p.a, out, sizeof(out), URCCL_RIGHT_READ);
	acks = counters_of(&p.a, &p.b, acked);
	counters = counters_of(&p.b, &p.a, arrived);
	ring = lanes_open(&p.a, LANES, 16);
	back = lanes_open(&p.b, LANES, 16);
	for (i = 0; i < 2 * LANES; i++)
		CHECK_EQ(pthread_create(&threads[i], NULL, i % 2 ? consume : produce,
					(void *)(uintptr_t)(i / 2)),
			 0);
	if (p.sim)
		rail_leaves();
	for (i = 0; i < 2 * LANES; i++)
		CHECK_EQ(pthread_join(threads[i], NULL), 0);
	settle();
	for (i = 0; i < LANES; i++)
		CHECK(arrived[i] == MESSAGES && acked[i] == MESSAGES);
	urccl_device_ring_close(&ring);
	urccl_device_ring_close(&back);
	target_close(&p, &t);
	pair_close(&p);
	return 0;
}
