/* SPDX-License-Identifier: Apache-2.0 */
/* Notifications: each comes once, with its tag and payload, after every byte of the write it
 * belongs to; more of them than the receiver has event slots wait at their senders; one whose write
 * fails comes as a failure. */
#include "pair.h"

#define N   3000u
#define LEN 5000u

static struct pair p;
static struct target t;
static uint8_t local[LEN * 16];
static uint8_t came[N], done[N];
static uint32_t arrived, ended;

static void send(uint32_t i)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);
	static uint64_t payload[N];

	payload[i] = i * 3ull;
	if (i % 3 == 0) {
		urccl_prep_notify(sqe, p.a.peer, i, &payload[i], sizeof(payload[i]));
	} else {
		pattern_fill(local + (i % 16) * LEN, LEN, 0, i);
		urccl_prep_write(sqe, t.remote, local + (i % 16) * LEN, LEN, (i % 16) * LEN);
		urccl_sqe_set_notify(p.a.ring, sqe, i, &payload[i],
				     i % 3 == 1 ? sizeof(payload[i]) : 0);
	}
	urccl_sqe_set_data64(sqe, i);
	CHECK_EQ(urccl_submit(p.a.ring), 1);
}

static void on_note(const struct urccl_cqe *cqe, const void *note)
{
	uint64_t payload;

	CHECK_EQ(urccl_cqe_kind(cqe), URCCL_KIND_NOTE);
	CHECK(cqe->flags & URCCL_CQE_MORE);
	CHECK_EQ(cqe->peer, p.b.peer.id);
	CHECK(cqe->tag < N && !came[cqe->tag]++);
	CHECK_EQ(cqe->res, cqe->tag % 3 == 2 ? 0 : 8);
	if (cqe->res) {
		memcpy(&payload, note, sizeof(payload));
		CHECK_EQ(payload, cqe->tag * 3);
	}
	if (cqe->tag % 3)
		CHECK(pattern_holds(t.bytes + (cqe->tag % 16) * LEN, LEN, 0, cqe->tag));
	arrived++;
}

static void stuck(void)
{
	fprintf(stderr, "%u came, %u ended\n", arrived, ended);
	urccl_dump(p.a.ctx, 2);
	urccl_dump(p.b.ctx, 2);
	CHECK(!"all came in time");
}

/* 16 under way, so that each has its part of the memory to itself. */
static void many(void)
{
	uint8_t note[URCCL_NOTE_MAX];
	struct urccl_cqe cqe;
	uint64_t until = now_ns() + PAIR_LATE_NS;
	uint32_t sent = 0, before = 0;

	while (arrived < N || ended < N) {
		while (sent < N && (sent < 16 || (came[sent - 16] && done[sent - 16])))
			send(sent++);
		if (side_take_within(&p.b, &p.a, 100000, &cqe, note))
			on_note(&cqe, note);
		while (side_take_within(&p.a, &p.b, 0, &cqe, NULL)) {
			CHECK_EQ(cqe.res, cqe.user_data % 3 ? (int64_t)LEN : 0);
			ended++;
			done[cqe.user_data] = 1;
		}
		if (arrived + ended != before)
			until = now_ns() + PAIR_LATE_NS;
		before = arrived + ended;
		if (now_ns() >= until)
			stuck();
	}
}

/* b has few event slots and takes nothing: what does not fit waits, and comes later. */
static void full_slots(void)
{
	uint32_t i, seen = 0, over = p.ring_params.event_slots + 60;
	struct urccl_sqe *sqe;
	struct urccl_cqe cqe;

	for (i = 0; i < over; i++) {
		sqe = side_sqe(&p.a);
		urccl_prep_notify(sqe, p.a.peer, i, NULL, 0);
	}
	CHECK_EQ(urccl_submit(p.a.ring), (int)over);
	for (i = 0; i < p.ring_params.event_slots; i++) {
		side_take(&p.a, &p.b, &cqe, NULL);
		CHECK_EQ(cqe.res, 0);
	}
	CHECK(!side_take_within(&p.a, &p.b, 20000000, &cqe, NULL));
	for (i = 0; i < over; i++) {
		side_take(&p.b, &p.a, &cqe, NULL);
		seen += cqe.tag < over;
	}
	CHECK_EQ(seen, over);
	for (i = p.ring_params.event_slots; i < over; i++) {
		side_take(&p.a, &p.b, &cqe, NULL);
		CHECK_EQ(cqe.res, 0);
	}
}

static void failing(void)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);
	struct urccl_cqe cqe;

	CHECK_EQ(urccl_unregister(p.b.ctx, t.region), 0);
	urccl_prep_write(sqe, t.remote, local, LEN, 0);
	urccl_sqe_set_notify(p.a.ring, sqe, 99, NULL, 0);
	cqe = pair_run(&p, &p.a, sqe);
	CHECK_EQ(cqe.res, -ESTALE);
	side_take(&p.b, &p.a, &cqe, NULL);
	CHECK_EQ(urccl_cqe_kind(&cqe), URCCL_KIND_NOTE);
	CHECK_EQ(cqe.tag, 99);
	CHECK_EQ(cqe.res, -ESTALE);
}

int main(int argc, char **argv)
{
	pair_options(&p, argc, argv);
	p.ring_params.event_slots = 64;
	pair_open(&p);
	target_open(&p, &t, sizeof(local), 0);
	side_register(&p.a, local, sizeof(local), 0);
	many();
	full_slots();
	failing();
	pair_close(&p);
	return 0;
}
