/* SPDX-License-Identifier: Apache-2.0 */
/* 64 contexts notify one that has four event slots and takes one event at a time: nothing is
 * refused, dropped or told twice, and every sender succeeds. */
#include "crowd.h"

#define SENDERS 64u
#define EACH	(PAIR_SLOW ? 8u : 40u) /* above the window of 32 */
#define SLOTS	4u

static struct crowd c;
static uint8_t came[SENDERS][64];
static uint32_t ended;

static void submit_all(void)
{
	struct urccl_sqe *sqe;
	uint32_t i, k;

	for (i = 0; i < SENDERS; i++) {
		for (k = 0; k < EACH; k++) {
			sqe = side_sqe(&c.sides[i]);
			urccl_prep_notify(sqe, c.sides[i].peer, k, &c.sides[i], 16);
			urccl_sqe_set_deadline_us(sqe, 100000000);
		}
		CHECK_EQ(urccl_submit(c.sides[i].ring), (int)EACH);
	}
}

static void take_ends(void)
{
	struct urccl_cqe cqe;
	uint32_t i;

	for (i = 0; i < SENDERS; i++)
		while (side_take_within(&c.sides[i], NULL, 0, &cqe, NULL)) {
			CHECK_EQ(cqe.flags & URCCL_CQE_MORE, 0);
			CHECK_EQ(cqe.res, 0);
			ended++;
		}
}

int main(int argc, char **argv)
{
	uint8_t note[URCCL_NOTE_MAX];
	struct urccl_cqe cqe;
	uint32_t i, n;

	crowd_open(&c, argc, argv, SENDERS, SLOTS);
	submit_all();
	for (i = 0; i < 20; i++) {
		crowd_turn(&c);
		take_ends();
	}
	CHECK_LE(ended, SLOTS);
	for (n = 0; n < SENDERS * EACH; n++) {
		uint64_t late = now_ns() + PAIR_LATE_NS;

		while (!side_take_within(&c.p.b, NULL, 0, &cqe, note)) {
			CHECK(!is_late(late));
			crowd_turn(&c);
		}
		i = crowd_find(&c, cqe.peer);
		CHECK_EQ(urccl_cqe_kind(&cqe), URCCL_KIND_NOTE);
		CHECK_EQ(cqe.res, 16);
		CHECK(!memcmp(note, &c.sides[i], 16));
		CHECK(cqe.tag < EACH && !came[i][cqe.tag]++);
		take_ends();
		CHECK_LE(ended, n + 1 + SLOTS);
	}
	while (ended < SENDERS * EACH) {
		crowd_turn(&c);
		take_ends();
	}
	crowd_close(&c);
	return 0;
}
