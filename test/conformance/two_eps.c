/* SPDX-License-Identifier: Apache-2.0 */
/* Two pairs of eps between the same devices have nothing to do with each other: the end of one does
 * not touch the other's transfers, and messages come to the ep they were sent to. */
#include "rig.h"

#define LEN    (1u << 20)
#define PIECES 8u
#define EACH   (LEN / PIECES)
#define ROUNDS 30u

static void start(struct rig *rig, struct pair *pair, struct piece *pieces, struct area *local,
		  const struct grant *g)
{
	uint32_t i;

	for (i = 0; i < PIECES; i++) {
		piece_fill(&pieces[i], CHUNK_WRITE, &pair->end[0], local, i * EACH, g, i * EACH,
			   EACH);
		piece_post(rig, &pieces[i]);
	}
}

static void talk(struct rig *rig, struct pair *to, const struct pair *other)
{
	uint32_t before = other->end[1].messages;
	uint64_t word = 1;
	struct piece p;

	piece_fill_send(&p, &to->end[0], &word, sizeof(word));
	CHECK_EQ(piece_run(rig, &p), 0);
	WAIT(rig, to->end[1].messages);
	CHECK_EQ(other->end[1].messages, before);
}

static void one(struct rig *rig, struct pair *stays, struct area *local, struct area *remote,
		struct area *other, uint32_t round)
{
	struct piece pieces[PIECES], doomed[PIECES];
	struct grant g, doomed_grant;
	struct pair ends;
	uint32_t i;

	pair_open(rig, &ends);
	grant_open(&g, &stays->end[1], &stays->end[0], remote, 0, LEN, URCCL_RIGHT_WRITE);
	grant_open(&doomed_grant, &ends.end[1], &ends.end[0], other, 0, LEN, URCCL_RIGHT_WRITE);
	area_fill(local, 0, LEN, round, 0);
	talk(rig, &ends, stays);
	start(rig, &ends, doomed, local, &doomed_grant);
	start(rig, stays, pieces, local, &g);
	for (i = (uint32_t)rig_random(rig, 20); i; i--)
		rig_step(rig);
	grant_withdraw(rig, &doomed_grant);
	rig->backend->ep_close(ends.end[0].ep);
	WAIT(rig, ends.end[0].closed);
	rig->backend->forget(ends.end[0].ep, &doomed_grant.rkey);
	pair_close(rig, &ends);
	WAIT(rig, stays->end[0].out == stays->end[0].taken);
	for (i = 0; i < PIECES; i++)
		CHECK_EQ(pieces[i].chunk.res, 0);
	piece_flush(rig, &stays->end[0], &g);
	CHECK(area_is(remote, 0, LEN, round, 0));
	CHECK(!stays->end[0].down && !stays->end[1].down);
	grant_close(rig, &g);
}

void case_two_eps(struct rig *rig)
{
	struct area local, remote, other;
	struct pair stays;
	uint32_t round;

	pair_open(rig, &stays);
	area_open(&rig->node[0], &local, LEN);
	area_open(&rig->node[1], &remote, LEN);
	area_open(&rig->node[1], &other, LEN);
	for (round = 0; round < rig_rounds(rig, ROUNDS); round++)
		one(rig, &stays, &local, &remote, &other, round);
	pair_close(rig, &stays);
	area_close(&local);
	area_close(&remote);
	area_close(&other);
}
