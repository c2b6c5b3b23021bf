/* SPDX-License-Identifier: Apache-2.0 */
/* Of an ep's queue pairs one completes nothing (SHIM=mute=63 of ibv_shim.c: that of large READs),
 * while the others go on: the ep is down after dead_after_ms all the same. */
#include "rig.h"

#define LEN	   65536u
#define DEAD_AFTER 400u /* ms */

void case_ib_stuck(struct rig *unused)
{
	struct settings settings = *unused->settings;
	struct piece stuck, piece;
	struct area local, remote;
	struct pair pair;
	struct end *end = &pair.end[0];
	struct rig rig;
	struct grant g;
	uint64_t until;
	uint32_t n = 0;

	if (!getenv("SHIM"))
		SKIP("SHIM and UCCL_IBV_SO are not set: every queue pair works here");
	settings.dead_after_ms = DEAD_AFTER;
	rig_open(&rig, &settings);
	pair_open(&rig, &pair);
	area_open(&rig.node[0], &local, LEN);
	area_open(&rig.node[1], &remote, LEN);
	grant_open(&g, &pair.end[1], end, &remote, 0, LEN, URCCL_RIGHT_READ | URCCL_RIGHT_WRITE);
	piece_fill(&stuck, CHUNK_READ, end, &local, 0, &g, 0, LEN / 2);
	stuck.chunk.cls = URCCL_CLASS_BULK;
	CHECK(piece_try(&stuck));
	for (until = clock_ns() + RIG_PATIENCE_NS; !end->down; n++) {
		CHECK(!is_late(until));
		piece_fill(&piece, CHUNK_WRITE, end, &local, LEN / 2, &g, 0, LEN / 2);
		piece.chunk.cls = n % 2 ? URCCL_CLASS_BULK : URCCL_CLASS_LATENCY;
		if (piece_run(&rig, &piece))
			break;
		CHECK(!stuck.out || end->down);
	}
	WAIT(&rig, end->down && end->out == end->taken);
	printf("%u WRITEs meanwhile\n", n);
	CHECK_GE(n, 10);
	CHECK_EQ(end->down_res, -ETIMEDOUT);
	CHECK_EQ(stuck.chunk.res, -ECONNRESET);
	grant_close(&rig, &g);
	pair_close(&rig, &pair);
	area_close(&local);
	area_close(&remote);
	rig_close(&rig);
}
