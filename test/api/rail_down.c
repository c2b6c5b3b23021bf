/* SPDX-License-Identifier: Apache-2.0 */
/* A rail that is pulled in the middle of a transfer: every entry succeeds, all bytes are there, the
 * time lost is short, and both sides hear of it. Entries with NO_REPLAY may fail and say why. */
#include "pair.h"

#define LEN  (512u << 10)
#define N    16u
#define DEPTH 4u
#define LOSS 1000000000ull /* ns, at most */

static struct pair p;
static struct target t;
static uint8_t *local;

static void start(uint32_t i, int reads, uint32_t flags)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);
	uint64_t off = (uint64_t)i * LEN;

	if (reads)
		urccl_prep_read(sqe, t.remote, local + off, LEN, off);
	else
		urccl_prep_write(sqe, t.remote, local + off, LEN, off);
	sqe->flags |= (uint16_t)flags;
	sqe->user_data = i;
}

/* The rail goes after the first entries; returns the path bits of all. */
static uint32_t move(int reads, uint32_t flags, uint32_t pull, uint32_t *failed)
{
	uint32_t i, started = 0, path = 0, pulled = 0;
	struct urccl_cqe cqe;

	for (*failed = i = 0; i < N; i++) {
		for (; started < N && started < i + DEPTH; started++)
			start(started, reads, flags);
		CHECK_GE(urccl_submit(p.a.ring), 0);
		side_take(&p.a, &p.b, &cqe, NULL);
		if (i == N / 4 && pull < 8) {
			urccl_sim_pull(p.sim, pull, 1);
			pulled = 1;
		}
		path |= cqe.path;
		if (cqe.res == LEN)
			continue;
		CHECK(flags && pulled);
		CHECK_EQ(cqe.res, -ECONNRESET);
		check_sentence(&p.a, &cqe, "URCCL_SQE_NO_REPLAY");
		++*failed;
	}
	return path;
}

static void back(uint32_t rail)
{
	urccl_sim_pull(p.sim, rail, 0);
	pair_rails(&p, 0);
}

/* 1: some of it went again. */
static int pulled(int reads, uint32_t rail)
{
	uint64_t from = now_ns(), alone;
	uint32_t failed, path;

	pattern_fill(local, (uint64_t)N * LEN, 0, rail + 1);
	if (reads)
		pattern_fill(t.bytes, (uint64_t)N * LEN, 0, rail + 7);
	move(reads, 0, 8, &failed);
	alone = 2 * (now_ns() - from); /* by one rail, and more */
	if (!reads)
		memset(t.bytes, 0, (uint64_t)N * LEN);
	from = now_ns();
	path = move(reads, 0, rail, &failed);
	CHECK_EQ(failed, 0);
	CHECK_LE(now_ns() - from, alone + LOSS);
	CHECK(pattern_holds(reads ? local : t.bytes, (uint64_t)N * LEN, 0, rail + (reads ? 7 : 1)));
	pair_rails(&p, 1u << rail);
	back(rail);
	return !!(path & URCCL_PATH_REPLAYED);
}

int main(int argc, char **argv)
{
	uint32_t failed = 0, rounds, rail;

	pair_options(&p, argc, argv);
	p.faults = "rails=2,rate=20m,delay=1us..20us,early=30%";
	pair_open(&p);
	target_open(&p, &t, (uint64_t)N * LEN, 0);
	local = malloc((size_t)N * LEN);
	CHECK(local);
	side_register(&p.a, local, (uint64_t)N * LEN, 0);
	move(0, 0, 8, &failed);
	side_rails(&p.a, &p.b, 0);
	for (rail = 0; rail < 2; rail++) {
		for (rounds = 0; !pulled(0, rail); rounds++)
			CHECK_LE(rounds, 20);
		for (rounds = 0; !pulled(1, rail); rounds++)
			CHECK_LE(rounds, 20);
	}
	for (rounds = 0; !failed; rounds++) {
		CHECK_LE(rounds, 20);
		CHECK(!(move(0, URCCL_SQE_NO_REPLAY, 1, &failed) & URCCL_PATH_REPLAYED));
		back(1);
	}
	target_close(&p, &t);
	pair_close(&p);
	free(local);
	return 0;
}
