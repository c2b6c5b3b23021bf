/* SPDX-License-Identifier: Apache-2.0 */
/* A few bytes do not wait for the megabytes that were posted before them, unless a device had done
 * with these by then: one that is emulated may move them in the call that posts them. */
#include "rig.h"

#define BIG    48u
#define EACH   (2u << 20)
#define SMALL  64u
#define ROUNDS 20u
#define MOST   (20 * NSEC_PER_SEC) /* for as many as there are in that time */

static uint32_t count_out(const struct piece *pieces)
{
	uint32_t i, n = 0;

	for (i = 0; i < BIG; i++)
		n += (uint32_t)pieces[i].out;
	return n;
}

/* 1: there was something to wait for. */
static int one(struct rig *rig, struct end *end, struct area *local, const struct grant *g)
{
	struct piece big[BIG], small;
	uint32_t i, left;

	for (i = 0; i < BIG; i++) {
		piece_fill(&big[i], CHUNK_WRITE, end, local, i * EACH, g, i * EACH, EACH);
		piece_take(&big[i]);
	}
	for (i = (uint32_t)rig_random(rig, 3); i; i--)
		rig_step(rig);
	rig_step(rig);
	left = BIG - count_out(big);
	piece_fill(&small, CHUNK_WRITE, end, local, BIG * EACH, g, BIG * EACH, SMALL);
	small.chunk.cls = URCCL_CLASS_LATENCY;
	CHECK_EQ(piece_run(rig, &small), 0);
	if (left >= BIG / 2)
		CHECK_LE(count_out(big), BIG - left / 2);
	WAIT(rig, end->out == end->taken);
	for (i = 0; i < BIG; i++)
		CHECK_EQ(big[i].chunk.res, 0);
	return left >= BIG / 2;
}

void case_fair(struct rig *rig)
{
	const uint64_t size = BIG * EACH + SMALL;
	struct area local, remote;
	struct grant g;
	struct pair pair;
	uint64_t until;
	uint32_t round, told = 0;

	pair_open(rig, &pair);
	area_open(&rig->node[0], &local, size);
	area_open(&rig->node[1], &remote, size);
	grant_open(&g, &pair.end[1], &pair.end[0], &remote, 0, size, URCCL_RIGHT_WRITE);
	until = clock_ns() + MOST;
	for (round = 0; round < rig_rounds(rig, ROUNDS) && (!round || clock_ns() < until); round++)
		told += (uint32_t)one(rig, &pair.end[0], &local, &g);
	grant_close(rig, &g);
	pair_close(rig, &pair);
	area_close(&local);
	area_close(&remote);
	printf("in %u of %u rounds there was something to wait for\n", told, round);
	CHECK(told || rig->backend->transport == URCCL_TRANSPORT_IB);
	if (!told)
		SKIP("the device moves all in the call that posts it");
}
