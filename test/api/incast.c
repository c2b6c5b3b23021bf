/* SPDX-License-Identifier: Apache-2.0 */
/* 32 contexts write to one at a time, each write with a notification, and it takes its few events
 * slowly: every entry succeeds, every notification comes once and after its bytes, no sender is far
 * behind the others, and memory stays as it was. */
#include "crowd.h"

#define SENDERS 32u
#define DEPTH	48u	     /* entries of each, at a time */
#define EACH	48u	     /* have ended, in the mean, before senders are compared, */
#define LONG_NS 500000000ull /* and so long it took: nobody is without a CPU for most of that */
#define MOST	65536u	     /* of each, in all */
#define LEN	65536u
#define SLOTS	8u
#define GROWTH	(48ull << 20)

static struct crowd c;
static struct urccl_remote remotes[SENDERS];
static uint8_t *locals[SENDERS], *bytes;
static uint8_t came[SENDERS][MOST];
static uint32_t notes[SENDERS], begun[SENDERS], ended[SENDERS], all_begun, all_ended, all_came;
static int compared;

/* One write has its keys: what comes then does not wait for threads that nobody here drives. */
static void warm(uint32_t i)
{
	struct urccl_sqe *sqe = side_sqe(&c.sides[i]);
	struct urccl_cqe cqe;

	urccl_prep_write(sqe, remotes[i], locals[i], 1, (uint64_t)i * LEN);
	CHECK_EQ(urccl_submit(c.sides[i].ring), 1);
	side_take(&c.sides[i], &c.p.b, &cqe, NULL);
	CHECK_EQ(cqe.res, 1);
}

static void begin(int argc, char **argv)
{
	struct urccl_region region;
	struct urccl_advert ad;
	uint32_t i;

	crowd_open(&c, argc, argv, SENDERS, SLOTS);
	bytes = calloc(SENDERS, LEN);
	CHECK(bytes);
	region = side_register(&c.p.b, bytes, (uint64_t)SENDERS * LEN, URCCL_RIGHT_WRITE);
	CHECK_EQ(urccl_advertise(c.p.b.ctx, region, 0, (uint64_t)SENDERS * LEN, URCCL_RIGHT_WRITE,
				 0, &ad),
		 0);
	for (i = 0; i < SENDERS; i++) {
		locals[i] = malloc(LEN);
		CHECK(locals[i]);
		pattern_fill(locals[i], LEN, 0, i + 1);
		side_register(&c.sides[i], locals[i], LEN, 0);
		CHECK_EQ(urccl_import(c.sides[i].ctx, c.sides[i].peer, &ad, 1, &remotes[i]), 0);
		warm(i);
	}
}

static void submit(uint32_t i, uint32_t n)
{
	struct urccl_sqe *sqe;

	for (; n && !compared && begun[i] < MOST; n--) {
		sqe = side_sqe(&c.sides[i]);
		urccl_prep_write(sqe, remotes[i], locals[i], LEN, (uint64_t)i * LEN);
		urccl_sqe_set_notify(sqe, begun[i]++);
		urccl_sqe_set_timeout(sqe, 300000000);
		all_begun++;
	}
	CHECK_GE(urccl_submit(c.sides[i].ring), 0);
}

static void on_note(const struct urccl_cqe *cqe)
{
	uint32_t i = crowd_find(&c, cqe->peer);

	CHECK_EQ(urccl_cqe_kind(cqe), URCCL_KIND_NOTE);
	CHECK_EQ(cqe->res, 0);
	CHECK(cqe->tag < begun[i] && !came[i][cqe->tag]++);
	/* Until the last one, the next write goes to the same place. */
	if (++notes[i] == begun[i])
		CHECK(pattern_holds(bytes + (uint64_t)i * LEN, LEN, 0, i + 1));
	all_came++;
}

/* Nobody has less than a quarter of a fair share. No more is begun then. */
static void compare(void)
{
	uint32_t i;

	for (i = 0; i < SENDERS; i++)
		CHECK_GE(ended[i], all_ended / SENDERS / 4);
	compared = 1;
}

static void take_ends(uint32_t i)
{
	struct urccl_cqe cqe;
	uint32_t n = 0;

	for (; side_take_within(&c.sides[i], NULL, 0, &cqe, NULL); n++) {
		CHECK_EQ(cqe.flags & URCCL_CQE_MORE, 0);
		CHECK_EQ(cqe.res, LEN);
		ended[i]++;
		all_ended++;
	}
	if (n)
		submit(i, n);
}

int main(int argc, char **argv)
{
	uint64_t start, before;
	struct urccl_cqe cqe;
	uint32_t i;

	begin(argc, argv);
	before = resident();
	for (i = 0; i < SENDERS; i++)
		submit(i, DEPTH);
	for (start = now_ns(); all_came < all_begun || all_ended < all_begun;) {
		CHECK(now_ns() < start + 2 * PAIR_LATE_NS);
		crowd_turn(&c);
		if (side_take_within(&c.p.b, NULL, 0, &cqe, NULL))
			on_note(&cqe);
		for (i = 0; i < SENDERS; i++)
			take_ends(i);
		if (!compared && all_ended >= SENDERS * EACH && now_ns() >= start + LONG_NS)
			compare();
	}
	CHECK(compared);
	CHECK_LE(resident(), before + GROWTH);
	for (i = 0; i < SENDERS; i++)
		CHECK_EQ(ended[i], begun[i]);
	crowd_close(&c);
	for (i = 0; i < SENDERS; i++)
		free(locals[i]);
	free(bytes);
	return 0;
}
