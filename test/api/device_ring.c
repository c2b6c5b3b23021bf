/* SPDX-License-Identifier: Apache-2.0 */
/* Lanes of a device ring, a thread each: a counter and a notification that FENCE puts behind writes
 * tell of all of them, in the order of the lane; what a lane reads then is what it wrote. Success
 * posts no CQE. A producer goes on where the one before it has closed. */
#include "lanes.h"

#define LANES	8u
#define ENTRIES 16u
#define BLOCK	512u
#define BLOCKS	4u /* of a round */
#define ROUNDS	60u
#define AREA	(BLOCKS * BLOCK) /* of a lane, here and there */
#define LEN	(LANES * AREA + LANES * 8)

static struct pair p;
static struct target t;
static struct urccl_device_ring ring;
static uint8_t out[LANES][AREA], in[LANES][AREA];

static uint64_t counter(uint32_t lane)
{
	return LANES * AREA + lane * 8;
}

static void turn(uint32_t lane, uint32_t round)
{
	struct urccl_dev_lane l = urccl_dev_open(ring, lane);
	uint64_t first = (uint64_t)round * (2 * BLOCKS + 2), i;

	pattern_fill(out[lane], AREA, lane * AREA, round);
	urccl_dev_fence(&l);
	for (i = 0; i < BLOCKS; i++)
		CHECK_EQ(urccl_dev_write(&l, t.remote, out[lane] + i * BLOCK, BLOCK,
					 lane * AREA + i * BLOCK, 0),
			 first + i);
	CHECK_EQ(urccl_dev_fetch_add(&l, t.remote, counter(lane), round % 2 ? 3 : -1,
				     URCCL_SQE_FENCE),
		 first + BLOCKS);
	urccl_dev_notify(&l, p.a.peer, (uint64_t)lane << 32 | round, URCCL_SQE_FENCE);
	CHECK_EQ(lane_wait(&l), 0);
	for (i = 0; i < BLOCKS; i++)
		urccl_dev_read(&l, t.remote, in[lane] + i * BLOCK, BLOCK, lane * AREA + i * BLOCK,
			       0);
	CHECK_EQ(urccl_dev_room(&l), ENTRIES - BLOCKS);
	CHECK_EQ(lane_wait(&l), 0);
	CHECK(pattern_holds(in[lane], AREA, lane * AREA, round));
	urccl_dev_close(&l);
}

static void *push(void *arg)
{
	uint32_t round;

	for (round = 0; round < ROUNDS; round++)
		turn((uint32_t)(uintptr_t)arg, round);
	return NULL;
}

int main(int argc, char **argv)
{
	uint32_t next[LANES] = {0}, i, lane;
	pthread_t threads[LANES];
	struct urccl_cqe cqe;
	uint64_t word;

	pair_options(&p, argc, argv);
	pair_open(&p);
	target_open(&p, &t, LEN, p.shared);
	side_register(&p.a, out, sizeof(out), URCCL_RIGHT_READ);
	side_register(&p.a, in, sizeof(in), URCCL_RIGHT_WRITE);
	ring = lanes_open(&p.a, LANES, ENTRIES);
	for (i = 0; i < LANES; i++)
		CHECK_EQ(pthread_create(&threads[i], NULL, push, (void *)(uintptr_t)i), 0);
	for (i = 0; i < LANES * ROUNDS; i++) {
		side_take(&p.b, NULL, &cqe, NULL);
		CHECK_EQ(urccl_cqe_kind(&cqe), URCCL_KIND_NOTE);
		lane = (uint32_t)(cqe.tag >> 32);
		CHECK(lane < LANES);
		CHECK_EQ((uint32_t)cqe.tag, next[lane]++);
	}
	for (i = 0; i < LANES; i++)
		CHECK_EQ(pthread_join(threads[i], NULL), 0);
	settle();
	for (i = 0; i < LANES; i++) {
		memcpy(&word, t.bytes + counter(i), 8);
		CHECK_EQ(word, ROUNDS / 2 * 2);
		CHECK_EQ(ring.words[i].ended, ROUNDS * (2 * BLOCKS + 2));
		CHECK_EQ(ring.words[i].failed, 0);
	}
	CHECK_EQ(urccl_cq_ready(ring.ring), 0);
	urccl_device_ring_close(&ring);
	target_close(&p, &t);
	pair_close(&p);
	return 0;
}
