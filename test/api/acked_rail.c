/* SPDX-License-Identifier: Apache-2.0 */
/* A rail breaks that acknowledged writes with URCCL_SQE_ACKED and was never asked whether they are
 * placed. Their entries have ended; the next FENCE behind them fails and says why, so that no
 * notification tells of bytes that nobody can prove any more, and the peer hears that it does not
 * come. The one after that is as any other. So it is for each group that lost some, and for those
 * alone; and of more groups than the ring remembers the entries wait for their proof. */
#include "pair.h"

#define LEN    (1u << 20)
#define DEPTH  4u
#define ROUNDS 12u
#define GROUPS 6u

static struct pair p;
static struct target t;
static uint8_t local[DEPTH * LEN];
static uint32_t told, lost;

/* Returns which rails they went by, a bit each. */
static uint32_t write_all(void)
{
	struct urccl_sqe *sqe;
	struct urccl_cqe cqe;
	uint32_t i, rails = 0;

	for (i = 0; i < DEPTH; i++) {
		sqe = side_sqe(&p.a);
		urccl_prep_write(sqe, t.remote, local + i * LEN, LEN, (uint64_t)i * LEN);
		urccl_sqe_add_flags(sqe, URCCL_SQE_ACKED);
	}
	CHECK_EQ(urccl_submit(p.a.ring), DEPTH);
	for (i = 0; i < DEPTH; i++) {
		side_take(&p.a, &p.b, &cqe, NULL);
		CHECK_EQ(cqe.res, LEN);
		CHECK(!(cqe.flags & URCCL_CQE_REMOTE_QUIET));
		rails |= cqe.path >> URCCL_PATH_RAILS_SHIFT & 0xff;
	}
	return rails;
}

static struct urccl_cqe fenced_group(uint32_t group, uint64_t tag, int64_t res)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);
	struct urccl_cqe cqe, note;

	urccl_prep_notify(sqe, p.a.peer, tag, NULL, 0);
	urccl_sqe_add_flags(sqe, URCCL_SQE_FENCE);
	urccl_sqe_set_group(sqe, group);
	cqe = pair_run(&p, &p.a, sqe);
	CHECK_EQ(cqe.res, res);
	side_take(&p.b, &p.a, &note, NULL);
	CHECK_EQ(urccl_cqe_kind(&note), URCCL_KIND_NOTE);
	CHECK_EQ(note.tag, tag);
	CHECK_EQ(note.res, res);
	return cqe;
}

static struct urccl_cqe fenced(uint64_t tag, int64_t res)
{
	return fenced_group(0, tag, res);
}

/* A write of each of n groups behind from, and the rails it went by; returns how many were
 * remembered. */
static uint32_t write_groups(uint32_t from, uint32_t n, uint32_t *rails)
{
	uint32_t remembered = 0, i;
	struct urccl_sqe *sqe;
	struct urccl_cqe cqe;

	for (i = 0; i < n; i++) {
		sqe = side_sqe(&p.a);
		urccl_prep_write(sqe, t.remote, local, LEN / 8, 0);
		urccl_sqe_add_flags(sqe, URCCL_SQE_ACKED);
		urccl_sqe_set_group(sqe, from + i + 1);
		cqe = pair_run(&p, &p.a, sqe);
		CHECK_EQ(cqe.res, LEN / 8);
		remembered += !(cqe.flags & URCCL_CQE_REMOTE_QUIET);
		if (rails)
			rails[i] = cqe.path >> URCCL_PATH_RAILS_SHIFT & 0xff;
	}
	return remembered;
}

static void breaks_groups(void)
{
	uint32_t rails[GROUPS], all, pulled, i, lost_by;
	struct urccl_cqe cqe;

	fenced(7, 0);
	CHECK_EQ(write_groups(0, GROUPS, rails), GROUPS);
	for (all = i = 0; i < GROUPS; i++)
		all |= rails[i];
	pulled = all & 1 ? 0 : 1;
	pair_pull(&p, pulled, 1);
	pair_rails(&p, 1u << pulled);
	fenced_group(GROUPS + 1, 8, 0); /* it wrote nothing */
	for (i = 0; i < GROUPS; i++) {
		lost_by = rails[i] >> pulled & 1;
		cqe = fenced_group(i + 1, 9, lost_by ? -ECANCELED : 0);
		if (lost_by)
			check_sentence(&p.a, &cqe, "acknowledged only");
		fenced_group(i + 1, 10, 0);
	}
	fenced(11, 0);
	pair_pull(&p, pulled, 0);
	pair_rails(&p, 0);
}

/* A FENCE of any group is told for all. */
static void breaks_for_any(void)
{
	uint32_t rails[GROUPS], i, pulled;

	CHECK_EQ(write_groups(0, GROUPS, rails), GROUPS);
	pulled = rails[0] & 1 ? 0 : 1;
	pair_pull(&p, pulled, 1);
	pair_rails(&p, 1u << pulled);
	fenced(12, -ECANCELED);
	for (i = 0; i < GROUPS; i++)
		fenced_group(i + 1, 13, 0);
	pair_pull(&p, pulled, 0);
	pair_rails(&p, 0);
}

/* One that finds no room waits for the proof of the rails that it went by, and there is room again
 * as soon as no rail owes any: how soon that is hangs on which rails they chose. */
static void remembers(void)
{
	uint32_t room = p.a.ring->entries / 2, kept = 0, owing = 0, rails, i;

	for (i = 0; i < room + 5; i++) {
		if (write_groups(i, 1, &rails)) {
			CHECK_LE(++kept, room);
			owing |= rails;
		} else {
			CHECK_EQ(kept, room);
			owing &= ~rails;
			kept = owing ? kept : 0;
		}
	}
	fenced(14, 0);
	CHECK_EQ(write_groups(0, 3, NULL), 3);
	fenced(15, 0);
}

static void breaks(uint32_t rail)
{
	struct urccl_cqe cqe;

	pattern_fill(local, sizeof(local), 0, rail + 1);
	CHECK(write_all() >> rail & 1);
	pair_pull(&p, rail, 1);
	pair_rails(&p, 1u << rail);
	cqe = fenced(1, -ECANCELED);
	check_sentence(&p.a, &cqe, "acknowledged only");
	fenced(2, 0);
	write_all(); /* by the rail that is left */
	fenced(3, 0);
	CHECK(pattern_holds(t.bytes, sizeof(local), 0, rail + 1));
	pair_pull(&p, rail, 0);
	pair_rails(&p, 0);
}

/* What was lost was told to one FENCE, and may be to one more. */
static void settles(void)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);
	struct urccl_cqe note;

	urccl_prep_notify(sqe, p.a.peer, 5, NULL, 0);
	urccl_sqe_add_flags(sqe, URCCL_SQE_FENCE);
	pair_run(&p, &p.a, sqe);
	side_take(&p.b, &p.a, &note, NULL);
	CHECK_EQ(note.tag, 5);
	fenced(6, 0);
}

/* It breaks, at any moment, while the notification waits behind them: what is told is there. */
static void breaks_midway(uint32_t rail, uint64_t version)
{
	uint64_t until = now_ns() + version * 700000;
	struct urccl_sqe *sqe;
	struct urccl_cqe cqe, note;
	uint32_t i;

	pattern_fill(local, sizeof(local), 0, version);
	for (i = 0; i < DEPTH; i++) {
		sqe = side_sqe(&p.a);
		urccl_prep_write(sqe, t.remote, local + i * LEN, LEN, (uint64_t)i * LEN);
		urccl_sqe_add_flags(sqe, URCCL_SQE_ACKED | URCCL_SQE_SKIP_SUCCESS);
	}
	sqe = side_sqe(&p.a);
	urccl_prep_notify(sqe, p.a.peer, version, NULL, 0);
	urccl_sqe_add_flags(sqe, URCCL_SQE_FENCE);
	urccl_sqe_set_data64(sqe, version);
	CHECK_EQ(urccl_submit(p.a.ring), DEPTH + 1);
	while (now_ns() < until) {
		side_turn(&p.a);
		side_turn(&p.b);
	}
	pair_pull(&p, rail, 1);
	cqe = pair_end(&p, &p.a, version);
	CHECK(!cqe.res || cqe.res == -ECANCELED);
	side_take(&p.b, &p.a, &note, NULL);
	while (urccl_cqe_kind(&note) != URCCL_KIND_NOTE)
		side_take(&p.b, &p.a, &note, NULL);
	CHECK_EQ(note.tag, version);
	CHECK_EQ(note.res, cqe.res);
	CHECK(note.res || pattern_holds(t.bytes, sizeof(local), 0, version));
	told += !note.res;
	lost += note.res != 0;
	pair_rails(&p, 1u << rail);
	pair_pull(&p, rail, 0);
	pair_rails(&p, 0);
	if (note.res)
		settles();
}

/* The remote goes while its peer is asked for proof: that ends in order. */
static void forgets(void)
{
	struct urccl_sqe *sqe;
	struct urccl_cqe note;

	write_all();
	sqe = side_sqe(&p.a);
	urccl_prep_notify(sqe, p.a.peer, 4, NULL, 0);
	urccl_sqe_add_flags(sqe, URCCL_SQE_FENCE);
	urccl_sqe_set_data64(sqe, 4);
	CHECK_EQ(urccl_submit(p.a.ring), 1);
	side_turn(&p.a);
	side_turn(&p.a);
	CHECK_EQ(urccl_unimport(p.a.ctx, t.remote), 0);
	CHECK_EQ(pair_end(&p, &p.a, 4).res, 0);
	side_take(&p.b, &p.a, &note, NULL);
	CHECK_EQ(note.tag, 4);
	CHECK_EQ(urccl_import(p.a.ctx, p.a.peer, &t.advert, 1, &t.remote), 0);
}

int main(int argc, char **argv)
{
	uint64_t i;

	pair_options(&p, argc, argv);
	p.faults = "rails=2,rate=200m,early=100%,delay=1ms..1ms";
	pair_open(&p);
	target_open(&p, &t, sizeof(local), 0);
	side_register(&p.a, local, sizeof(local), 0);
	breaks(0);
	breaks(1);
	breaks_groups();
	breaks_for_any();
	remembers();
	for (i = 1; i <= ROUNDS || (!lost && i <= 10 * ROUNDS); i++)
		breaks_midway(i % 2, i);
	printf("%u told, %u lost\n", told, lost);
	CHECK(told);
	CHECK(lost);
	forgets();
	target_close(&p, &t);
	pair_close(&p);
	return 0;
}
