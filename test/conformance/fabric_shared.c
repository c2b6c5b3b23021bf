/* SPDX-License-Identifier: Apache-2.0 */
/* Peers that share endpoints (eps=N of the provider of our tests, under the name of one whose peers
 * do): there are many more of them than endpoints. One of them is frozen, and what it does not take
 * is told to come out: it does, and what goes to the others meanwhile goes on and is not sent
 * twice; nor do they wait where more is for it than endpoints take, or for long where several such
 * ones fill what there is. What waits for another one that is frozen goes again when that goes on.
 * And what came out undone does not land on what is written later. */
#include "rig.h"

#define LEN    (64u << 10)
#define CROWD  24u
#define BESIDE 8u /* under way to the peer that goes on */
#define ROUNDS 20u
#define BEGUN  32u  /* polls after which the provider has a write, though it refuses one of three */
#define FILL   300u /* beyond what an endpoint of the provider has */
#define FROZEN 6u   /* whose shares of one are more than it has */
#define SOON   (500 * NSEC_PER_MSEC)
#define LATE   (2 * NSEC_PER_SEC)

/* An ep of rig's first device, and its peer's. */
struct peer {
	struct node *node;
	struct pair pair;
	struct area remote;
	struct grant grant;
};

struct all {
	struct rig *rig, others;
	struct peer stuck, waits, live;
	struct area local;
	struct piece beside[BESIDE];
	uint32_t moved, replayed;
	int away; /* others is not polled */
};

static void step(struct all *a)
{
	rig_step(a->rig);
	if (!a->away)
		rig_step(&a->others);
}

#define UNTIL(a, cond, ns)                             \
	do {                                           \
		uint64_t until_ns = clock_ns() + (ns); \
		while (!(cond)) {                      \
			step(a);                       \
			CHECK(!is_late(until_ns));     \
		}                                      \
	} while (0)

static void meet(struct all *a, struct peer *p, struct node *node)
{
	struct end *near = &p->pair.end[0], *far = &p->pair.end[1];

	p->node = node;
	end_open(&a->rig->node[0], near);
	end_open(node, far);
	CHECK_EQ(end_connect(far, near->addr, near->addr_len, 0, NULL), 0);
	CHECK_EQ(end_connect(near, far->addr, far->addr_len, 1, NULL), 0);
	UNTIL(a, near->up && far->up, RIG_PATIENCE_NS);
	area_open(node, &p->remote, LEN);
	grant_open(&p->grant, far, near, &p->remote, 0, LEN, URCCL_RIGHT_WRITE);
}

static void part(struct all *a, struct peer *p)
{
	struct backend const *b = a->rig->backend;
	uint32_t i;

	b->forget(p->pair.end[0].ep, &p->grant.rkey);
	for (i = 0; i < 2; i++)
		b->ep_close(p->pair.end[i].ep);
	UNTIL(a, p->pair.end[0].closed && p->pair.end[1].closed, RIG_PATIENCE_NS);
	UNTIL(a, !b->unexpose(&p->grant.exposure), RIG_PATIENCE_NS);
	grant_unpin(&p->grant);
	for (i = 0; i < 2; i++)
		b->ep_free(p->pair.end[i].ep);
	area_close(&p->remote);
}

static void write_to(struct all *a, struct peer *p, struct piece *piece)
{
	*piece = (struct piece){.out = 0};
	piece_fill(piece, CHUNK_WRITE, &p->pair.end[0], &a->local, 0, &p->grant, 0, LEN);
	while (!piece_try(piece))
		step(a);
}

/* ---- more peers than endpoints ---- */

static void crowd(struct rig *rig)
{
	static struct pair pairs[CROWD];
	static struct grant grants[CROWD];
	static struct piece pieces[CROWD];
	struct area local, remote;
	uint32_t i;

	area_open(&rig->node[0], &local, LEN);
	area_open(&rig->node[1], &remote, CROWD * LEN);
	area_fill(&local, 0, LEN, 7, 0);
	for (i = 0; i < CROWD; i++) {
		pair_open(rig, &pairs[i]);
		grant_open(&grants[i], &pairs[i].end[1], &pairs[i].end[0], &remote, i * LEN, LEN,
			   URCCL_RIGHT_WRITE);
	}
	for (i = 0; i < CROWD; i++) {
		piece_fill(&pieces[i], CHUNK_WRITE, &pairs[i].end[0], &local, 0, &grants[i], 0,
			   LEN);
		piece_post(rig, &pieces[i]);
	}
	for (i = 0; i < CROWD; i++) {
		WAIT(rig, pieces[i].out);
		CHECK_EQ(pieces[i].chunk.res, 0);
		piece_flush(rig, &pairs[i].end[0], &grants[i]);
		CHECK(area_is(&remote, i * LEN, LEN, 7, 0));
	}
	for (i = 0; i < CROWD; i++) {
		grant_close(rig, &grants[i]);
		pair_close(rig, &pairs[i]);
	}
	area_close(&local);
	area_close(&remote);
	CHECK_EQ(provider_count("urccl_test_names"), 2); /* what messages go to */
}

/* ---- some of whom are frozen ---- */

static void beside_begin(struct all *a)
{
	uint32_t i;

	for (i = 0; i < BESIDE; i++)
		write_to(a, &a->live, &a->beside[i]);
}

static void beside_step(struct all *a)
{
	uint32_t i;

	step(a);
	for (i = 0; i < BESIDE; i++) {
		if (!a->beside[i].out)
			continue;
		CHECK_EQ(a->beside[i].chunk.res, 0);
		a->replayed += !!(a->beside[i].chunk.path & URCCL_PATH_REPLAYED);
		a->moved++;
		write_to(a, &a->live, &a->beside[i]);
	}
}

/* Returns how long what is stuck took to come out, and others went on. */
static uint64_t come_out(struct all *a, struct piece *stuck)
{
	uint64_t since = clock_ns();
	uint32_t moved = a->moved;

	a->rig->backend->cancel(&stuck->chunk, CANCEL_NOW);
	while (!stuck->out || a->moved == moved) {
		beside_step(a);
		CHECK(!is_late(since + LATE));
	}
	CHECK_EQ(stuck->chunk.res, -ECANCELED);
	CHECK(!(stuck->chunk.flags & CHUNK_QUIET));
	return clock_ns() - since;
}

/* The peer goes on, and has what is written to it from then on. */
static void go_on(struct all *a, struct peer *p, uint32_t pattern)
{
	struct piece piece;

	area_fill(&a->local, 0, LEN, pattern, 0);
	write_to(a, p, &piece);
	UNTIL(a, piece.out, RIG_PATIENCE_NS);
	CHECK_EQ(piece.chunk.res, 0);
	piece = (struct piece){.out = 0};
	piece_fill(&piece, CHUNK_FLUSH, &p->pair.end[0], &a->local, 0, &p->grant, 0, 0);
	while (!piece_try(&piece))
		step(a);
	UNTIL(a, piece.out, RIG_PATIENCE_NS);
	CHECK_EQ(piece.chunk.res, 0);
	CHECK(area_is(&p->remote, 0, LEN, pattern, 0));
}

/* n that are frozen have all that the provider takes for them; the other one waits so long at
 * most. */
static void fill(struct all *a, uint32_t n, uint64_t ns)
{
	static struct piece pieces[FROZEN][FILL];
	static struct peer frozen[FROZEN];
	struct piece live;
	uint32_t i, k;

	for (k = 0; k < n; k++)
		meet(a, &frozen[k], &a->others.node[k % 2]);
	a->away = 1;
	for (k = 0; k < n; k++)
		for (i = 0; i < FILL; i++) {
			piece_fill(&pieces[k][i], CHUNK_WRITE, &frozen[k].pair.end[0], &a->local, 0,
				   &frozen[k].grant, 0, 64);
			while (!piece_try(&pieces[k][i]))
				step(a);
		}
	write_to(a, &a->live, &live);
	UNTIL(a, live.out, ns);
	CHECK_EQ(live.chunk.res, 0);
	a->away = 0;
	for (k = 0; k < n; k++) {
		for (i = 0; i < FILL; i++) {
			UNTIL(a, pieces[k][i].out, RIG_PATIENCE_NS);
			CHECK_EQ(pieces[k][i].chunk.res, 0);
		}
		part(a, &frozen[k]);
	}
}

static uint64_t one(struct all *a, uint32_t round)
{
	struct piece stuck, waits;
	uint64_t took;
	uint32_t i;

	a->away = 1;
	area_fill(&a->local, 0, LEN, 2 * round, 0);
	write_to(a, &a->stuck, &stuck);
	write_to(a, &a->waits, &waits);
	beside_begin(a);
	for (i = BEGUN + (uint32_t)rig_random(a->rig, 200); i; i--)
		beside_step(a);
	took = come_out(a, &stuck);
	for (i = 0; i < BESIDE; i++)
		UNTIL(a, a->beside[i].out, LATE);
	CHECK(!waits.out);
	a->away = 0;
	UNTIL(a, waits.out, RIG_PATIENCE_NS);
	CHECK_EQ(waits.chunk.res, 0);
	CHECK(waits.chunk.path & URCCL_PATH_REPLAYED);
	go_on(a, &a->stuck, 2 * round + 1);
	go_on(a, &a->waits, 2 * round + 1);
	for (i = (uint32_t)rig_random(a->rig, 200); i; i--)
		step(a);
	CHECK(area_is(&a->stuck.remote, 0, LEN, 2 * round + 1, 0));
	CHECK(area_is(&a->waits.remote, 0, LEN, 2 * round + 1, 0));
	return took;
}

void case_fabric_shared(struct rig *rig)
{
	const char *words = getenv("URCCL_TEST_PROVIDER");
	struct settings settings = *rig->settings;
	static struct all a;
	uint64_t took, most = 0;
	uint32_t round;

	if (!words || !strstr(words, "name=") || !strstr(words, "eps="))
		SKIP("the provider's peers have an endpoint each");
	crowd(rig);
	a.rig = rig;
	rig_open(&a.others, &settings);
	area_open(&rig->node[0], &a.local, LEN);
	meet(&a, &a.stuck, &a.others.node[0]);
	meet(&a, &a.waits, &a.others.node[1]);
	meet(&a, &a.live, &rig->node[1]);
	go_on(&a, &a.stuck, 1);
	go_on(&a, &a.waits, 1);
	fill(&a, 2, SOON);
	fill(&a, FROZEN, LATE);
	for (round = 1; round <= ROUNDS; round++) {
		took = one(&a, round);
		most = took > most ? took : most;
	}
	printf("out after %u ms at most, %u moved beside it, %u of them twice\n",
	       (unsigned)(most / NSEC_PER_MSEC), a.moved, a.replayed);
	CHECK_EQ(a.replayed, 0);
	part(&a, &a.stuck);
	part(&a, &a.waits);
	part(&a, &a.live);
	CHECK_EQ(provider_count("urccl_test_names"), 2 + 4);
	area_close(&a.local);
	rig_close(&a.others);
}
