/* SPDX-License-Identifier: Apache-2.0 */
/* A program that does not take its events, and leaves no slot for the next, does not keep the
 * progress thread awake; and one that takes them at last has the others, though it never arms nor
 * waits. */
#include <sched.h>
#include <time.h>
#include "pair.h"

#define SLOTS	4u
#define NOTES	(3 * SLOTS)
#define LOOK_NS 1000000000ull
#define SLEEPS	50u /* of the thread in that time: 1,000 if it looked each millisecond */

static struct pair p;

static void send_notes(void)
{
	struct urccl_sqe *sqe;
	struct urccl_cqe cqe;
	uint32_t i;

	for (i = 0; i < NOTES; i++) {
		sqe = side_sqe(&p.a);
		urccl_prep_notify(sqe, p.a.peer, i, NULL, 0);
	}
	CHECK_EQ(urccl_submit(p.a.ring), (int)NOTES);
	for (i = 0; i < SLOTS; i++) {
		side_take(&p.a, NULL, &cqe, NULL);
		CHECK_EQ(cqe.res, 0);
	}
}

static void thread_sleeps(void)
{
	const struct timespec ts = {LOOK_NS / 1000000000, LOOK_NS % 1000000000};
	uint64_t before = side_stats(&p.b).sleeps;

	CHECK_EQ(nanosleep(&ts, NULL), 0);
	CHECK_LE(side_stats(&p.b).sleeps - before, SLEEPS);
	CHECK_EQ(urccl_cq_ready(p.b.ring), SLOTS);
}

static void only_looks(void)
{
	uint64_t late = now_ns() + PAIR_LATE_NS;
	struct urccl_cqe *cqe, end;
	uint32_t i;

	for (i = 0; i < NOTES;) {
		CHECK(!is_late(late));
		cqe = urccl_peek_cqe(p.b.ring);
		if (!cqe) {
			sched_yield();
			continue;
		}
		CHECK_EQ(urccl_cqe_kind(cqe), URCCL_KIND_NOTE);
		CHECK_EQ(cqe->res, 0);
		urccl_cqe_seen(p.b.ring, cqe);
		i++;
	}
	for (i = SLOTS; i < NOTES; i++) {
		side_take(&p.a, NULL, &end, NULL);
		CHECK_EQ(end.res, 0);
	}
}

int main(int argc, char **argv)
{
	pair_options(&p, argc, argv);
	p.ring_params.event_slots = SLOTS;
	pair_open(&p);
	send_notes();
	/* Those devices are looked at each millisecond themselves. */
	if (p.transport != URCCL_TRANSPORT_SIM && p.transport != URCCL_TRANSPORT_FABRIC)
		thread_sleeps();
	only_looks();
	pair_close(&p);
	return 0;
}
