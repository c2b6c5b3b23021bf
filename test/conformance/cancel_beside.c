/* SPDX-License-Identifier: Apache-2.0 */
/* A chunk that is told to come out at once takes no other along: those beside it succeed, also
 * where the device can end it only by ending all that it has, and they go again. */
#include "rig.h"

#define BIG    (8u << 20)
#define PIECES 16u
#define EACH   (64u << 10)
#define LEN    (BIG + PIECES * EACH)
#define ROUNDS 20u
#define STEPS  10u

struct round {
	struct rig *rig;
	struct pair pair;
	struct area local, remote;
	struct grant grant;
	struct piece big, pieces[PIECES];
	uint64_t ns[ROUNDS]; /* until all are out, of those that cancelled */
	uint32_t cancelled;
};

static void start(struct round *r, uint32_t round)
{
	struct end *end = &r->pair.end[0];
	uint32_t i;

	area_fill(&r->local, 0, LEN, round + 1, 0);
	piece_fill(&r->big, CHUNK_WRITE, end, &r->local, 0, &r->grant, 0, BIG);
	piece_take(&r->big);
	for (i = 0; i < PIECES; i++) {
		const uint64_t at = BIG + i * EACH;

		piece_fill(&r->pieces[i], CHUNK_WRITE, end, &r->local, at, &r->grant, at, EACH);
		piece_take(&r->pieces[i]);
	}
	for (i = round ? (uint32_t)rig_random(r->rig, STEPS) : 0; i; i--)
		rig_step(r->rig);
}

/* It may be done by then. */
static void stop(struct round *r, uint32_t round)
{
	uint64_t since = clock_ns();
	uint32_t i;

	if (!r->big.out)
		r->rig->backend->cancel(&r->big.chunk, CANCEL_NOW);
	WAIT(r->rig, r->pair.end[0].out == r->pair.end[0].taken);
	if (r->big.chunk.res)
		r->ns[r->cancelled++] = clock_ns() - since;
	CHECK(!r->big.chunk.res || r->big.chunk.res == -ECANCELED);
	for (i = 0; i < PIECES; i++)
		CHECK_EQ(r->pieces[i].chunk.res, 0);
	piece_flush(r->rig, &r->pair.end[0], &r->grant);
	CHECK(area_is(&r->remote, BIG, PIECES * EACH, round + 1, BIG));
	CHECK(!r->pair.end[0].down && !r->pair.end[1].down);
}

static int is_less(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

void case_cancel_beside(struct rig *rig)
{
	static struct round r;
	uint32_t round;

	if (rig_error_kills_ep(rig))
		SKIP("what is cancelled at once ends the ep");
	r.rig = rig;
	pair_open(rig, &r.pair);
	area_open(&rig->node[0], &r.local, LEN);
	area_open(&rig->node[1], &r.remote, LEN);
	grant_open(&r.grant, &r.pair.end[1], &r.pair.end[0], &r.remote, 0, LEN, URCCL_RIGHT_WRITE);
	for (round = 0; round < ROUNDS; round++) {
		start(&r, round);
		stop(&r, round);
	}
	CHECK_GE(r.cancelled, 1);
	qsort(r.ns, r.cancelled, sizeof(r.ns[0]), is_less);
	printf("%u of %u cancelled; the others were out within %.3f ms, at most %.3f\n",
	       r.cancelled, ROUNDS, (double)r.ns[r.cancelled / 2] / 1e6,
	       (double)r.ns[r.cancelled - 1] / 1e6);
	grant_close(rig, &r.grant);
	pair_close(rig, &r.pair);
	area_close(&r.local);
	area_close(&r.remote);
}
