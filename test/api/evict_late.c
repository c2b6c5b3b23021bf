/* SPDX-License-Identifier: Apache-2.0 */
/* Beyond max_warm one has to go, and several are asked, as the first did not answer at once: of
 * those that say yes then, one after the other while the program of who asked does something else,
 * no more go than one, also where it said yes long before the next. */
#include "meet.h"

#define WARM	 2u
#define PEERS	 (WARM + 1)
#define ROUNDS	 6u
#define ASK_NS	 200000000ull /* others are asked 25 and 75 ms after the first */
#define APART_NS 60000000ull  /* yes to yes: later than who says nothing counts */
#define AFTER_NS 100000000ull

static struct pair p;
static struct side *hub = &p.a, friends[PEERS];
static struct urccl_peer peers[PEERS]; /* as the hub calls them */

static uint32_t count_warm(void)
{
	uint32_t i, n = 0;

	for (i = 0; i < PEERS; i++)
		n += (uint32_t)side_is_warm(hub, peers[i]);
	return n;
}

static void turn_all(void)
{
	uint32_t i;

	side_turn(hub);
	for (i = 0; i < PEERS; i++)
		side_turn(&friends[i]);
}

static void turn_for(struct side *s, uint64_t ns)
{
	uint64_t until = now_ns() + ns;

	while (now_ns() < until)
		side_turn(s);
}

/* Whoever has no path is told something. */
static void all_warm(void)
{
	uint64_t until = now_ns() + PAIR_LATE_NS;
	uint32_t i;

	for (i = 0; i < PEERS; i++)
		if (!side_is_warm(hub, peers[i])) {
			CHECK_EQ(side_tell(hub, &friends[i], peers[i].id, 5), 0);
			CHECK_EQ(side_event(&friends[i], hub, URCCL_KIND_NOTE, NULL).tag, 5);
		}
	while (count_warm() < PEERS) {
		CHECK(!is_late(until));
		turn_all();
	}
}

static void one_goes(void)
{
	uint64_t until;
	uint32_t i;

	all_warm();
	turn_for(hub, ASK_NS);
	for (i = 0; i < PEERS; i++)
		turn_for(&friends[i], APART_NS);
	until = now_ns() + PAIR_LATE_NS;
	while (count_warm() > WARM) {
		CHECK(!is_late(until));
		turn_all();
	}
	until = now_ns() + AFTER_NS;
	while (now_ns() < until)
		turn_all();
	CHECK_EQ(count_warm(), WARM);
}

int main(int argc, char **argv)
{
	uint32_t i;

	pair_options(&p, argc, argv);
	p.params.flags |= URCCL_OPEN_INLINE;
	pair_sim(&p);
	p.params.max_warm = WARM;
	side_open(&p, hub);
	p.params.max_warm = 0;
	for (i = 0; i < PEERS; i++)
		peers[i] = pair_meet(&p, hub, &friends[i]);
	for (i = 0; i < ROUNDS; i++)
		one_goes();
	for (i = 0; i < PEERS; i++)
		side_close(&friends[i]);
	side_close(hub);
	CHECK_EQ(urccl_sim_close(p.sim), 0);
	return 0;
}
