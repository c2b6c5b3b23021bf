/* SPDX-License-Identifier: Apache-2.0 */
/* More contexts than a device reads without epoll write small entries to one, one at a time each.
 * All of them come to an end; where no thread runs beside the test's, each sender has about as many
 * of them done as any other. */
#include "crowd.h"

#define SENDERS 24u
#define EACH	200u /* entries of each, in the mean */
#define LEN	4096u

static struct crowd c;
static struct urccl_remote remotes[SENDERS];
static uint8_t local[LEN], *bytes;
static uint32_t ended[SENDERS], all_ended;
static int is_inline; /* the one that they write to, too */

static void begin(int argc, char **argv)
{
	struct urccl_region region;
	struct urccl_advert ad;
	uint32_t i;

	pair_options(&c.p, argc, argv);
	is_inline = (c.p.params.flags & URCCL_OPEN_INLINE) != 0;
	crowd_open(&c, argc, argv, SENDERS, 8);
	bytes = calloc(SENDERS, LEN);
	CHECK(bytes);
	region = side_register(&c.p.b, bytes, SENDERS * LEN, URCCL_RIGHT_WRITE);
	CHECK_EQ(urccl_advertise(c.p.b.ctx, region, 0, SENDERS * LEN, URCCL_RIGHT_WRITE, 0, &ad),
		 0);
	for (i = 0; i < SENDERS; i++) {
		side_register(&c.sides[i], local, LEN, 0);
		CHECK_EQ(urccl_import(c.sides[i].ctx, c.sides[i].peer, &ad, 1, &remotes[i]), 0);
	}
}

static void submit(uint32_t i)
{
	struct urccl_sqe *sqe = side_sqe(&c.sides[i]);

	urccl_prep_write(sqe, remotes[i], local, LEN, i * LEN);
	urccl_sqe_set_deadline_us(sqe, 300000000);
	CHECK_EQ(urccl_submit(c.sides[i].ring), 1);
}

/* The keys are there: nothing waits for other threads. */
static void warm(uint32_t i)
{
	struct urccl_cqe cqe;

	submit(i);
	side_take(&c.sides[i], &c.p.b, &cqe, NULL);
	CHECK_EQ(cqe.res, LEN);
}

/* As many begin as have ended. */
static void take_ends(uint32_t i)
{
	struct urccl_cqe cqe;

	while (side_take_within(&c.sides[i], NULL, 0, &cqe, NULL)) {
		CHECK_EQ(cqe.res, LEN);
		ended[i]++;
		all_ended++;
		submit(i);
	}
}

int main(int argc, char **argv)
{
	uint32_t i, least = UINT32_MAX, most = 0;
	uint64_t start;

	begin(argc, argv);
	for (i = 0; i < SENDERS; i++)
		warm(i);
	for (i = 0; i < SENDERS; i++)
		submit(i);
	for (start = now_ns(); all_ended < SENDERS * EACH;) {
		CHECK(!is_late(start + PAIR_LATE_NS));
		crowd_turn(&c);
		for (i = 0; i < SENDERS; i++)
			take_ends(i);
	}
	for (i = 0; i < SENDERS; i++) {
		least = ended[i] < least ? ended[i] : least;
		most = ended[i] > most ? ended[i] : most;
	}
	CHECK_GE(least, is_inline ? most / 2 : 1);
	crowd_close(&c);
	free(bytes);
	return 0;
}
