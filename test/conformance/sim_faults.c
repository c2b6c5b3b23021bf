/* SPDX-License-Identifier: Apache-2.0 */
/* The harmless faults do happen: writes acknowledged before they are placed, placed twice, and
 * overtaking each other; messages that come twice. After a FLUSH all of it is over. */
#include "rig.h"

#define PIECES 100u
#define EACH   (20u << 10)
#define LEN    (PIECES * EACH)
#define ROUNDS 20u

struct seen {
	uint32_t acknowledged, placed, late, twice, overtaken;
};

static void look_at(struct seen *seen, const struct piece *pieces, uint32_t i, struct area *remote,
		    uint64_t pattern)
{
	int there = area_is(remote, i * EACH, EACH, pattern, i * EACH);

	if (pieces[i].chunk.flags & CHUNK_QUIET) {
		seen->placed++;
		CHECK(there);
		return;
	}
	seen->acknowledged++;
	seen->late += !there;
}

static void post_all(struct rig *rig, struct seen *seen, struct piece *pieces, struct end *end,
		     struct area *local, struct area *remote, const struct grant *g,
		     uint64_t pattern)
{
	uint32_t i, looked = 0, next = 0;
	int done[PIECES] = {0};

	for (i = 0; i < PIECES; i++) {
		piece_fill(&pieces[i], CHUNK_WRITE, end, local, i * EACH, g, i * EACH, EACH);
		piece_post(rig, &pieces[i]);
	}
	while (looked < PIECES) {
		rig_step(rig);
		for (i = 0; i < PIECES; i++) {
			if (!pieces[i].out || done[i])
				continue;
			CHECK_EQ(pieces[i].chunk.res, 0);
			seen->overtaken += i != next;
			next = i + 1;
			done[i] = 1;
			looked++;
			look_at(seen, pieces, i, remote, pattern);
		}
	}
}

static void one(struct rig *rig, struct seen *seen, struct pair *pair, struct area *local,
		struct area *remote, const struct grant *g, uint32_t round)
{
	static struct piece pieces[PIECES];
	struct end *end = &pair->end[0];
	uint32_t i;

	area_fill(local, 0, LEN, round, 0);
	post_all(rig, seen, pieces, end, local, remote, g, round);
	area_fill(remote, 0, LEN, 1u << 20, 0);
	piece_flush(rig, end, g);
	for (i = 0; i < PIECES; i++)
		seen->twice += !area_is(remote, i * EACH, EACH, 1u << 20, i * EACH);
	area_fill(remote, 0, LEN, 1u << 21, 0);
	for (i = 0; i < 200; i++)
		rig_step(rig);
	CHECK(area_is(remote, 0, LEN, 1u << 21, 0));
}

static void messages(struct rig *rig, struct pair *pair)
{
	uint64_t word = 1;
	struct piece p;
	uint32_t i;

	for (i = 0; i < 1000; i++) {
		piece_fill_send(&p, &pair->end[0], &word, sizeof(word));
		CHECK_EQ(piece_run(rig, &p), 0);
	}
	WAIT(rig, pair->end[1].messages > 1100);
	CHECK_LE(pair->end[1].messages, 2000);
}

void case_sim_faults(struct rig *rig)
{
	struct seen seen = {0};
	struct area local, remote;
	struct grant g;
	struct pair pair;
	uint32_t round;

	pair_open(rig, &pair);
	area_open(&rig->node[0], &local, LEN);
	area_open(&rig->node[1], &remote, LEN);
	grant_open(&g, &pair.end[1], &pair.end[0], &remote, 0, LEN, URCCL_RIGHT_WRITE);
	for (round = 0; round < ROUNDS; round++)
		one(rig, &seen, &pair, &local, &remote, &g, round);
	messages(rig, &pair);
	printf("acknowledged %u of which late %u, placed %u, overtaken %u, twice %u\n",
	       seen.acknowledged, seen.late, seen.placed, seen.overtaken, seen.twice);
	CHECK(seen.acknowledged > PIECES && seen.placed > PIECES);
	CHECK(seen.late && seen.twice && seen.overtaken > PIECES);
	grant_close(rig, &g);
	pair_close(rig, &pair);
	area_close(&local);
	area_close(&remote);
}
