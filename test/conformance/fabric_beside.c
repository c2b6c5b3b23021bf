/* SPDX-License-Identifier: Apache-2.0 */
/* What fails at one peer's, or on what it shares with others, is not their affair. By words of the
 * provider of our tests: one entry takes all along that its endpoint has, and so what the peer has
 * on its way (cutter); an endpoint fails all from some operation on (sick); and keys that are made
 * anew again and again, which this provider has another word for (reject). What another peer has
 * meanwhile succeeds. */
#include "rig.h"

#define CUTTER 4097u
#define CUTS   4u
#define LEN    8192u
#define BACK   (1u << 20)
#define LEAVES 5u
#define MANY   100u
#define ROUNDS 30u
#define LATE   (10 * NSEC_PER_SEC)

struct peer {
	struct pair pair;
	struct grant grant, back;
	struct piece pieces[MANY], returns;
};

static struct peer bad, good;
static struct area local, remote;

static void open_one(struct rig *rig, struct peer *p)
{
	pair_open(rig, &p->pair);
	grant_open(&p->grant, &p->pair.end[1], &p->pair.end[0], &remote, 0, LEN, URCCL_RIGHT_WRITE);
	grant_open(&p->back, &p->pair.end[0], &p->pair.end[1], &local, 0, BACK, URCCL_RIGHT_WRITE);
}

static void close_one(struct rig *rig, struct peer *p)
{
	grant_close(rig, &p->grant);
	grant_close(rig, &p->back);
	pair_close(rig, &p->pair);
}

static void post(struct rig *rig, struct peer *p, uint32_t i, uint32_t len)
{
	piece_fill(&p->pieces[i], CHUNK_WRITE, &p->pair.end[0], &local, 0, &p->grant, 0, len);
	piece_post(rig, &p->pieces[i]);
}

static void await(struct rig *rig, const struct piece *piece)
{
	uint64_t until = clock_ns() + LATE;

	while (!piece->out) {
		rig_step(rig);
		CHECK(!is_late(until));
	}
}

/* So many small ones, of which some are under way when what is beside them fails. */
static void others_begin(struct rig *rig, uint32_t n)
{
	uint32_t i;

	for (i = 0; i < n; i++)
		post(rig, &good, i, 64);
}

static void others_end(struct rig *rig, uint32_t n)
{
	uint32_t i;

	for (i = 0; i < n; i++) {
		await(rig, &good.pieces[i]);
		CHECK_EQ(good.pieces[i].chunk.res, 0);
	}
}

/* One of each at a time. */
static void cut_one(struct rig *rig)
{
	uint32_t done = 0;

	post(rig, &good, 0, LEN);
	post(rig, &bad, 0, CUTTER);
	while (done < ROUNDS) {
		rig_step(rig);
		if (good.pieces[0].out) {
			CHECK_EQ(good.pieces[0].chunk.res, 0);
			post(rig, &good, 0, LEN);
		}
		if (bad.pieces[0].out) {
			CHECK_EQ(bad.pieces[0].chunk.res, -EIO);
			done++;
			post(rig, &bad, 0, CUTTER);
		}
	}
	await(rig, &good.pieces[0]);
	await(rig, &bad.pieces[0]);
}

static void cut_many(struct rig *rig)
{
	uint32_t round, i, n;

	for (round = 0; round < ROUNDS; round++) {
		n = round % 3 ? MANY : 1;
		others_begin(rig, n);
		for (i = 0; i < CUTS; i++)
			post(rig, &bad, i, CUTTER);
		others_end(rig, n);
		for (i = 0; i < CUTS; i++) {
			await(rig, &bad.pieces[i]);
			CHECK_EQ(bad.pieces[i].chunk.res, -EIO);
		}
	}
}

static void write_back(struct rig *rig)
{
	piece_fill(&bad.returns, CHUNK_WRITE, &bad.pair.end[1], &remote, 0, &bad.back, 0, BACK);
	piece_post(rig, &bad.returns);
}

/* The peer always has something under way, which fails each time that the cutter does: where
 * endpoints are shared it is not blamed for that, nor is the cutter excused by it. */
static void cut_both(struct rig *rig)
{
	uint32_t done = 0;

	write_back(rig);
	post(rig, &bad, 0, CUTTER);
	while (done < ROUNDS) {
		rig_step(rig);
		if (bad.returns.out) {
			CHECK_EQ(bad.returns.chunk.res, 0);
			write_back(rig);
		}
		if (bad.pieces[0].out) {
			CHECK_EQ(bad.pieces[0].chunk.res, -EIO);
			done++;
			post(rig, &bad, 0, CUTTER);
		}
	}
	await(rig, &bad.returns);
	CHECK_EQ(bad.returns.chunk.res, 0);
	await(rig, &bad.pieces[0]);
}

static void cut(struct rig *rig)
{
	cut_one(rig);
	cut_many(rig);
	if (strstr(getenv("URCCL_TEST_PROVIDER"), "name="))
		cut_both(rig);
}

static void sicken(struct rig *rig)
{
	uint32_t round;

	for (round = 0; round < ROUNDS; round++) {
		post(rig, &bad, 0, LEN);
		others_begin(rig, 1);
		others_end(rig, 1);
		await(rig, &bad.pieces[0]);
		CHECK_EQ(bad.pieces[0].chunk.res, 0);
	}
}

static void leave(struct rig *rig)
{
	write_back(rig);
	while (!bad.returns.out && !(bad.returns.chunk.scratch[1]))
		rig_step(rig);
	if (!bad.returns.out)
		rig->backend->cancel(&bad.returns.chunk, CANCEL_NOW);
	await(rig, &bad.returns);
}

/* The peer leaves way after way, as one does that cancels, while it is written to. */
static void renew(struct rig *rig)
{
	uint32_t round, i;

	for (round = 0; round < ROUNDS; round++) {
		for (i = 0; i < MANY; i++)
			post(rig, &bad, i, LEN);
		for (i = 0; i < LEAVES; i++)
			leave(rig);
		for (i = 0; i < MANY; i++) {
			await(rig, &bad.pieces[i]);
			CHECK_EQ(bad.pieces[i].chunk.res, 0);
		}
		others_begin(rig, 1);
		others_end(rig, 1);
	}
}

void case_fabric_beside(struct rig *rig)
{
	const char *words = getenv("URCCL_TEST_PROVIDER");

	if (!words ||
	    (!strstr(words, "cutter=4097") && !strstr(words, "sick=") && !strstr(words, "reject=")))
		SKIP("the provider fails nothing");
	area_open(&rig->node[0], &local, BACK);
	area_open(&rig->node[1], &remote, BACK);
	open_one(rig, &good); /* whose turn is first: what it has is under way when others fail */
	open_one(rig, &bad);
	if (strstr(words, "cutter="))
		cut(rig);
	else if (strstr(words, "sick="))
		sicken(rig);
	else
		renew(rig);
	CHECK(!good.pair.end[0].down && !good.pair.end[1].down);
	CHECK(!bad.pair.end[0].down && !bad.pair.end[1].down);
	close_one(rig, &bad);
	close_one(rig, &good);
	area_close(&local);
	area_close(&remote);
}
