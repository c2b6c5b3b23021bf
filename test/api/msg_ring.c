/* SPDX-License-Identifier: Apache-2.0 */
/* MSG_RING: an event from ring to ring of one context, to another thread or to the sender itself;
 * it comes once, wakes who waits, and waits for an event slot under its deadline. */
#include <poll.h>
#include <pthread.h>
#include "pair.h"

#define SLOTS	 4u
#define MESSAGES 20000u

static struct pair p;
static struct urccl_ring *other;

static void send_to(uint32_t ring, uint64_t user_data, int64_t res, uint64_t tag)
{
	struct urccl_sqe *sqe = urccl_get_sqe(p.a.ring);

	CHECK(sqe);
	urccl_prep_msg_ring(sqe, ring, user_data, res, tag);
	urccl_sqe_set_data64(sqe, 7);
}

static struct urccl_cqe take(struct urccl_ring *ring)
{
	struct urccl_cqe *cqe, copy;

	CHECK_GE(urccl_wait(ring, &cqe, NULL), 1);
	copy = *cqe;
	urccl_cqe_seen(ring, cqe);
	return copy;
}

static void check_end(const struct urccl_cqe *cqe, int64_t res)
{
	CHECK_EQ(cqe->user_data, 7);
	CHECK_EQ(cqe->res, res);
	CHECK_EQ(cqe->flags, URCCL_KIND_OP);
}

static void check_message(const struct urccl_cqe *cqe, uint64_t user_data, int64_t res,
			  uint64_t tag)
{
	CHECK_EQ(cqe->user_data, user_data);
	CHECK_EQ(cqe->res, res);
	CHECK_EQ(cqe->flags, URCCL_KIND_MSG | URCCL_CQE_MORE);
	CHECK_EQ(cqe->path, urccl_ring_id(p.a.ring));
	CHECK_EQ(cqe->tag, tag);
}

static int is_inline(void)
{
	return !!(p.params.flags & URCCL_OPEN_INLINE);
}

/* The event, then the end; room comes back for the end alone. */
static void to_itself(void)
{
	uint32_t room = urccl_sq_space_left(p.a.ring);
	struct urccl_cqe cqe;

	send_to(urccl_ring_id(p.a.ring), UINT64_MAX, -5, 1ull << 63);
	CHECK_EQ(urccl_submit(p.a.ring), 1);
	cqe = take(p.a.ring);
	check_message(&cqe, UINT64_MAX, -5, 1ull << 63);
	CHECK_EQ(urccl_sq_space_left(p.a.ring), room - 1);
	cqe = take(p.a.ring);
	check_end(&cqe, 0);
	CHECK_EQ(urccl_sq_space_left(p.a.ring), room);
}

/* Nobody takes them: as many as there are slots come, and no more; each that is taken lets one in,
 * in their order. */
static void waits(struct urccl_ring *to)
{
	struct urccl_cqe *cqe, one;
	uint32_t i, ends = 0, came = 0;

	for (i = 0; i < 3 * SLOTS; i++)
		send_to(urccl_ring_id(to), i, i, i);
	CHECK_EQ(urccl_submit(p.a.ring), 3 * SLOTS);
	while (came < 3 * SLOTS || ends < 3 * SLOTS) {
		side_turn(&p.a);
		if (ends < 3 * SLOTS && to != p.a.ring) {
			one = take(p.a.ring);
			check_end(&one, 0);
			CHECK_LE(++ends, came + SLOTS);
		}
		if (ends < came + SLOTS && ends < 3 * SLOTS && to != p.a.ring)
			continue;
		CHECK_GE(urccl_wait(to, &cqe, NULL), 1);
		if (urccl_cqe_kind(cqe) == URCCL_KIND_MSG) {
			check_message(cqe, came, came, came);
			came++;
		} else {
			check_end(cqe, 0);
			CHECK_LE(++ends, came + SLOTS);
		}
		urccl_cqe_seen(to, cqe);
	}
	CHECK(!urccl_peek_cqe(to));
}

/* One that found no slot by its deadline never comes; nor does one that was cancelled. */
static void too_late(void)
{
	struct urccl_cqe cqe;
	struct urccl_sqe *sqe;
	uint32_t i;

	for (i = 0; i < SLOTS + 2; i++) {
		send_to(urccl_ring_id(other), i, i, i);
		if (i == SLOTS)
			urccl_sqe_set_deadline_us(
				&p.a.ring->sqes[(p.a.ring->sqe_tail - 1) & p.a.ring->sq_mask],
				20000);
	}
	CHECK_EQ(urccl_submit(p.a.ring), SLOTS + 2);
	for (i = 0; i < SLOTS; i++) {
		cqe = take(p.a.ring);
		check_end(&cqe, 0);
	}
	cqe = take(p.a.ring);
	check_end(&cqe, -ETIMEDOUT);
	check_sentence(&p.a, &cqe, "20000 us");
	sqe = urccl_get_sqe(p.a.ring);
	urccl_prep_cancel(sqe, URCCL_CANCEL_BY_USER_DATA, 7);
	CHECK_EQ(urccl_submit(p.a.ring), 1);
	cqe = take(p.a.ring);
	check_end(&cqe, -ECANCELED);
	CHECK_EQ(take(p.a.ring).res, 1);
	for (i = 0; i < SLOTS; i++) {
		cqe = take(other);
		check_message(&cqe, i, i, i);
	}
	send_to(urccl_ring_id(other), 9, 9, 9);
	CHECK_EQ(urccl_submit(p.a.ring), 1);
	cqe = take(other);
	check_message(&cqe, 9, 9, 9);
	cqe = take(p.a.ring);
	check_end(&cqe, 0);
}

static void wrong(uint32_t ring)
{
	struct urccl_cqe cqe;

	send_to(ring, 1, 1, 1);
	CHECK_EQ(urccl_submit(p.a.ring), 1);
	cqe = take(p.a.ring);
	check_end(&cqe, -ESTALE);
	check_sentence(&p.a, &cqe, "no open ring");
}

/* A ring that closes while messages wait for it. */
static void gone(void)
{
	struct urccl_ring_params params = p.ring_params;
	struct urccl_ring *short_lived;
	struct urccl_cqe cqe;
	uint32_t i, id;

	CHECK_EQ(urccl_ring_open(p.a.ctx, &params, &short_lived), 0);
	id = urccl_ring_id(short_lived);
	for (i = 0; i < SLOTS + 2; i++)
		send_to(id, i, i, i);
	CHECK_EQ(urccl_submit(p.a.ring), SLOTS + 2);
	for (i = 0; i < SLOTS; i++) {
		cqe = take(p.a.ring);
		check_end(&cqe, 0);
	}
	urccl_ring_close(short_lived);
	for (i = 0; i < 2; i++) {
		cqe = take(p.a.ring);
		check_end(&cqe, -ESTALE);
		check_sentence(&p.a, &cqe, "no open ring");
	}
	wrong(id);
}

/* A thread that sleeps on its ring's fd, by the book, gets every message. */
static void *listener(void *arg)
{
	struct pollfd fd = {.fd = urccl_ring_fd(other), .events = POLLIN};
	struct urccl_cqe *cqe;
	uint32_t came = 0;

	(void)arg;
	while (came < MESSAGES) {
		while ((cqe = urccl_peek_cqe(other))) {
			check_message(cqe, came, -(int64_t)came, ~(uint64_t)came);
			came++;
			urccl_cqe_seen(other, cqe);
		}
		if (came < MESSAGES && !urccl_arm(other, URCCL_ARM_FOR_CQE, 0))
			CHECK_EQ(poll(&fd, 1, (int)(PAIR_LATE_NS / 1000000)), 1);
	}
	return NULL;
}

static void across_threads(void)
{
	uint32_t sent = 0, ended = 0;
	struct urccl_cqe cqe;
	pthread_t thread;

	CHECK_EQ(pthread_create(&thread, NULL, listener, NULL), 0);
	while (ended < MESSAGES) {
		while (sent < MESSAGES && sent - ended < 32) {
			send_to(urccl_ring_id(other), sent, -(int64_t)sent, ~(uint64_t)sent);
			sent++;
		}
		CHECK_GE(urccl_submit(p.a.ring), 0);
		cqe = take(p.a.ring);
		check_end(&cqe, 0);
		ended++;
	}
	CHECK_EQ(pthread_join(thread, NULL), 0);
	CHECK(!urccl_peek_cqe(other));
}

int main(int argc, char **argv)
{
	pair_options(&p, argc, argv);
	pair_sim(&p);
	p.ring_params.event_slots = SLOTS;
	side_open(&p, &p.a);
	to_itself();
	waits(p.a.ring);
	wrong(0);
	wrong(urccl_ring_id(p.a.ring) + 100);
	if (!is_inline()) {
		CHECK_EQ(urccl_ring_open(p.a.ctx, &p.ring_params, &other), 0);
		waits(other);
		too_late();
		gone();
		across_threads();
		urccl_ring_close(other);
	}
	side_close(&p.a);
	if (p.sim)
		CHECK_EQ(urccl_sim_close(p.sim), 0);
	return 0;
}
