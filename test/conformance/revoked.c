/* SPDX-License-Identifier: Apache-2.0 */
/* What was withdrawn is not reached any more, and what is exposed since, there or elsewhere, not by
 * the old key. */
#include "rig.h"

#define LEN    50000u
#define ROUNDS 50u
#define RIGHTS (URCCL_RIGHT_READ | URCCL_RIGHT_WRITE)

/* One access with the old key, while fresh (NULL: nothing) is exposed. */
static void refused(struct rig *rig, struct pair *pair, enum chunk_kind kind, struct area *local,
		    struct area *remote, struct grant *old, struct grant *fresh, uint32_t len)
{
	struct end *end = &pair->end[0];

	area_fill(local, 0, LEN, 2, 0);
	area_fill(remote, 0, LEN, 1, 0);
	CHECK_EQ(piece_move(rig, kind, end, local, 0, old, 0, len), -EACCES);
	CHECK(area_is(remote, 0, LEN, 1, 0));
	CHECK(area_is(local, 0, LEN, 2, 0));
	if (!rig_error_kills_ep(rig)) {
		CHECK(!end->down);
		return;
	}
	/* Keys go with their ep. */
	rig->backend->forget(end->ep, &old->rkey);
	if (fresh)
		grant_close(rig, fresh);
	pair_mend(rig, pair);
	grant_open(old, &pair->end[1], end, remote, 0, LEN, RIGHTS);
	grant_withdraw(rig, old);
	if (fresh)
		grant_open(fresh, &pair->end[1], end, remote, 0, LEN, RIGHTS);
}

static void all_refused(struct rig *rig, struct pair *pair, struct area *local, struct area *remote,
			struct grant *old, struct grant *fresh)
{
	static const uint32_t lens[] = {8, LEN};
	uint32_t i;

	for (i = 0; i < ARRAY_SIZE(lens); i++) {
		refused(rig, pair, CHUNK_WRITE, local, remote, old, fresh, lens[i]);
		refused(rig, pair, CHUNK_READ, local, remote, old, fresh, lens[i]);
	}
}

void case_revoked(struct rig *rig)
{
	struct area local, remote;
	struct grant old, fresh;
	struct pair pair;
	struct end *end = &pair.end[0];
	uint32_t i;

	pair_open(rig, &pair);
	area_open(&rig->node[0], &local, LEN);
	area_open(&rig->node[1], &remote, LEN);
	for (i = 0; i < ROUNDS; i++) {
		grant_open(&old, &pair.end[1], end, &remote, 0, LEN, RIGHTS);
		CHECK_EQ(piece_move(rig, CHUNK_WRITE, end, &local, 0, &old, 0, LEN), 0);
		grant_withdraw(rig, &old);
		all_refused(rig, &pair, &local, &remote, &old, NULL);
		grant_open(&fresh, &pair.end[1], end, &remote, 0, LEN, RIGHTS);
		all_refused(rig, &pair, &local, &remote, &old, &fresh);
		CHECK_EQ(piece_move(rig, CHUNK_WRITE, end, &local, 0, &fresh, 0, LEN), 0);
		CHECK(area_is(&remote, 0, LEN, 2, 0));
		rig->backend->forget(end->ep, &old.rkey);
		grant_close(rig, &fresh);
	}
	pair_close(rig, &pair);
	area_close(&local);
	area_close(&remote);
}
