/* SPDX-License-Identifier: Apache-2.0 */
/* A FLUSH that succeeds proves what was acknowledged before it to be placed. */
#include "rig.h"

#define PIECES 32u
#define LEN    5000u
#define LOOPS  200u

void case_flush(struct rig *rig)
{
	struct piece pieces[PIECES], flush;
	struct area local, remote;
	uint32_t i, loop;
	struct grant g;
	struct pair pair;

	pair_open(rig, &pair);
	area_open(&rig->node[0], &local, PIECES * LEN);
	area_open(&rig->node[1], &remote, PIECES * LEN);
	grant_open(&g, &pair.end[1], &pair.end[0], &remote, 0, PIECES * LEN, URCCL_RIGHT_WRITE);
	for (loop = 0; loop < LOOPS; loop++) {
		area_fill(&local, 0, PIECES * LEN, loop, 0);
		for (i = 0; i < PIECES; i++) {
			piece_fill(&pieces[i], CHUNK_WRITE, &pair.end[0], &local, i * LEN, &g,
				   i * LEN, LEN);
			piece_post(rig, &pieces[i]);
		}
		WAIT(rig, pair.end[0].out == pair.end[0].taken);
		for (i = 0; i < PIECES; i++)
			CHECK_EQ(pieces[i].chunk.res, 0);
		piece_fill(&flush, CHUNK_FLUSH, &pair.end[0], NULL, 0, &g, 0, 0);
		CHECK_EQ(piece_run(rig, &flush), 0);
		CHECK(area_is(&remote, 0, PIECES * LEN, loop, 0));
	}
	grant_close(rig, &g);
	pair_close(rig, &pair);
	area_close(&local);
	area_close(&remote);
}
