/* SPDX-License-Identifier: Apache-2.0 */
/* Once a write is out its local bytes are the program's: what it does to them reaches nobody. */
#include "rig.h"

#define LEN    (256u << 10)
#define ROUNDS 400u

void case_quiet_write(struct rig *rig)
{
	struct area local, remote;
	uint32_t round, len;
	struct grant g;
	struct pair pair;
	struct piece p;

	pair_open(rig, &pair);
	area_open(&rig->node[0], &local, LEN);
	area_open(&rig->node[1], &remote, LEN);
	grant_open(&g, &pair.end[1], &pair.end[0], &remote, 0, LEN, URCCL_RIGHT_WRITE);
	for (round = 0; round < ROUNDS; round++) {
		len = 1 + (uint32_t)rig_random(rig, round % 4 ? 6000 : LEN);
		area_fill(&local, 0, len, round, 0);
		piece_fill(&p, CHUNK_WRITE, &pair.end[0], &local, 0, &g, 0, len);
		CHECK_EQ(piece_run(rig, &p), 0);
		memset(area_view(&local, 0, len), 0x5a, len);
		if (!(p.chunk.flags & CHUNK_QUIET))
			piece_flush(rig, &pair.end[0], &g);
		CHECK(area_is(&remote, 0, len, round, 0));
	}
	grant_close(rig, &g);
	pair_close(rig, &pair);
	area_close(&local);
	area_close(&remote);
}
