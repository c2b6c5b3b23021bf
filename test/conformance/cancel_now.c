/* SPDX-License-Identifier: Apache-2.0 */
/* Told to come out at once, chunks do so while the peer does nothing at all, and the local memory
 * is quiet. The ep works on when the peer comes back; one that breaks has a successor. */
#include "rig.h"

#define LEN    (16u << 20)
#define PIECES 16u
#define EACH   (LEN / PIECES)
#define ROUNDS 8u
#define RIGHTS (URCCL_RIGHT_READ | URCCL_RIGHT_WRITE)
#define POLLS  100000u /* of its own, far above what any driver needs */
#define FEW    16u     /* likewise where neither a device nor the copy thread has to be asked */

static void start(struct end *end, struct piece *pieces, struct area *local, const struct grant *g)
{
	uint32_t i;

	for (i = 0; i < PIECES; i++) {
		piece_fill(&pieces[i], i % 4 == 3 ? CHUNK_READ : CHUNK_WRITE, end, local, i * EACH,
			   g, i * EACH, EACH);
		piece_take(&pieces[i]);
	}
}

/* It goes on for a while. */
static void go(struct rig *rig, struct end *end)
{
	uint32_t i;

	for (i = (uint32_t)rig_random(rig, 200); i; i--)
		node_poll(end->node);
}

/* The last of them does not wait for those before it. So early no device has it yet. */
static void stop_last(struct rig *rig, struct end *end, struct piece *last)
{
	uint64_t until = clock_ns() + NSEC_PER_SEC;
	uint32_t polls;

	if (last->out || rig_error_kills_ep(rig))
		return;
	rig->backend->cancel(&last->chunk, CANCEL_NOW);
	for (polls = 0; !last->out; polls++) {
		CHECK(polls < FEW || (end->node->gpu && !is_late(until)));
		node_poll(end->node);
	}
	/* The copy thread may have begun it. */
	CHECK(last->chunk.res == -ECANCELED || (end->node->gpu && !last->chunk.res));
}

static void stop(struct rig *rig, struct end *end, struct piece *pieces)
{
	uint64_t until = clock_ns() + NSEC_PER_SEC;
	int ask = (int)rig_random(rig, 2);
	uint32_t i, polls;

	for (i = 0; i < PIECES; i++) {
		if (pieces[i].out)
			continue;
		if (ask)
			rig->backend->cancel(&pieces[i].chunk, CANCEL_ASK);
		rig->backend->cancel(&pieces[i].chunk, CANCEL_NOW);
	}
	for (polls = 0; end->out < end->taken; polls++) {
		CHECK(polls < POLLS || !is_late(until));
		node_poll(end->node);
	}
	for (i = 0; i < PIECES; i++)
		CHECK(pieces[i].chunk.res == 0 || pieces[i].chunk.res == -ECANCELED);
}

/* The local bytes stay, and the ep goes on once the peer does. */
static void go_on(struct rig *rig, struct pair *pair, struct area *local, struct area *remote,
		  struct grant *g, uint64_t pattern)
{
	struct end *end = &pair->end[0];
	uint32_t i;

	area_fill(local, 0, LEN, pattern, 0);
	for (i = 0; i < 200; i++)
		rig_step(rig);
	CHECK(area_is(local, 0, LEN, pattern, 0));
	if (rig_error_kills_ep(rig)) {
		grant_close(rig, g);
		pair_mend(rig, pair);
		grant_open(g, &pair->end[1], end, remote, 0, LEN, RIGHTS);
	}
	CHECK(!end->down && !pair->end[1].down);
	piece_flush(rig, end, g);
	CHECK_EQ(piece_move(rig, CHUNK_WRITE, end, local, 0, g, 0, EACH), 0);
	CHECK(area_is(remote, 0, EACH, pattern, 0));
}

void case_cancel_now(struct rig *rig)
{
	struct piece pieces[PIECES];
	struct area local, remote;
	struct grant g;
	struct pair pair;
	uint32_t round;

	pair_open(rig, &pair);
	area_open(&rig->node[0], &local, LEN);
	area_open(&rig->node[1], &remote, LEN);
	grant_open(&g, &pair.end[1], &pair.end[0], &remote, 0, LEN, RIGHTS);
	for (round = 0; round < ROUNDS; round++) {
		start(&pair.end[0], pieces, &local, &g);
		stop_last(rig, &pair.end[0], &pieces[PIECES - 1]);
		go(rig, &pair.end[0]);
		stop(rig, &pair.end[0], pieces);
		go_on(rig, &pair, &local, &remote, &g, 1000 + round);
	}
	grant_close(rig, &g);
	pair_close(rig, &pair);
	area_close(&local);
	area_close(&remote);
}
