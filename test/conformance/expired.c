/* SPDX-License-Identifier: Apache-2.0 */
/* After an exposure's time nothing reaches it; before, everything does. */
#include "rig.h"

#define LEN 50000u

static void expect(struct rig *rig, struct pair *pair, struct area *local, struct area *remote,
		   uint64_t expires_ns, int32_t res)
{
	static const uint32_t lens[] = {8, LEN};
	struct end *end = &pair->end[0];
	struct grant g;
	uint32_t i;

	for (i = 0; i < ARRAY_SIZE(lens); i++) {
		area_fill(remote, 0, LEN, 1, 0);
		area_fill(local, 0, LEN, 2, 0);
		grant_open_until(&g, &pair->end[1], end, remote, 0, LEN,
				 URCCL_RIGHT_READ | URCCL_RIGHT_WRITE, expires_ns);
		CHECK_EQ(piece_move(rig, CHUNK_WRITE, end, local, 0, &g, 0, lens[i]), res);
		CHECK(area_is(remote, 0, lens[i], res ? 1 : 2, 0));
		area_fill(remote, 0, LEN, 3, 0);
		CHECK_EQ(piece_move(rig, CHUNK_READ, end, local, 0, &g, 0, lens[i]), res);
		CHECK(area_is(local, 0, lens[i], res ? 2 : 3, 0));
		CHECK(!end->down);
		grant_close(rig, &g);
	}
}

/* The moment itself: writes succeed until one fails, and from then on all fail. A key may say for
 * how long it is good, which counts from its import: what the grant took is the most that adds. */
static void passes(struct rig *rig, struct pair *pair, struct area *local, struct area *remote)
{
	uint64_t expires = clock_ns() + 3 * NSEC_PER_MSEC, until = expires + 10 * NSEC_PER_SEC;
	struct end *end = &pair->end[0];
	uint64_t before, took = clock_ns();
	struct grant g;
	int32_t res;

	grant_open_until(&g, &pair->end[1], end, remote, 0, LEN, URCCL_RIGHT_WRITE, expires);
	took = clock_ns() - took;
	do {
		before = clock_ns();
		res = piece_move(rig, CHUNK_WRITE, end, local, 0, &g, 0, 64);
		CHECK(res == 0 || res == -EACCES);
		CHECK(res == 0 || clock_ns() >= expires);
		CHECK(res == -EACCES || before < expires + took);
		CHECK(clock_ns() < until);
	} while (!res);
	CHECK_EQ(piece_move(rig, CHUNK_WRITE, end, local, 0, &g, 0, 64), -EACCES);
	grant_close(rig, &g);
}

void case_expired(struct rig *rig)
{
	struct area local, remote;
	struct pair pair;

	pair_open(rig, &pair);
	area_open(&rig->node[0], &local, LEN);
	area_open(&rig->node[1], &remote, LEN);
	expect(rig, &pair, &local, &remote, clock_ns() + 3600 * NSEC_PER_SEC, 0);
	expect(rig, &pair, &local, &remote, clock_ns(), -EACCES);
	expect(rig, &pair, &local, &remote, 1, -EACCES);
	passes(rig, &pair, &local, &remote);
	pair_close(rig, &pair);
	area_close(&local);
	area_close(&remote);
}
