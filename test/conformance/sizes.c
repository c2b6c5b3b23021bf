/* SPDX-License-Identifier: Apache-2.0 */
/* Writes and reads of every size move these bytes and no others. */
#include "rig.h"

#define BIG   (5u << 20)
#define GUARD 4096u

static void one(struct rig *rig, struct end *end, struct area *local, struct area *remote,
		const struct grant *g, uint32_t len)
{
	uint64_t pattern = rig_random(rig, 1u << 30), off = rig_random(rig, 64);

	area_fill(local, 0, len, pattern, 0);
	area_fill(remote, 0, len + off + 2 * GUARD, 1, 0);
	CHECK_EQ(piece_move(rig, CHUNK_WRITE, end, local, 0, g, GUARD + off, len), 0);
	CHECK(area_is(remote, GUARD + off, len, pattern, 0));
	CHECK(area_is(remote, 0, GUARD + off, 1, 0));
	CHECK(area_is(remote, GUARD + off + len, GUARD, 1, GUARD + off + len));

	area_fill(local, 0, len + off + 2 * GUARD, 2, 0);
	CHECK_EQ(piece_move(rig, CHUNK_READ, end, local, GUARD, g, GUARD + off, len), 0);
	CHECK(area_is(local, GUARD, len, pattern, 0));
	CHECK(area_is(local, 0, GUARD, 2, 0));
	CHECK(area_is(local, GUARD + len, GUARD, 2, GUARD + len));
}

void case_sizes(struct rig *rig)
{
	uint32_t chunk = rig->backend->chunk_bytes, i;
	const uint32_t sizes[] = {1,
				  2,
				  3,
				  7,
				  8,
				  31,
				  32,
				  63,
				  64,
				  65,
				  255,
				  1023,
				  4095,
				  4096,
				  4097,
				  65535,
				  65536,
				  65537,
				  chunk - 1,
				  chunk,
				  chunk + 1,
				  2 * chunk + 1,
				  (1u << 20) - 1,
				  1u << 20,
				  BIG - 100};
	struct area local, remote;
	struct grant g;
	struct pair pair;

	CHECK(chunk > 4096 && 2 * chunk + 1 < BIG);
	pair_open(rig, &pair);
	area_open(&rig->node[0], &local, BIG + 4 * GUARD);
	area_open(&rig->node[1], &remote, BIG + 4 * GUARD);
	grant_open(&g, &pair.end[1], &pair.end[0], &remote, 0, BIG + 4 * GUARD,
		   URCCL_RIGHT_READ | URCCL_RIGHT_WRITE);
	for (i = 0; i < ARRAY_SIZE(sizes); i++)
		one(rig, &pair.end[0], &local, &remote, &g, sizes[i]);
	grant_close(rig, &g);
	pair_close(rig, &pair);
	area_close(&local);
	area_close(&remote);
}
