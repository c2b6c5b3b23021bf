/* SPDX-License-Identifier: Apache-2.0 */
/* One peer's write is cancelled while the helper is in the provider for another one's. Where one
 * thread at a time may be in it a cancel takes no turn, and so calls nothing: the provider of our
 * tests stops who does. */
#include "rig.h"

#define LEN    (1u << 20)
#define ROUNDS 200u
#define STEPS  60u

struct peer {
	struct pair pair;
	struct grant grant;
	struct piece piece;
};

static struct area local, remote;

/* The provider has some of it, or all was done by then. */
static void begin(struct rig *rig, struct peer *p)
{
	piece_fill(&p->piece, CHUNK_WRITE, &p->pair.end[0], &local, 0, &p->grant, 0, LEN);
	piece_post(rig, &p->piece);
	WAIT(rig, p->piece.chunk.scratch[1] || p->piece.out);
}

static uint32_t stop(struct rig *rig, struct peer *p)
{
	if (p->piece.out)
		return 0;
	rig->backend->cancel(&p->piece.chunk, CANCEL_NOW);
	return 1;
}

static void end(struct rig *rig, struct peer *p)
{
	WAIT(rig, p->piece.out);
	CHECK(!p->piece.chunk.res || p->piece.chunk.res == -ECANCELED);
}

void case_fabric_cancels(struct rig *rig)
{
	struct peer peers[2];
	uint32_t round, i, k, both = 0;

	area_open(&rig->node[0], &local, LEN);
	area_open(&rig->node[1], &remote, LEN);
	for (i = 0; i < 2; i++) {
		pair_open(rig, &peers[i].pair);
		grant_open(&peers[i].grant, &peers[i].pair.end[1], &peers[i].pair.end[0], &remote,
			   0, LEN, URCCL_RIGHT_WRITE);
	}
	for (round = 0; round < ROUNDS; round++) {
		begin(rig, &peers[0]);
		begin(rig, &peers[1]);
		i = stop(rig, &peers[0]);
		for (k = (uint32_t)rig_random(rig, STEPS); k; k--)
			rig_step(rig);
		both += stop(rig, &peers[1]) && i;
		end(rig, &peers[0]);
		end(rig, &peers[1]);
	}
	printf("in %u of %u rounds both were cancelled\n", both, ROUNDS);
	CHECK(both);
	for (i = 0; i < 2; i++) {
		CHECK(!peers[i].pair.end[0].down && !peers[i].pair.end[1].down);
		grant_close(rig, &peers[i].grant);
		pair_close(rig, &peers[i].pair);
	}
	area_close(&local);
	area_close(&remote);
}
