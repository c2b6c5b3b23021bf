/* SPDX-License-Identifier: Apache-2.0 */
/* A ring without a library around it: the test is its engine. */
#ifndef RING_RIG_H
#define RING_RIG_H

#include <poll.h>

#include "ring/ring.h"
#include "test.h"

static inline struct ring *rig_open(uint32_t entries, uint32_t event_slots, uint32_t flags,
				    struct mailbox *home)
{
	struct urccl_ring_params p = {.size = sizeof(p),
				      .entries = entries,
				      .event_slots = event_slots};
	struct ring *r = NULL;

	CHECK_EQ(ring_open(&p, flags, 7, &r), 0);
	mailbox_init(home, wake_open());
	r->home = home;
	return r;
}

static inline void rig_close(struct ring *r)
{
	close(r->home->fd);
	ring_close(r);
}

/* As if sq entries had been submitted and ended, five of them without a CQE, and cq CQEs seen. */
static inline void rig_age(struct ring *r, uint32_t sq, uint32_t cq)
{
	r->pub.sqe_tail = r->producer_line.sq_tail = r->own.sq_head = sq;
	r->own.done = r->publish_line.sq_done = sq;
	r->engine_line.skipped = 5;
	r->consumer_line.ended = sq - 5;
	r->consumer_line.cq_head = r->publish_line.cq_tail = cq;
	r->own.tail = r->own.wake_tail = r->own.announced = r->own.walked = cq;
}

/* Takes the oldest entry. */
static inline struct urccl_sqe rig_take(struct ring *r)
{
	struct urccl_sqe sqe;

	CHECK(ring_submitted(r));
	sqe = *ring_sqe(r, 0);
	ring_taken(r, 1);
	return sqe;
}

/* Its end, not yet published. */
static inline void rig_end(struct ring *r, const struct urccl_sqe *sqe)
{
	struct urccl_cqe cqe = {.user_data = sqe->user_data};

	r->own.done++;
	r->own.pending = 1;
	if (sqe->flags & URCCL_SQE_SKIP_SUCCESS)
		store_release(&r->engine_line.skipped, r->engine_line.skipped + 1);
	else
		*ring_post(r, sqe->flags & URCCL_SQE_NO_WAKE) = cqe;
}

/* Takes all, ends all, publishes. */
static inline uint32_t rig_turn(struct ring *r)
{
	uint32_t n;

	for (n = 0; ring_submitted(r); n++) {
		struct urccl_sqe sqe = rig_take(r);

		rig_end(r, &sqe);
	}
	if (n)
		ring_publish(r);
	return n;
}

/* n NOPs with these flags, user_data ascending from data. */
static inline void rig_submit(struct ring *r, uint32_t n, uint32_t flags, uint64_t data)
{
	uint32_t i;

	for (i = 0; i < n; i++) {
		struct urccl_sqe *sqe = urccl_get_sqe(&r->pub);

		CHECK(sqe);
		urccl_prep_nop(sqe);
		urccl_sqe_add_flags(sqe, flags);
		urccl_sqe_set_data64(sqe, data + i);
	}
	CHECK_EQ(urccl_submit(&r->pub), n);
}

static inline int rig_readable(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	return poll(&p, 1, 0);
}

#endif
