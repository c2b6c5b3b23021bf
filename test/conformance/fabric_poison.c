/* SPDX-License-Identifier: Apache-2.0 */
/* One operation that a provider fails whenever it is tried costs nobody else anything, though it
 * takes the way along each time: it fails, and what was under way beside it comes out well. */
#include "rig.h"

#define POISON 4097u /* bytes, as the words have it: poison, or cutter */
#define MANY   100u
#define ROOM   8192u
#define LEN    (MANY * ROOM)
#define TRIES  8u /* on a machine that is too busy to make a way anew in time */

static uint32_t length_of(uint32_t i)
{
	return i == MANY / 2 ? POISON : i % 4 == 1 ? ROOM - i : 1 + i;
}

static void start(struct rig *rig, struct end *end, struct piece *pieces, struct area *local,
		  const struct grant *g)
{
	uint32_t i;

	for (i = 0; i < MANY; i++)
		piece_fill(&pieces[i], CHUNK_WRITE, end, local, i * ROOM, g, i * ROOM,
			   length_of(i));
	pieces_post(rig, pieces, MANY);
}

/* 0: the pair is down, as no way came in time. */
static int once(struct rig *rig, struct area *local, struct area *remote)
{
	struct piece pieces[MANY];
	struct pair pair;
	struct grant g;
	int up;
	uint32_t i;

	pair_open(rig, &pair);
	area_fill(local, 0, LEN, 1, 0);
	area_fill(remote, 0, LEN, 2, 0);
	grant_open(&g, &pair.end[1], &pair.end[0], remote, 0, LEN, URCCL_RIGHT_WRITE);
	start(rig, &pair.end[0], pieces, local, &g);
	WAIT(rig, pair.end[0].out == pair.end[0].taken);
	up = !pair.end[0].down && !pair.end[1].down;
	for (i = 0; up && i < MANY; i++) {
		CHECK_EQ(pieces[i].chunk.res, i == MANY / 2 ? -EIO : 0);
		CHECK(i == MANY / 2 || area_is(remote, i * ROOM, length_of(i), 1, i * ROOM));
	}
	if (up) /* and it goes on */
		CHECK(!piece_move(rig, CHUNK_WRITE, &pair.end[0], local, 0, &g, 0, ROOM) ||
		      pair.end[0].down || pair.end[1].down);
	grant_close(rig, &g);
	pair_close(rig, &pair);
	return up;
}

void case_fabric_poison(struct rig *rig)
{
	const char *words = getenv("URCCL_TEST_PROVIDER");
	struct area local, remote;
	uint32_t tries;

	if (!words || !(strstr(words, "poison=4097") || strstr(words, "cutter=4097")))
		SKIP("the provider poisons nothing");
	area_open(&rig->node[0], &local, LEN);
	area_open(&rig->node[1], &remote, LEN);
	for (tries = 1; !once(rig, &local, &remote); tries++)
		CHECK(tries < TRIES);
	area_close(&local);
	area_close(&remote);
}
