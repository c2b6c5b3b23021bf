/* SPDX-License-Identifier: Apache-2.0 */
/* A rail that is pulled in the middle of transfers: every entry succeeds, all bytes are there, the
 * time in which none ends is short, and both sides hear of it. Entries with NO_REPLAY may fail and
 * say why. */
#include "pair.h"

#define LEN	(512u << 10)
#define N	16u
#define DEPTH	4u
#define NO_RAIL 8u
#define LOSS	((PAIR_SLOW ? 5 : 1) * 1000000000ull) /* ns, at most */
#define LATE	6u /* so many may be longer, for the machine may be away */

static struct pair p;
static struct target t;
static uint8_t *local;

static struct moved {
	uint32_t path; /* the bits of all */
	uint32_t failed;
	uint64_t gap; /* ns, the longest between the ends of two */
} moved;

static void start(uint32_t i, int reads, uint32_t flags)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);
	uint64_t off = (uint64_t)(i % N) * LEN;

	if (reads)
		urccl_prep_read(sqe, t.remote, local + off, LEN, off);
	else
		urccl_prep_write(sqe, t.remote, local + off, LEN, off);
	sqe->flags |= (uint16_t)flags;
	sqe->user_data = i;
}

static void ended(const struct urccl_cqe *cqe, uint32_t flags, uint32_t pull)
{
	moved.path |= cqe->path;
	if (cqe->res == LEN)
		return;
	CHECK(flags && pull != NO_RAIL);
	CHECK_EQ(cqe->res, -ECONNRESET);
	check_sentence(&p.a, cqe, "URCCL_SQE_NO_REPLAY");
	moved.failed++;
}

static void unheard(uint32_t pull)
{
	fprintf(stderr, "rail %u was pulled, and a hears of %x; b:\n", pull, p.a.rails_down);
	urccl_dump(p.b.ctx, 2);
	fprintf(stderr, "a:\n");
	urccl_dump(p.a.ctx, 2);
	CHECK(!"a heard of it in time");
}

/* The rail goes after the first entries, and others follow until we heard of it. */
static void move(int reads, uint32_t flags, uint32_t pull)
{
	uint32_t i, n = N, begun = 0;
	struct urccl_cqe cqe;
	uint64_t last = now_ns(), until = 0, now;

	moved = (struct moved){0};
	for (i = 0; i < n; i++) {
		for (; begun < n && begun < i + DEPTH; begun++)
			start(begun, reads, flags);
		CHECK_GE(urccl_submit(p.a.ring), 0);
		side_take(&p.a, &p.b, &cqe, NULL);
		now = now_ns();
		moved.gap = now - last > moved.gap ? now - last : moved.gap;
		last = now;
		ended(&cqe, flags, pull);
		if (i == N / 4 && pull != NO_RAIL) {
			pair_pull(&p, pull, 1);
			until = now + PAIR_LATE_NS;
		}
		if (i + DEPTH < n || pull == NO_RAIL || p.a.rails_down == 1u << pull)
			continue;
		if (now >= until)
			unheard(pull);
		n++;
	}
}

static void back(uint32_t rail)
{
	pair_pull(&p, rail, 0);
	pair_rails(&p, 0);
}

static void pulled(int reads, uint32_t rail)
{
	uint8_t *to = reads ? local : t.bytes;

	pattern_fill(reads ? t.bytes : local, (uint64_t)N * LEN, 0, rail + 1);
	memset(to, 0, (uint64_t)N * LEN);
	move(reads, 0, rail);
	printf("longest gap %.1f ms\n", (double)moved.gap * 1e-6);
	CHECK_EQ(moved.failed, 0);
	CHECK(pattern_holds(to, (uint64_t)N * LEN, 0, rail + 1));
	pair_rails(&p, 1u << rail);
	back(rail);
}

/* Until some of it went again, and that took no longer than it may. */
static void loses(int reads, uint32_t rail)
{
	uint32_t rounds, late = 0;

	for (rounds = 0;; rounds++) {
		CHECK_LE(rounds, 20);
		pulled(reads, rail);
		if (moved.gap > LOSS)
			CHECK_LE(++late, LATE);
		else if (moved.path & URCCL_PATH_REPLAYED)
			return;
	}
}

int main(int argc, char **argv)
{
	uint32_t rounds, rail;

	pair_options(&p, argc, argv);
	p.faults = "rails=2,rate=20m,delay=1us..20us,early=30%";
	pair_open(&p);
	target_open(&p, &t, (uint64_t)N * LEN, 0);
	local = malloc((size_t)N * LEN);
	CHECK(local);
	side_register(&p.a, local, (uint64_t)N * LEN, 0);
	move(0, 0, NO_RAIL);
	side_rails(&p.a, &p.b, 0);
	for (rail = 0; rail < 2; rail++) {
		loses(0, rail);
		loses(1, rail);
	}
	for (rounds = 0, moved.failed = 0; !moved.failed; rounds++) {
		CHECK_LE(rounds, 20);
		move(0, URCCL_SQE_NO_REPLAY, 1);
		CHECK(!(moved.path & URCCL_PATH_REPLAYED));
		back(1);
	}
	target_close(&p, &t);
	pair_close(&p);
	free(local);
	return 0;
}
