/* SPDX-License-Identifier: Apache-2.0 */
/* 16 contexts write to one at a time, each write with a notification, and it takes its few events
 * slowly: every entry succeeds, every notification comes once and after its own bytes, no sender
 * is far behind the others, and memory stays as it was. A write has a place at both ends, which
 * goes to another when it has ended and its notification was seen. */
#include "crowd.h"

#define SENDERS 16u
#define DEPTH	48u	     /* entries of each, at a time */
#define EACH	48u	     /* have ended, in the mean, before senders are compared, */
#define LONG_NS 500000000ull /* and so long it took: nobody is without a CPU for most of that */
#define MOST	65536u	     /* of each, in all */
#define LEN	65536u
#define PLACES	((uint64_t)DEPTH * LEN) /* of a sender */
#define SLOTS	8u
#define GROWTH	(48ull << 20)

static struct crowd c;
static struct urccl_remote remotes[SENDERS];
static uint8_t *locals[SENDERS], *bytes;
static uint8_t came[SENDERS][MOST];
static uint32_t begun[SENDERS], ended[SENDERS], all_begun, all_ended, all_came;
static uint32_t tag_of[SENDERS][DEPTH];
static uint8_t awaited[SENDERS][DEPTH]; /* of a place: its write's end, its notification */
static int compared;

/* One write has its keys: what comes then does not wait for threads that nobody here drives. */
static void warm(uint32_t i)
{
	struct urccl_sqe *sqe = side_sqe(&c.sides[i]);
	struct urccl_cqe cqe;

	urccl_prep_write(sqe, remotes[i], locals[i], 1, i * PLACES);
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
	bytes = malloc(SENDERS * PLACES);
	CHECK(bytes);
	memset(bytes, 0xff, SENDERS * PLACES);
	region = side_register(&c.p.b, bytes, SENDERS * PLACES, URCCL_RIGHT_WRITE);
	CHECK_EQ(urccl_advertise(c.p.b.ctx, region, 0, SENDERS * PLACES, URCCL_RIGHT_WRITE, 0, &ad),
		 0);
	for (i = 0; i < SENDERS; i++) {
		locals[i] = malloc(PLACES);
		CHECK(locals[i]);
		memset(locals[i], 0xff, PLACES);
		side_register(&c.sides[i], locals[i], PLACES, 0);
		CHECK_EQ(urccl_import(c.sides[i].ctx, c.sides[i].peer, &ad, 1, &remotes[i]), 0);
		warm(i);
	}
}

static uint64_t version(uint32_t i, uint32_t tag)
{
	return (uint64_t)i << 32 | (tag + 1);
}

static void submit(uint32_t i, uint32_t place)
{
	uint32_t tag = begun[i];
	struct urccl_sqe *sqe;

	if (compared || tag == MOST)
		return;
	pattern_fill(locals[i] + place * LEN, LEN, 0, version(i, tag));
	sqe = side_sqe(&c.sides[i]);
	urccl_prep_write(sqe, remotes[i], locals[i] + place * LEN, LEN, i * PLACES + place * LEN);
	urccl_sqe_set_notify(c.sides[i].ring, sqe, (uint64_t)tag * DEPTH + place, NULL, 0);
	urccl_sqe_set_data64(sqe, place);
	urccl_sqe_set_deadline_us(sqe, 300000000);
	CHECK_EQ(urccl_submit(c.sides[i].ring), 1);
	awaited[i][place] = 2;
	tag_of[i][place] = tag;
	begun[i]++;
	all_begun++;
}

static void seen(uint32_t i, uint32_t place)
{
	CHECK(awaited[i][place]);
	if (!--awaited[i][place])
		submit(i, place);
}

static void on_note(const struct urccl_cqe *cqe)
{
	uint32_t i = crowd_find(&c, cqe->peer), place = cqe->tag % DEPTH, tag = cqe->tag / DEPTH;

	CHECK_EQ(urccl_cqe_kind(cqe), URCCL_KIND_NOTE);
	CHECK_EQ(cqe->res, 0);
	CHECK(tag < begun[i] && !came[i][tag]++);
	CHECK_EQ(tag_of[i][place], tag);
	CHECK(pattern_holds(bytes + i * PLACES + place * LEN, LEN, 0, version(i, tag)));
	all_came++;
	seen(i, place);
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

	while (side_take_within(&c.sides[i], NULL, 0, &cqe, NULL)) {
		CHECK_EQ(cqe.flags & URCCL_CQE_MORE, 0);
		CHECK_EQ(cqe.res, LEN);
		ended[i]++;
		all_ended++;
		seen(i, (uint32_t)cqe.user_data);
	}
}

int main(int argc, char **argv)
{
	uint64_t start, before;
	struct urccl_cqe cqe;
	uint32_t i, place;

	begin(argc, argv);
	before = resident();
	for (i = 0; i < SENDERS; i++)
		for (place = 0; place < DEPTH; place++)
			submit(i, place);
	for (start = now_ns(); all_came < all_begun || all_ended < all_begun;) {
		CHECK(!is_late(start + 2 * PAIR_LATE_NS));
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
