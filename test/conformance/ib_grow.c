/* SPDX-License-Identifier: Apache-2.0 */
/* While an ep gets its other queue pairs all goes on, in both directions and by whatever way is
 * there: also where that takes its time, where one end closes meanwhile, and where queue pairs are
 * refused (SHIM=refuse=127 of ibv_shim.c: large WRITEs and small things stay where they were). */
#include "rig.h"

#define ROUNDS 60u
#define PIECES 64u
#define EACH   512u
#define LEN    (PIECES * EACH)
#define MOVES  400u

struct pieces {
	struct rig *rig;
	struct pair pair;
	struct area area[2];
	struct grant grant[2]; /* by which that end reaches the other's area */
	struct piece piece[PIECES];
	uint64_t next; /* pattern */
	uint32_t acked;
};

static void open_all(struct rig *rig, struct pieces *p)
{
	uint32_t i;

	*p = (struct pieces){.rig = rig, .next = 1};
	pair_open_small(rig, &p->pair);
	for (i = 0; i < 2; i++) {
		p->pair.end[i].grows_later = 1;
		area_open(&rig->node[i], &p->area[i], LEN);
	}
	for (i = 0; i < 2; i++)
		grant_open(&p->grant[i], &p->pair.end[!i], &p->pair.end[i], &p->area[!i], 0, LEN,
			   URCCL_RIGHT_READ | URCCL_RIGHT_WRITE);
}

/* What it moved is there, or nobody said so. */
static void look(struct pieces *p, uint32_t i)
{
	struct piece *piece = &p->piece[i];
	uint32_t from = piece->chunk.ep == p->pair.end[1].ep, to;

	if (!piece->taken || piece->looked)
		return;
	piece->looked = 1;
	CHECK(!piece->chunk.res || p->pair.end[0].down || p->pair.end[1].down ||
	      piece->chunk.res == -ECANCELED);
	if (piece->chunk.res)
		return;
	to = piece->chunk.kind == CHUNK_READ ? from : !from;
	if (piece->chunk.flags & CHUNK_QUIET || piece->chunk.kind == CHUNK_READ)
		CHECK(area_is(&p->area[to], i * EACH, EACH, piece->pattern, 0));
	else
		p->acked++;
}

static void move(struct pieces *p, uint32_t i)
{
	struct piece *piece = &p->piece[i];
	uint32_t from = (uint32_t)rig_random(p->rig, 2), reads = (uint32_t)rig_random(p->rig, 2);

	piece_fill(piece, reads ? CHUNK_READ : CHUNK_WRITE, &p->pair.end[from], &p->area[from],
		   i * EACH, &p->grant[from], i * EACH, EACH);
	piece->chunk.cls = rig_random(p->rig, 3) ? URCCL_CLASS_LATENCY : URCCL_CLASS_BULK;
	piece->chunk.flags = rig_random(p->rig, 4) ? 0 : CHUNK_ACKED;
	piece->pattern = (uint32_t)p->next++;
	area_fill(&p->area[reads ? !from : from], i * EACH, EACH, piece->pattern, 0);
	area_fill(&p->area[reads ? from : !from], i * EACH, EACH, 0, 0);
	piece_try(piece);
}

static void grow(struct pieces *p)
{
	struct end *end = &p->pair.end[rig_random(p->rig, 2)];

	if (end->asks && !rig_random(p->rig, 20))
		end_grow(end);
}

static void round_of(struct rig *rig, struct pieces *p, uint32_t moves)
{
	uint32_t i;

	while (moves && !p->pair.end[0].down && !p->pair.end[1].down) {
		i = (uint32_t)rig_random(rig, PIECES);
		if (!p->piece[i].taken || p->piece[i].out) {
			look(p, i);
			move(p, i);
			moves--;
		}
		grow(p);
		if (!rig_random(rig, 4))
			rig_step(rig);
	}
}

static void settle(struct rig *rig, struct pieces *p)
{
	uint32_t i;

	for (i = 0; i < PIECES; i++) {
		WAIT(rig, !p->piece[i].taken || p->piece[i].out);
		look(p, i);
		p->piece[i].taken = 0;
	}
}

/* Nothing that was acknowledged is not there then. */
static void flush(struct rig *rig, struct pieces *p)
{
	struct piece piece;
	uint32_t i, n;

	for (i = 0; i < 2; i++) {
		for (n = 0; n < PIECES; n++) {
			area_fill(&p->area[i], n * EACH, EACH, n + 1, 0);
			piece_fill(&piece, CHUNK_WRITE, &p->pair.end[i], &p->area[i], n * EACH,
				   &p->grant[i], n * EACH, EACH);
			piece.chunk.cls = n % 2 ? URCCL_CLASS_BULK : URCCL_CLASS_LATENCY;
			piece.chunk.flags = CHUNK_ACKED;
			CHECK_EQ(piece_run(rig, &piece), 0);
		}
		piece_flush(rig, &p->pair.end[i], &p->grant[i]);
		for (n = 0; n < PIECES; n++)
			CHECK(area_is(&p->area[!i], n * EACH, EACH, n + 1, 0));
	}
}

static void close_all(struct rig *rig, struct pieces *p)
{
	uint32_t i;

	for (i = 0; i < 2; i++)
		grant_close(rig, &p->grant[i]);
	pair_close(rig, &p->pair);
	for (i = 0; i < 2; i++)
		area_close(&p->area[i]);
}

void case_ib_grow(struct rig *rig)
{
	static struct pieces p;
	uint32_t round, grown[2] = {0, 0}, i, acked = 0;

	for (round = 0; round < ROUNDS; round++) {
		open_all(rig, &p);
		round_of(rig, &p, 1 + (uint32_t)rig_random(rig, MOVES));
		if (round % 2) {
			rig->backend->ep_close(p.pair.end[round / 2 % 2].ep);
			WAIT(rig, p.pair.end[round / 2 % 2].closed);
		}
		settle(rig, &p);
		if (!(round % 2))
			flush(rig, &p);
		for (i = 0; i < 2; i++)
			grown[i] += p.pair.end[i].grown;
		acked += p.acked;
		close_all(rig, &p);
	}
	printf("%u rounds: grown %u and %u times, %u acknowledged\n", ROUNDS, grown[0], grown[1],
	       acked);
	CHECK_GE(grown[0], ROUNDS / 2);
	CHECK_GE(grown[1], ROUNDS / 2);
}
