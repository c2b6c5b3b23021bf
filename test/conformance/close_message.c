/* SPDX-License-Identifier: Apache-2.0 */
/* Messages that came for an ep which then ends are not given out after its end, and another ep gets
 * its own. */
#include "rig.h"

#define SENDS  40u
#define ROUNDS 100u

/* As many as the device takes at once. */
static uint32_t send_all(struct rig *rig, struct end *end, struct piece *pieces)
{
	static uint64_t word = 1;
	uint32_t i, n;

	for (n = 0; n < SENDS; n++) {
		piece_fill_send(&pieces[n], end, &word, sizeof(word));
		/* It may be at something else right now. */
		while (!piece_try(&pieces[n]) && !n)
			node_poll(end->node);
		if (!pieces[n].taken)
			break;
	}
	/* The receiver's device takes them at its own polls only. */
	for (i = (uint32_t)rig_random(rig, 60); i; i--)
		node_poll(end->node);
	return n;
}

static void one(struct rig *rig, struct pair *stays)
{
	struct piece to_ends[SENDS], to_stays[SENDS];
	uint32_t before = stays->end[1].messages, i, n;
	struct pair ends;

	pair_open(rig, &ends);
	send_all(rig, &ends.end[0], to_ends);
	n = send_all(rig, &stays->end[0], to_stays);
	if (rig_random(rig, 2))
		node_poll(&rig->node[1]);
	rig->backend->ep_close(ends.end[1].ep);
	/* The rig checks that nothing follows CLOSED. */
	WAIT(rig, ends.end[1].closed && ends.end[0].down);
	WAIT(rig, stays->end[0].out == stays->end[0].taken);
	for (i = 0; i < n; i++)
		CHECK_EQ(to_stays[i].chunk.res, 0);
	WAIT(rig, stays->end[1].messages - before >= n);
	pair_close(rig, &ends);
}

void case_close_message(struct rig *rig)
{
	struct pair stays;
	uint32_t round;

	pair_open(rig, &stays);
	for (round = 0; round < rig_rounds(rig, ROUNDS); round++)
		one(rig, &stays);
	pair_close(rig, &stays);
}
