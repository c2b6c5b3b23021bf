/* SPDX-License-Identifier: Apache-2.0 */
/* Behind a request that the peer refused, all come out flushed; one of these completions is missing
 * (SHIM=lose=N of ibv_shim.c): the request was not done, and must not come out as if. */
#include "rig.h"

#define LEN    65536u
#define PIECES 8u
#define EACH   (LEN / PIECES)

static void post_read(struct piece *p, uint32_t i, struct end *end, const struct area *local,
		      const struct grant *g)
{
	piece_fill(p, CHUNK_READ, end, local, i * EACH, g, i * EACH, EACH);
	p->chunk.cls = URCCL_CLASS_BULK;
	CHECK(piece_try(p));
}

void case_ib_flushed(struct rig *rig)
{
	struct piece pieces[PIECES];
	struct area local, remote;
	struct pair pair;
	struct end *end = &pair.end[0];
	struct grant g, gone;
	uint32_t i;

	if (!getenv("SHIM"))
		SKIP("SHIM and UCCL_IBV_SO are not set: no device loses a completion here");
	pair_open(rig, &pair);
	area_open(&rig->node[0], &local, LEN);
	area_open(&rig->node[1], &remote, LEN);
	grant_open(&g, &pair.end[1], end, &remote, 0, LEN, URCCL_RIGHT_READ);
	grant_open(&gone, &pair.end[1], end, &remote, 0, LEN, URCCL_RIGHT_READ);
	grant_withdraw(rig, &gone);
	area_fill(&local, 0, LEN, 1, 0);
	area_fill(&remote, 0, LEN, 2, 0);
	for (i = 0; i < PIECES; i++)
		post_read(&pieces[i], i, end, &local, i ? &g : &gone);
	WAIT(rig, end->out == PIECES);
	CHECK_EQ(pieces[0].chunk.res, -EACCES);
	for (i = 1; i < PIECES; i++)
		CHECK_EQ(pieces[i].chunk.res, -ECONNRESET);
	CHECK(area_is(&local, 0, LEN, 1, 0));
	rig->backend->forget(end->ep, &gone.rkey);
	grant_close(rig, &g);
	pair_close(rig, &pair);
	area_close(&local);
	area_close(&remote);
}
