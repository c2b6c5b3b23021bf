/* SPDX-License-Identifier: Apache-2.0 */
/* Device rings of a pair's a, with threads in the place of kernels. */
#ifndef API_LANES_H
#define API_LANES_H

#include <pthread.h>
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

/* One entry and its end: 0 or -errno. */
static inline int lane_run(struct urccl_dev_lane *l, const struct urccl_sqe *sqe)
{
	uint64_t index = urccl_dev_push(l, sqe);
	int res, told = 0;

	CHECK(index != URCCL_DEV_FULL);
	while (l->ended <= index) {
		res = urccl_dev_wait(l, index, PAIR_LATE_NS);
		CHECK(res != -ETIME);
		told = res ? res : told;
	}
	return told;
}

#endif
