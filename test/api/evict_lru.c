/* SPDX-License-Identifier: Apache-2.0 */
/* Beyond max_warm the peer gives its data path back that was not used for the longest time,
 * whatever the order in which they got them, and whichever side used it. Who does not answer for a
 * while, having no processor, is passed over and another one asked: a round in which threads waited
 * for a processor for so long does not count against it. */
#include "meet.h"

#define WARM	  2u
#define PEERS	  3u
#define ROUNDS	  25u /* of each kind */
#define PROMPT_NS 25000000ull
/* Who used us says no when asked, and yes when it is asked again, 25 ms later; the one that used us
 * after it is not asked again before 50, however late that one answers. */
#define AGAIN_NS 50000000ull

enum by { HUB_TELLS, FRIEND_TELLS, FRIEND_READS };

static struct pair p;
static struct side *hub = &p.a, friends[PEERS];
static struct urccl_peer peers[PEERS]; /* as the hub calls them */
static enum by by;
static uint8_t memory[64], local[PEERS][64]; /* the hub's, and friends' */
static struct urccl_remote remotes[PEERS];   /* it, as friends call it */
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
	return (uint32_t)side_is_warm(hub, peers[i]);
}

/* Until no more have one than may. */
static void settled(void)
{
	uint64_t until = now_ns() + PAIR_LATE_NS;
	uint32_t i, n;

	do {
		CHECK(!is_late(until));
		for (i = 0, n = 0; i < PEERS; i++)
			n += warm(i);
	} while (n > WARM);
}

static void tell(struct side *from, uint32_t peer, struct side *to)
{
	CHECK_EQ(side_tell(from, to, peer, 5), 0);
	CHECK_EQ(side_event(to, from, URCCL_KIND_NOTE, NULL).tag, 5);
}

static void read_hub(uint32_t i)
{
	struct urccl_sqe *sqe = side_sqe(&friends[i]);

	urccl_prep_read(sqe, remotes[i], local[i], sizeof(local[i]), 0);
	urccl_sqe_set_data64(sqe, 6);
	CHECK_EQ(urccl_submit(friends[i].ring), 1);
	CHECK_EQ(side_end(&friends[i], hub, 6).res, sizeof(local[i]));
}

static void use(uint32_t i)
{
	if (by == HUB_TELLS)
		tell(hub, peers[i].id, &friends[i]);
	else if (by == FRIEND_TELLS)
		tell(&friends[i], friends[i].peer.id, hub);
	else
		read_hub(i);
	settled();
}

static void meet(uint32_t i, const struct urccl_advert *ad)
{
	struct side *f = &friends[i];

	peers[i] = pair_meet(&p, hub, f);
	side_register(f, local[i], sizeof(local[i]), 0);
	CHECK_EQ(urccl_import(f->ctx, f->peer, ad, 1, &remotes[i]), 0);
}

static void begin(enum by whose)
{
	struct urccl_region region;
	struct urccl_advert ad;
	uint32_t i;

	by = whose;
	p.params.max_warm = WARM;
	side_open(&p, hub);
	p.params.max_warm = 0;
	region = side_register(hub, memory, sizeof(memory), URCCL_RIGHT_READ);
	CHECK_EQ(urccl_advertise(hub->ctx, region, 0, sizeof(memory), URCCL_RIGHT_READ, 0, &ad), 0);
	side_watch(hub, (struct urccl_peer){0}, 2);
	for (i = 0; i < PEERS; i++)
		meet(i, &ad);
	settled();
}

static void end(void)
{
	uint32_t i;

	for (i = 0; i < PEERS; i++)
		side_close(&friends[i]);
	side_close(hub);
}

/* Until these two have one, and who else there is has none; and used what they had: who has just
 * got it back knows when it used it, and may say yes where the other says no. */
static void prepare(uint32_t older, uint32_t newer)
{
	uint64_t until = now_ns() + PAIR_LATE_NS;
	uint32_t had;

	do {
		CHECK(!is_late(until));
		had = warm(older) && warm(newer);
		use(older);
		use(newer);
	} while (!had || !warm(older) || !warm(newer));
}

/* The one that has none is used: of the other two the older goes. 1: that was seen. waited: by all
 * threads, when the round began. */
static int judge(uint32_t older, uint32_t newer, uint32_t next, uint64_t waited, uint32_t *judged)
{
	uint64_t from = now_ns();
	int right;

	if (warm(next))
		return 0;
	use(next);
	/* Who has not answered by then is not waited for. */
	if (now_ns() - from > (by == HUB_TELLS ? PROMPT_NS : AGAIN_NS))
		return 0;
	right = !warm(older) && warm(newer) && warm(next);
	if (!right && waited_since(waited) > PROMPT_NS)
		return 0;
	(*judged)++;
	return right;
}

static void rounds(enum by whose)
{
	uint32_t judged[2] = {0, 0}, right[2] = {0, 0}, order[PEERS] = {0, 1, 2}, k, how;
	uint64_t until = now_ns() + 20000000000ull, waited = waited_ns(), before;

	begin(whose);
	while (judged[0] < ROUNDS || judged[1] < ROUNDS) {
		if (now_ns() > until) {
			CHECK_GE(waited_since(waited), ROUNDS * PROMPT_NS);
			SKIP("its threads get no processor soon enough to answer");
		}
		/* In the order in which they got theirs; every other time, or so, the first of them
		 * is used once more. */
		how = draw(2);
		before = waited_ns();
		prepare(order[0], order[1]);
		if (how) {
			use(order[0]);
			swap(&order[0], &order[1]);
		}
		right[how] += judge(order[0], order[1], order[2], before, &judged[how]);
		swap(&order[0], &order[1]);
		swap(&order[1], &order[2]);
	}
	printf("the right one went %u of %u and %u of %u times\n", right[0], judged[0], right[1],
	       judged[1]);
	/* The first of a list, or its last, is right in one of the two cases alone, and any in half
	 * of each. Where answers are late, who has just come up may go. */
	for (k = 0; k < 2; k++)
		CHECK_GE(right[k] * 10, judged[k] * 7);
	end();
}

int main(int argc, char **argv)
{
	pair_options(&p, argc, argv);
	pair_sim(&p);
	rounds(HUB_TELLS);
	rounds(FRIEND_TELLS);
	/* Other transports do not see what a peer reads. */
	if (p.transport == URCCL_TRANSPORT_TCP || p.transport == URCCL_TRANSPORT_SHM)
		rounds(FRIEND_READS);
	if (p.sim)
		CHECK_EQ(urccl_sim_close(p.sim), 0);
	return 0;
}
