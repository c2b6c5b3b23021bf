/* SPDX-License-Identifier: Apache-2.0 */
/* Beyond max_warm the peer gives its data path back that was not used for the longest time,
 * whatever the order in which they got them. Who does not answer for a while, having no processor,
 * is passed over and another one asked: only what happened promptly is looked at. */
#include "meet.h"

#define WARM	  2u
#define PEERS	  3u
#define ROUNDS	  25u /* of each kind */
#define PROMPT_NS 25000000ull

static struct pair p;
static struct side *hub = &p.a, friends[PEERS];
static struct urccl_peer peers[PEERS]; /* as the hub calls them */
static uint64_t state = 7;

static void swap(uint32_t *a, uint32_t *b)
{
	uint32_t was = *a;

	*a = *b;
	*b = was;
}

static uint32_t draw(uint32_t n)
{
	state = state * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(state >> 33) % n;
}

static uint32_t warm(uint32_t i)
{
	struct urccl_peer_info info = {.size = sizeof(info)};

	CHECK_EQ(urccl_peer_info(hub->ctx, peers[i], &info), 0);
	CHECK_EQ(info.state, URCCL_PEER_UP);
	return info.warm;
}

/* Until no more have one than may. */
static void settled(void)
{
	uint64_t until = now_ns() + PAIR_LATE_NS;
	uint32_t i, n;

	do {
		CHECK(now_ns() < until);
		for (i = 0, n = 0; i < PEERS; i++)
			n += warm(i);
	} while (n > WARM);
}

static void use(uint32_t i)
{
	CHECK_EQ(side_tell(hub, &friends[i], peers[i].id, 5), 0);
	CHECK_EQ(side_event(&friends[i], hub, URCCL_KIND_NOTE, NULL).tag, 5);
	settled();
}

static void begin(int argc, char **argv)
{
	uint32_t i;

	pair_options(&p, argc, argv);
	pair_sim(&p);
	p.params.max_warm = WARM;
	side_open(&p, hub);
	p.params.max_warm = 0;
	for (i = 0; i < PEERS; i++) {
		side_open(&p, &friends[i]);
		side_accept(&friends[i], 1);
		side_connect(hub, &friends[i]);
		peers[i] = hub->peer;
		side_watch(&friends[i], (struct urccl_peer){0}, 2);
	}
	settled();
}

/* Until these two have one, and who else there is has none. */
static void prepare(uint32_t older, uint32_t newer)
{
	uint64_t until = now_ns() + PAIR_LATE_NS;

	do {
		CHECK(now_ns() < until);
		use(older);
		use(newer);
	} while (!warm(older) || !warm(newer));
}

/* The one that has none is used: of the other two the older goes. 1: that was seen. */
static int judge(uint32_t older, uint32_t newer, uint32_t next, uint32_t *judged)
{
	uint64_t from = now_ns();

	if (warm(next))
		return 0;
	use(next);
	/* Who has not answered by then is not waited for. */
	if (now_ns() - from > PROMPT_NS)
		return 0;
	(*judged)++;
	return !warm(older) && warm(newer) && warm(next);
}

int main(int argc, char **argv)
{
	uint32_t judged[2] = {0, 0}, right[2] = {0, 0}, order[PEERS] = {0, 1, 2}, k, how;
	uint64_t until = now_ns() + 20000000000ull;

	begin(argc, argv);
	while (judged[0] < ROUNDS || judged[1] < ROUNDS) {
		if (now_ns() > until)
			SKIP("its threads get no processor soon enough to answer");
		/* In the order in which they got theirs; every other time, or so, the first of them
		 * is used once more. */
		how = draw(2);
		prepare(order[0], order[1]);
		if (how) {
			use(order[0]);
			swap(&order[0], &order[1]);
		}
		right[how] += judge(order[0], order[1], order[2], &judged[how]);
		swap(&order[0], &order[1]);
		swap(&order[1], &order[2]);
	}
	printf("the right one went %u of %u and %u of %u times\n", right[0], judged[0], right[1],
	       judged[1]);
	/* The first of a list, or its last, is right in one of the two cases alone, and any in half
	 * of each. */
	for (k = 0; k < 2; k++)
		CHECK_GE(right[k] * 10, judged[k] * 9);
	for (k = 0; k < PEERS; k++)
		side_close(&friends[k]);
	side_close(hub);
	if (p.sim)
		CHECK_EQ(urccl_sim_close(p.sim), 0);
	return 0;
}
