/* SPDX-License-Identifier: Apache-2.0 */
/* Chunks that are posted together go to the provider several at a time, as many as it takes in one
 * operation and as long as that is short; a long one goes alone. The provider of our tests counts
 * operations. One that never ends holds those beside it, until it is cancelled, or they are. */
#include "rig.h"

#define MANY	 64u
#define ROOM	 20000u
#define LONG	 MANY	 /* the one behind them */
#define LONG_LEN 100000u /* more than is gathered */
#define SMALL	 1024u	 /* up to that they go first, with what is urgent */
#define LEN	 (MANY * ROOM + LONG_LEN)
#define URGENT	 5000u /* bytes of each of those, but the first */
#define MUTE	 777u  /* bytes, as the words have it */
#define FEW	 4u    /* in one operation, of which the second is that */

static int has_word(const char *word)
{
	return !!strstr(getenv("URCCL_TEST_PROVIDER"), word);
}

static uint32_t ranges(void)
{
	const char *words = getenv("URCCL_TEST_PROVIDER");
	const char *at = words ? strstr(words, "iov=") : NULL;

	if (!at)
		SKIP("the provider takes one range at a time");
	return (uint32_t)strtoul(at + 4, NULL, 10);
}

static uint32_t length_of(uint32_t i, uint32_t most)
{
	return i == LONG ? LONG_LEN : 1 + i * 331 % most;
}

/* Returns the operations that it took. */
static uint32_t move_all(struct rig *rig, struct end *end, enum chunk_kind kind,
			 const struct area *local, const struct grant *g, uint32_t most)
{
	struct piece pieces[MANY + 1];
	uint32_t i, before = provider_count("urccl_test_moves");

	for (i = 0; i <= MANY; i++)
		piece_fill(&pieces[i], kind, end, local, i * ROOM, g, i * ROOM, length_of(i, most));
	pieces_post(rig, pieces, MANY + 1);
	WAIT(rig, end->out == end->taken);
	for (i = 0; i <= MANY; i++)
		CHECK_EQ(pieces[i].chunk.res, 0);
	return provider_count("urccl_test_moves") - before;
}

static void check_all(const struct area *area, uint32_t most, uint64_t pattern, uint64_t else_)
{
	uint32_t i, len;

	for (i = 0; i <= MANY; i++) {
		len = length_of(i, most);
		CHECK(area_is(area, i * ROOM, len, pattern, i * ROOM));
		if (i != LONG)
			CHECK(area_is(area, i * ROOM + len, ROOM - len, else_, i * ROOM + len));
	}
}

/* That they make: both queues, and the long one. */
static uint32_t operations(uint32_t most)
{
	uint32_t i, r = ranges(), small = 0;

	for (i = 0; i < MANY; i++)
		small += length_of(i, most) <= SMALL;
	return (small + r - 1) / r + (MANY - small + r - 1) / r + 1;
}

static void both_ways(struct rig *rig, struct end *end, struct area *local, struct area *remote,
		      const struct grant *g, uint32_t most)
{
	uint32_t n = operations(most), moves;

	area_fill(local, 0, LEN, 1, 0);
	area_fill(remote, 0, LEN, 2, 0);
	moves = move_all(rig, end, CHUNK_WRITE, local, g, most);
	CHECK_GE(moves, n);
	CHECK_LE(moves, has_word("ack=early") ? 2 * n : n); /* with a proof for some of them */
	check_all(remote, most, 1, 2);
	area_fill(local, 0, LEN, 3, 0);
	area_fill(remote, 0, LEN, 4, 0);
	CHECK_EQ(move_all(rig, end, CHUNK_READ, local, g, most), n);
	check_all(local, most, 4, 3);
}

/* ---- urgent ones, which go with what does not make them much longer ---- */

static uint32_t move_urgent(struct rig *rig, struct end *end, const struct area *local,
			    const struct grant *g, uint32_t n, uint32_t first)
{
	uint32_t i, before = provider_count("urccl_test_moves");
	struct piece pieces[MANY];

	for (i = 0; i < n; i++) {
		piece_fill(&pieces[i], CHUNK_READ, end, local, i * ROOM, g, i * ROOM,
			   i ? URGENT : first);
		pieces[i].chunk.cls = URCCL_CLASS_LATENCY;
	}
	pieces_post(rig, pieces, n);
	WAIT(rig, end->out == end->taken);
	for (i = 0; i < n; i++)
		CHECK_EQ(pieces[i].chunk.res, 0);
	return provider_count("urccl_test_moves") - before;
}

static void urgent(struct rig *rig, struct end *end, const struct area *local,
		   const struct grant *g)
{
	CHECK_EQ(move_urgent(rig, end, local, g, MANY, URGENT), MANY / ranges());
	CHECK_EQ(move_urgent(rig, end, local, g, 1 + ranges(), 8), 2);
}

/* ---- that fail ---- */

/* The owner has taken one's key back, and who uses it has not heard of that: it alone fails. */
static void stale(struct rig *rig, struct pair *pair, struct area *local, struct area *remote,
		  const struct grant *g)
{
	struct end *end = &pair->end[0];
	uint32_t i, n = ranges(), before;
	struct piece pieces[FEW];
	struct grant old;

	grant_open(&old, &pair->end[1], end, remote, 0, FEW * ROOM, URCCL_RIGHT_WRITE);
	CHECK_EQ(piece_move(rig, CHUNK_WRITE, end, local, 0, &old, 0, 100), 0);
	area_fill(local, 0, FEW * ROOM, 7, 0);
	area_fill(remote, 0, FEW * ROOM, 8, 0);
	while (rig->backend->unexpose(&old.exposure))
		node_poll(&rig->node[1]);
	grant_unpin(&old);
	before = provider_count("urccl_test_moves");
	for (i = 0; i < n; i++)
		piece_fill(&pieces[i], CHUNK_WRITE, end, local, i * ROOM, i == 1 ? &old : g,
			   i * ROOM, 100);
	pieces_post(rig, pieces, n);
	CHECK_EQ(provider_count("urccl_test_moves") - before, 1);
	WAIT(rig, end->out == end->taken);
	for (i = 0; i < n; i++) {
		CHECK_EQ(pieces[i].chunk.res, i == 1 ? -EACCES : 0);
		CHECK(area_is(remote, i * ROOM, 100, i == 1 ? 8 : 7, i * ROOM));
	}
	rig->backend->forget(end->ep, &old.rkey);
}

/* ---- that ends never ---- */

static void post_few(struct rig *rig, struct end *end, struct piece *pieces,
		     const struct area *local, const struct grant *g)
{
	uint32_t i, before = provider_count("urccl_test_moves");

	for (i = 0; i < FEW; i++)
		piece_fill(&pieces[i], CHUNK_WRITE, end, local, i * ROOM, g, i * ROOM,
			   i == 1 ? MUTE : 100);
	pieces_post(rig, pieces, FEW);
	CHECK_EQ(provider_count("urccl_test_moves") - before, 1);
}

static void cancel(struct rig *rig, struct piece *p)
{
	rig->backend->cancel(&p->chunk, CANCEL_NOW);
	WAIT(rig, p->out);
	CHECK_EQ(p->chunk.res, -ECANCELED);
}

/* An innocent one, whose others go together again; then who holds them. */
static void cancel_some(struct rig *rig, struct end *end, struct area *local, struct area *remote,
			const struct grant *g)
{
	struct piece pieces[FEW];
	uint32_t i;

	area_fill(local, 0, FEW * ROOM, 5, 0);
	area_fill(remote, 0, FEW * ROOM, 6, 0);
	post_few(rig, end, pieces, local, g);
	cancel(rig, &pieces[0]);
	for (i = 0; i < 1000; i++)
		rig_step(rig);
	CHECK(!pieces[1].out && !pieces[2].out && !pieces[3].out);
	cancel(rig, &pieces[1]);
	WAIT(rig, end->out == end->taken);
	for (i = 2; i < FEW; i++) {
		CHECK_EQ(pieces[i].chunk.res, 0);
		CHECK(pieces[i].chunk.path & URCCL_PATH_REPLAYED);
		CHECK(area_is(remote, i * ROOM, 100, 5, i * ROOM));
	}
}

/* What the provider has when the ep is closed comes out all the same, once. */
static void close_on_it(struct rig *rig, struct end *end, const struct area *local,
			const struct grant *g)
{
	struct piece pieces[FEW];
	uint32_t i;

	post_few(rig, end, pieces, local, g);
	rig->backend->ep_close(end->ep);
	WAIT(rig, end->closed);
	CHECK_EQ(end->out, end->taken);
	for (i = 0; i < FEW; i++)
		CHECK(pieces[i].chunk.res || pieces[i].chunk.flags & CHUNK_FAILOVER);
}

void case_fabric_gather(struct rig *rig)
{
	struct area local, remote;
	struct pair pair;
	struct grant g;

	ranges();
	pair_open(rig, &pair);
	area_open(&rig->node[0], &local, LEN);
	area_open(&rig->node[1], &remote, LEN);
	grant_open(&g, &pair.end[1], &pair.end[0], &remote, 0, LEN,
		   URCCL_RIGHT_READ | URCCL_RIGHT_WRITE);
	both_ways(rig, &pair.end[0], &local, &remote, &g, 1000);  /* urgent */
	both_ways(rig, &pair.end[0], &local, &remote, &g, 15000); /* bulk, and some of the other */
	urgent(rig, &pair.end[0], &local, &g);
	if (ranges() > 1)
		stale(rig, &pair, &local, &remote, &g);
	if (has_word("mute=777")) {
		cancel_some(rig, &pair.end[0], &local, &remote, &g);
		close_on_it(rig, &pair.end[0], &local, &g);
	}
	grant_close(rig, &g);
	pair_close(rig, &pair);
	area_close(&local);
	area_close(&remote);
}
