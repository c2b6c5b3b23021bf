/* SPDX-License-Identifier: Apache-2.0 */
/* Once withdrawn the owner's memory is its own, however much of a transfer is under way; and what
 * was said to be placed is. */
#include "rig.h"

#define LEN    (1u << 20)
#define PIECES 8u
#define PIECE  (LEN / PIECES)
#define ROUNDS 100u

static void start(struct rig *rig, struct piece *pieces, struct end *end, struct area *local,
		  const struct grant *g)
{
	uint32_t i;

	for (i = 0; i < PIECES; i++) {
		piece_fill(&pieces[i], CHUNK_WRITE, end, local, i * PIECE, g, i * PIECE, PIECE);
		piece_post(rig, &pieces[i]);
	}
}

static void check_out(const struct piece *pieces, const struct area *remote, uint64_t pattern)
{
	uint32_t i;

	for (i = 0; i < PIECES; i++)
		if (pieces[i].out && !pieces[i].chunk.res)
			CHECK(area_is(remote, i * PIECE, PIECE, pattern, i * PIECE));
}

static void finish(struct rig *rig, const struct end *end, const struct piece *pieces)
{
	uint32_t i;

	WAIT(rig, end->out == end->taken);
	for (i = 0; i < PIECES; i++)
		CHECK(pieces[i].chunk.res == 0 || pieces[i].chunk.res == -EACCES ||
		      (rig_error_kills_ep(rig) && pieces[i].chunk.res == -ECONNRESET));
	for (i = 0; i < 50; i++)
		rig_step(rig);
	CHECK(rig_error_kills_ep(rig) || !end->down);
}

static void one(struct rig *rig, struct pair *pair, struct area *local, uint32_t round)
{
	struct piece pieces[PIECES];
	struct area remote;
	struct grant g;
	uint32_t i;

	area_open(&rig->node[1], &remote, LEN);
	area_fill(local, 0, LEN, round, 0);
	grant_open(&g, &pair->end[1], &pair->end[0], &remote, 0, LEN, URCCL_RIGHT_WRITE);
	start(rig, pieces, &pair->end[0], local, &g);
	for (i = (uint32_t)rig_random(rig, 60); i; i--)
		rig_step(rig);
	grant_withdraw(rig, &g);
	check_out(pieces, &remote, round);
	if (round % 2) {
		/* Unmapped: whoever still touches it is told by a signal. */
		area_close(&remote);
		finish(rig, &pair->end[0], pieces);
	} else {
		area_fill(&remote, 0, LEN, ROUNDS, 0);
		finish(rig, &pair->end[0], pieces);
		CHECK(area_is(&remote, 0, LEN, ROUNDS, 0));
		area_close(&remote);
	}
	rig->backend->forget(pair->end[0].ep, &g.rkey);
	pair_mend(rig, pair);
}

void case_revoked_midway(struct rig *rig)
{
	struct area local;
	struct pair pair;
	uint32_t round;

	pair_open(rig, &pair);
	area_open(&rig->node[0], &local, LEN);
	for (round = 0; round < ROUNDS; round++)
		one(rig, &pair, &local, round);
	pair_close(rig, &pair);
	area_close(&local);
}
