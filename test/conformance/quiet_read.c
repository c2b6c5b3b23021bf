/* SPDX-License-Identifier: Apache-2.0 */
/* Once a read is out nothing more lands in its local bytes. */
#include "rig.h"

#define LEN    (256u << 10)
#define ROUNDS 300u

void case_quiet_read(struct rig *rig)
{
	struct area local, remote;
	uint32_t round, len, i;
	struct grant g;
	struct pair pair;
	struct piece p;

	pair_open(rig, &pair);
	area_open(&rig->node[0], &local, LEN);
	area_open(&rig->node[1], &remote, LEN);
	grant_open(&g, &pair.end[1], &pair.end[0], &remote, 0, LEN, URCCL_RIGHT_READ);
	for (round = 0; round < ROUNDS; round++) {
		len = 1 + (uint32_t)rig_random(rig, round % 4 ? 6000 : LEN);
		area_fill(&remote, 0, len, round, 0);
		piece_fill(&p, CHUNK_READ, &pair.end[0], &local, 0, &g, 0, len);
		CHECK_EQ(piece_run(rig, &p), 0);
		CHECK(area_is(&local, 0, len, round, 0));
		area_fill(&local, 0, len, 1u << 20, 0);
		for (i = 0; i < 20; i++)
			rig_step(rig);
		CHECK(area_is(&local, 0, len, 1u << 20, 0));
	}
	grant_close(rig, &g);
	pair_close(rig, &pair);
	area_close(&local);
	area_close(&remote);
}
