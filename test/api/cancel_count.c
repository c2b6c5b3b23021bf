/* SPDX-License-Identifier: Apache-2.0 */
/* CANCEL of what cannot have ended: entries that wait for another, and entries under way to a peer
 * that does nothing meanwhile. Each that matches ends by it, whatever the peer answers then, all
 * others go on to their end, and it counts exactly. */
#include "pair.h"

#define GROUPS	 8u /* entries of one user_data */
#define N	 (8u * GROUPS)
#define LEN	 65536u
#define MARK	 1000u
#define HOLD	 2000u
#define UNHOLD	 2001u
#define HOLD_NS	 300000000000ull
#define WATCHING 0x3a7cu /* the pair's own WATCH */

static struct pair p;
static struct target targets[2];
static struct urccl_region regions[2];
static uint8_t *local;

static struct {
	uint32_t cancelled[GROUPS], whole[GROUPS];
	uint32_t others; /* ours that are no reads: cancelled */
	int64_t cancel;	 /* 0: not yet */
	int unheld;
} seen;

/* ---- entries ---- */

static uint64_t data_of(uint32_t i)
{
	return i / GROUPS;
}

static struct urccl_remote remote_of(uint32_t i)
{
	return targets[i % 2].remote;
}

static struct urccl_region region_of(uint32_t i)
{
	return regions[i / 2 % 2];
}

/* Reads: no link holds their bytes before they are answered. */
static void submit_reads(uint32_t flags)
{
	struct urccl_sqe *sqe;
	uint32_t i;

	for (i = 0; i < N; i++) {
		sqe = side_sqe(&p.a);
		urccl_prep_read(sqe, remote_of(i), local + i * LEN, LEN, 0);
		urccl_sqe_set_region(sqe, region_of(i));
		urccl_sqe_add_flags(sqe, flags);
		urccl_sqe_set_data64(sqe, data_of(i));
	}
	CHECK_GE(urccl_submit(p.a.ring), N);
}

static void submit_cancel(enum urccl_cancel_by by, uint64_t key, uint64_t user_data)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);

	urccl_prep_cancel(sqe, by, key);
	urccl_sqe_set_data64(sqe, user_data);
	CHECK_EQ(urccl_submit(p.a.ring), 1);
}

static uint64_t chunks(void)
{
	struct urccl_stats st = {.size = sizeof(st)};

	CHECK_EQ(urccl_get_stats(p.a.ctx, &st), 0);
	return st.chunks;
}

static void submit_moving(void)
{
	uint64_t before = chunks(), late = now_ns() + PAIR_LATE_NS;

	urccl_sim_freeze(p.sim, 1);
	submit_reads(0);
	while (chunks() == before) {
		CHECK(!is_late(late));
		side_turn(&p.a);
	}
}

static void submit_waiting(void)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);

	urccl_prep_timeout(sqe, HOLD_NS, 0, 0);
	urccl_sqe_set_data64(sqe, HOLD);
	submit_reads(URCCL_SQE_DRAIN);
}

/* ---- their ends ---- */

static void take(struct side *other)
{
	struct urccl_cqe cqe;

	do
		side_take(&p.a, other, &cqe, NULL);
	while (pair_is_outcome(&p, &cqe));
	CHECK_EQ(cqe.flags & URCCL_CQE_MORE, 0);
	if (cqe.user_data == MARK) {
		seen.cancel = cqe.res;
	} else if (cqe.user_data == UNHOLD) {
		seen.unheld = 1;
	} else if (cqe.user_data >= GROUPS) {
		CHECK(cqe.user_data == WATCHING || cqe.user_data == HOLD);
		CHECK_EQ(cqe.res, -ECANCELED);
		seen.others++;
	} else if (cqe.res == -ECANCELED) {
		CHECK(!seen.cancel); /* it comes after its targets */
		seen.cancelled[cqe.user_data]++;
	} else {
		CHECK_EQ(cqe.res, LEN);
		seen.whole[cqe.user_data]++;
	}
}

static int matches(enum urccl_cancel_by by, uint64_t key, uint32_t i)
{
	switch (by) {
	case URCCL_CANCEL_BY_USER_DATA:
		return key == data_of(i);
	case URCCL_CANCEL_BY_REMOTE:
		return key == remote_of(i).id;
	case URCCL_CANCEL_BY_REGION:
		return key == region_of(i).id;
	default:
		return 1;
	}
}

static uint32_t ended(void)
{
	uint32_t i, n = 0;

	for (i = 0; i < GROUPS; i++)
		n += seen.cancelled[i] + seen.whole[i];
	return n;
}

static void watch_again(void)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);

	urccl_prep_watch(sqe, p.a.peer);
	urccl_sqe_set_data64(sqe, WATCHING);
	CHECK_EQ(urccl_submit(p.a.ring), 1);
}

static void check_counts(enum urccl_cancel_by by, uint64_t key, uint32_t others)
{
	uint32_t due[GROUPS] = {0}, hits = others, i;

	for (i = 0; i < N; i++) {
		due[data_of(i)] += (uint32_t)matches(by, key, i);
		hits += (uint32_t)matches(by, key, i);
	}
	for (i = 0; i < GROUPS; i++)
		CHECK_EQ(seen.cancelled[i], due[i]);
	CHECK_EQ(seen.cancel, hits);
}

/* The second CANCEL is taken behind the first, and lets go what waits. */
static void one(int moving, enum urccl_cancel_by by, uint64_t key)
{
	uint32_t watch = by == URCCL_CANCEL_BY_PEER || by == URCCL_CANCEL_BY_ALL;
	uint32_t hold = !moving && by == URCCL_CANCEL_BY_ALL;

	memset(&seen, 0, sizeof(seen));
	if (moving)
		submit_moving();
	else
		submit_waiting();
	submit_cancel(by, key, MARK);
	submit_cancel(URCCL_CANCEL_BY_USER_DATA, HOLD, UNHOLD);
	while (!seen.unheld)
		take(NULL);
	urccl_sim_freeze(p.sim, 0);
	while (ended() < N || !seen.cancel)
		take(&p.b);
	CHECK_EQ(seen.others, watch + !moving);
	check_counts(by, key, watch + hold);
	if (watch)
		watch_again();
}

static void by_each_key(int moving)
{
	one(moving, URCCL_CANCEL_BY_USER_DATA, 3);
	one(moving, URCCL_CANCEL_BY_REGION, regions[0].id);
	one(moving, URCCL_CANCEL_BY_REMOTE, targets[1].remote.id);
	one(moving, URCCL_CANCEL_BY_PEER, p.a.peer.id);
	one(moving, URCCL_CANCEL_BY_ALL, 0);
}

/* The keys come while the peer works. */
static void warm(void)
{
	uint32_t i;

	for (i = 0; i < 2; i++) {
		struct urccl_sqe *sqe = side_sqe(&p.a);

		urccl_prep_read(sqe, targets[i].remote, local, LEN, 0);
		CHECK_EQ(pair_run(&p, &p.a, sqe).res, LEN);
	}
}

/* A device that reads by itself asks no peer. */
static int needs_peer(void)
{
	return p.transport == URCCL_TRANSPORT_SIM || p.transport == URCCL_TRANSPORT_TCP ||
	       p.transport == URCCL_TRANSPORT_SHM;
}

int main(int argc, char **argv)
{
	uint32_t i;

	pair_begin_idle(&p, argc, argv);
	local = calloc(N, LEN);
	CHECK(local);
	for (i = 0; i < 2; i++) {
		target_open(&p, &targets[i], LEN, 0);
		regions[i] = side_register(&p.a, local, (uint64_t)N * LEN, 0);
	}
	warm();
	by_each_key(0);
	if (needs_peer())
		by_each_key(1);
	for (i = 0; i < 2; i++) {
		target_close(&p, &targets[i]);
		CHECK_EQ(urccl_unregister(p.a.ctx, regions[i]), 0);
	}
	pair_close(&p);
	free(local);
	return 0;
}
