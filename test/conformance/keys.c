/* SPDX-License-Identifier: Apache-2.0 */
/* Keys come from the peer's mouth: whatever the bytes, no memory but that of a grant of this ep is
 * reached, and the ep and the next key are as good as before. */
#include "rig.h"

#define LEN    8192u
#define GUARD  4096u
#define RANDOM 2000u

struct keys {
	struct rig *rig;
	struct pair pair;
	struct area local, remote;
	struct grant genuine;
	uint32_t imported, reached;
};

/* A peer that maps the memory itself is kept out of the rest by its own library alone. */
static void check_guards(const struct keys *k)
{
	if (k->rig->settings->shared)
		return;
	CHECK(area_is(&k->remote, 0, GUARD, 1, 0));
	CHECK(area_is(&k->remote, GUARD + LEN, GUARD, 1, GUARD + LEN));
}

/* 0: it opened something, which then is the genuine grant's, named by bytes that mean nothing. */
static int try_key(struct keys *k, const void *key, uint32_t len)
{
	struct end *end = &k->pair.end[0];
	struct grant g = {.importer = end};
	/* Of this size, for the sanitizers to see who reads beyond. */
	void *copy = malloc(len ? len : 1);
	int32_t res;

	CHECK(copy);
	memcpy(copy, key, len);
	res = k->rig->backend->import(end->ep, copy, len, LEN, &g.rkey);
	free(copy);
	if (res)
		return -1;
	k->imported++;
	res = piece_move(k->rig, CHUNK_WRITE, end, &k->local, 0, &g, 0, LEN);
	CHECK(!end->down && !k->pair.end[1].down);
	check_guards(k);
	k->rig->backend->forget(end->ep, &g.rkey);
	k->reached += !res;
	return res;
}

static void bits_flipped(struct keys *k)
{
	uint8_t key[KEY_MAX];
	uint32_t bit;

	for (bit = 0; bit < k->genuine.key_len * 8; bit++) {
		memcpy(key, k->genuine.key, sizeof(key));
		key[bit / 8] ^= (uint8_t)(1u << bit % 8);
		try_key(k, key, k->genuine.key_len);
	}
}

static void wrong_lengths(struct keys *k)
{
	uint8_t key[KEY_MAX] = {0};
	uint32_t len;

	memcpy(key, k->genuine.key, k->genuine.key_len);
	for (len = 0; len < k->genuine.key_len + 64 && len <= KEY_MAX; len++)
		if (len != k->genuine.key_len)
			CHECK(try_key(k, key, len));
	CHECK(k->genuine.key_len == KEY_MAX || try_key(k, key, KEY_MAX));
}

static void random_keys(struct keys *k)
{
	uint8_t key[KEY_MAX];
	uint32_t i, j, len;

	for (i = 0; i < RANDOM; i++) {
		len = i % 2 ? k->genuine.key_len : (uint32_t)rig_random(k->rig, KEY_MAX + 1);
		for (j = 0; j < len; j++)
			key[j] = (uint8_t)rig_random(k->rig, 256);
		CHECK(try_key(k, key, len));
	}
	memset(key, 0, sizeof(key));
	CHECK(try_key(k, key, k->genuine.key_len));
	memset(key, 0xff, sizeof(key));
	CHECK(try_key(k, key, k->genuine.key_len));
}

/* A key of another pair of eps does not open what it opens there. */
static void of_another_ep(struct keys *k)
{
	struct pair other;
	struct area area;
	struct grant g;

	pair_open(k->rig, &other);
	area_open(&k->rig->node[1], &area, LEN);
	area_fill(&area, 0, LEN, 7, 0);
	grant_open(&g, &other.end[1], NULL, &area, 0, LEN, URCCL_RIGHT_WRITE);
	CHECK(try_key(k, g.key, g.key_len) || k->rig->settings->shared);
	CHECK(area_is(&area, 0, LEN, 7, 0));
	grant_close(k->rig, &g);
	pair_close(k->rig, &other);
	area_close(&area);
}

void case_keys(struct rig *rig)
{
	struct keys k = {.rig = rig};
	struct end *end = &k.pair.end[0];

	pair_open(rig, &k.pair);
	area_open(&rig->node[0], &k.local, LEN);
	area_open(&rig->node[1], &k.remote, LEN + 2 * GUARD);
	area_fill(&k.remote, 0, LEN + 2 * GUARD, 1, 0);
	grant_open(&k.genuine, &k.pair.end[1], end, &k.remote, GUARD, LEN, URCCL_RIGHT_WRITE);
	bits_flipped(&k);
	wrong_lengths(&k);
	random_keys(&k);
	of_another_ep(&k);
	CHECK_EQ(piece_move(rig, CHUNK_WRITE, end, &k.local, 0, &k.genuine, 0, LEN), 0);
	printf("%u wrong keys were imported, %u of them meant the genuine one\n", k.imported,
	       k.reached);
	grant_close(rig, &k.genuine);
	pair_close(rig, &k.pair);
	area_close(&k.local);
	area_close(&k.remote);
}
