/* SPDX-License-Identifier: Apache-2.0 */
/* Whatever was taken comes out once: a storm of chunks of every kind in both directions. */
#include "rig.h"

#define PIECES 256u
#define ROUNDS 12000u
#define SLOT   4096u

struct side {
	struct end *end;
	struct area local, target;
	struct grant grant; /* of the other side's target */
	struct piece pieces[PIECES];
	uint8_t note[PIECES][MESSAGE_MAX];
	uint32_t posted;
};

static void post_any(struct rig *rig, struct side *side, uint32_t i)
{
	struct piece *p = &side->pieces[i];
	uint32_t len = 1 + (uint32_t)rig_random(rig, SLOT);
	uint64_t off = i * SLOT;

	switch (rig_random(rig, 8)) {
	case 0:
		piece_fill(p, CHUNK_FLUSH, side->end, NULL, 0, &side->grant, 0, 0);
		break;
	case 1:
		piece_fill_send(p, side->end, side->note[i], 1 + len % MESSAGE_MAX);
		break;
	case 2:
	case 3:
		piece_fill(p, CHUNK_READ, side->end, &side->local, off, &side->grant, off, len);
		break;
	default:
		piece_fill(p, CHUNK_WRITE, side->end, &side->local, off, &side->grant, off, len);
	}
	side->posted += (uint32_t)piece_try(p);
}

static void storm(struct rig *rig, struct side *side)
{
	uint32_t i = (uint32_t)rig_random(rig, PIECES);
	struct piece *p = &side->pieces[i];

	if (p->out)
		CHECK_EQ(p->chunk.res, 0);
	if (side->posted < rig_rounds(rig, ROUNDS) && (!p->taken || p->out))
		post_any(rig, side, i);
}

void case_once(struct rig *rig)
{
	static struct side sides[2];
	struct pair pair;
	uint32_t rounds = rig_rounds(rig, ROUNDS);
	uint64_t until;
	int i;

	pair_open(rig, &pair);
	memset(sides, 0, sizeof(sides));
	for (i = 0; i < 2; i++) {
		sides[i].end = &pair.end[i];
		area_open(&rig->node[i], &sides[i].local, PIECES * SLOT);
		area_open(&rig->node[i], &sides[i].target, PIECES * SLOT);
	}
	for (i = 0; i < 2; i++)
		grant_open(&sides[i].grant, &pair.end[!i], &pair.end[i], &sides[!i].target, 0,
			   PIECES * SLOT, URCCL_RIGHT_READ | URCCL_RIGHT_WRITE);
	while (sides[0].posted < rounds || sides[1].posted < rounds) {
		storm(rig, &sides[rig_random(rig, 2)]);
		if (!rig_random(rig, 4))
			rig_step(rig);
	}
	for (i = 0; i < 2; i++) {
		WAIT(rig, pair.end[i].out == pair.end[i].taken);
		CHECK_EQ(pair.end[i].taken, rounds);
	}
	/* The rig would see one that came out again. */
	for (until = clock_ns() + NSEC_PER_MSEC; clock_ns() < until;)
		rig_step(rig);
	for (i = 0; i < 2; i++)
		grant_close(rig, &sides[i].grant);
	pair_close(rig, &pair);
	for (i = 0; i < 2; i++) {
		area_close(&sides[i].local);
		area_close(&sides[i].target);
	}
}
