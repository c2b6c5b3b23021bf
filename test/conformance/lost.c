/* SPDX-License-Identifier: Apache-2.0 */
/* The peer's ep ends with our chunks under way: DOWN, every chunk comes out with an error or was
 * done, and what is posted afterwards comes out too. */
#include "rig.h"

#define LEN    (4u << 20)
#define PIECES 16u
#define EACH   (LEN / PIECES)
#define ROUNDS 40u

static void start(struct rig *rig, struct end *end, struct piece *pieces, struct area *local,
		  const struct grant *g)
{
	uint32_t i;

	for (i = 0; i < PIECES; i++) {
		piece_fill(&pieces[i], i % 4 == 3 ? CHUNK_READ : CHUNK_WRITE, end, local, i * EACH,
			   g, i * EACH, EACH);
		piece_post(rig, &pieces[i]);
	}
	for (i = (uint32_t)rig_random(rig, 60); i; i--)
		rig_step(rig);
}

static void one(struct rig *rig, struct area *local, struct area *remote)
{
	struct piece pieces[PIECES];
	struct grant g;
	struct pair pair;
	struct end *end = &pair.end[0];
	uint32_t i;

	pair_open(rig, &pair);
	grant_open(&g, &pair.end[1], end, remote, 0, LEN, URCCL_RIGHT_READ | URCCL_RIGHT_WRITE);
	start(rig, end, pieces, local, &g);
	grant_withdraw(rig, &g);
	rig->backend->ep_close(pair.end[1].ep);
	WAIT(rig, pair.end[1].closed && end->down && end->out == end->taken);
	area_fill(local, 0, LEN, 3, 0);
	area_fill(remote, 0, LEN, 4, 0);
	for (i = 0; i < PIECES; i++)
		CHECK(pieces[i].chunk.res == 0 || pieces[i].chunk.res == -ECONNRESET ||
		      pieces[i].chunk.res == -EACCES);
	piece_fill(&pieces[0], CHUNK_WRITE, end, local, 0, &g, 0, EACH);
	CHECK_EQ(piece_run(rig, &pieces[0]), -ECONNRESET);
	CHECK(area_is(local, 0, LEN, 3, 0));
	CHECK(area_is(remote, 0, LEN, 4, 0));
	rig->backend->forget(end->ep, &g.rkey);
	pair_close(rig, &pair);
}

void case_lost(struct rig *rig)
{
	struct area local, remote;
	uint32_t round;

	area_open(&rig->node[0], &local, LEN);
	area_open(&rig->node[1], &remote, LEN);
	for (round = 0; round < rig_rounds(rig, ROUNDS); round++)
		one(rig, &local, &remote);
	area_close(&local);
	area_close(&remote);
}
