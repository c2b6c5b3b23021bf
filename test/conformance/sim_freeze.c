/* SPDX-License-Identifier: Apache-2.0 */
/* A frozen network delivers nothing, not even the end of a peer; who asks to cancel waits for it to
 * go on, who insists does not. */
#include "rig.h"

#define LEN 60000u

struct scene {
	struct rig *rig;
	struct pair pair;
	struct area local, remote;
	struct grant grant;
};

/* Far beyond every delay. */
static void pass_time(struct rig *rig)
{
	uint64_t until = clock_ns() + NSEC_PER_MSEC;

	do
		rig_step(rig);
	while (clock_ns() < until);
}

static void start(struct scene *s, struct piece *p, enum chunk_kind kind)
{
	urccl_sim_freeze(s->rig->sim, 1);
	area_fill(&s->local, 0, LEN, 1, 0);
	area_fill(&s->remote, 0, LEN, 2, 0);
	piece_fill(p, kind, &s->pair.end[0], &s->local, 0, &s->grant, 0, LEN);
	piece_post(s->rig, p);
	pass_time(s->rig);
	CHECK(!p->out);
	CHECK(area_is(&s->local, 0, LEN, 1, 0));
	CHECK(area_is(&s->remote, 0, LEN, 2, 0));
	CHECK_EQ(s->rig->backend->arm(s->rig->node[0].dev), 0);
}

static void asked(struct scene *s, enum chunk_kind kind)
{
	struct piece p;

	start(s, &p, kind);
	s->rig->backend->cancel(&p.chunk, CANCEL_ASK);
	pass_time(s->rig);
	CHECK(!p.out);
	urccl_sim_freeze(s->rig->sim, 0);
	WAIT(s->rig, p.out);
	CHECK(p.chunk.flags & CHUNK_QUIET);
	area_fill(&s->local, 0, LEN, 3, 0);
	area_fill(&s->remote, 0, LEN, 4, 0);
	pass_time(s->rig);
	CHECK(area_is(&s->local, 0, LEN, 3, 0));
	CHECK(area_is(&s->remote, 0, LEN, 4, 0));
}

static void insisted(struct scene *s, enum chunk_kind kind)
{
	struct piece p;

	start(s, &p, kind);
	s->rig->backend->cancel(&p.chunk, CANCEL_NOW);
	node_poll(&s->rig->node[0]);
	CHECK(p.out);
	CHECK_EQ(p.chunk.res, -ECANCELED);
	CHECK(!(p.chunk.flags & CHUNK_QUIET));
	area_fill(&s->local, 0, LEN, 3, 0);
	urccl_sim_freeze(s->rig->sim, 0);
	pass_time(s->rig);
	CHECK(area_is(&s->local, 0, LEN, 3, 0));
	piece_flush(s->rig, &s->pair.end[0], &s->grant);
}

static void peer_ends(struct scene *s)
{
	struct piece p;

	start(s, &p, CHUNK_WRITE);
	s->rig->backend->ep_close(s->pair.end[1].ep);
	pass_time(s->rig);
	CHECK(s->pair.end[1].closed);
	CHECK(!p.out && !s->pair.end[0].down);
	urccl_sim_freeze(s->rig->sim, 0);
	WAIT(s->rig, p.out && s->pair.end[0].down);
	CHECK_EQ(p.chunk.res, -ECONNRESET);
	CHECK(area_is(&s->remote, 0, LEN, 2, 0));
}

void case_sim_freeze(struct rig *rig)
{
	struct scene s = {.rig = rig};

	urccl_sim_freeze(rig->sim, 1);
	pair_start(rig, &s.pair);
	pass_time(rig);
	CHECK(!s.pair.end[0].up && !s.pair.end[1].up);
	urccl_sim_freeze(rig->sim, 0);
	WAIT(rig, s.pair.end[0].up && s.pair.end[1].up);
	area_open(&rig->node[0], &s.local, LEN);
	area_open(&rig->node[1], &s.remote, LEN);
	grant_open(&s.grant, &s.pair.end[1], &s.pair.end[0], &s.remote, 0, LEN,
		   URCCL_RIGHT_READ | URCCL_RIGHT_WRITE);
	asked(&s, CHUNK_WRITE);
	asked(&s, CHUNK_READ);
	insisted(&s, CHUNK_WRITE);
	insisted(&s, CHUNK_READ);
	peer_ends(&s);
	grant_withdraw(rig, &s.grant);
	pair_close(rig, &s.pair);
	area_close(&s.local);
	area_close(&s.remote);
}
