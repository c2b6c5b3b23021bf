/* SPDX-License-Identifier: Apache-2.0 */
/* A hub that may have few data paths talks to PEERS contexts at random, both ways, half of them
 * dialled by it and half by them: every entry is carried out as if all were there, contents are
 * right, events come, and few paths are there at a time: no more than that when it is quiet. With
 * --inline the peers are driven by the test, and then the hub, too. Before all else, --max-qps=N:
 * of ib, the hub may have N queue pairs instead, four a peer; or --whole: more peers and more
 * entries. */
#include "meet.h"

#define LEN	16384u
#define SLOTS	4u /* of each peer's memory and of the hub's */
#define PACE_NS (PAIR_SLOW ? 10000000u : 2000000u)

static struct pair p;
static struct side *hub = &p.a;

static struct friend
{
	struct side s; /* s.peer: the hub */
	struct urccl_peer peer;
	struct urccl_remote mapped, ordinary, of_hub;
	uint8_t *bytes[2]; /* of urccl_alloc(), and ordinary */
	uint64_t word, version[2][SLOTS], hub_version;
}
*friends;

static uint32_t npeers, returns, warm_most = 4, max_qps;
static int is_whole;
static uint8_t *local, *hub_bytes; /* LEN for each peer */
static uint64_t state = 88172645463325252ull;

static uint32_t draw(uint32_t n)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return (uint32_t)(state >> 20) % n;
}

static uint32_t count_warm(void)
{
	uint32_t i, n = 0;

	for (i = 0; i < npeers; i++)
		n += (uint32_t)side_is_warm(hub, friends[i].peer);
	return n;
}

static void turn_all(void)
{
	uint32_t i;

	side_turn(hub);
	for (i = 0; i < npeers; i++)
		side_turn(&friends[i].s);
}

/* ---- an entry each ---- */

static struct urccl_cqe run(struct side *s, struct side *other, uint64_t id)
{
	struct urccl_cqe cqe;

	CHECK_EQ(urccl_submit(s->ring), 1);
	side_take(s, other, &cqe, NULL);
	if (cqe.res < 0)
		check_sentence(s, &cqe, "?");
	CHECK_EQ(cqe.user_data, id);
	CHECK_EQ(cqe.flags & URCCL_CQE_MORE, 0);
	return cqe;
}

static struct urccl_sqe *entry(struct side *s, uint64_t id)
{
	struct urccl_sqe *sqe = side_sqe(s);

	urccl_sqe_set_data64(sqe, id);
	return sqe;
}

static uint64_t place(const struct friend *f, uint32_t kind, uint32_t slot)
{
	return ((uint64_t)(f - friends) * 2 + kind) * SLOTS * LEN + slot * LEN;
}

static void writes(struct friend *f, uint32_t note)
{
	uint32_t kind = draw(2), slot = draw(SLOTS), len = 1 + draw(LEN);
	uint64_t version = ++f->version[kind][slot], tag = version << 8 | slot;
	struct urccl_sqe *sqe = entry(hub, 5);
	struct urccl_cqe cqe;

	pattern_fill(local, LEN, place(f, kind, slot), version);
	urccl_prep_write(sqe, kind ? f->ordinary : f->mapped, local, LEN, slot * LEN);
	urccl_sqe_set_data64(sqe, 5);
	if (note)
		urccl_sqe_set_notify(hub->ring, sqe, tag, NULL, 0);
	CHECK_EQ(run(hub, &f->s, 5).res, LEN);
	CHECK(pattern_holds(f->bytes[kind] + slot * LEN, len, place(f, kind, slot), version));
	if (!note)
		return;
	cqe = side_event(&f->s, hub, URCCL_KIND_NOTE, NULL);
	CHECK_EQ(cqe.tag, tag);
	CHECK_EQ(cqe.peer, f->s.peer.id);
}

static void reads(struct friend *f)
{
	uint32_t kind = draw(2), slot = draw(SLOTS);
	struct urccl_sqe *sqe = entry(hub, 6);

	if (!f->version[kind][slot])
		pattern_fill(f->bytes[kind] + slot * LEN, LEN, place(f, kind, slot), 0);
	memset(local, 0, LEN);
	urccl_prep_read(sqe, kind ? f->ordinary : f->mapped, local, LEN, slot * LEN);
	urccl_sqe_set_data64(sqe, 6);
	CHECK_EQ(run(hub, &f->s, 6).res, LEN);
	CHECK(pattern_holds(local, LEN, place(f, kind, slot), f->version[kind][slot]));
}

/* The word is behind the slots of the mapped memory. */
static void adds(struct friend *f)
{
	struct urccl_sqe *sqe = entry(hub, 7);

	urccl_prep_fetch_add(sqe, f->mapped, SLOTS * LEN, 3);
	urccl_sqe_set_data64(sqe, 7);
	CHECK_EQ(run(hub, &f->s, 7).old, f->word);
	f->word += 3;
}

static void friend_writes(struct friend *f)
{
	uint32_t i = (uint32_t)(f - friends);
	struct urccl_sqe *sqe = entry(&f->s, 8);
	struct urccl_cqe cqe;

	pattern_fill(f->bytes[1] + SLOTS * LEN, LEN, i, ++f->hub_version);
	urccl_prep_write(sqe, f->of_hub, f->bytes[1] + SLOTS * LEN, LEN, 0);
	urccl_sqe_set_notify(p.a.ring, sqe, f->hub_version, NULL, 0);
	urccl_sqe_set_data64(sqe, 8);
	CHECK_EQ(run(&f->s, hub, 8).res, LEN);
	CHECK(pattern_holds(hub_bytes + (uint64_t)i * LEN, LEN, i, f->hub_version));
	cqe = side_event(hub, &f->s, URCCL_KIND_NOTE, NULL);
	CHECK_EQ(cqe.peer, f->peer.id);
	CHECK_EQ(cqe.tag, f->hub_version);
}

static void something(struct friend *f, uint32_t choices)
{
	returns += !side_is_warm(hub, f->peer);
	switch (draw(choices)) {
	case 0:
	case 1:
		writes(f, 0);
		break;
	case 2:
		writes(f, 1);
		break;
	case 3:
	case 4:
		reads(f);
		break;
	case 5:
		adds(f);
		break;
	default:
		friend_writes(f);
		break;
	}
	turn_all();
}

/* Who used its path in the last 10 ms keeps it: so that it hangs on no machine's speed how many do,
 * an entry and what follows it take 2 ms, or longer. */
static void pace(uint64_t until)
{
	while (now_ns() < until)
		turn_all();
}

#define BEYOND 16u /* paths that a slow machine is late to take back */

/* The hub alone has entries: nobody says no. */
static void one_end(uint32_t rounds)
{
	uint32_t i, n, most = 0;
	uint64_t begun;

	for (i = 0; i < rounds; i++) {
		begun = now_ns();
		something(&friends[draw(npeers)], 6);
		pace(begun + PACE_NS);
		n = count_warm();
		most = n > most ? n : most;
	}
	printf("%u returns in %u entries, at most %u of %u warm\n", returns, rounds, most, npeers);
	CHECK_GE(returns, rounds / 4);
	CHECK_LE(most, warm_most + (npeers < 20 ? npeers / 4 : BEYOND));
}

/* ---- many at once: half of the peers all write and are written to ---- */

static void post_both(struct friend *f)
{
	uint32_t i = (uint32_t)(f - friends);
	struct urccl_sqe *sqe = entry(hub, i);

	pattern_fill(local + (uint64_t)i * LEN, LEN, place(f, 0, 0), ++f->version[0][0]);
	urccl_prep_write(sqe, f->mapped, local + (uint64_t)i * LEN, LEN, 0);
	urccl_sqe_set_data64(sqe, i);
	CHECK_EQ(urccl_submit(hub->ring), 1);
	sqe = entry(&f->s, i);
	pattern_fill(f->bytes[1] + SLOTS * LEN, LEN, i, ++f->hub_version);
	urccl_prep_write(sqe, f->of_hub, f->bytes[1] + SLOTS * LEN, LEN, 0);
	urccl_sqe_set_data64(sqe, i);
	CHECK_EQ(urccl_submit(f->s.ring), 1);
}

static void both_ends(void)
{
	struct urccl_cqe cqe;
	uint32_t i;

	for (i = 0; i < npeers; i += 2)
		post_both(&friends[i]);
	for (i = 0; i < npeers; i += 2) {
		while (!side_take_within(hub, NULL, 1000000, &cqe, NULL))
			turn_all();
		CHECK_EQ(cqe.res, LEN);
	}
	for (i = 0; i < npeers; i += 2) {
		struct friend *f = &friends[i];

		side_take(&f->s, hub, &cqe, NULL);
		CHECK_EQ(cqe.res, LEN);
		CHECK(pattern_holds(f->bytes[0], LEN, place(f, 0, 0), f->version[0][0]));
		CHECK(pattern_holds(hub_bytes + (uint64_t)i * LEN, LEN, i, f->hub_version));
	}
}

/* Nobody needs anything: what is above the limit goes. */
static void quiet(void)
{
	uint64_t until = now_ns() + PAIR_LATE_NS;
	uint32_t i, n;

	while ((n = count_warm()) > warm_most) {
		turn_all();
		CHECK(!is_late(until));
	}
	for (i = 0, n = 0; i < npeers; i++)
		n += (uint32_t)side_is_warm(&friends[i].s, friends[i].s.peer);
	CHECK_LE(n, warm_most + 1); /* the last may be on its way here */
}

/* ---- beginning and end ---- */

static void friend_memory(struct friend *f)
{
	uint64_t len = SLOTS * LEN + 4096;
	uint32_t rights = URCCL_RIGHT_READ | URCCL_RIGHT_WRITE | URCCL_RIGHT_ATOMIC, k;
	struct urccl_region region;
	struct urccl_advert ad;
	void *addr;

	CHECK_EQ(urccl_alloc(f->s.ctx, len, &addr), 0);
	f->bytes[0] = addr;
	f->bytes[1] = calloc(1, len + LEN);
	CHECK(f->bytes[1]);
	for (k = 0; k < 2; k++) {
		region = side_register(&f->s, f->bytes[k], k ? SLOTS * LEN + LEN : len, rights);
		CHECK_EQ(urccl_advertise(f->s.ctx, region, 0, k ? SLOTS * LEN : len, rights, 0,
					 &ad),
			 0);
		CHECK_EQ(urccl_import(hub->ctx, f->peer, &ad, 1, k ? &f->ordinary : &f->mapped), 0);
	}
}

static void friend_begin(struct friend *f, struct urccl_region region)
{
	uint64_t i = (uint64_t)(f - friends);
	struct urccl_advert ad;
	struct urccl_peer other;

	side_open(&p, &f->s);
	if (i % 2) {
		side_accept(&f->s, 1);
		side_connect(hub, &f->s);
		f->peer = hub->peer;
	} else {
		side_connect(&f->s, hub);
		other = f->s.peer;
		f->peer = hub->peer;
		f->s.peer = other;
	}
	side_watch(&f->s, (struct urccl_peer){0}, 2);
	friend_memory(f);
	CHECK_EQ(urccl_advertise(hub->ctx, region, i * LEN, LEN, URCCL_RIGHT_WRITE, 0, &ad), 0);
	CHECK_EQ(urccl_import(f->s.ctx, f->s.peer, &ad, 1, &f->of_hub), 0);
}

static void begin(uint32_t hub_flags)
{
	struct urccl_region region;
	uint32_t flags, i;

	returns = 0;
	npeers = PAIR_SLOW ? 16 : is_whole ? 64 : 24;
	friends = calloc(npeers, sizeof(*friends));
	local = calloc(npeers, LEN);
	hub_bytes = calloc(npeers, LEN);
	CHECK(friends && local && hub_bytes);
	pair_sim(&p);
	flags = p.params.flags;
	p.params.flags = hub_flags;
	p.params.max_warm = max_qps ? 0 : warm_most;
	p.params.max_qps = max_qps;
	side_open(&p, hub);
	p.params.flags = flags;
	p.params.max_warm = p.params.max_qps = 0;
	side_accept(hub, 1);
	side_watch(hub, (struct urccl_peer){0}, 2);
	side_register(hub, local, (uint64_t)npeers * LEN, 0);
	region = side_register(hub, hub_bytes, (uint64_t)npeers * LEN, URCCL_RIGHT_WRITE);
	for (i = 0; i < npeers; i++)
		friend_begin(&friends[i], region);
}

static void end(void)
{
	uint32_t i;

	for (i = 0; i < npeers; i++) {
		side_close(&friends[i].s);
		free(friends[i].bytes[1]);
	}
	side_close(hub);
	if (p.sim)
		CHECK_EQ(urccl_sim_close(p.sim), 0);
	p.params.sim_network = p.sim = NULL;
	free(friends);
	free(local);
	free(hub_bytes);
}

static void converse(uint32_t hub_flags)
{
	uint32_t i, rounds;

	begin(hub_flags);
	/* A peer that the test drives takes a wait of the test's for every step. */
	rounds = PAIR_SLOW || friends[0].s.ring->flags & URCCL_RING_INLINE ? 25 : 100;
	rounds *= is_whole ? 4 : 1;
	quiet();
	one_end(rounds);
	quiet();
	for (i = 0; i < rounds; i++)
		something(&friends[draw(npeers)], 8);
	quiet();
	for (i = 0; i < 3; i++)
		both_ends();
	quiet();
	end();
}

int main(int argc, char **argv)
{
	int limited = argc > 1 && sscanf(argv[1], "--max-qps=%u", &max_qps) == 1;

	if (limited)
		warm_most = max_qps / 4;
	is_whole = argc > 1 && !strcmp(argv[1], "--whole");
	pair_options(&p, argc - limited - is_whole, argv + limited + is_whole);
	converse(0);
	if (p.params.flags & URCCL_OPEN_INLINE)
		converse(URCCL_OPEN_INLINE);
	return 0;
}
