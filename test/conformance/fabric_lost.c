/* SPDX-License-Identifier: Apache-2.0 */
/* A provider completes messages that never come: SENDs come nevertheless, each once, those behind
 * one that was cancelled too, and the two agree on another way. */
#include "rig.h"

#define SENDS  12u
#define MANY   80u /* more than an ep may have untaken */
#define BREAKS 2u
#define LEN    (1u << 20)

struct lost {
	struct rig *rig;
	struct pair pair;
	uint32_t came[SENDS + MANY + 1];
};

static void on_message(struct end *end, const uint8_t *data, uint32_t len)
{
	struct lost *l = end->arg;
	uint32_t id;

	CHECK_EQ(len, sizeof(id));
	memcpy(&id, data, sizeof(id));
	CHECK(id < ARRAY_SIZE(l->came));
	CHECK(!l->came[id]);
	l->came[id] = 1;
}

static void sends(struct lost *l, uint32_t id)
{
	struct piece p;

	piece_fill_send(&p, &l->pair.end[0], &id, sizeof(id));
	CHECK_EQ(piece_run(l->rig, &p), 0);
	CHECK(l->came[id]);
}

/* Their memory is gone when the peer misses them. */
static void cancels(struct lost *l)
{
	static struct piece pieces[MANY];
	uint32_t i, id;

	for (i = 0; i < MANY; i++) {
		id = SENDS + i;
		piece_fill_send(&pieces[i], &l->pair.end[0], &id, sizeof(id));
		piece_post(l->rig, &pieces[i]);
		l->rig->backend->cancel(&pieces[i].chunk, CANCEL_NOW);
		WAIT(l->rig, pieces[i].out);
	}
}

/* What is cancelled takes its way along, and the next needs another one. */
static void breaks(struct lost *l, struct area *local, struct grant *g)
{
	struct end *end = &l->pair.end[0];
	struct piece p;
	uint32_t i;

	for (i = 0; i < BREAKS; i++) {
		piece_fill(&p, CHUNK_WRITE, end, local, 0, g, 0, LEN);
		piece_post(l->rig, &p);
		l->rig->backend->cancel(&p.chunk, CANCEL_NOW);
		WAIT(l->rig, p.out);
		CHECK_EQ(piece_move(l->rig, CHUNK_WRITE, end, local, 0, g, 0, LEN), 0);
	}
}

void case_fabric_lost(struct rig *rig)
{
	const char *words = getenv("URCCL_TEST_PROVIDER");
	static struct lost l;
	struct area local, remote;
	struct grant g;
	uint32_t i;

	if (!words || !strstr(words, "lose="))
		SKIP("the provider loses nothing");
	l.rig = rig;
	pair_open(rig, &l.pair);
	l.pair.end[1].on_message = on_message;
	l.pair.end[1].arg = &l;
	area_open(&rig->node[0], &local, LEN);
	area_open(&rig->node[1], &remote, LEN);
	grant_open(&g, &l.pair.end[1], &l.pair.end[0], &remote, 0, LEN, URCCL_RIGHT_WRITE);
	for (i = 0; i < SENDS; i++)
		sends(&l, i);
	cancels(&l);
	sends(&l, SENDS + MANY);
	breaks(&l, &local, &g);
	CHECK(!l.pair.end[0].down && !l.pair.end[1].down);
	grant_close(rig, &g);
	pair_close(rig, &l.pair);
	area_close(&local);
	area_close(&remote);
}
