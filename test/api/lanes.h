/* SPDX-License-Identifier: Apache-2.0 */
/* Device rings of a pair's a, with threads in the place of kernels. */
#ifndef API_LANES_H
#define API_LANES_H

#include <pthread.h>
#include <sched.h>
#include <liburccl/device.cuh>
#include "pair.h"

static inline struct urccl_device_ring lanes_open(struct side *s, uint32_t lanes, uint32_t entries)
{
	struct urccl_device_ring_params params = URCCL_INIT(urccl_device_ring_params);
	struct urccl_device_ring ring;

	params.lanes = lanes;
	params.entries = entries;
	CHECK_EQ(urccl_device_ring_open(s->ctx, &params, &ring), 0);
	CHECK_EQ(ring.lanes, lanes);
	CHECK_EQ(ring.entries, entries);
	return ring;
}

/* All that was pushed has ended: 0, or -errno of the last that failed. Leaves the processor to the
 * engine. */
static inline int lane_wait(struct urccl_dev_lane *l)
{
	uint64_t until = now_ns() + PAIR_LATE_NS;
	int res, told = 0;

	while (l->ended < l->pushed) {
		res = urccl_dev_wait(l, l->pushed - 1, 10000);
		CHECK_LE(now_ns(), until);
		if (res == -ETIME)
			sched_yield();
		else
			told = res ? res : told;
	}
	return told;
}

/* One entry and its end. */
static inline int lane_run(struct urccl_dev_lane *l, const struct urccl_sqe *sqe)
{
	CHECK(urccl_dev_push(l, sqe) != URCCL_DEV_FULL);
	return lane_wait(l);
}

#endif
