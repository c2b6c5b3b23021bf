/* SPDX-License-Identifier: Apache-2.0 */
/* What is in many pieces, of which the provider (max_msg, eagain of that of our tests) has some
 * when the ep ends, by its own side or its peer's, has not succeeded unless it is whole; and one
 * that is told to come out at once does, also where its peer does nothing. */
#include "rig.h"

#define LEN    (256u << 10)
#define ROUNDS 90u
#define STEPS  400u
#define LATE   (2 * NSEC_PER_SEC)

struct half {
	struct rig *rig;
	struct pair pair;
	struct area local, remote;
	struct grant grant;
	struct piece piece;
	enum chunk_kind kind;
	uint32_t done; /* of them, those that succeeded */
};

static void start(struct half *h, uint32_t round)
{
	uint32_t i;

	h->kind = round % 2 ? CHUNK_READ : CHUNK_WRITE;
	pair_open(h->rig, &h->pair);
	grant_open(&h->grant, &h->pair.end[1], &h->pair.end[0], &h->remote, 0, LEN,
		   URCCL_RIGHT_READ | URCCL_RIGHT_WRITE);
	area_fill(&h->local, 0, LEN, 2 * round, 0);
	area_fill(&h->remote, 0, LEN, 2 * round + 1, 0);
	piece_fill(&h->piece, h->kind, &h->pair.end[0], &h->local, 0, &h->grant, 0, LEN);
	piece_post(h->rig, &h->piece);
	for (i = (uint32_t)rig_random(h->rig, STEPS); i && !h->piece.out; i--)
		rig_step(h->rig);
}

static void check(struct half *h, uint32_t round)
{
	struct area *to = h->kind == CHUNK_READ ? &h->local : &h->remote;
	uint32_t pattern = 2 * round + (h->kind == CHUNK_READ);

	if (h->piece.chunk.res)
		return;
	h->done++;
	CHECK(!(h->piece.chunk.flags & CHUNK_QUIET) || area_is(to, 0, LEN, pattern, 0));
}

/* The peer does nothing until it is out. */
static void stop(struct half *h)
{
	uint64_t until = clock_ns() + LATE;

	if (!h->piece.out)
		h->rig->backend->cancel(&h->piece.chunk, CANCEL_NOW);
	while (!h->piece.out) {
		node_poll(&h->rig->node[0]);
		CHECK(!is_late(until));
	}
	CHECK(!h->piece.chunk.res || h->piece.chunk.res == -ECANCELED);
}

static void one(struct half *h, uint32_t round)
{
	start(h, round);
	if (round % 3 == 2)
		stop(h);
	else
		h->rig->backend->ep_close(h->pair.end[round % 3].ep);
	WAIT(h->rig, h->piece.out);
	check(h, round);
	grant_withdraw(h->rig, &h->grant);
	h->rig->backend->forget(h->pair.end[0].ep, &h->grant.rkey);
	pair_close(h->rig, &h->pair);
}

void case_fabric_halves(struct rig *rig)
{
	static struct half h;
	uint32_t round;

	h.rig = rig;
	area_open(&rig->node[0], &h.local, LEN);
	area_open(&rig->node[1], &h.remote, LEN);
	for (round = 0; round < ROUNDS; round++)
		one(&h, round);
	printf("%u of %u succeeded\n", h.done, ROUNDS);
	area_close(&h.local);
	area_close(&h.remote);
}
