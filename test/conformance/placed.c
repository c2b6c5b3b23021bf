/* SPDX-License-Identifier: Apache-2.0 */
/* A write that comes out with QUIET is in the peer's memory, with no poll more. */
#include "rig.h"

#define PIECES 64u
#define LEN    3000u
#define LOOPS  200u

static void look(const struct area *remote, struct piece *pieces, uint32_t *seen)
{
	uint32_t i;

	for (i = 0; i < PIECES; i++) {
		struct piece *p = &pieces[i];

		if (!p->out || p->looked)
			continue;
		p->looked = 1;
		CHECK_EQ(p->chunk.res, 0);
		if (!(p->chunk.flags & CHUNK_QUIET))
			continue;
		CHECK(area_is(remote, i * LEN, p->chunk.len, p->pattern, 0));
		(*seen)++;
	}
}

void case_placed(struct rig *rig)
{
	struct piece pieces[PIECES];
	struct area local, remote;
	uint32_t i, loop, seen = 0;
	struct grant g;
	struct pair pair;

	pair_open(rig, &pair);
	area_open(&rig->node[0], &local, PIECES * LEN);
	area_open(&rig->node[1], &remote, PIECES * LEN);
	grant_open(&g, &pair.end[1], &pair.end[0], &remote, 0, PIECES * LEN, URCCL_RIGHT_WRITE);
	for (loop = 0; loop < rig_rounds(rig, LOOPS); loop++) {
		for (i = 0; i < PIECES; i++) {
			piece_fill(&pieces[i], CHUNK_WRITE, &pair.end[0], &local, i * LEN, &g,
				   i * LEN, 1 + (uint32_t)rig_random(rig, LEN));
			pieces[i].pattern = loop * PIECES + i;
			area_fill(&local, i * LEN, pieces[i].chunk.len, pieces[i].pattern, 0);
			piece_post(rig, &pieces[i]);
		}
		while (pair.end[0].out < pair.end[0].taken) {
			rig_step(rig);
			look(&remote, pieces, &seen);
		}
		look(&remote, pieces, &seen);
		piece_flush(rig, &pair.end[0], &g);
	}
	CHECK(seen);
	grant_close(rig, &g);
	pair_close(rig, &pair);
	area_close(&local);
	area_close(&remote);
}
