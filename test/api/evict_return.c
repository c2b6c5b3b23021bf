/* SPDX-License-Identifier: Apache-2.0 */
/* A peer whose data path was let go: what brings it back, from either side, and what ends while it
 * is away. a may have one path and has two peers, b and other. */
#include "meet.h"

#define LEN 65536u
#define RW  (URCCL_RIGHT_READ | URCCL_RIGHT_WRITE)

static struct pair p;
static struct side other;
static struct urccl_peer b;
static struct target t;
static uint8_t *local;
static uint32_t cooled, returned;

/* Of the control thread of a. */
static void heard(void *arg, int level, const char *text)
{
	(void)arg;
	(void)level;
	if (strstr(text, "is idle: its data path is closed"))
		__atomic_fetch_add(&cooled, 1, __ATOMIC_RELAXED);
	if (strstr(text, "has a data path again"))
		__atomic_fetch_add(&returned, 1, __ATOMIC_RELAXED);
}

/* A peer that has its end of the path may be heard before our context has said so of ours. */
static void comes_back(void)
{
	uint64_t until = now_ns() + PAIR_LATE_NS;

	while (!side_is_warm(&p.a, b)) {
		side_turn(&p.b);
		CHECK(!is_late(until));
	}
}

static int64_t notify_other(void)
{
	int64_t res = side_tell(&p.a, &other, other.peer.id, 1);

	CHECK_EQ(side_event(&other, &p.a, URCCL_KIND_NOTE, NULL).tag, 1);
	return res;
}

/* a uses the other until b's path is gone at both ends. */
static void cool(void)
{
	uint64_t until = now_ns() + PAIR_LATE_NS;

	while (side_is_warm(&p.a, b) || side_is_warm(&p.b, p.b.peer)) {
		CHECK_EQ(notify_other(), 0);
		side_turn(&p.b);
		CHECK(!is_late(until));
	}
}

static struct urccl_sqe *write_entry(uint64_t id)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);

	urccl_prep_write(sqe, t.remote, local, LEN, 0);
	urccl_sqe_set_data64(sqe, id);
	return sqe;
}

/* ---- what brings it back ---- */

/* It may have been let go again meanwhile. */
static void returns(uint32_t before)
{
	uint64_t until = now_ns() + PAIR_LATE_NS;

	while (__atomic_load_n(&returned, __ATOMIC_RELAXED) == before) {
		side_turn(&p.b);
		CHECK(!is_late(until));
	}
}

static void by_entry(void)
{
	uint64_t version;
	uint32_t before;

	for (version = 1; version <= 3; version++) {
		cool();
		before = __atomic_load_n(&returned, __ATOMIC_RELAXED);
		pattern_fill(local, LEN, 0, version);
		CHECK_EQ(pair_run(&p, &p.a, write_entry(version)).res, LEN);
		CHECK(pattern_holds(t.bytes, LEN, 0, version));
		returns(before);
	}
}

static void by_warm(void)
{
	struct urccl_sqe *sqe;
	uint32_t before;

	cool();
	before = __atomic_load_n(&returned, __ATOMIC_RELAXED);
	sqe = side_sqe(&p.a);
	urccl_prep_warm(sqe, b);
	urccl_sqe_set_data64(sqe, 5);
	CHECK_EQ(pair_run(&p, &p.a, sqe).res, 0);
	returns(before);
}

/* Each in its order, also when several wait. */
static void by_notes(void)
{
	struct urccl_cqe cqe;
	struct urccl_sqe *sqe;
	uint32_t i;

	cool();
	for (i = 0; i < 8; i++) {
		sqe = write_entry(i);
		urccl_sqe_set_notify(p.a.ring, sqe, 100 + i, NULL, 0);
		urccl_sqe_add_flags(sqe, i ? URCCL_SQE_FENCE : 0);
	}
	CHECK_EQ(urccl_submit(p.a.ring), 8);
	for (i = 0; i < 8; i++) {
		side_take(&p.a, &p.b, &cqe, NULL);
		CHECK_EQ(cqe.user_data, i);
		CHECK_EQ(cqe.res, LEN);
	}
	for (i = 0; i < 8; i++)
		CHECK_EQ(side_event(&p.b, &p.a, URCCL_KIND_NOTE, NULL).tag, 100 + i);
	cool();
	CHECK_EQ(side_tell(&p.b, &p.a, p.b.peer.id, 7), 0);
	CHECK_EQ(side_event(&p.a, &p.b, URCCL_KIND_NOTE, NULL).tag, 7);
	comes_back();
}

/* Both ends at the same time. */
static void by_both(void)
{
	struct urccl_sqe *sqe;
	struct urccl_cqe cqe;
	uint32_t i;

	for (i = 0; i < 5; i++) {
		cool();
		write_entry(9);
		sqe = side_sqe(&p.b);
		urccl_prep_notify(sqe, p.b.peer, 8, NULL, 0);
		urccl_sqe_set_data64(sqe, 10);
		CHECK_EQ(urccl_submit(p.b.ring), 1);
		CHECK_EQ(urccl_submit(p.a.ring), 1);
		side_take(&p.b, &p.a, &cqe, NULL);
		CHECK_EQ(cqe.user_data, 10);
		CHECK_EQ(cqe.res, 0);
		side_take(&p.a, &p.b, &cqe, NULL);
		if (urccl_cqe_kind(&cqe) == URCCL_KIND_NOTE)
			side_take(&p.a, &p.b, &cqe, NULL);
		else
			CHECK_EQ(side_event(&p.a, &p.b, URCCL_KIND_NOTE, NULL).tag, 8);
	}
}

/* An entry that fails before it begins promised a notification: the peer hears. */
static void by_failure(void)
{
	struct urccl_sqe *sqe;
	struct urccl_cqe cqe;

	cool();
	sqe = write_entry(11);
	sqe->off = t.len;
	urccl_sqe_set_notify(p.a.ring, sqe, 12, NULL, 0);
	CHECK_EQ(pair_run(&p, &p.a, sqe).res, -ERANGE);
	cqe = side_event(&p.b, &p.a, URCCL_KIND_NOTE, NULL);
	CHECK_EQ(cqe.tag, 12);
	CHECK_EQ(cqe.res, -ERANGE);
}

/* ---- what ends meanwhile ---- */

static void revoked(void)
{
	static uint8_t there[64];
	struct urccl_region region = side_register(&p.b, there, sizeof(there), RW);
	struct urccl_advert ad;
	struct urccl_remote remote;
	struct urccl_sqe *sqe;

	CHECK_EQ(urccl_advertise(p.b.ctx, region, 0, 64, RW, 0, &ad), 0);
	CHECK_EQ(urccl_import(p.a.ctx, b, &ad, 1, &remote), 0);
	sqe = side_sqe(&p.a);
	urccl_prep_write(sqe, remote, local, 64, 0);
	urccl_sqe_set_data64(sqe, 13);
	CHECK_EQ(pair_run(&p, &p.a, sqe).res, 64);
	cool();
	CHECK_EQ(urccl_revoke(p.b.ctx, region), 0);
	CHECK_EQ(urccl_unregister(p.b.ctx, region), 0);
	sqe = side_sqe(&p.a);
	urccl_prep_write(sqe, remote, local, 64, 0);
	urccl_sqe_set_data64(sqe, 14);
	CHECK_EQ(pair_run(&p, &p.a, sqe).res, -ESTALE);
	CHECK_EQ(urccl_unimport(p.a.ctx, remote), 0);
}

/* Nobody drives b: entries that wait for it end by their deadline or are cancelled; b comes back
 * when it is driven. */
static void waits(void)
{
	struct urccl_sqe *sqe;
	struct urccl_cqe cqe;

	if (!(p.b.ring->flags & URCCL_RING_INLINE))
		return;
	cool();
	sqe = write_entry(15);
	urccl_sqe_set_deadline_us(sqe, 30000);
	sqe = write_entry(16);
	CHECK_EQ(urccl_submit(p.a.ring), 2);
	side_take(&p.a, NULL, &cqe, NULL);
	CHECK_EQ(cqe.user_data, 15);
	CHECK_EQ(cqe.res, -ETIMEDOUT);
	sqe = side_sqe(&p.a);
	urccl_prep_cancel(sqe, URCCL_CANCEL_BY_USER_DATA, 16);
	urccl_sqe_set_data64(sqe, 17);
	CHECK_EQ(urccl_submit(p.a.ring), 1);
	side_take(&p.a, NULL, &cqe, NULL);
	CHECK_EQ(cqe.user_data, 16);
	CHECK_EQ(cqe.res, -ECANCELED);
	side_take(&p.a, NULL, &cqe, NULL);
	CHECK_EQ(cqe.user_data, 17);
	CHECK_EQ(pair_run(&p, &p.a, write_entry(18)).res, LEN);
}

/* A CLOSE tells it of its end as ever. */
static void closed(void)
{
	struct urccl_sqe *sqe;
	struct urccl_cqe cqe;

	cool();
	CHECK_EQ(urccl_unimport(p.a.ctx, t.remote), 0);
	sqe = side_sqe(&p.a);
	urccl_prep_close(sqe, b);
	urccl_sqe_set_data64(sqe, 19);
	CHECK_EQ(urccl_submit(p.a.ring), 1);
	do /* its own LOST may come first */
		side_take(&p.a, &p.b, &cqe, NULL);
	while (urccl_cqe_kind(&cqe) == URCCL_KIND_LOST);
	CHECK_EQ(cqe.user_data, 19);
	CHECK_EQ(cqe.res, 0);
	cqe = side_event(&p.b, &p.a, URCCL_KIND_LOST, NULL);
	CHECK_EQ(cqe.res, 0);
	CHECK_EQ(cqe.peer, p.b.peer.id);
}

static void begin(int argc, char **argv)
{
	uint32_t flags;

	pair_options(&p, argc, argv);
	flags = p.params.flags;
	pair_sim(&p);
	side_open(&p, &p.b);
	side_open(&p, &other);
	p.params.flags = 0;
	p.params.max_warm = 1;
	p.params.log = heard;
	p.params.log_level = URCCL_LOG_INFO;
	side_open(&p, &p.a);
	p.params.flags = flags;
	side_accept(&p.b, 1);
	side_accept(&other, 1);
	side_connect(&p.a, &p.b);
	b = p.a.peer;
	side_connect(&p.a, &other);
	other.peer = p.a.peer;
	p.a.peer = b;
	side_watch(&p.a, (struct urccl_peer){0}, 2);
	side_watch(&p.b, (struct urccl_peer){0}, 2);
	side_watch(&other, (struct urccl_peer){0}, 2);
	local = malloc(LEN);
	CHECK(local);
	side_register(&p.a, local, LEN, 0);
	target_open(&p, &t, LEN, 1);
}

int main(int argc, char **argv)
{
	begin(argc, argv);
	by_entry();
	by_warm();
	by_notes();
	by_both();
	by_failure();
	revoked();
	waits();
	closed();
	CHECK_GE(__atomic_load_n(&cooled, __ATOMIC_RELAXED), 10);
	CHECK_GE(__atomic_load_n(&returned, __ATOMIC_RELAXED), 10);
	side_close(&other);
	pair_close(&p);
	return 0;
}
