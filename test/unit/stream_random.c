/* SPDX-License-Identifier: Apache-2.0 */
/* Random READs, WRITEs and SENDs both ways, cancelled at random, over short sends and receives:
 * each comes out once, and every byte is where a model says. */
#include "stream_pair.h"

#define CHUNKS 64u
#define SLOT   (96u * 1024) /* each chunk has its own bytes at either end */
#define ROUNDS 60u
#define TURNS  6000u

struct work {
	struct chunk chunk;
	int busy, cancelled;
	int received, awaited; /* its message */
	int retired;	       /* its place at the peer is not known any more */
	uint32_t tag;
};

static struct pair pair;
static struct work work[2][CHUNKS];
static uint8_t *local[2], *remote[2]; /* remote[i]: what side i's chunks reach, at the other */
static uint8_t *model[2];	      /* what remote[i] must hold */
static struct memory *memory[2];
static struct exposure exposure[2];
static struct rkey rkey[2];
static uint32_t out[2], posted[2];

static struct memory *memory_of(uint8_t *bytes, uint64_t len)
{
	struct memory *m = calloc(1, sizeof(*m) + 3 * sizeof(struct span));
	uint64_t cut[4] = {0, len / 3 + 5, len / 2 + 77, len};
	uint32_t i;

	CHECK(m);
	m->len = len;
	m->nspans = 3;
	for (i = 0; i < 3; i++) {
		m->spans[i].start = cut[i];
		m->spans[i].len = cut[i + 1] - cut[i];
		m->spans[i].addr = (uint64_t)(uintptr_t)bytes + cut[i];
		m->spans[i].fd = -1;
	}
	return m;
}

static void on_message(int to, const struct event *e)
{
	uint32_t tag[80];
	struct work *w;

	CHECK_GE(e->len, 4);
	memcpy(tag, e->data, e->len);
	CHECK(tag[0] < CHUNKS);
	w = &work[!to][tag[0]];
	if (w->retired)
		return;
	CHECK_EQ(e->len, w->chunk.len);
	CHECK_EQ(w->received++, 0);
	w->awaited = 0;
}

static void read_done(int i, const struct work *w)
{
	const struct chunk *c = &w->chunk;

	CHECK(c->flags & CHUNK_QUIET);
	CHECK(c->res == 0 || (c->res == -ECANCELED && w->cancelled));
	if (!c->res)
		CHECK(!memcmp(c->local, model[i] + c->off, c->len));
}

/* Only what was cancelled without the peer's word may still land, or filler in its place. */
static void write_done(int i, struct work *w)
{
	const struct chunk *c = &w->chunk;
	uint64_t slot = (uint64_t)w->tag * SLOT;

	CHECK(c->res == 0 || (c->res == -ECANCELED && w->cancelled));
	CHECK((c->flags & CHUNK_QUIET) || w->cancelled & 2);
	w->retired = !(c->flags & CHUNK_QUIET);
	if (w->retired)
		return;
	if (!c->res && c->len)
		memcpy(model[i] + c->off, c->local, c->len);
	CHECK(!memcmp(remote[i] + slot, model[i] + slot, SLOT));
}

static void send_done(struct work *w)
{
	w->retired = !(w->chunk.flags & CHUNK_QUIET);
	CHECK(!w->retired || w->cancelled & 2);
	/* It may still be on the way from the peer's device to its engine. */
	w->awaited = !w->chunk.res && !w->received;
}

static void on_event(struct side *s, const struct event *e)
{
	int i = s == &pair.side[1];
	struct work *w;

	if (e->type == EVENT_MESSAGE) {
		on_message(i, e);
		return;
	}
	CHECK_EQ(e->type, EVENT_CHUNK);
	w = container_of(e->chunk, struct work, chunk);
	CHECK(w->busy);
	w->busy = 0;
	out[i]++;
	if (w->chunk.kind == CHUNK_READ)
		read_done(i, w);
	else if (w->chunk.kind == CHUNK_WRITE)
		write_done(i, w);
	else
		send_done(w);
	/* The buffer is ours: the library may not look at it again. */
	memset(w->chunk.local, 0xee, w->chunk.len);
}

static uint32_t random_len(uint32_t max)
{
	static const uint32_t edges[] = {
		0, 1, 8, STREAM_COPY - 1, STREAM_COPY, STREAM_COPY + 1, 4095, 4096, 32768, SLOT};

	if (pair_random(&pair, 2))
		return edges[pair_random(&pair, ARRAY_SIZE(edges))] % (max + 1);
	return pair_random(&pair, max + 1);
}

static void post(int i)
{
	static const uint8_t kinds[] = {CHUNK_READ, CHUNK_WRITE, CHUNK_WRITE, CHUNK_SEND};
	uint32_t k = pair_random(&pair, CHUNKS), j;
	struct work *w = &work[i][k];
	struct chunk *c = &w->chunk;

	if (w->busy || w->retired || w->awaited)
		return;
	memset(c, 0, sizeof(*c));
	w->cancelled = 0;
	w->tag = k;
	c->kind = kinds[pair_random(&pair, 4)];
	c->cls = (uint8_t)pair_random(&pair, 3);
	c->checksum = (uint8_t)pair_random(&pair, 2);
	c->local = local[i] + k * SLOT;
	c->len = c->kind == CHUNK_SEND ? 4 + pair_random(&pair, MESSAGE_MAX - 3) : random_len(SLOT);
	c->key = &rkey[i];
	c->off = (uint64_t)k * SLOT + pair_random(&pair, SLOT - c->len + 1);
	for (j = 0; j < c->len; j++)
		((uint8_t *)c->local)[j] = (uint8_t)(pair.seed >> (j % 7)) ^ (uint8_t)j;
	w->received = w->awaited = 0;
	if (c->kind == CHUNK_SEND)
		memcpy(c->local, &k, 4);
	w->busy = 1;
	CHECK_EQ(stream_post(&pair.side[i].stream, c), 1);
	posted[i]++;
}

static void cancel(int i)
{
	struct work *w = &work[i][pair_random(&pair, CHUNKS)];
	int now = !pair_random(&pair, 5);

	if (!w->busy)
		return;
	w->cancelled |= now ? 2 : 1;
	stream_cancel(&w->chunk, now ? CANCEL_NOW : CANCEL_ASK);
}

static void setup(int i)
{
	uint64_t len = (uint64_t)CHUNKS * SLOT;
	uint8_t key[KEY_MAX];
	int n;

	local[i] = calloc(1, len);
	remote[i] = calloc(1, len);
	model[i] = calloc(1, len);
	CHECK(local[i] && remote[i] && model[i]);
	memory[i] = memory_of(remote[i], len);
	exposure[i].ep = &pair.side[!i].ep;
	exposure[i].memory = memory[i];
	exposure[i].len = len;
	exposure[i].rights = URCCL_RIGHT_READ | URCCL_RIGHT_WRITE;
	exposure[i].expires_ns = NEVER_NS;
	n = stream_expose(&pair.side[!i].grants, &exposure[i], key, sizeof(key));
	CHECK(n > 0);
	CHECK_EQ(stream_import(key, (uint32_t)n, len, &rkey[i]), 0);
	pair.side[i].on_event = on_event;
}

static void run(uint64_t seed)
{
	uint32_t t;
	int i, posting = 1;

	pair_init(&pair, seed);
	memset(work, 0, sizeof(work));
	memset(out, 0, sizeof(out));
	memset(posted, 0, sizeof(posted));
	for (i = 0; i < 2; i++) {
		setup(i);
		pair.side[i].async = seed % 3 == 2;
	}
	for (t = 0; posting || out[0] != posted[0] || out[1] != posted[1]; t++) {
		CHECK(t < 100 * TURNS);
		posting = t < TURNS;
		if (posting && !pair_random(&pair, 4))
			post((int)pair_random(&pair, 2));
		if (!pair_random(&pair, 60))
			cancel((int)pair_random(&pair, 2));
		CHECK_EQ(pair_turn(&pair), 0);
	}
	CHECK(out[0] > 100 && out[1] > 100);
	for (i = 0; i < 2; i++) {
		CHECK_EQ(pair.side[i].stream.tx.bytes, 0);
		free(local[i]);
		free(remote[i]);
		free(model[i]);
		free(memory[i]);
	}
	pair_fini(&pair);
}

int case_stream_random(void)
{
	uint64_t seed;

	for (seed = 1; seed <= ROUNDS; seed++)
		run(seed);
	return 0;
}
