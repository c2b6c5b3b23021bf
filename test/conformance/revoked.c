/* SPDX-License-Identifier: Apache-2.0 */
/* What was withdrawn is not reached any more, and what is exposed since, there or elsewhere, not by
 * the old key. */
#include "rig.h"

#define LEN    50000u
#define ROUNDS 50u

static void refused(struct rig *rig, struct end *end, struct area *local, struct area *remote,
		    const struct grant *g)
{
	static const uint32_t lens[] = {8, LEN};
	uint32_t i;

	for (i = 0; i < ARRAY_SIZE(lens); i++) {
		area_fill(local, 0, LEN, 2, 0);
		area_fill(remote, 0, LEN, 1, 0);
		CHECK_EQ(piece_move(rig, CHUNK_WRITE, end, local, 0, g, 0, lens[i]), -EACCES);
		CHECK_EQ(piece_move(rig, CHUNK_READ, end, local, 0, g, 0, lens[i]), -EACCES);
		CHECK(area_is(remote, 0, LEN, 1, 0));
		CHECK(area_is(local, 0, LEN, 2, 0));
		CHECK(!end->down);
	}
}

void case_revoked(struct rig *rig)
{
	const uint32_t rights = URCCL_RIGHT_READ | URCCL_RIGHT_WRITE;
	struct area local, remote;
	struct grant old, fresh;
	struct pair pair;
	struct end *end = &pair.end[0];
	uint32_t i;

	pair_open(rig, &pair);
	area_open(&rig->node[0], &local, LEN);
	area_open(&rig->node[1], &remote, LEN);
	for (i = 0; i < ROUNDS; i++) {
		grant_open(&old, &pair.end[1], end, &remote, 0, LEN, rights);
		CHECK_EQ(piece_move(rig, CHUNK_WRITE, end, &local, 0, &old, 0, LEN), 0);
		grant_withdraw(rig, &old);
		refused(rig, end, &local, &remote, &old);
		grant_open(&fresh, &pair.end[1], end, &remote, 0, LEN, rights);
		refused(rig, end, &local, &remote, &old);
		CHECK_EQ(piece_move(rig, CHUNK_WRITE, end, &local, 0, &fresh, 0, LEN), 0);
		CHECK(area_is(&remote, 0, LEN, 2, 0));
		rig->backend->forget(end->ep, &old.rkey);
		grant_close(rig, &fresh);
	}
	pair_close(rig, &pair);
	area_close(&local);
	area_close(&remote);
}
