/* SPDX-License-Identifier: Apache-2.0 */
/* The device is taken away in mid-transfer, or takes nothing more (SHIM=remove=N, unplug=N, post=N
 * of ibv_shim.c): every chunk comes out, the ep is down and can be closed, local memory is quiet;
 * and who sleeps on it is woken no more. */
#include <poll.h>
#include "rig.h"

#define LEN    (1u << 20)
#define PIECES 16u
#define EACH   (LEN / PIECES)

static void post_any(struct end *end, struct piece *p, uint32_t i, const struct area *local,
		     const struct grant *g)
{
	piece_fill(p, i % 4 == 3 ? CHUNK_READ : CHUNK_WRITE, end, local, i * EACH, g, i * EACH,
		   EACH);
	p->chunk.cls = i % 2 ? URCCL_CLASS_LATENCY : URCCL_CLASS_BULK;
	piece_try(p);
}

/* What it had to say first is heard. */
static void sleeps(struct device *dev, struct rig *rig)
{
	struct pollfd pfd = {.fd = dev->fd, .events = POLLIN};

	CHECK_EQ(dev->ops->arm(dev), 0);
	rig_step(rig);
	CHECK_EQ(dev->ops->arm(dev), 0);
	CHECK_EQ(poll(&pfd, 1, 0), 0);
}

void case_ib_removed(struct rig *rig)
{
	struct piece pieces[PIECES];
	struct area local, remote;
	struct pair pair;
	struct end *end = &pair.end[0];
	struct grant g;
	uint64_t until;
	uint32_t i, n;

	if (!getenv("SHIM"))
		SKIP("SHIM and UCCL_IBV_SO are not set: no device goes away here");
	memset(pieces, 0, sizeof(pieces));
	pair_open(rig, &pair);
	area_open(&rig->node[0], &local, LEN);
	area_open(&rig->node[1], &remote, LEN);
	grant_open(&g, &pair.end[1], end, &remote, 0, LEN, URCCL_RIGHT_READ | URCCL_RIGHT_WRITE);
	for (n = 0, until = clock_ns() + RIG_PATIENCE_NS; !end->down; n++) {
		CHECK(!is_late(until));
		i = n % PIECES;
		if (!pieces[i].taken || pieces[i].out)
			post_any(end, &pieces[i], i, &local, &g);
		rig_step(rig);
	}
	CHECK_EQ(end->down_res, -EIO);
	WAIT(rig, end->out == end->taken);
	post_any(end, &pieces[0], 0, &local, &g);
	CHECK(pieces[0].taken);
	WAIT(rig, pieces[0].out);
	CHECK_EQ(pieces[0].chunk.res, -ECONNRESET);
	area_fill(&local, 0, LEN, 3, 0);
	for (i = 0; i < 50; i++)
		rig_step(rig);
	CHECK(area_is(&local, 0, LEN, 3, 0));
	grant_close(rig, &g);
	pair_close(rig, &pair);
	sleeps(rig->node[0].dev, rig);
	area_close(&local);
	area_close(&remote);
}
