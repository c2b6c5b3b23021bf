/* SPDX-License-Identifier: Apache-2.0 */
/* Asked to stop, a chunk comes out with both sides quiet: what is written into either buffer
 * afterwards stays. */
#include "rig.h"

#define LEN    (1u << 20)
#define PIECES 6u
#define EACH   (LEN / PIECES)
#define ROUNDS 300u

struct stage {
	struct rig *rig;
	struct end *end;
	struct area *local, *remote;
	const struct grant *grant;
	struct piece pieces[PIECES];
	int asked[PIECES];
};

static void start(struct stage *s, uint64_t pattern)
{
	uint32_t i, len;

	area_fill(s->local, 0, LEN, pattern, 0);
	for (i = 0; i < PIECES; i++) {
		len = 1 + (uint32_t)rig_random(s->rig, rig_random(s->rig, 2) ? EACH : 2000);
		if (rig_random(s->rig, 6))
			piece_fill(&s->pieces[i], rig_random(s->rig, 3) ? CHUNK_WRITE : CHUNK_READ,
				   s->end, s->local, i * EACH, s->grant, i * EACH, len);
		else
			piece_fill_send(&s->pieces[i], s->end, area_view(s->local, i * EACH, 100),
					100);
		piece_post(s->rig, &s->pieces[i]);
	}
	for (i = (uint32_t)rig_random(s->rig, 40); i; i--)
		rig_step(s->rig);
}

static void stop(struct stage *s)
{
	uint32_t i, again;

	for (i = 0; i < PIECES; i++)
		s->asked[i] = !s->pieces[i].out;
	for (again = 0; again < 2; again++) {
		for (i = 0; i < PIECES; i++)
			if (!s->pieces[i].out)
				s->rig->backend->cancel(&s->pieces[i].chunk, CANCEL_ASK);
		if (rig_random(s->rig, 2))
			rig_step(s->rig);
	}
	WAIT(s->rig, s->end->out == s->end->taken);
}

static void check(struct stage *s)
{
	uint32_t i;

	for (i = 0; i < PIECES; i++) {
		const struct chunk *c = &s->pieces[i].chunk;

		CHECK(c->res == 0 || (s->asked[i] && c->res == -ECANCELED));
		if (s->asked[i])
			CHECK(c->flags & CHUNK_QUIET);
		else if (c->kind == CHUNK_WRITE && !(c->flags & CHUNK_QUIET))
			piece_flush(s->rig, s->end, s->grant);
	}
	area_fill(s->local, 0, LEN, 1u << 20, 0);
	area_fill(s->remote, 0, LEN, 1u << 21, 0);
	for (i = 0; i < 30; i++)
		rig_step(s->rig);
	CHECK(area_is(s->local, 0, LEN, 1u << 20, 0));
	CHECK(area_is(s->remote, 0, LEN, 1u << 21, 0));
	CHECK(!s->end->down);
}

void case_cancel_ask(struct rig *rig)
{
	struct area local, remote;
	struct grant g;
	struct pair pair;
	uint32_t round;
	struct stage s;

	pair_open(rig, &pair);
	area_open(&rig->node[0], &local, LEN);
	area_open(&rig->node[1], &remote, LEN);
	grant_open(&g, &pair.end[1], &pair.end[0], &remote, 0, LEN,
		   URCCL_RIGHT_READ | URCCL_RIGHT_WRITE);
	s = (struct stage){
		.rig = rig, .end = &pair.end[0], .local = &local, .remote = &remote, .grant = &g};
	for (round = 0; round < ROUNDS; round++) {
		start(&s, round);
		stop(&s);
		check(&s);
	}
	grant_close(rig, &g);
	pair_close(rig, &pair);
	area_close(&local);
	area_close(&remote);
}
