/* SPDX-License-Identifier: Apache-2.0 */
/* More exposures than an ep has slots are withdrawn at once, while their importer does nothing: it
 * is over soon after the time that an importer gets to answer, without it, and SENDs to others do
 * not wait meanwhile. When the importer goes on, so do both. */
#include "rig.h"

#define LEN    4096u
#define MANY   200u /* beyond what two eps have */
#define LATE   (10 * NSEC_PER_SEC)
#define SOON   (250 * NSEC_PER_MSEC)
#define TRIES  8u /* on a machine that is busy with others; each loses the processor by chance */
#define RIGHTS (URCCL_RIGHT_READ | URCCL_RIGHT_WRITE)

static uint64_t data[MESSAGE_MAX / 8];

static void step(struct node *owner, struct rig *others)
{
	node_poll(owner);
	node_poll(&others->node[0]);
}

/* The other device's end of a pair with one of rig's. */
static void meet(struct rig *rig, struct rig *others, struct pair *pair)
{
	const struct sockaddr_storage *via = NULL;
	struct end *a = &pair->end[0], *b = &pair->end[1];
	uint64_t until = clock_ns() + RIG_PATIENCE_NS;

	end_open(&rig->node[1], a);
	end_open(&others->node[0], b);
	CHECK_EQ(end_connect(b, a->addr, a->addr_len, 0, via), 0);
	CHECK_EQ(end_connect(a, b->addr, b->addr_len, 1, via), 0);
	while (!a->up || !b->up) {
		step(&rig->node[1], others);
		CHECK(!a->down && !b->down);
		CHECK(!is_late(until));
	}
}

static void part(struct rig *rig, struct rig *others, struct pair *pair)
{
	uint64_t until = clock_ns() + RIG_PATIENCE_NS;
	int i;

	for (i = 0; i < 2; i++)
		rig->backend->ep_close(pair->end[i].ep);
	while (!pair->end[0].closed || !pair->end[1].closed) {
		step(&rig->node[1], others);
		CHECK(!is_late(until));
	}
	for (i = 0; i < 2; i++)
		rig->backend->ep_free(pair->end[i].ep);
}

/* Asks again of each that is not withdrawn, as an engine does. Returns how many are left. */
static uint32_t withdraw(const struct rig *rig, struct grant *grants, uint8_t *gone)
{
	uint32_t i, left = 0;

	for (i = 0; i < MANY; i++) {
		int err = gone[i] ? 0 : rig->backend->unexpose(&grants[i].exposure);

		CHECK(!err || err == -EINPROGRESS);
		if (!err && !gone[i])
			grant_unpin(&grants[i]);
		gone[i] = !err;
		left += !gone[i];
	}
	return left;
}

/* Returns how long the slowest SEND took. */
static uint64_t withdraw_all(struct rig *rig, struct rig *others, struct grant *grants,
			     struct end *end)
{
	uint64_t start = clock_ns(), sent = 0, slowest = 0;
	uint8_t gone[MANY] = {0};
	struct piece p = {.out = 1};

	while (withdraw(rig, grants, gone) || !p.out) {
		CHECK(!is_late(start + LATE));
		if (p.out) {
			CHECK_EQ(p.chunk.res, 0);
			p = (struct piece){.out = 0};
			piece_fill_send(&p, end, data, sizeof(data));
			sent = clock_ns();
			while (!piece_try(&p))
				step(&rig->node[1], others);
		}
		step(&rig->node[1], others);
		if (p.out && clock_ns() - sent > slowest)
			slowest = clock_ns() - sent;
	}
	printf("withdrawn after %u ms, slowest SEND %u us\n",
	       (unsigned)((clock_ns() - start) / NSEC_PER_MSEC), (unsigned)(slowest / 1000));
	return slowest;
}

/* 0: this thread lost the processor, for longer than SOON or than a way has to be made anew. */
static int once(struct rig *rig, struct rig *others, struct end *live, struct area *local,
		struct area *remote)
{
	static struct grant grants[MANY], fresh;
	struct pair frozen;
	struct end *end = &frozen.end[0];
	uint64_t slowest;
	uint32_t i;
	int done = 0;

	pair_open(rig, &frozen);
	for (i = 0; i < MANY; i++)
		grant_open(&grants[i], &frozen.end[1], end, remote, 0, LEN, RIGHTS);
	CHECK_EQ(piece_move(rig, CHUNK_WRITE, end, local, 0, &grants[0], 0, LEN), 0);
	slowest = withdraw_all(rig, others, grants, live);
	area_fill(local, 0, LEN, 2, 0);
	area_fill(remote, 0, LEN, 1, 0);
	/* ofi_rxd answers nothing at all to a key that it does not know. */
	if (!strstr(rig->settings->transport, "rxd"))
		CHECK(piece_move(rig, CHUNK_WRITE, end, local, 0, &grants[MANY - 1], 0, LEN) < 0);
	CHECK(area_is(remote, 0, LEN, 1, 0));
	for (i = 0; i < MANY; i++)
		rig->backend->forget(end->ep, &grants[i].rkey);
	/* Its end's word may be on its way. */
	if (!end->down && !frozen.end[1].down &&
	    !grant_try(&fresh, &frozen.end[1], end, remote, 0, LEN, RIGHTS, NEVER_NS)) {
		done = !piece_move(rig, CHUNK_WRITE, end, local, 0, &fresh, 0, LEN);
		CHECK(!done || area_is(remote, 0, LEN, 2, 0));
		CHECK(done || end->down || frozen.end[1].down);
		grant_close(rig, &fresh);
	}
	pair_close(rig, &frozen);
	return done && slowest <= SOON;
}

void case_fabric_frozen(struct rig *rig)
{
	struct settings settings = *rig->settings;
	struct area local, remote;
	struct rig others;
	struct pair live;
	uint32_t tries;

	rig_open(&others, &settings);
	meet(rig, &others, &live);
	area_open(&rig->node[0], &local, LEN);
	area_open(&rig->node[1], &remote, LEN);
	for (tries = 1; !once(rig, &others, &live.end[0], &local, &remote); tries++) {
		if (tries < TRIES)
			continue;
		CHECK_GE(waited_ns(), TRIES * SOON);
		SKIP("this machine is too busy: others had its processors in every try");
	}
	part(rig, &others, &live);
	area_close(&local);
	area_close(&remote);
	rig_close(&others);
}
