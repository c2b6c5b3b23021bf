/* SPDX-License-Identifier: Apache-2.0 */
/* What several eps of one device are asked between two polls goes to each of them: two begin to
 * connect while a third sends, then all three are closed. */
#include <sched.h>
#include "rig.h"

#define PAIRS  3u
#define ROUNDS 4u

/* A device that another thread is busy with for a moment may be full, without a poll between. */
static void post(struct piece *p)
{
	uint64_t until = clock_ns() + RIG_PATIENCE_NS;

	while (!piece_try(p)) {
		CHECK(!is_late(until));
		sched_yield();
	}
}

/* Both ends send, as either may be the one that dials for the others. */
static void one(struct rig *rig, struct pair *pairs)
{
	struct pair *first = &pairs[0];
	struct piece pieces[2];
	uint64_t word = 7;
	uint32_t i;

	pair_open(rig, first);
	for (i = 1; i < PAIRS; i++)
		pair_start(rig, &pairs[i]);
	for (i = 0; i < 2; i++) {
		piece_fill_send(&pieces[i], &first->end[i], &word, sizeof(word));
		post(&pieces[i]);
	}
	for (i = 0; i < 2; i++) {
		WAIT(rig, pieces[i].out && first->end[i].messages);
		CHECK_EQ(pieces[i].chunk.res, 0);
	}
	for (i = 0; i < PAIRS; i++) {
		const struct end *a = &pairs[i].end[0], *b = &pairs[i].end[1];

		WAIT(rig, (a->up && b->up) || a->down || b->down);
		CHECK(!a->down && !b->down);
	}
}

void case_one_turn(struct rig *rig)
{
	struct pair pairs[PAIRS];
	uint32_t round, i;

	for (round = 0; round < ROUNDS; round++) {
		one(rig, pairs);
		for (i = 0; i < PAIRS; i++)
			rig->backend->ep_close(pairs[i].end[0].ep);
		for (i = 0; i < PAIRS; i++)
			WAIT(rig, pairs[i].end[0].closed && pairs[i].end[1].down);
		for (i = 0; i < PAIRS; i++)
			pair_close(rig, &pairs[i]);
	}
}
