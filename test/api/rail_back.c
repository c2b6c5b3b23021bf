/* SPDX-License-Identifier: Apache-2.0 */
/* A rail that was pulled is put back: both sides hear of it, and soon it has its share again. */
#include "pair.h"

#define LEN   (1u << 20)
#define DEPTH 8u
#define SHARE 5000000000ull /* ns until it has it */

static struct pair p;
static struct target t;
static uint8_t *local;

static uint32_t rails(uint32_t path)
{
	return path >> URCCL_PATH_RAILS_SHIFT & 0xff;
}

/* n entries; how many of them went by both rails. */
static uint32_t move(uint32_t n)
{
	uint32_t started = 0, i, both = 0;
	struct urccl_cqe cqe;

	for (i = 0; i < n; i++) {
		for (; started < n && started < i + DEPTH; started++) {
			struct urccl_sqe *sqe = side_sqe(&p.a);
			uint64_t off = (uint64_t)(started % DEPTH) * LEN;

			urccl_prep_write(sqe, t.remote, local + off, LEN, off);
		}
		CHECK_GE(urccl_submit(p.a.ring), 0);
		side_take(&p.a, &p.b, &cqe, NULL);
		CHECK_EQ(cqe.res, LEN);
		both += rails(cqe.path) == 3;
	}
	return both;
}

static void has_share(void)
{
	uint64_t late = now_ns() + SHARE;

	while (move(16) < 12)
		CHECK(!is_late(late));
}

int main(int argc, char **argv)
{
	uint32_t round;

	pair_options(&p, argc, argv);
	p.faults = "rails=2,rate=50m,delay=1us..20us";
	pair_open(&p);
	target_open(&p, &t, (uint64_t)DEPTH * LEN, 0);
	local = calloc(DEPTH, LEN);
	CHECK(local);
	side_register(&p.a, local, (uint64_t)DEPTH * LEN, 0);
	has_share();
	for (round = 0; round < 4; round++) {
		pair_pull(&p, round & 1, 1);
		pair_rails(&p, 1u << (round & 1));
		CHECK_EQ(move(8), 0);
		pair_pull(&p, round & 1, 0);
		pair_rails(&p, 0);
		has_share();
	}
	target_close(&p, &t);
	pair_close(&p);
	free(local);
	return 0;
}
