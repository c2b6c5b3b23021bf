/* SPDX-License-Identifier: Apache-2.0 */
/* An importer that does not keep to the rights and the time of an exposure: the owner's device
 * refuses what it has no right to. The keys say more than they were given for; this library's own
 * importers, who would not even try, believe them. */
#include <endian.h>
#include "rig.h"

#define LEN    50000u
#define RIGHTS (URCCL_RIGHT_READ | URCCL_RIGHT_WRITE)
#define SOON   (5 * NSEC_PER_MSEC)
#define MANY   32u
#define EACH   (LEN / MANY)
#define TRIES  8u /* on a machine that is too busy to make a way anew in time */

/* Of both kinds of keys. */
#define RIGHTS_AT 1u
/* Of ib's. */
#define IB_SUM_AT  4u
#define IB_LEFT_AT 16u
/* Of fabric's, and of an address of an ep. */
#define FABRIC_LEFT_AT	 24u
#define FABRIC_MAC_AT	 40u
#define FABRIC_COOKIE_AT 4u

struct unruly {
	struct rig *rig;
	void (*forge)(const struct end *owner, uint8_t *key, uint32_t len);
	struct pair pair;
	struct area local, remote;
	struct grant grant;
};

static void forge_ib(const struct end *owner, uint8_t *key, uint32_t len)
{
	uint32_t sum = 0;

	(void)owner;
	key[RIGHTS_AT] = RIGHTS;
	memset(key + IB_LEFT_AT, 0xff, sizeof(uint64_t));
	memcpy(key + IB_SUM_AT, &sum, sizeof(sum));
	sum = htole32(crc32c(0, key, len));
	memcpy(key + IB_SUM_AT, &sum, sizeof(sum));
}

static void forge_fabric(const struct end *owner, uint8_t *key, uint32_t len)
{
	uint8_t cookie[16], mac[16];

	CHECK(!owner->ep->bonded);
	memcpy(cookie, owner->addr + FABRIC_COOKIE_AT, sizeof(cookie));
	key[RIGHTS_AT] = RIGHTS;
	memset(key + FABRIC_LEFT_AT, 0xff, sizeof(uint64_t));
	memset(key + FABRIC_MAC_AT, 0, sizeof(mac));
	siphash128(cookie, key, len, mac);
	memcpy(key + FABRIC_MAC_AT, mac, sizeof(mac));
}

static void give(struct unruly *u, uint32_t rights, uint64_t expires_ns)
{
	struct end *importer = &u->pair.end[0];
	struct grant *g = &u->grant;

	grant_open_until(g, &u->pair.end[1], NULL, &u->remote, 0, LEN, rights, expires_ns);
	u->forge(&u->pair.end[1], g->key, g->key_len);
	CHECK_EQ(u->rig->backend->import(importer->ep, g->key, g->key_len, LEN, &g->rkey), 0);
	g->importer = importer;
}

/* Nothing of what was refused is seen on the other side, unless the key may have gone in the midst
 * of it. Returns its res. */
static int32_t try(struct unruly *u, enum chunk_kind kind, int midst)
{
	int32_t res;

	area_fill(&u->local, 0, LEN, 1, 0);
	area_fill(&u->remote, 0, LEN, 2, 0);
	res = piece_move(u->rig, kind, &u->pair.end[0], &u->local, 0, &u->grant, 0, LEN);
	if (!res || midst)
		return res;
	CHECK(area_is(&u->local, 0, LEN, 1, 0));
	CHECK(area_is(&u->remote, 0, LEN, 2, 0));
	return res;
}

static void end(struct unruly *u)
{
	grant_close(u->rig, &u->grant);
	pair_mend(u->rig, &u->pair);
}

/* What was refused breaks a way of some providers, and its end follows where the machine is too
 * busy to make another in time: then there is one more try. */
static void beyond_right(struct unruly *u, uint32_t right, enum chunk_kind may,
			 enum chunk_kind may_not)
{
	uint32_t tries;

	for (tries = 0;; tries++) {
		give(u, right, NEVER_NS);
		if (!try(u, may, 0))
			break;
		CHECK(u->pair.end[0].down || u->pair.end[1].down);
		CHECK_LE(tries, 1);
		end(u);
	}
	CHECK(try(u, may_not, 0) < 0);
	end(u);
}

static void beyond_rights(struct unruly *u)
{
	uint32_t i;

	for (i = 0; i < 3; i++) {
		beyond_right(u, URCCL_RIGHT_READ, CHUNK_READ, CHUNK_WRITE);
		beyond_right(u, URCCL_RIGHT_WRITE, CHUNK_WRITE, CHUNK_READ);
	}
}

/* It may be let in for a moment after; once it was refused, it is for ever. Of a device that pins
 * the exposure is ended then, and the control thread takes the pin back, which ends it at once
 * where the device does not end it by itself, in its own time. */
static void beyond_time(struct unruly *u, enum chunk_kind kind)
{
	uint64_t expires = clock_ns() + SOON, until = expires + RIG_PATIENCE_NS;
	struct device *owner = u->pair.end[1].ep->dev;
	int over = 0;

	give(u, RIGHTS, expires);
	while (!try(u, kind, 1)) {
		CHECK(clock_ns() < until);
		CHECK(!over || !rig_error_kills_ep(u->rig));
		if (over || !(owner->caps & CAP_PIN) || clock_ns() < expires ||
		    owner->ops->unexpose(&u->grant.exposure))
			continue;
		CHECK_EQ(owner->ops->unpin(owner, &u->grant.pin), 0);
		over = 1;
	}
	CHECK_GE(clock_ns(), expires);
	if (over) /* for end() */
		CHECK_EQ(owner->ops->pin(owner, &u->grant.pin), 0);
	if (!rig_error_kills_ep(u->rig))
		CHECK(try(u, kind, 0) < 0);
	end(u);
}

/* ---- beside what is no offence ---- */

static int is_offence(uint32_t i)
{
	return i % 16 == 5;
}

/* All at once, so that a provider may be given several at a time. */
static void post_mixed(struct unruly *u, struct piece *pieces, enum chunk_kind kind,
		       const struct grant *good)
{
	struct end *end = &u->pair.end[0];
	uint32_t i;

	for (i = 0; i < MANY; i++)
		piece_fill(&pieces[i], kind, end, &u->local, i * EACH,
			   is_offence(i) ? &u->grant : good, i * EACH, EACH);
	pieces_post(u->rig, pieces, MANY);
	WAIT(u->rig, end->out == end->taken);
}

static void check_mixed(struct unruly *u, const struct piece *pieces, enum chunk_kind kind,
			const struct area *good)
{
	const struct area *to = kind == CHUNK_READ ? &u->local : good;
	uint64_t pattern = kind == CHUNK_READ ? 3 : 1;
	uint32_t i;

	for (i = 0; i < MANY; i++) {
		if (is_offence(i)) {
			CHECK(pieces[i].chunk.res < 0);
			CHECK(kind == CHUNK_WRITE ||
			      area_is(&u->local, i * EACH, EACH, 1, i * EACH));
			continue;
		}
		CHECK_EQ(pieces[i].chunk.res, 0);
		if (kind == CHUNK_WRITE && !(pieces[i].chunk.flags & CHUNK_QUIET))
			piece_flush(u->rig, &u->pair.end[0], &u->grant);
		CHECK(area_is(to, i * EACH, EACH, pattern, i * EACH));
	}
	CHECK(area_is(&u->remote, 0, LEN, 2, 0));
}

/* 0: the pair is down, as no way came in time. */
static int mix(struct unruly *u, uint32_t right, enum chunk_kind kind, struct area *other)
{
	struct piece pieces[MANY];
	struct grant good;
	int up;

	area_fill(&u->local, 0, LEN, 1, 0);
	area_fill(&u->remote, 0, LEN, 2, 0);
	area_fill(other, 0, LEN, 3, 0);
	give(u, right, NEVER_NS);
	grant_open(&good, &u->pair.end[1], &u->pair.end[0], other, 0, LEN, RIGHTS);
	post_mixed(u, pieces, kind, &good);
	up = !u->pair.end[0].down && !u->pair.end[1].down;
	if (up)
		check_mixed(u, pieces, kind, other);
	grant_close(u->rig, &good);
	end(u);
	return up;
}

static void beside(struct unruly *u, uint32_t right, enum chunk_kind kind)
{
	struct area other;
	uint32_t tries;

	area_open(&u->rig->node[1], &other, LEN);
	for (tries = 1; !mix(u, right, kind, &other); tries++)
		CHECK(tries < TRIES);
	area_close(&other);
}

static void unruly(struct rig *rig,
		   void (*forge)(const struct end *owner, uint8_t *key, uint32_t len))
{
	struct unruly u = {.rig = rig, .forge = forge};

	pair_open(rig, &u.pair);
	area_open(&rig->node[0], &u.local, LEN);
	area_open(&rig->node[1], &u.remote, LEN);
	beyond_rights(&u);
	beyond_time(&u, CHUNK_WRITE);
	beyond_time(&u, CHUNK_READ);
	if (!rig_error_kills_ep(rig)) {
		beside(&u, URCCL_RIGHT_READ, CHUNK_WRITE);
		beside(&u, URCCL_RIGHT_WRITE, CHUNK_READ);
	}
	pair_close(rig, &u.pair);
	area_close(&u.local);
	area_close(&u.remote);
}

void case_fabric_unruly(struct rig *rig)
{
	unruly(rig, forge_fabric);
}

void case_ib_unruly(struct rig *rig)
{
	unruly(rig, forge_ib);
}
