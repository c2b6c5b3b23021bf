/* SPDX-License-Identifier: Apache-2.0 */
/* Atomics that stop before the peer has answered, because of their deadline, a CANCEL, FORGET or
 * the loss of the peer: each ends in time and once, and what the entry says of itself is so: done
 * (and how the word was), not done and never to be, or unknown. */
#include "child.h"
#include "meet.h"

#define N	    200u /* more than are under way at a time */
#define DEADLINE_US 100000u
#define SLACK_NS    (PAIR_SLOW ? 5000000000ull : 250000000ull)
#define TRIES	    5u /* a thread may have had no processor for long */
#define LEN	    4096u

enum how { BY_DEADLINE, BY_CANCEL, BY_FORGET, HOWS };

static struct pair p;
static struct target t;

struct tally {
	uint32_t done, never, unknown;
};

static uint64_t total(void)
{
	return __atomic_load_n((uint64_t *)(void *)t.bytes, __ATOMIC_SEQ_CST);
}

static void submit_all(struct urccl_remote remote, uint32_t us)
{
	struct urccl_sqe *sqe;
	uint32_t i;

	for (i = 0; i < N; i++) {
		sqe = side_sqe(&p.a);
		urccl_prep_fetch_add(sqe, remote, 0, 1);
		urccl_sqe_set_data64(sqe, i);
		urccl_sqe_set_deadline_us(sqe, us);
	}
	CHECK_EQ(urccl_submit(p.a.ring), N);
}

static void count(struct tally *y, const struct urccl_cqe *cqe, int64_t res, const char *why)
{
	uint32_t flags = cqe->flags & (URCCL_CQE_REMOTE_QUIET | URCCL_CQE_UNKNOWN);

	CHECK_EQ(cqe->flags & URCCL_CQE_MORE, 0);
	if (cqe->res >= 0) {
		CHECK_EQ(cqe->res, 8);
		CHECK_EQ(flags, URCCL_CQE_REMOTE_QUIET);
		y->done++;
		return;
	}
	CHECK_EQ(cqe->res, res);
	check_sentence(&p.a, cqe, why);
	CHECK(flags == URCCL_CQE_REMOTE_QUIET || flags == URCCL_CQE_UNKNOWN);
	y->never += flags == URCCL_CQE_REMOTE_QUIET;
	y->unknown += flags == URCCL_CQE_UNKNOWN;
}

/* All N ends, and others that are no atomic's; b (may be NULL) works meanwhile. */
static struct tally take_all(struct side *other, int64_t res, const char *why)
{
	uint32_t seen[N] = {0}, ended = 0;
	struct tally y = {0, 0, 0};
	struct urccl_cqe cqe;

	while (ended < N) {
		side_take(&p.a, other, &cqe, NULL);
		if (cqe.user_data >= N)
			continue;
		CHECK(!seen[cqe.user_data]++);
		count(&y, &cqe, res, why);
		ended++;
	}
	return y;
}

static void stop(enum how how)
{
	struct urccl_sqe *sqe;

	if (how == BY_FORGET) {
		CHECK_EQ(urccl_unimport(p.a.ctx, t.remote), 0);
	} else if (how == BY_CANCEL) {
		sqe = side_sqe(&p.a);
		urccl_prep_cancel(sqe, URCCL_CANCEL_BY_PEER, p.a.peer.id);
		urccl_sqe_set_data64(sqe, N);
		/* The peer's word is waited for until then. */
		urccl_sqe_set_deadline_us(sqe, 10000000);
		CHECK_EQ(urccl_submit(p.a.ring), 1);
	}
}

/* What was said holds when the peer works again and takes all that was sent to it. */
static void check_word(const struct tally *y, uint64_t before)
{
	struct urccl_sqe *sqe;
	struct urccl_cqe cqe;
	uint64_t end;

	side_silent(&p.b, &p.a, 50000000);
	sqe = side_sqe(&p.a);
	CHECK_EQ(urccl_import(p.a.ctx, p.a.peer, &t.advert, 1, &t.remote), 0);
	urccl_prep_fetch_add(sqe, t.remote, 0, 0);
	urccl_sqe_set_data64(sqe, N + 1);
	CHECK_GE(urccl_submit(p.a.ring), 1);
	do {
		side_take(&p.a, &p.b, &cqe, NULL);
	} while (cqe.user_data != N + 1);
	CHECK_EQ(cqe.res, 8);
	end = total() - before;
	CHECK_EQ(cqe.old, total());
	CHECK_GE(end, y->done);
	CHECK_LE(end, y->done + y->unknown);
	printf("%u done, %u never, %u unknown: %u were\n", y->done, y->never, y->unknown,
	       (uint32_t)end);
}

/* The peer is an INLINE context that nobody drives. 1: it was over in time. */
static int asleep(enum how how)
{
	const char *why = how == BY_DEADLINE ? "100000 us"
			  : how == BY_CANCEL ? "cancelled"
					     : "urccl_unimport";
	uint64_t before = total(), start = now_ns();
	int64_t res = how == BY_DEADLINE ? -ETIMEDOUT : -ECANCELED;
	uint64_t within = (how == BY_CANCEL ? 1000000u : DEADLINE_US) * 1000ull + SLACK_NS;
	struct tally y;
	int in_time;

	submit_all(t.remote, how == BY_DEADLINE ? DEADLINE_US : 1000000);
	stop(how);
	y = take_all(NULL, res, why);
	in_time = now_ns() - start <= within;
	CHECK_EQ(y.done, 0);
	CHECK_GE(y.never, N - 64 - 64);
	check_word(&y, before);
	return in_time;
}

/* The peer works, so it says which were done: nothing is unknown. */
static void awake(void)
{
	uint64_t before = total();
	struct tally y;

	submit_all(t.remote, 20000000);
	stop(BY_CANCEL);
	y = take_all(&p.b, -ECANCELED, "cancelled");
	CHECK_EQ(y.unknown, 0);
	check_word(&y, before);
}

/* One with a notification that cannot be done tells the peer so. */
static void told(void)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);
	struct urccl_cqe cqe;

	urccl_prep_fetch_add(sqe, t.remote, 4, 1);
	urccl_sqe_set_notify(p.a.ring, sqe, 77, NULL, 0);
	urccl_sqe_set_data64(sqe, 1);
	CHECK_EQ(urccl_submit(p.a.ring), 1);
	side_take(&p.a, &p.b, &cqe, NULL);
	CHECK_EQ(cqe.res, -EINVAL);
	CHECK_EQ(cqe.flags, URCCL_KIND_OP | URCCL_CQE_REMOTE_QUIET);
	cqe = side_event(&p.b, &p.a, URCCL_KIND_NOTE, NULL);
	CHECK_EQ(cqe.tag, 77);
	CHECK_EQ(cqe.res, -EINVAL);
}

static void killed(int argc, char **argv)
{
	struct urccl_remote remote;
	struct child child;
	struct tally y = {0, 0, 0};
	struct urccl_cqe cqe;
	uint32_t ended = 0;

	pair_options(&p, argc, argv);
	if (p.transport == URCCL_TRANSPORT_SIM)
		return; /* within one process */
	child_start(&p, &child, LEN, NULL);
	side_open(&p, &p.a);
	child_connect(&p, &child);
	CHECK_EQ(urccl_import(p.a.ctx, p.a.peer, &child.advert, 1, &remote), 0);
	submit_all(remote, 20000000);
	side_take(&p.a, NULL, &cqe, NULL);
	CHECK_EQ(cqe.res, 8);
	child_kill(&child);
	for (ended = 1; ended < N; ended++) {
		side_take(&p.a, NULL, &cqe, NULL);
		count(&y, &cqe, -ECONNRESET, "");
	}
	printf("killed: %u done, %u never, %u unknown\n", y.done + 1, y.never, y.unknown);
	side_close(&p.a);
}

int main(int argc, char **argv)
{
	enum how how;
	uint32_t tries;

	child_main(argc, argv);
	killed(argc, argv);
	pair_begin_idle(&p, argc, argv);
	target_open(&p, &t, LEN, 0);
	for (how = BY_DEADLINE; how < HOWS; how++) {
		struct tally none = {0, 0, 0};

		check_word(&none, total()); /* and its key is here */
		for (tries = 1; !asleep(how); tries++)
			CHECK(tries < TRIES);
		awake();
		told();
	}
	target_close(&p, &t);
	pair_close(&p);
	return 0;
}
