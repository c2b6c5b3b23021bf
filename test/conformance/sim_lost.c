/* SPDX-License-Identifier: Apache-2.0 */
/* Packets that are lost, there or back, go again until they arrive, and nothing but time tells; a
 * link that loses all of them is given up; one that is down for a while, a device that stands still
 * and a slow link only take longer; a device that restarts breaks its connections at both ends. */
#include "rig.h"

#define LEN    (200u << 10)
#define ROUNDS 20u

struct scene {
	struct rig rig;
	struct settings settings;
	struct pair pair;
	struct area local, remote;
	struct grant grant;
};

static void begin(struct scene *s, const struct settings *base, const char *faults)
{
	*s = (struct scene){.settings = *base};
	snprintf(s->settings.sim, sizeof(s->settings.sim), "seed=%llu,%s",
		 (unsigned long long)base->seed, faults);
	rig_open(&s->rig, &s->settings);
	pair_open(&s->rig, &s->pair);
	area_open(&s->rig.node[0], &s->local, LEN);
	area_open(&s->rig.node[1], &s->remote, LEN);
	grant_open(&s->grant, &s->pair.end[1], &s->pair.end[0], &s->remote, 0, LEN,
		   URCCL_RIGHT_READ | URCCL_RIGHT_WRITE);
}

static void end(struct scene *s)
{
	grant_close(&s->rig, &s->grant);
	pair_close(&s->rig, &s->pair);
	area_close(&s->local);
	area_close(&s->remote);
	rig_close(&s->rig);
}

/* All bytes there and back. */
static void round_trip(struct scene *s, uint64_t pattern)
{
	area_fill(&s->local, 0, LEN, pattern, 0);
	CHECK_EQ(piece_move(&s->rig, CHUNK_WRITE, &s->pair.end[0], &s->local, 0, &s->grant, 0, LEN),
		 0);
	CHECK(area_is(&s->remote, 0, LEN, pattern, 0));
	area_fill(&s->local, 0, LEN, pattern + 1000, 0);
	CHECK_EQ(piece_move(&s->rig, CHUNK_READ, &s->pair.end[0], &s->local, 0, &s->grant, 0, LEN),
		 0);
	CHECK(area_is(&s->local, 0, LEN, pattern, 0));
}

/* A message arrives at least once. */
static void message(struct scene *s)
{
	uint32_t before = s->pair.end[1].messages;
	uint64_t word = 7;
	struct piece p;

	piece_fill_send(&p, &s->pair.end[0], &word, sizeof(word));
	CHECK_EQ(piece_run(&s->rig, &p), 0);
	WAIT(&s->rig, s->pair.end[1].messages > before);
}

/* In no less than least_ns, of whichever part. */
static void survives(const struct settings *base, const char *faults, uint64_t least_ns)
{
	struct scene s;
	uint64_t from;
	uint32_t i;

	begin(&s, base, faults);
	from = clock_ns();
	for (i = 1; i <= ROUNDS; i++) {
		round_trip(&s, i);
		message(&s);
	}
	CHECK_GE(clock_ns() - from, least_ns);
	end(&s);
}

static void given_up(const struct settings *base, const char *faults)
{
	struct scene s;
	struct piece p;

	begin(&s, base, faults);
	piece_fill(&p, CHUNK_WRITE, &s.pair.end[0], &s.local, 0, &s.grant, 0, LEN);
	CHECK_EQ(piece_run(&s.rig, &p), -ECONNRESET);
	WAIT(&s.rig, s.pair.end[0].down);
	CHECK_EQ(s.pair.end[0].down_res, -ETIMEDOUT);
	CHECK(!s.pair.end[1].down);
	end(&s);
}

static void restarts(const struct settings *base)
{
	struct scene s;

	begin(&s, base, "restart=700ms..800ms");
	WAIT(&s.rig, s.pair.end[0].down && s.pair.end[1].down);
	CHECK_EQ(s.pair.end[0].down_res, -ECONNRESET);
	CHECK_EQ(s.pair.end[1].down_res, -ECONNRESET);
	end(&s);
}

void case_sim_lost(struct rig *rig)
{
	survives(rig->settings, "drop=25%,resend=5us,retries=20,delay=1us..5us", 0);
	/* Either device's link may be down: so seldom that no packet meets that 20 times. */
	survives(rig->settings, "flap=100us..300us/1ms..2ms,retries=20,resend=5us", 0);
	survives(rig->settings, "freeze=20ms/1ms", 20 * NSEC_PER_MSEC);
	survives(rig->settings, "rate=100m", ROUNDS * 2 * LEN * 9ull);
	given_up(rig->settings, "drop=100%,resend=10us,retries=3");
	given_up(rig->settings, "flap=3600s/1us,resend=10us,retries=3");
	restarts(rig->settings);
}
