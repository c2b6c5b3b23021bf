/* SPDX-License-Identifier: Apache-2.0 */
/*
 * device_lanes [ENTRIES]: threads push entries of random bytes to 256 lanes, by device.cuh or 16
 * bytes after the other in every order, with pauses; another takes them and ends them in another
 * order. None is lost, changed, taken twice or before it is whole, and each lane has its order.
 */
#include <pthread.h>
#include <sched.h>
#include <liburccl/device.cuh>

#include "ring/ring.h"
#include "random.h"
#include "test.h"

#define LANES	256u
#define SLOTS	16u /* of a lane */
#define THREADS 4u
#define BATCH	8u   /* taken, and ended from the last to the first */
#define PAUSE	512u /* one entry of so many has pauses between its parts */
#define ORDERS	24u

static struct device_ring *ring;
static struct urccl_device_ring shared; /* as producers have it */
static uint64_t each;			/* entries of a lane */

static uint64_t failed_word(uint64_t index, uint32_t err)
{
	return (index + 1) << 16 | err;
}

/* The nth order of four parts: the rest of n picks one of those that are left. */
static void order_of(uint32_t n, uint32_t order[4])
{
	uint32_t left[4] = {0, 1, 2, 3}, i, k;

	for (i = 0; i < 4; n /= 4 - i, i++) {
		k = n % (4 - i);
		order[i] = left[k];
		left[k] = left[3 - i];
	}
}

/* Any bytes where there is no lap bit; the addend has a sign. */
static struct urccl_sqe entry(uint32_t lane, uint64_t i)
{
	uint64_t seed = (i * LANES + lane + 1) * 0x9e3779b97f4a7c15u, w[8], k;
	struct urccl_sqe sqe;

	for (k = 0; k < 8; k++)
		w[k] = random_next(&seed);
	memcpy(&sqe, w, sizeof(sqe));
	sqe.flags &= (uint16_t)~URCCL_SQE_LAP;
	sqe.addr = (uint64_t)((int64_t)(sqe.addr << 1) >> 1);
	sqe.off &= ~0ull >> 1;
	sqe.reserved &= ~0u >> 1;
	return sqe;
}

static void store(const struct urccl_dev_lane *l, const struct urccl_sqe *sqe, uint32_t part)
{
	static const uint64_t bits[] = {(uint64_t)URCCL_SQE_LAP << 16, 1ull << 63};
	uint64_t *at = (uint64_t *)(void *)&l->slots[l->pushed % SLOTS] + 2 * part, w[2];
	uint64_t lap = l->pushed / SLOTS % 2 ? 0 : ~0ull;

	memcpy(w, (const uint8_t *)sqe + 16 * (size_t)part, sizeof(w));
	w[part != 0] = (w[part != 0] & ~bits[part != 0]) | (lap & bits[part != 0]);
	__urccl_dev_store(at, w[0], w[1], !part, 1);
}

static void check_next(uint32_t lane, uint64_t i)
{
	struct urccl_sqe sqe, expected = entry(lane, i);

	CHECK_EQ(ring->lane[lane].taken, i);
	CHECK_EQ(device_lane_take(ring, lane, &sqe), 1);
	CHECK(!memcmp(&sqe, &expected, sizeof(sqe)));
}

/* Nothing is taken before the last part is there, whatever the lap before has left. */
static void by_parts(void)
{
	struct urccl_dev_lane l;
	uint32_t order[4], i, k;
	struct urccl_sqe sqe, none;

	CHECK_EQ(device_ring_open(1, SLOTS, &ring), 0);
	shared = (struct urccl_device_ring){.slots = (void *)(uintptr_t)ring->slots,
					    .words = ring->words,
					    .lanes = 1,
					    .entries = SLOTS};
	l = urccl_dev_open(shared, 0);
	for (i = 0; i < 4 * ORDERS * SLOTS; i++) {
		order_of(i / SLOTS, order);
		sqe = entry(0, i);
		for (k = 0; k < 4; k++) {
			CHECK_EQ(device_lane_take(ring, 0, &none), 0);
			store(&l, &sqe, order[k]);
		}
		l.pushed++;
		check_next(0, i);
		device_lane_ended(ring, 0, i);
		CHECK_GE(urccl_dev_room(&l), 1);
	}
	CHECK_EQ(l.words->ended, i);
	device_ring_close(ring);
}

static void push_parts(struct urccl_dev_lane *l, const struct urccl_sqe *sqe)
{
	uint32_t order[4], k;

	order_of((uint32_t)(l->pushed % ORDERS), order);
	for (k = 0; k < 4; k++) {
		store(l, sqe, order[k]);
		if (l->pushed % PAUSE == 0)
			sched_yield();
	}
	l->pushed++;
}

/* Every THREADSth lane, as many entries as have room at a time; and three parts of one more. */
static void *push(void *arg)
{
	struct urccl_dev_lane l[LANES / THREADS];
	uint32_t first = (uint32_t)(uintptr_t)arg, i, lane, left = LANES / THREADS, room;
	struct urccl_sqe sqe;

	for (i = 0; i < LANES / THREADS; i++)
		l[i] = urccl_dev_open(shared, first + i * THREADS);
	while (left) {
		for (i = 0; i < LANES / THREADS; i++) {
			lane = first + i * THREADS;
			room = l[i].pushed < each ? urccl_dev_room(&l[i]) : 0;
			for (; room && l[i].pushed < each; room--) {
				sqe = entry(lane, l[i].pushed);
				if (i % 2)
					push_parts(&l[i], &sqe);
				else
					CHECK_EQ(urccl_dev_push(&l[i], &sqe), l[i].pushed - 1);
				left -= l[i].pushed == each;
			}
		}
		sched_yield();
	}
	for (i = 0; i < LANES / THREADS; i++) {
		while (!urccl_dev_room(&l[i]))
			sched_yield();
		sqe = entry(first + i * THREADS, each);
		for (lane = 0; lane < 3; lane++)
			store(&l[i], &sqe, (lane + i) % 4);
	}
	return NULL;
}

static uint64_t take_some(uint32_t lane)
{
	uint64_t from = ring->lane[lane].taken, i, n = 0;
	struct urccl_sqe sqe, expected;

	for (; n < BATCH && device_lane_take(ring, lane, &sqe); n++) {
		expected = entry(lane, from + n);
		CHECK(from + n < each);
		CHECK(!memcmp(&sqe, &expected, sizeof(sqe)));
	}
	for (i = n; i-- > 0;) {
		CHECK_EQ(ring->words[lane].ended, from);
		if (i == n / 2)
			device_lane_failed(ring, lane, (uint32_t)(from + i), -ESTALE);
		device_lane_ended(ring, lane, (uint32_t)(from + i));
	}
	CHECK_EQ(ring->words[lane].ended, from + n);
	if (n)
		CHECK_EQ(ring->words[lane].failed, failed_word(from + n / 2, ESTALE));
	return n;
}

int main(int argc, char **argv)
{
	uint64_t all, taken = 0, before;
	pthread_t threads[THREADS];
	struct urccl_sqe none;
	uint32_t i;

	by_parts();
	each = (argc > 1 ? strtoull(argv[1], NULL, 10) : 1000000) / LANES;
	all = each * LANES;
	CHECK_EQ(device_ring_open(LANES, SLOTS, &ring), 0);
	shared = (struct urccl_device_ring){.slots = (void *)(uintptr_t)ring->slots,
					    .words = ring->words,
					    .lanes = LANES,
					    .entries = SLOTS};
	for (i = 0; i < THREADS; i++)
		CHECK_EQ(pthread_create(&threads[i], NULL, push, (void *)(uintptr_t)i), 0);
	while (taken < all) {
		before = taken;
		for (i = 0; i < LANES; i++)
			taken += take_some(i);
		if (taken == before)
			sched_yield();
	}
	for (i = 0; i < THREADS; i++)
		CHECK_EQ(pthread_join(threads[i], NULL), 0);
	for (i = 0; i < LANES; i++) {
		CHECK_EQ(device_lane_take(ring, i, &none), 0);
		CHECK_EQ(ring->words[i].ended, each);
	}
	device_ring_close(ring);
	return 0;
}
