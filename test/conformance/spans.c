/* SPDX-License-Identifier: Apache-2.0 */
/* A region of many ranges is one offset space: chunks cross from one to the next. */
#include "rig.h"

#define LEN   (300u << 10)
#define SPANS 37u
#define LOOPS 100u

void case_spans(struct rig *rig)
{
	struct area local, remote;
	struct grant g;
	struct pair pair;
	uint32_t i, len;
	uint64_t off, at;

	pair_open(rig, &pair);
	area_open(&rig->node[0], &local, LEN);
	area_open_spans(&rig->node[1], &remote, LEN, SPANS);
	/* The grant begins and ends inside spans. */
	grant_open(&g, &pair.end[1], &pair.end[0], &remote, 1000, LEN - 3000,
		   URCCL_RIGHT_READ | URCCL_RIGHT_WRITE);
	for (i = 0; i < LOOPS; i++) {
		off = rig_random(rig, LEN - 3000);
		len = 1 + (uint32_t)rig_random(rig, i % 2 ? LEN - 3000 - off
							  : 1 + (LEN - 3000 - off) / 20);
		at = rig_random(rig, LEN - len);
		area_fill(&remote, 0, LEN, 2 * i, 0);
		area_fill(&local, 0, LEN, 2 * i + 1, 0);
		CHECK_EQ(piece_move(rig, CHUNK_WRITE, &pair.end[0], &local, at, &g, off, len), 0);
		CHECK(area_is(&remote, 0, 1000 + off, 2 * i, 0));
		CHECK(area_is(&remote, 1000 + off, len, 2 * i + 1, at));
		CHECK(area_is(&remote, 1000 + off + len, LEN - 1000 - off - len, 2 * i,
			      1000 + off + len));

		area_fill(&remote, 0, LEN, 2 * i, 0);
		CHECK_EQ(piece_move(rig, CHUNK_READ, &pair.end[0], &local, at, &g, off, len), 0);
		CHECK(area_is(&local, 0, at, 2 * i + 1, 0));
		CHECK(area_is(&local, at, len, 2 * i, 1000 + off));
		CHECK(area_is(&local, at + len, LEN - at - len, 2 * i + 1, at + len));
	}
	grant_close(rig, &g);
	pair_close(rig, &pair);
	area_close(&local);
	area_close(&remote);
}
