/* SPDX-License-Identifier: Apache-2.0 */
/* A rail that does not come back is tried ever more seldom; but soon once another one comes, or the
 * last one goes. */
#include "pair.h"

#define RAILS 3u
#define TRIES 10u	    /* in vain, after which the next one takes as long as all so far */
#define LONG  4000000000ull /* ns that they take at least, and a try after a sign at most */

static struct pair p;
static _Atomic uint32_t lines; /* two for each time that it broke or was tried: one a side */
static _Atomic uint32_t sign;  /* of these lines the one at which a sign is given */

/* Rail 1 may come, and the last ones go. */
static void give_sign(void)
{
	pair_pull(&p, 1, 0);
	pair_pull(&p, 0, 1);
	pair_pull(&p, 2, 1);
}

static void hear(void *arg, int level, const char *text)
{
	(void)arg, (void)level;
	if (!strstr(text, "transport sim: "))
		return;
	if (++lines == sign)
		give_sign();
}

static void turn(void)
{
	struct urccl_cqe cqe;

	CHECK(!side_take_within(&p.a, &p.b, 1000000, &cqe, NULL));
	CHECK(!side_take_within(&p.b, &p.a, 1000000, &cqe, NULL));
}

static void pull(uint32_t rail, uint32_t tries)
{
	uint64_t late = now_ns() + PAIR_LATE_NS;

	lines = 0;
	pair_pull(&p, rail, 1);
	while (lines < 2 * (1 + tries)) {
		CHECK(!is_late(late));
		turn();
	}
}

static void rests(uint32_t rail)
{
	uint64_t begin = now_ns();

	pull(rail, TRIES);
	CHECK_GE(now_ns() - begin, LONG);
}

int main(int argc, char **argv)
{
	uint64_t begin;

	pair_options(&p, argc, argv);
	p.faults = "rails=3";
	p.params.log = hear;
	p.params.log_level = URCCL_LOG_INFO;
	pair_open(&p);
	while (p.a.rails_told < RAILS - 1 || p.b.rails_told < RAILS - 1)
		turn(); /* those beside the first are up */

	rests(1);
	pull(2, 2);
	pair_rails(&p, 6);
	begin = now_ns();
	pair_pull(&p, 1, 0);
	pair_pull(&p, 2, 0);
	pair_rails(&p, 0);
	CHECK(!is_late(begin + LONG));

	rests(1);
	begin = now_ns();
	give_sign();
	pair_rails(&p, 5);
	CHECK(!is_late(begin + LONG));

	/* The last one goes while a try in vain is closed. */
	pair_pull(&p, 0, 0);
	pair_pull(&p, 2, 0);
	pair_rails(&p, 0);
	sign = 2 * (1 + TRIES) - 1;
	rests(1);
	begin = now_ns();
	pair_rails(&p, 5);
	CHECK(!is_late(begin + LONG));
	pair_close(&p);
	return 0;
}
