/* SPDX-License-Identifier: Apache-2.0 */
/* A completion queue that gives errors alone from now on. That of a way is an end of the way: there
 * is another. Without that of messages, or with no more receives for them, no ep can go on: those
 * that there are end, and no more are made. */
#include "rig.h"

#define LEN    8192u
#define ROUNDS 300u /* far above what a queue gives */

/* 0: no ep is up any more. */
static int say(struct rig *rig, struct pair *pair)
{
	static uint8_t data[64];
	struct end *end = &pair->end[0];
	struct piece p = {.out = 0};

	piece_fill_send(&p, end, data, sizeof(data));
	while (!end->down && !piece_try(&p))
		rig_step(rig);
	WAIT(rig, !p.taken || p.out || end->down || pair->end[1].down);
	return !end->down && !pair->end[1].down;
}

static void all_ends(struct rig *rig)
{
	uint8_t addr[EP_ADDR_MAX];
	struct pair pair;
	uint32_t len;
	struct ep *ep;
	int i;

	pair_open(rig, &pair);
	while (say(rig, &pair))
		;
	/* The other may have heard of it before. */
	WAIT(rig, pair.end[0].down_res == -EIO || pair.end[1].down_res == -EIO);
	i = pair.end[1].down_res == -EIO;
	CHECK_EQ(rig->backend->ep_open(rig->node[i].dev, &ep, addr, &len), -EIO);
	CHECK(strstr(urccl_errmsg(), "endpoint for messages"));
	pair_close(rig, &pair);
}

/* Each way is soon at its end. */
static void way_ends(struct rig *rig)
{
	struct area local, remote;
	struct pair pair;
	struct grant g;
	uint32_t round;

	pair_open(rig, &pair);
	area_open(&rig->node[0], &local, LEN);
	area_open(&rig->node[1], &remote, LEN);
	grant_open(&g, &pair.end[1], &pair.end[0], &remote, 0, LEN, URCCL_RIGHT_WRITE);
	for (round = 0; round < ROUNDS; round++) {
		area_fill(&local, 0, LEN, round, 0);
		CHECK_EQ(piece_move(rig, CHUNK_WRITE, &pair.end[0], &local, 0, &g, 0, LEN), 0);
		CHECK(area_is(&remote, 0, LEN, round, 0));
	}
	grant_close(rig, &g);
	pair_close(rig, &pair);
	area_close(&local);
	area_close(&remote);
}

void case_fabric_dead(struct rig *rig)
{
	const char *words = getenv("URCCL_TEST_PROVIDER");

	if (!words || !strstr(words, "_dead="))
		SKIP("the provider's queues do not die");
	if (strstr(words, "tx_dead="))
		way_ends(rig);
	else
		all_ends(rig);
}
