/* SPDX-License-Identifier: Apache-2.0 */
/* CANCEL by each of its six keys: every match ends, each once, before the CANCEL's own CQE, which
 * counts those that it ended; others are left alone; what was cancelled is quiet at both ends where
 * the peer answers, so that both buffers can be used for something else at once. */
#include "pair.h"

#define N	 64u
#define LEN	 (1u << 20)
#define MARK	 1000u
#define HOUR_NS	 3600000000000ull
#define WATCHING 0x3a7cu /* the pair's own WATCH */

static struct pair p;
static struct target t, other;
static uint8_t *local;
static struct urccl_region region;

static void submit_writes(struct urccl_remote remote)
{
	struct urccl_sqe *sqe;
	uint32_t i;

	for (i = 0; i < N; i++) {
		sqe = side_sqe(&p.a);
		if (i % 2)
			urccl_prep_read(sqe, remote, local + (i % 8) * LEN, LEN, (i % 8) * LEN);
		else
			urccl_prep_write(sqe, remote, local + (i % 8) * LEN, LEN, (i % 8) * LEN);
		urccl_sqe_set_region(sqe, region);
		urccl_sqe_set_group(sqe, 1 + i / 8);
		urccl_sqe_set_data64(sqe, i / 8);
	}
}

static void submit_cancel(enum urccl_cancel_by by, uint64_t key)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);

	urccl_prep_cancel(sqe, by, key);
	urccl_sqe_set_data64(sqe, MARK);
	CHECK_GE(urccl_submit(p.a.ring), 1);
}

/* Takes everything; returns the CANCEL's res. first..last are the user_data that it means. */
static int64_t take_all(uint32_t entries, uint64_t first, uint64_t last)
{
	uint32_t hit = 0, ended = 0, done = 0, left = entries;
	struct urccl_cqe cqe;
	int64_t res = 0;

	while (left || !done) {
		side_take(&p.a, &p.b, &cqe, NULL);
		if (pair_is_outcome(&p, &cqe))
			continue;
		CHECK_EQ(cqe.flags & URCCL_CQE_MORE, 0);
		if (cqe.user_data == MARK) {
			CHECK_EQ(ended, hit);
			res = cqe.res;
			done = 1;
			continue;
		}
		left--;
		if (cqe.res != LEN) {
			CHECK_EQ(cqe.res, -ECANCELED);
			CHECK(cqe.user_data == WATCHING || cqe.flags & URCCL_CQE_REMOTE_QUIET);
			CHECK(cqe.user_data >= first && cqe.user_data <= last);
			check_sentence(&p.a, &cqe, "cancelled");
			CHECK(!done);
			hit++;
			ended++;
		}
	}
	CHECK(res == (int64_t)hit || (!hit && res == -EALREADY));
	return res;
}

static void check_quiet(void)
{
	struct urccl_cqe cqe;
	uint32_t i;

	memset(local, 0x11, 8ull * LEN);
	memset(t.bytes, 0x22, 8ull * LEN);
	for (i = 0; i < 200; i++)
		side_take_within(&p.a, &p.b, 10000, &cqe, NULL);
	for (i = 0; i < 8 * LEN; i += 61)
		CHECK(local[i] == 0x11 && t.bytes[i] == 0x22);
}

static void by_key(enum urccl_cancel_by by, uint64_t key, uint64_t first, uint64_t last)
{
	submit_writes(t.remote);
	submit_cancel(by, key);
	take_all(N, first, last);
	check_quiet();
}

/* Vectors that name the region of their memory in their second segment, or leave it to be looked
 * up. */
static void submit_vectors(uint32_t named)
{
	static struct urccl_seg segs[N][2];
	struct urccl_sqe *sqe;
	uint32_t i, k;

	for (i = 0; i < N; i++) {
		for (k = 0; k < 2; k++)
			segs[i][k] = (struct urccl_seg){.addr = (uint64_t)(uintptr_t)local +
								(2 * (i % 8) + k) * (LEN / 2),
							.len = LEN / 2,
							.off = (2 * (i % 8) + k) * (LEN / 2),
							.region = k ? named : 0,
							.remote = t.remote.id};
		sqe = side_sqe(&p.a);
		if (i % 2)
			urccl_prep_readv(sqe, p.a.peer, segs[i], 2);
		else
			urccl_prep_writev(sqe, p.a.peer, segs[i], 2);
		urccl_sqe_set_data64(sqe, i / 8);
	}
}

static void by_segment(void)
{
	submit_vectors(region.id);
	submit_cancel(URCCL_CANCEL_BY_REGION, region.id);
	CHECK(take_all(N, 0, N) != -ENOENT);
	check_quiet();
}

/* Entries that name no region match no key. */
static void by_no_name(void)
{
	struct urccl_cqe cqe;
	uint32_t left;

	submit_vectors(0);
	submit_cancel(URCCL_CANCEL_BY_REGION, region.id);
	for (left = N + 1; left; left--) {
		side_take(&p.a, &p.b, &cqe, NULL);
		CHECK_EQ(cqe.res, cqe.user_data == MARK ? -ENOENT : (int64_t)LEN);
	}
}

static void none_matches(void)
{
	submit_cancel(URCCL_CANCEL_BY_USER_DATA, 77777);
	CHECK_EQ(pair_end(&p, &p.a, MARK).res, -ENOENT);
	submit_writes(t.remote);
	submit_cancel(URCCL_CANCEL_BY_REMOTE, other.remote.id);
	{
		uint32_t left = N + 1;
		struct urccl_cqe cqe;

		for (; left; left--) {
			side_take(&p.a, &p.b, &cqe, NULL);
			CHECK_EQ(cqe.res, cqe.user_data == MARK ? -ENOENT : (int64_t)LEN);
		}
	}
}

/* An entry that waits for its turn, of a group, and one of another. */
static void of_a_group(void)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);
	uint32_t i;

	urccl_prep_timeout(sqe, HOUR_NS, 0, 0);
	urccl_sqe_set_data64(sqe, 4241);
	for (i = 1; i <= 2; i++) {
		sqe = side_sqe(&p.a);
		urccl_prep_write(sqe, t.remote, local, 64, 0);
		urccl_sqe_add_flags(sqe, URCCL_SQE_DRAIN);
		urccl_sqe_set_group(sqe, i);
		urccl_sqe_set_data64(sqe, i);
	}
	submit_cancel(URCCL_CANCEL_BY_GROUP, 1);
	CHECK_EQ(pair_end(&p, &p.a, 1).res, -ECANCELED);
	CHECK_EQ(pair_end(&p, &p.a, MARK).res, 1);
	submit_cancel(URCCL_CANCEL_BY_GROUP, 3);
	CHECK_EQ(pair_end(&p, &p.a, MARK).res, -ENOENT);
	submit_cancel(URCCL_CANCEL_BY_USER_DATA, 4241);
	CHECK_EQ(pair_end(&p, &p.a, 4241).res, -ECANCELED);
	CHECK_EQ(pair_end(&p, &p.a, MARK).res, 1);
	CHECK_EQ(pair_end(&p, &p.a, 2).res, 64);
}

/* ACCEPT and WATCH live on until somebody ends them. */
static void multishot(void)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);
	struct urccl_cqe cqe;

	urccl_prep_accept(sqe);
	urccl_sqe_set_data64(sqe, 4242);
	submit_cancel(URCCL_CANCEL_BY_USER_DATA, 4242);
	side_take(&p.a, &p.b, &cqe, NULL);
	CHECK_EQ(cqe.user_data, 4242);
	CHECK_EQ(cqe.res, -ECANCELED);
	CHECK_EQ(pair_end(&p, &p.a, MARK).res, 1);
}

int main(int argc, char **argv)
{
	pair_begin(&p, argc, argv);
	target_open(&p, &t, 8ull * LEN, 0);
	target_open(&p, &other, 4096, 0);
	local = malloc(8ull * LEN);
	CHECK(local);
	memset(local, 1, 8ull * LEN);
	region = side_register(&p.a, local, 8ull * LEN, 0);
	by_key(URCCL_CANCEL_BY_USER_DATA, 3, 3, 3);
	by_key(URCCL_CANCEL_BY_REGION, region.id, 0, N);
	by_key(URCCL_CANCEL_BY_REMOTE, t.remote.id, 0, N);
	by_key(URCCL_CANCEL_BY_GROUP, 4, 3, 3);
	of_a_group();
	by_segment();
	by_no_name();
	none_matches();
	multishot();
	/* These end the test's own WATCH too. */
	submit_writes(t.remote);
	submit_cancel(URCCL_CANCEL_BY_ALL, 0);
	take_all(N + 1, 0, UINT64_MAX);
	by_key(URCCL_CANCEL_BY_PEER, p.a.peer.id, 0, N);
	target_close(&p, &other);
	target_close(&p, &t);
	pair_close(&p);
	return 0;
}
