/* SPDX-License-Identifier: Apache-2.0 */
/* A full ring gives NULL, from as many entries as it was opened with until one of them has ended
 * and was seen; room and the fd tell when. A ring that nobody empties, CQEs and events, is no
 * other ring's trouble. */
#include <poll.h>
#include "meet.h"

#define ENTRIES 8u

static struct pair p;
static struct target t;
static uint8_t local[4096];

static struct urccl_ring *ring_open(uint32_t entries, uint32_t event_slots)
{
	struct urccl_ring_params params = {.size = sizeof(params),
					   .entries = entries,
					   .event_slots = event_slots};
	struct urccl_ring *ring;

	CHECK_EQ(urccl_ring_open(p.a.ctx, &params, &ring), 0);
	return ring;
}

static void prep_write(struct urccl_ring *ring, uint32_t flags)
{
	struct urccl_sqe *sqe = urccl_get_sqe(ring);

	CHECK(sqe);
	urccl_prep_write(sqe, t.remote, local, sizeof(local), 0);
	urccl_sqe_add_flags(sqe, flags);
}

static void fill(struct urccl_ring *ring, uint32_t flags)
{
	uint32_t i;

	for (i = 0; i < ENTRIES; i++) {
		CHECK_EQ(urccl_sq_space_left(ring), ENTRIES - i);
		prep_write(ring, flags);
	}
	CHECK(!urccl_get_sqe(ring));
	CHECK_EQ(urccl_submit(ring), ENTRIES);
}

static void wait_ready(struct side *s, uint32_t n)
{
	uint64_t late = now_ns() + PAIR_LATE_NS;

	while (urccl_cq_ready(s->ring) < n) {
		CHECK(!is_late(late));
		side_turn(s);
		side_turn(&p.b);
	}
}

static void full(struct side *s)
{
	struct urccl_cqe *cqe;
	uint32_t i;

	fill(s->ring, 0);
	wait_ready(s, ENTRIES);
	/* All have ended: it is the seeing that makes room. */
	for (i = 0; i < ENTRIES; i++) {
		CHECK_EQ(urccl_sq_space_left(s->ring), i);
		cqe = urccl_peek_cqe(s->ring);
		CHECK_EQ(cqe->res, sizeof(local));
		urccl_cqe_seen(s->ring, cqe);
	}
	CHECK(!urccl_peek_cqe(s->ring));
	/* Silent successes make room by themselves. */
	fill(s->ring, URCCL_SQE_SKIP_SUCCESS);
	CHECK_EQ(urccl_wait_room(s->ring, ENTRIES, PAIR_LATE_NS), ENTRIES);
	prep_write(s->ring, 0);
	CHECK_EQ(urccl_submit(s->ring), 1);
	side_end(s, &p.b, 0);
}

static void by_the_fd(struct side *s)
{
	struct pollfd pfd = {.fd = urccl_ring_fd(s->ring), .events = POLLIN};

	fill(s->ring, 0);
	while (!urccl_arm(s->ring, URCCL_ARM_FOR_ROOM, ENTRIES))
		CHECK_EQ(poll(&pfd, 1, (int)(PAIR_LATE_NS / 1000000)), 1);
	CHECK_EQ(urccl_cq_ready(s->ring), ENTRIES);
	urccl_cq_advance(s->ring, ENTRIES);
	CHECK_EQ(urccl_sq_space_left(s->ring), ENTRIES);
}

/* CQEs of all its entries unseen, no event slot left, and more of both to come. */
static void clog_up(struct side *s)
{
	uint32_t i;

	side_watch(s, p.a.peer, 9);
	CHECK_EQ(pair_end(&p, &p.a, 0x3a7c).res, -ECANCELED); /* the pair's own */
	for (i = 1; i < ENTRIES; i++)
		prep_write(s->ring, 0);
	CHECK_EQ(urccl_submit(s->ring), ENTRIES - 1);
	wait_ready(s, ENTRIES - 1);
	CHECK(!urccl_get_sqe(s->ring));
	for (i = 0; i < 5; i++) {
		struct urccl_sqe *sqe = side_sqe(&p.b);

		urccl_prep_notify(sqe, p.b.peer, i, NULL, 0);
		urccl_sqe_set_data64(sqe, 100);
	}
	CHECK_EQ(urccl_submit(p.b.ring), 5);
	wait_ready(s, ENTRIES - 1 + 2);
	for (i = 0; i < 2; i++)
		CHECK_EQ(side_end(&p.b, NULL, 100).res, 0);
	side_silent(&p.b, NULL, 10000000);
}

static void other_ring(struct side *clogged)
{
	struct urccl_cqe cqe;
	uint32_t i;

	for (i = 0; i < 500; i++) {
		struct urccl_sqe *sqe = side_sqe(&p.a);

		urccl_prep_read(sqe, t.remote, local, 64, 0);
		CHECK_EQ(pair_run(&p, &p.a, sqe).res, 64);
	}
	CHECK_EQ(urccl_cq_ready(clogged->ring), ENTRIES - 1 + 2);
	/* Emptied, it has the rest. */
	for (i = 0; i < ENTRIES - 1 + 5; i++) {
		side_take(clogged, NULL, &cqe, NULL);
		CHECK_GE(cqe.res, 0);
	}
	for (i = 2; i < 5; i++)
		CHECK_EQ(side_end(&p.b, NULL, 100).res, 0);
}

int main(int argc, char **argv)
{
	struct side s;

	pair_begin(&p, argc, argv);
	s = p.a;
	target_open(&p, &t, sizeof(local), 0);
	side_register(&p.a, local, sizeof(local), 0);
	s.ring = ring_open(ENTRIES, 2);
	full(&s);
	by_the_fd(&s);
	clog_up(&s);
	other_ring(&s);
	urccl_ring_close(s.ring);
	pair_close(&p);
	return 0;
}
