/* SPDX-License-Identifier: Apache-2.0 */
/* A receiver that takes nothing while more notifications to it fail than the sender can keep in
 * mind: it counts as lost, both sides are told so, and other peers of the sender go on. */
#include "meet.h"

#define MANY  70000u /* above what an engine keeps */
#define BURST 16384u

static struct pair p;
static struct side c; /* another peer of a; its handle is a's */
static uint32_t ended, lost;

/* With threads more entries fail behind it than have a record before this one takes it. */
static void check_why(const struct urccl_cqe *cqe)
{
	char why[512];

	CHECK_GE(urccl_explain(p.a.ctx, cqe, why, sizeof(why)), 10);
	if (p.params.flags & URCCL_OPEN_INLINE || !strstr(why, "its record is gone"))
		CHECK_SAYS(why, "notifications");
}

static void take(void)
{
	struct urccl_cqe cqe;

	while (side_take_within(&p.a, NULL, 0, &cqe, NULL)) {
		if (urccl_cqe_kind(&cqe) == URCCL_KIND_LOST) {
			CHECK_EQ(cqe.res, -ECONNRESET);
			check_why(&cqe);
			lost++;
		} else if (!(cqe.flags & URCCL_CQE_MORE)) {
			CHECK(cqe.res == -ETIMEDOUT || cqe.res == -ECONNRESET || cqe.res == 0);
			ended++;
		}
	}
}

static void run_up(void)
{
	uint64_t late = now_ns() + 3 * PAIR_LATE_NS;
	uint32_t sent = 0;

	while (ended < sent || sent < MANY) {
		CHECK(!is_late(late));
		for (; sent < MANY && sent - ended < BURST - 8; sent++) {
			struct urccl_sqe *sqe = urccl_get_sqe(p.a.ring);

			urccl_prep_notify(sqe, p.a.peer, sent, NULL, 0);
			urccl_sqe_set_deadline_us(sqe, 10000);
		}
		urccl_submit(p.a.ring);
		side_turn(&p.a);
		take();
	}
}

int main(int argc, char **argv)
{
	uint64_t late = now_ns() + 4 * PAIR_LATE_NS;
	struct side a;
	struct urccl_cqe cqe;

	pair_options(&p, argc, argv);
	p.ring_params.entries = BURST;
	p.ring_params.event_slots = 2;
	pair_open(&p);
	side_open(&p, &c);
	side_accept(&c, 1);
	a = p.a;
	side_connect(&a, &c);
	c.peer = a.peer;
	run_up();
	while (!lost) {
		CHECK(!is_late(late));
		side_turn(&p.b);
		side_turn(&p.a);
		take();
	}
	CHECK_EQ(lost, 1);
	do
		side_take(&p.b, &p.a, &cqe, NULL);
	while (urccl_cqe_kind(&cqe) == URCCL_KIND_NOTE);
	CHECK_EQ(urccl_cqe_kind(&cqe), URCCL_KIND_LOST);
	CHECK_EQ(cqe.res, -ECONNRESET);
	side_watch(&c, (struct urccl_peer){0}, 2);
	CHECK_EQ(side_tell(&p.a, &c, c.peer.id, 5), 0);
	CHECK_EQ(side_event(&c, &p.a, URCCL_KIND_NOTE, NULL).res, 0);
	side_close(&c);
	pair_close(&p);
	return 0;
}
