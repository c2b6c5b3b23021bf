/* SPDX-License-Identifier: Apache-2.0 */
/* Small entries in mapped memory end as they are taken. Their outcome and statistics are those of
 * any entry, and they wait where LINK, DRAIN, FENCE or their group asks for it. */
#include "pair.h"

#define BIG  (1u << 20)
#define MOST 8192u /* of an entry that is copied as it is taken */

static struct pair p;
static struct target t;
static uint8_t big[BIG], small[2 * MOST];
static struct urccl_region region;

static struct urccl_sqe *write_of(const void *from, uint64_t len, uint64_t off, uint64_t data)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);

	urccl_prep_write(sqe, t.remote, from, len, off);
	urccl_sqe_set_data64(sqe, data);
	return sqe;
}

static void check_moved(const struct urccl_cqe *cqe, uint64_t len)
{
	CHECK_EQ(cqe->res, (int64_t)len);
	CHECK_EQ(cqe->wire, len);
	CHECK_EQ(urccl_cqe_kind(cqe), URCCL_KIND_OP);
	CHECK(cqe->flags & URCCL_CQE_REMOTE_QUIET);
	CHECK_EQ(cqe->path & URCCL_PATH_TRANSPORT, p.transport);
	CHECK_EQ(cqe->path & URCCL_PATH_BOUNCE_LOCAL, 0);
}

/* Also lengths that are not copied at once. */
static void outcomes_and_counts(void)
{
	static const uint64_t lens[] = {1, 8, 4096, MOST, MOST + 1};
	struct urccl_stats before = side_stats(&p.a), after;
	uint64_t bytes = 0;
	struct urccl_cqe cqe;
	uint32_t i;

	for (i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
		pattern_fill(small, lens[i], i, 1);
		cqe = pair_run(&p, &p.a, write_of(small, lens[i], i, 7));
		check_moved(&cqe, lens[i]);
		CHECK(pattern_holds(t.bytes + i, lens[i], i, 1));
		memset(small, 0, sizeof(small));
		urccl_prep_read(side_sqe(&p.a), t.remote, small, lens[i], i);
		urccl_submit(p.a.ring);
		side_take(&p.a, &p.b, &cqe, NULL);
		check_moved(&cqe, lens[i]);
		CHECK(pattern_holds(small, lens[i], i, 1));
		bytes += lens[i];
	}
	after = side_stats(&p.a);
	CHECK_EQ(after.bytes_written - before.bytes_written, bytes);
	CHECK_EQ(after.bytes_read - before.bytes_read, bytes);
	CHECK_EQ(after.chunks - before.chunks, 2 * i);
	/* For ThreadSanitizer the test's own waits end entries, too. */
	CHECK_GE(after.completed - before.completed, 2 * i);
	CHECK(PAIR_SLOW || after.completed - before.completed == 2 * i);
	CHECK_EQ(after.failed, before.failed);
}

static void silent_success(void)
{
	struct urccl_sqe *sqe = write_of(small, 8, 0, 1);
	struct urccl_cqe cqe;

	urccl_sqe_add_flags(sqe, URCCL_SQE_SKIP_SUCCESS);
	cqe = pair_run(&p, &p.a, write_of(small, 8, 64, 2));
	check_moved(&cqe, 8);
	CHECK(!memcmp(t.bytes, small, 8));
}

/* A small write with the flag comes after the big one before it. */
static void waits(uint32_t flag)
{
	struct urccl_sqe *sqe;
	uint32_t round;

	for (round = 1; round <= 20; round++) {
		memset(big, (int)round, BIG);
		memset(small, 100 + (int)round, MOST);
		sqe = write_of(big, BIG, 0, 1);
		if (flag == URCCL_SQE_LINK)
			urccl_sqe_add_flags(sqe, URCCL_SQE_LINK);
		sqe = write_of(small, MOST, BIG - MOST, 2);
		if (flag != URCCL_SQE_LINK)
			urccl_sqe_add_flags(sqe, flag);
		urccl_submit(p.a.ring);
		CHECK_EQ(pair_end(&p, &p.a, 1).res, BIG);
		CHECK_EQ(pair_end(&p, &p.a, 2).res, MOST);
		CHECK_EQ(t.bytes[BIG - MOST - 1], round);
		CHECK(!memcmp(t.bytes + BIG - MOST, small, MOST));
	}
}

static void refused(void)
{
	struct urccl_sqe *sqe = write_of(small, 8, t.len - 7, 1);
	struct urccl_cqe cqe;

	urccl_sqe_add_flags(sqe, URCCL_SQE_LINK);
	memset(t.bytes, 0, 8);
	memset(small, 5, 8);
	write_of(small, 8, 0, 2);
	urccl_submit(p.a.ring);
	cqe = pair_end(&p, &p.a, 1);
	CHECK_EQ(cqe.res, -ERANGE);
	CHECK_EQ(pair_end(&p, &p.a, 2).res, -ECANCELED);
	CHECK_EQ(t.bytes[0], 0);
	sqe = write_of(small + sizeof(small) - 4, 8, 0, 3);
	urccl_sqe_set_region(sqe, region);
	CHECK_EQ(pair_run(&p, &p.a, sqe).res, -ERANGE);
	urccl_prep_write(side_sqe(&p.a), t.remote, &p, 8, 0);
	urccl_submit(p.a.ring);
	side_take(&p.a, &p.b, &cqe, NULL);
	CHECK_EQ(cqe.res, -EFAULT);
	sqe = side_sqe(&p.b);
	urccl_prep_revoke(sqe, t.region);
	CHECK_EQ(pair_run(&p, &p.b, sqe).res, 0);
	CHECK_EQ(pair_run(&p, &p.a, write_of(small, 8, 0, 4)).res, -EACCES);
	CHECK_EQ(t.bytes[0], 0);
}

int main(int argc, char **argv)
{
	pair_begin(&p, argc, argv);
	target_open(&p, &t, BIG, 1);
	side_register(&p.a, big, sizeof(big), URCCL_RIGHT_READ);
	region = side_register(&p.a, small, sizeof(small), URCCL_RIGHT_READ);
	outcomes_and_counts();
	silent_success();
	waits(URCCL_SQE_FENCE);
	waits(URCCL_SQE_DRAIN);
	waits(URCCL_SQE_LINK);
	refused();
	pair_close(&p);
	return 0;
}
