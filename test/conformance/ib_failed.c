/* SPDX-License-Identifier: Apache-2.0 */
/* The peer's end of a queue pair does not carry out one request (SHIM=fail=N:STATUS of ibv_shim.c).
 * Where that end cannot go on (11, remote operation error) nobody knows what was done, and it may
 * go again by another queue pair, as all that was under way. Where it refused the access (10) the
 * chunk says so: why, its owner alone knows. */
#include "rig.h"

#define LEN    65536u
#define PIECES 8u
#define EACH   (LEN / PIECES)

static void may_fail_over(const struct chunk *c)
{
	if (!c->res)
		return;
	CHECK_EQ(c->res, -ECONNRESET);
	CHECK(c->flags & CHUNK_FAILOVER);
}

void case_ib_failed(struct rig *rig)
{
	const char *words = getenv("SHIM");
	struct piece pieces[PIECES];
	uint32_t i, n = 0, refused = 0;
	struct area local, remote;
	struct pair pair;
	struct end *end = &pair.end[0];
	struct grant g;

	if (!words)
		SKIP("SHIM and UCCL_IBV_SO are not set: no request fails here");
	memset(pieces, 0, sizeof(pieces));
	pair_open_small(rig, &pair);
	area_open(&rig->node[0], &local, LEN);
	area_open(&rig->node[1], &remote, LEN);
	grant_open(&g, &pair.end[1], end, &remote, 0, LEN, URCCL_RIGHT_READ);
	while (!end->down) {
		i = n++ % PIECES;
		WAIT(rig, end->down || !pieces[i].taken || pieces[i].out);
		if (end->down)
			break;
		piece_fill(&pieces[i], CHUNK_READ, end, &local, i * EACH, &g, i * EACH, EACH);
		pieces[i].chunk.cls = URCCL_CLASS_BULK;
		piece_post(rig, &pieces[i]);
		CHECK_LE(n, 1000);
	}
	WAIT(rig, end->out == end->taken);
	for (i = 0; i < PIECES; i++) {
		if (pieces[i].chunk.flags & CHUNK_REFUSED) {
			CHECK_EQ(pieces[i].chunk.res, -EACCES);
			refused++;
		} else {
			may_fail_over(&pieces[i].chunk);
		}
	}
	CHECK_EQ(refused, strstr(words, ":10") != NULL);
	grant_close(rig, &g);
	pair_close(rig, &pair);
	area_close(&local);
	area_close(&remote);
}
