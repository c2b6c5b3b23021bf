/* SPDX-License-Identifier: Apache-2.0 */
/* Entries go down and completions come up in order, the full ring is the one refusal, and the
 * counters may wrap. */
#include "ring_rig.h"

#define ENTRIES 8u

static void check_seen(struct ring *r, uint32_t n, uint64_t data)
{
	struct urccl_cqe *cqe, *cqes[2 * ENTRIES];
	uint32_t head, i = 0;

	CHECK_EQ(urccl_cq_ready(&r->pub), n);
	CHECK_EQ(urccl_peek_batch_cqe(&r->pub, cqes, 2 * ENTRIES), n);
	urccl_for_each_cqe(&r->pub, head, cqe) {
		CHECK(cqe == cqes[i]);
		CHECK_EQ(cqe->user_data, data + i);
		i++;
	}
	CHECK_EQ(i, n);
	urccl_cq_advance(&r->pub, n);
	CHECK(!urccl_peek_cqe(&r->pub));
}

static void test_full(struct ring *r)
{
	struct urccl_sqe sqe;
	uint32_t i;

	rig_submit(r, ENTRIES, 0, 100);
	CHECK(!urccl_get_sqe(&r->pub));
	CHECK_EQ(urccl_sq_space_left(&r->pub), 0);
	/* Room comes with the CQE that was seen, not with the entry taken or ended. */
	for (i = 0; i < ENTRIES; i++) {
		sqe = rig_take(r);
		CHECK_EQ(sqe.user_data, 100 + i);
		CHECK(!urccl_get_sqe(&r->pub));
		rig_end(r, &sqe);
		CHECK_EQ(urccl_cq_ready(&r->pub), i);
		CHECK_EQ(ring_publish(r), 0);
		CHECK_EQ(urccl_cq_ready(&r->pub), i + 1);
		CHECK(!urccl_get_sqe(&r->pub));
	}
	check_seen(r, ENTRIES, 100);
	CHECK_EQ(urccl_sq_space_left(&r->pub), ENTRIES);
}

/* An entry that succeeds without a CQE gives its room back by itself. */
static void test_skip(struct ring *r)
{
	rig_submit(r, ENTRIES, URCCL_SQE_SKIP_SUCCESS, 0);
	CHECK_EQ(urccl_sq_space_left(&r->pub), 0);
	CHECK_EQ(rig_turn(r), ENTRIES);
	CHECK_EQ(urccl_sq_space_left(&r->pub), ENTRIES);
	CHECK_EQ(urccl_cq_ready(&r->pub), 0);
}

/* The walk ends before a CQE that is posted while it runs. */
static void test_walk(struct ring *r)
{
	struct urccl_cqe *cqe;
	struct urccl_sqe sqe;
	uint32_t head, n = 0;

	rig_submit(r, 2, 0, 0);
	sqe = rig_take(r);
	rig_end(r, &sqe);
	ring_publish(r);
	urccl_for_each_cqe(&r->pub, head, cqe) {
		CHECK_EQ(cqe->user_data, n++);
		CHECK_EQ(rig_turn(r), 1);
	}
	CHECK_EQ(n, 1);
	check_seen(r, 2, 0);
}

/* An outcome before the end has MORE: it takes a CQ slot and no room. */
static void test_more(struct ring *r)
{
	struct urccl_cqe cqe = {.user_data = 9, .res = -ETIMEDOUT, .flags = URCCL_CQE_MORE};
	struct urccl_sqe sqe;
	uint32_t i;

	rig_submit(r, ENTRIES, 0, 0);
	for (i = 0; i < ENTRIES; i++)
		*ring_post(r, 0) = cqe;
	ring_publish(r);
	CHECK_EQ(urccl_cq_ready(&r->pub), ENTRIES);
	urccl_cq_advance(&r->pub, ENTRIES);
	CHECK_EQ(urccl_sq_space_left(&r->pub), 0);
	for (i = 0; i < ENTRIES; i++) {
		sqe = rig_take(r);
		rig_end(r, &sqe);
	}
	ring_publish(r);
	check_seen(r, ENTRIES, 0);
	CHECK_EQ(urccl_sq_space_left(&r->pub), ENTRIES);
}

static void test_many(struct ring *r)
{
	uint32_t i, n;

	for (i = 0; i < 1000; i++) {
		n = 1 + i % ENTRIES;
		rig_submit(r, n, 0, i);
		CHECK_EQ(rig_turn(r), n);
		check_seen(r, n, i);
	}
}

int case_ring(void)
{
	static const uint32_t ages[] = {0, UINT32_MAX - 3, UINT32_MAX - 100, 0x7ffffffb,
					0x80000000};
	struct mailbox home;
	struct ring *r;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(ages); i++) {
		r = rig_open(ENTRIES, 3, 0, &home);
		rig_age(r, ages[i], ages[ARRAY_SIZE(ages) - 1 - i]);
		CHECK_EQ(urccl_ring_id(&r->pub), 7);
		CHECK_EQ(urccl_sq_space_left(&r->pub), ENTRIES);
		test_full(r);
		test_skip(r);
		test_walk(r);
		test_more(r);
		test_many(r);
		test_full(r);
		rig_close(r);
	}
	return 0;
}
