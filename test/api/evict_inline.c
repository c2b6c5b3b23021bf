/* SPDX-License-Identifier: Apache-2.0 */
/* A hub without a thread (INLINE) that may have WARM data paths: for each that comes back,
 * whichever side used it, one goes, the one that was not used for the longest time. No more go when
 * its program does something else meanwhile and its engine is asked about several. */
#include "meet.h"

#define WARM	 4u
#define PEERS	 (WARM + 1)
#define ROUNDS	 10u
#define LEN	 4096u
#define AWAY_US	 300000 /* others are thought of 25, 75 and 175 ms after the first */
#define AFTER_NS 100000000ull

static struct pair p;
static struct side *hub = &p.a, friends[PEERS];
static struct urccl_peer peers[PEERS]; /* as the hub calls them */
static struct urccl_remote remotes[PEERS];
static uint8_t local[LEN], bytes[PEERS][LEN];

static uint32_t warm(uint32_t i)
{
	struct urccl_peer_info info = {.size = sizeof(info)};

	CHECK_EQ(urccl_peer_info(hub->ctx, peers[i], &info), 0);
	CHECK_EQ(info.state, URCCL_PEER_UP);
	return info.warm;
}

static uint32_t count_warm(void)
{
	uint32_t i, n = 0;

	for (i = 0; i < PEERS; i++)
		n += warm(i);
	return n;
}

/* What more might go goes, too. */
static uint32_t settled(void)
{
	uint64_t until = now_ns() + PAIR_LATE_NS;

	while (count_warm() > WARM) {
		side_turn(hub);
		CHECK(now_ns() < until);
	}
	for (until = now_ns() + AFTER_NS; now_ns() < until;)
		side_turn(hub);
	return count_warm();
}

static void writes(uint32_t i, uint64_t version)
{
	struct urccl_sqe *sqe = side_sqe(hub);

	pattern_fill(local, LEN, i, version);
	urccl_prep_write(sqe, remotes[i], local, LEN, 0);
	urccl_sqe_set_data64(sqe, 5);
	CHECK_EQ(urccl_submit(hub->ring), 1);
	CHECK_EQ(side_end(hub, &friends[i], 5).res, LEN);
	CHECK(pattern_holds(bytes[i], LEN, i, version));
}

static void tells(uint32_t i, uint64_t tag)
{
	CHECK_EQ(side_tell(&friends[i], hub, friends[i].peer.id, tag), 0);
	CHECK_EQ(side_event(hub, &friends[i], URCCL_KIND_NOTE, NULL).tag, tag);
}

static void meet(uint32_t i)
{
	struct side *f = &friends[i];
	struct urccl_region region;
	struct urccl_advert ad;

	side_open(&p, f);
	side_accept(f, 1);
	side_connect(hub, f);
	peers[i] = hub->peer;
	region = side_register(f, bytes[i], LEN, URCCL_RIGHT_WRITE);
	CHECK_EQ(urccl_advertise(f->ctx, region, 0, LEN, URCCL_RIGHT_WRITE, 0, &ad), 0);
	CHECK_EQ(urccl_import(hub->ctx, peers[i], &ad, 1, &remotes[i]), 0);
}

static void begin(int argc, char **argv)
{
	uint32_t i;

	pair_options(&p, argc, argv);
	pair_sim(&p);
	p.params.flags = URCCL_OPEN_INLINE;
	p.params.max_warm = WARM;
	side_open(&p, hub);
	p.params.flags = 0;
	p.params.max_warm = 0;
	side_watch(hub, (struct urccl_peer){0}, 2);
	side_register(hub, local, LEN, 0);
	for (i = 0; i < PEERS; i++)
		meet(i);
	settled();
}

int main(int argc, char **argv)
{
	uint32_t r, i, returns = 0, few = 0;

	begin(argc, argv);
	for (r = 0; r < ROUNDS; r++) {
		i = r % PEERS;
		returns += !warm(i);
		if (r % 2)
			tells(i, r);
		else
			writes(i, r);
		usleep(AWAY_US);
		few += settled() < WARM;
	}
	printf("%u of %u came back, too many went %u times\n", returns, ROUNDS, few);
	/* Who has no processor may answer late, and another is asked. */
	CHECK_GE(returns * 10, ROUNDS * 7);
	CHECK_LE(few * 10, ROUNDS * 3);
	for (i = 0; i < PEERS; i++)
		side_close(&friends[i]);
	side_close(hub);
	if (p.sim)
		CHECK_EQ(urccl_sim_close(p.sim), 0);
	return 0;
}
