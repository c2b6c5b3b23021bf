/* SPDX-License-Identifier: Apache-2.0 */
/* Once connected and imported nothing is allocated: not for the first chunks, not for a full queue,
 * not for cancelling or sleeping. */
#include "rig.h"

#define PIECES 2048u
#define EACH   600u
#define LEN    (PIECES * EACH)
#define ROUNDS 20u

static void post_all(struct rig *rig, struct piece *pieces, struct pair *pair, struct area *local,
		     const struct grant *g)
{
	static uint8_t note[MESSAGE_MAX];
	struct end *end = &pair->end[0];
	uint32_t i;

	for (i = 0; i < PIECES; i++) {
		if (i % 64 == 63)
			piece_fill(&pieces[i], CHUNK_FLUSH, end, NULL, 0, g, 0, 0);
		else if (i % 16 == 15)
			piece_fill_send(&pieces[i], end, note, sizeof(note));
		else if (i == PIECES / 2)
			piece_fill(&pieces[i], CHUNK_WRITE, end, local, 0, g, 0, LEN);
		else
			piece_fill(&pieces[i], i % 3 ? CHUNK_WRITE : CHUNK_READ, end, local,
				   i * EACH, g, i * EACH, EACH);
		piece_post(rig, &pieces[i]);
	}
}

static void run(struct rig *rig, struct piece *pieces, struct pair *pair, struct area *local,
		const struct grant *g, uint32_t round)
{
	uint32_t i;

	post_all(rig, pieces, pair, local, g);
	for (i = 0; round % 2 && i < PIECES; i++)
		if (!pieces[i].out)
			rig->backend->cancel(&pieces[i].chunk, i % 2 ? CANCEL_ASK : CANCEL_NOW);
	rig->backend->arm(rig->node[0].dev);
	rig->backend->arm(rig->node[1].dev);
	WAIT(rig, pair->end[0].out == pair->end[0].taken);
}

void case_no_alloc(struct rig *rig)
{
	struct piece *pieces = calloc(PIECES, sizeof(*pieces));
	struct area local, remote;
	struct grant g;
	struct pair pair;
	uint64_t before;
	uint32_t round;

	CHECK(pieces);
	pair_open(rig, &pair);
	area_open(&rig->node[0], &local, LEN);
	area_open(&rig->node[1], &remote, LEN);
	grant_open(&g, &pair.end[1], &pair.end[0], &remote, 0, LEN,
		   URCCL_RIGHT_READ | URCCL_RIGHT_WRITE);
	before = allocations();
	CHECK(before);
	for (round = 0; round < rig_rounds(rig, ROUNDS); round++)
		run(rig, pieces, &pair, &local, &g, round);
	CHECK_EQ(allocations() - before, 0);
	grant_close(rig, &g);
	pair_close(rig, &pair);
	area_close(&local);
	area_close(&remote);
	free(pieces);
}
