/* SPDX-License-Identifier: Apache-2.0 */
/* Accesses out of range, without the right, or to memory that is revoked on the way: each fails
 * with its code, and revoked memory is neither written nor sent, not even the rest of what is under
 * way. */
#include "stream_pair.h"

#define CHUNKS 32u
#define SIZE   (64u * 1024)
#define GONE   0xdd /* fills revoked memory; no payload has it, or 0 */
#define ROUNDS 80u
#define TURNS  4000u

enum how { FINE, BEYOND, NO_RIGHT, NEVER_EXPOSED, HOWS };

struct work {
	struct chunk chunk;
	int busy;
	enum how how;
	uint8_t bytes[SIZE];
};

static struct pair pair;
static struct work work[2][CHUNKS];
static struct rkey rkey[2][HOWS];
static struct exposure exposure[2][2]; /* what a side's chunks reach: for all, to read only */
static uint8_t *remote[2];
static int revoked[2]; /* 1: asked for; 2: done */
static uint32_t taken[2], out[2], refused[2];

static uint64_t memory_space[2][(sizeof(struct memory) + sizeof(struct span)) / 8];

static struct memory *memory_of(int i)
{
	struct memory *m = (struct memory *)(void *)memory_space[i];

	m->len = SIZE;
	m->nspans = 1;
	m->spans[0] = (struct span){.len = SIZE, .addr = (uintptr_t)remote[i], .fd = -1};
	return m;
}

static void on_event(struct side *s, const struct event *e)
{
	int i = s == &pair.side[1];
	struct work *w = container_of(e->chunk, struct work, chunk);
	const struct chunk *c = &w->chunk;

	CHECK_EQ(e->type, EVENT_CHUNK);
	CHECK(w->busy);
	CHECK(c->flags & CHUNK_QUIET);
	w->busy = 0;
	out[i]++;
	refused[i] += c->res != 0;
	if (w->how == BEYOND)
		CHECK(c->res == -ERANGE || (c->res == -EACCES && revoked[i]));
	else if (w->how == NEVER_EXPOSED || (w->how == NO_RIGHT && c->kind == CHUNK_WRITE))
		CHECK_EQ(c->res, -EACCES);
	else if (c->res)
		CHECK(c->res == -EACCES && revoked[i]);
	if (c->kind == CHUNK_READ && !c->res)
		CHECK(!memchr(c->local, GONE, c->len) && !memchr(c->local, 0, c->len));
}

static void post(int i)
{
	struct work *w = &work[i][pair_random(&pair, CHUNKS)];
	struct chunk *c = &w->chunk;

	if (w->busy)
		return;
	memset(c, 0, sizeof(*c));
	memset(w->bytes, 1 + (int)pair_random(&pair, 100), sizeof(w->bytes));
	w->how = (enum how)pair_random(&pair, HOWS);
	c->kind = pair_random(&pair, 2) ? CHUNK_READ : CHUNK_WRITE;
	c->len = pair_random(&pair, 3) ? 1 + pair_random(&pair, SIZE) : 1 + pair_random(&pair, 700);
	c->off = pair_random(&pair, SIZE - c->len + 1);
	if (w->how == BEYOND)
		c->off = pair_random(&pair, 2) ? SIZE - c->len + 1 : UINT64_MAX - c->len / 2;
	c->local = w->bytes;
	c->key = &rkey[i][w->how];
	w->busy = 1;
	taken[i]++;
	CHECK_EQ(stream_post(&pair.side[i].stream, c), 1);
}

/* By the side that owns the memory which i's chunks reach. */
static void revoke_from(int i)
{
	struct side *owner = pair.side[i].peer;
	int e, rc = 0;

	if (revoked[i] == 2)
		return;
	revoked[i] = 1;
	for (e = 0; e < 2; e++) {
		stream_unexpose(&owner->grants, &exposure[i][e]);
		rc |= stream_revoke(&owner->stream, &exposure[i][e]);
	}
	if (rc) {
		CHECK(owner->async && stream_stuck(&owner->stream));
		return;
	}
	revoked[i] = 2;
	memset(remote[i], GONE, SIZE);
}

static void expose(int i, enum how how, struct exposure *e, uint32_t rights)
{
	uint8_t key[STREAM_KEY_BYTES];

	e->ep = &pair.side[!i].ep;
	e->memory = memory_of(i);
	e->off = 0;
	e->len = SIZE;
	e->rights = rights;
	e->expires_ns = NEVER_NS;
	CHECK_EQ(stream_expose(&pair.side[!i].grants, e, key, sizeof(key)), sizeof(key));
	CHECK_EQ(stream_import(key, sizeof(key), SIZE, &rkey[i][how]), 0);
}

static void setup(int i)
{
	remote[i] = calloc(1, SIZE);
	CHECK(remote[i]);
	memset(remote[i], 1, SIZE);
	expose(i, FINE, &exposure[i][0], URCCL_RIGHT_READ | URCCL_RIGHT_WRITE);
	expose(i, NO_RIGHT, &exposure[i][1], URCCL_RIGHT_READ);
	rkey[i][BEYOND] = rkey[i][FINE];
	rkey[i][NEVER_EXPOSED].v[0] = rkey[i][FINE].v[0] + 5;
	pair.side[i].on_event = on_event;
	revoked[i] = 0;
	taken[i] = out[i] = refused[i] = 0;
}

static void run(uint64_t seed)
{
	uint32_t t, when = 1500 + (uint32_t)(seed * 41 % 2500);
	int i;

	pair_init(&pair, seed);
	for (i = 0; i < 2; i++) {
		setup(i);
		pair.side[i].async = (int)(seed & 1);
	}
	for (t = 0; t < TURNS || out[0] != taken[0] || out[1] != taken[1]; t++) {
		CHECK(t < 100 * TURNS);
		if (t < TURNS && !pair_random(&pair, 4))
			post((int)pair_random(&pair, 2));
		if (t >= when)
			revoke_from((int)(t & 1));
		CHECK_EQ(pair_turn(&pair), 0);
	}
	for (i = 0; i < 2; i++) {
		CHECK_EQ(revoked[i], 2);
		CHECK(refused[i] && refused[i] < out[i]);
		for (t = 0; t < SIZE; t++)
			CHECK_EQ(remote[i][t], GONE);
		free(remote[i]);
	}
	pair_fini(&pair);
}

int case_stream_revoked(void)
{
	uint64_t seed;

	for (seed = 1; seed <= ROUNDS; seed++)
		run(seed);
	return 0;
}
