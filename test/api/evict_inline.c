/* SPDX-License-Identifier: Apache-2.0 */
/* Beyond WARM data paths, for each that comes back one goes: where the hub has no thread (INLINE)
 * the one that was not used for the longest time, and any where the peers have none. No more go
 * when their program does something else for a while, and several are asked meanwhile. */
#include "meet.h"

#define WARM	 4u
#define PEERS	 (WARM + 1)
#define ROUNDS	 16u
#define LEN	 4096u
#define AWAY_US	 300000 /* others are asked 25, 75 and 175 ms after the first */
#define AFTER_NS 100000000ull
#define BUSY_NS	 5000000u /* that threads waited for a processor in one round */

static struct pair p;
static struct side *hub = &p.a, friends[PEERS];
static struct urccl_peer peers[PEERS]; /* as the hub calls them */
static struct urccl_remote remotes[PEERS];
static uint8_t local[LEN], bytes[PEERS][LEN];

static uint32_t warm(uint32_t i)
{
	return (uint32_t)side_is_warm(hub, peers[i]);
}

static uint32_t turn_all(void)
{
	uint32_t i, n = 0;

	side_turn(hub);
	for (i = 0; i < PEERS; i++) {
		side_turn(&friends[i]);
		n += warm(i);
	}
	return n;
}

/* What more might go goes, too. */
static uint32_t settled(void)
{
	uint64_t until = now_ns() + PAIR_LATE_NS;
	uint32_t n;

	while (turn_all() > WARM)
		CHECK(!is_late(until));
	until = now_ns() + AFTER_NS;
	do
		n = turn_all();
	while (now_ns() < until);
	return n;
}

/* Peers that answer late, all at once, go in any order. */
static uint32_t one_cold(void)
{
	uint32_t i = 0;

	while (warm(i))
		i++;
	return i;
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

static void tells(struct side *f, uint64_t tag)
{
	CHECK_EQ(side_tell(f, hub, f->peer.id, tag), 0);
	CHECK_EQ(side_event(hub, f, URCCL_KIND_NOTE, NULL).tag, tag);
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

static void begin(uint32_t hub_flags, uint32_t friend_flags)
{
	uint32_t i;

	pair_sim(&p);
	p.params.flags = hub_flags;
	p.params.max_warm = WARM;
	side_open(&p, hub);
	p.params.flags = friend_flags;
	p.params.max_warm = 0;
	side_watch(hub, (struct urccl_peer){0}, 2);
	side_register(hub, local, LEN, 0);
	for (i = 0; i < PEERS; i++)
		meet(i);
	settled();
}

static void rounds(uint32_t hub_flags, uint32_t friend_flags)
{
	uint32_t r, i, cold, returns = 0, few = 0, busy = 0;
	uint64_t waited;

	begin(hub_flags, friend_flags);
	for (r = 0; r < ROUNDS; r++) {
		waited = waited_ns();
		i = friend_flags ? one_cold() : r % PEERS;
		cold = !warm(i);
		returns += cold;
		if (r % 2) {
			tells(&friends[i], r);
			settled();
		} else {
			writes(i, r);
			usleep(AWAY_US);
			few += settled() < WARM;
		}
		busy += waited_since(waited) > BUSY_NS && !cold;
	}
	/* A peer without a processor answers late, and another is asked: in such a round none may
	 * come back, and too many may go. */
	printf("%u of %u came back, too many went %u times; busy %u times\n", returns, ROUNDS, few,
	       busy);
	CHECK_GE((returns + busy) * 10, ROUNDS * 7);
	CHECK_LE(few, ROUNDS / 4 + busy);
	for (i = 0; i < PEERS; i++)
		side_close(&friends[i]);
	side_close(hub);
}

int main(int argc, char **argv)
{
	pair_options(&p, argc, argv);
	rounds(URCCL_OPEN_INLINE, 0);
	rounds(0, URCCL_OPEN_INLINE);
	if (p.sim)
		CHECK_EQ(urccl_sim_close(p.sim), 0);
	return 0;
}
