/* SPDX-License-Identifier: Apache-2.0 */
/* A full queue takes the first few or none, and takes the rest later: many small chunks at once. */
#include "rig.h"

#define PIECES 20000u
#define LEN    24u
#define BATCH  64u

/* Takes what the queue has room for, without a poll. Returns how many. */
static uint32_t post_some(struct end *end, struct piece *pieces, uint32_t n)
{
	struct chunk *chunks[BATCH];
	uint32_t i, took;

	for (i = 0; i < n; i++) {
		chunks[i] = &pieces[i].chunk;
		pieces[i].taken = 1;
	}
	took = end->node->dev->ops->post(end->ep, chunks, n);
	CHECK_LE(took, n);
	for (i = took; i < n; i++)
		pieces[i].taken = 0;
	end->taken += took;
	return took;
}

void case_full(struct rig *rig)
{
	struct piece *pieces = calloc(PIECES, sizeof(*pieces));
	uint32_t i, n, before, posted = 0, shorts = 0;
	struct area local, remote;
	struct grant g;
	struct pair pair;

	CHECK(pieces);
	pair_open(rig, &pair);
	area_open(&rig->node[0], &local, PIECES * LEN);
	area_open(&rig->node[1], &remote, PIECES * LEN);
	area_fill(&local, 0, PIECES * LEN, 5, 0);
	grant_open(&g, &pair.end[1], &pair.end[0], &remote, 0, PIECES * LEN, URCCL_RIGHT_WRITE);
	for (i = 0; i < PIECES; i++)
		piece_fill(&pieces[i], CHUNK_WRITE, &pair.end[0], &local, i * LEN, &g, i * LEN,
			   LEN);
	while (posted < PIECES) {
		n = PIECES - posted < BATCH ? PIECES - posted : BATCH;
		i = post_some(&pair.end[0], pieces + posted, n);
		posted += i;
		if (i < n) {
			shorts++;
			before = pair.end[0].out;
			if (pair.end[0].taken == before) /* it takes nothing yet */
				rig_step(rig);
			else
				WAIT(rig, pair.end[0].out != before);
		}
	}
	/* More than any queue holds were posted without a poll between. */
	CHECK(shorts);
	WAIT(rig, pair.end[0].out == PIECES);
	for (i = 0; i < PIECES; i++)
		CHECK_EQ(pieces[i].chunk.res, 0);
	piece_flush(rig, &pair.end[0], &g);
	CHECK(area_is(&remote, 0, PIECES * LEN, 5, 0));
	grant_close(rig, &g);
	pair_close(rig, &pair);
	area_close(&local);
	area_close(&remote);
	free(pieces);
}
