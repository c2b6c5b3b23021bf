/* SPDX-License-Identifier: Apache-2.0 */
/* While CLOSE waits for the word of a peer that does nothing, new entries to it fail at once with
 * -ECONNRESET; WATCH entries that have not had their turn end with the peer; the CLOSE comes after
 * all of them, and then the handle is stale. */
#include "pair.h"

#define LEN	(1u << 20)
#define CLOSING 700u
#define WAITING 800u

static struct pair p;
static struct target t;
static uint8_t *local;

static void begin(int argc, char **argv)
{
	struct urccl_sqe *sqe;

	pair_begin_idle(&p, argc, argv);
	side_register(&p.a, local, LEN, 0);
	target_open(&p, &t, LEN, 0);
	sqe = side_sqe(&p.a);
	urccl_prep_write(sqe, t.remote, local, 1, 0);
	CHECK_EQ(pair_run(&p, &p.a, sqe).res, 1);
}

/* A WATCH that waits for a TIMEOUT, and one that waits for that one's chain to be over. */
static void watch_later(void)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);

	urccl_prep_timeout(sqe, 3600000000000ull, 0, 0);
	urccl_sqe_add_flags(sqe, URCCL_SQE_LINK);
	urccl_sqe_set_data64(sqe, 1);
	sqe = side_sqe(&p.a);
	urccl_prep_watch(sqe, p.a.peer);
	urccl_sqe_set_data64(sqe, WAITING);
}

/* In flight, so that the peer's word is waited for. */
static void close_it(void)
{
	struct urccl_sqe *sqe;
	uint32_t i;

	for (i = 0; i < 4; i++) {
		sqe = side_sqe(&p.a);
		urccl_prep_notify(sqe, p.a.peer, 4, NULL, 0);
		urccl_sqe_set_data64(sqe, 2);
	}
	sqe = side_sqe(&p.a);
	urccl_prep_close(sqe, p.a.peer);
	urccl_sqe_set_data64(sqe, CLOSING);
	CHECK_GE(urccl_submit(p.a.ring), 5);
}

/* Entries one after another until the handle is stale, which only the CLOSE makes it. */
static void submit_until_stale(void)
{
	uint32_t ended = 0, lost = 0, late = 0, closed = 0, watch = 0, stale = 0, busy = 0;
	struct urccl_sqe *sqe;
	struct urccl_cqe cqe;

	while (!closed || !watch || ended < 4 || busy || !stale) {
		if (!busy++) {
			sqe = side_sqe(&p.a);
			urccl_prep_notify(sqe, p.a.peer, 5, NULL, 0);
			urccl_sqe_set_data64(sqe, 3);
			CHECK_EQ(urccl_submit(p.a.ring), 1);
		}
		side_take(&p.a, NULL, &cqe, NULL);
		if (pair_is_outcome(&p, &cqe))
			continue;
		CHECK_EQ(cqe.flags & URCCL_CQE_MORE, 0);
		if (urccl_cqe_kind(&cqe) == URCCL_KIND_LOST) {
			CHECK_EQ(cqe.res, 0);
			lost++;
		} else if (cqe.user_data == 2) {
			CHECK(cqe.res == -ECANCELED || cqe.res == -ECONNRESET);
			ended++;
		} else if (cqe.user_data == 3) {
			busy = 0;
			late += cqe.res == -ECONNRESET || cqe.res == -ECANCELED;
			stale += cqe.res == -ESTALE;
			CHECK(cqe.res < 0);
		} else if (cqe.user_data == WAITING) {
			CHECK(cqe.res < 0);
			watch++;
		} else {
			CHECK_EQ(cqe.user_data, CLOSING);
			CHECK_EQ(cqe.res, 0);
			CHECK_EQ(ended, 4);
			closed++;
		}
	}
	CHECK_EQ(lost, 1);
	CHECK_EQ(closed, 1);
	CHECK_EQ(watch, 1);
	printf("%u entries while it was being lost\n", late);
}

int main(int argc, char **argv)
{
	local = malloc(LEN);
	CHECK(local);
	begin(argc, argv);
	watch_later();
	close_it();
	submit_until_stale();
	pair_close(&p);
	return 0;
}
