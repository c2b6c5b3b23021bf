/* SPDX-License-Identifier: Apache-2.0 */
/* The owner's backend lets a peer do what the exposure's rights give and no more. */
#include "rig.h"

#define LEN 70000u

static void try_all(struct rig *rig, struct pair *pair, struct area *local, struct area *remote,
		    uint32_t rights, uint32_t len)
{
	int32_t read = rights & URCCL_RIGHT_READ ? 0 : -EACCES;
	int32_t write = rights & URCCL_RIGHT_WRITE ? 0 : -EACCES;
	struct grant g;

	area_fill(remote, 0, LEN, 1, 0);
	area_fill(local, 0, LEN, 2, 0);
	grant_open(&g, &pair->end[1], &pair->end[0], remote, 0, LEN, rights);
	CHECK_EQ(piece_move(rig, CHUNK_READ, &pair->end[0], local, 0, &g, 0, len), read);
	CHECK(area_is(local, 0, len, read ? 2 : 1, 0));
	area_fill(local, 0, LEN, 3, 0);
	CHECK_EQ(piece_move(rig, CHUNK_WRITE, &pair->end[0], local, 0, &g, 0, len), write);
	CHECK(area_is(remote, 0, len, write ? 1 : 3, 0));
	CHECK(!pair->end[0].down && !pair->end[1].down);
	grant_close(rig, &g);
}

void case_rights(struct rig *rig)
{
	static const uint32_t lens[] = {1, 8, 4096, LEN};
	struct area local, remote;
	uint32_t rights, i;
	struct pair pair;

	pair_open(rig, &pair);
	area_open(&rig->node[0], &local, LEN);
	area_open(&rig->node[1], &remote, LEN);
	for (rights = 0; rights <= (URCCL_RIGHT_READ | URCCL_RIGHT_WRITE); rights++)
		for (i = 0; i < ARRAY_SIZE(lens); i++)
			try_all(rig, &pair, &local, &remote, rights, lens[i]);
	pair_close(rig, &pair);
	area_close(&local);
	area_close(&remote);
}
