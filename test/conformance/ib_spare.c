/* SPDX-License-Identifier: Apache-2.0 */
/* Eps that grow leave a quarter of the completion queue (SHIM=cqe=8000 of ibv_shim.c) to peers that
 * connect: who is refused for it goes on as it is, and a good number of new ones find room. */
#include "rig.h"

#define PAIRS 64u
#define LEFT  2000u /* a quarter */
#define EACH  100u  /* completions of a new ep, and more than that */

/* Through whatever is there. */
static void write_bulk(struct rig *rig, struct pair *pair)
{
	struct area local, remote;
	struct piece piece;
	struct grant g;

	area_open(&rig->node[0], &local, 1);
	area_open(&rig->node[1], &remote, 1);
	grant_open(&g, &pair->end[1], &pair->end[0], &remote, 0, 1, URCCL_RIGHT_WRITE);
	piece_fill(&piece, CHUNK_WRITE, &pair->end[0], &local, 0, &g, 0, 1);
	piece.chunk.cls = URCCL_CLASS_BULK;
	CHECK_EQ(piece_run(rig, &piece), 0);
	grant_close(rig, &g);
	area_close(&local);
	area_close(&remote);
}

/* What ep_add_qps said. */
static int grow_first(struct rig *rig, struct pair *pair)
{
	struct ep *ep;
	int rc;

	pair->end[0].grows_later = 1;
	write_bulk(rig, pair);
	WAIT(rig, pair->end[0].asks);
	pair->end[0].grows_later = pair->end[0].asks = 0;
	ep = pair->end[0].ep;
	rc = rig->backend->ep_add_qps(ep);
	if (rc)
		printf("%s\n", urccl_errmsg());
	rig->backend->ep_qps_added(ep, rc);
	return rc;
}

static uint32_t connect_others(struct rig *rig)
{
	struct ep *eps[PAIRS * 4];
	uint8_t addr[EP_ADDR_MAX];
	uint32_t len, i, n = 0;

	while (n < PAIRS * 4 && !rig->backend->ep_open(rig->node[0].dev, &eps[n], addr, &len))
		n++;
	for (i = 0; i < n; i++)
		rig->backend->ep_free(eps[i]);
	return n;
}

void case_ib_spare(struct rig *rig)
{
	static struct pair pairs[PAIRS];
	uint32_t i, n = 0, others;
	int rc;

	if (!getenv("SHIM"))
		SKIP("SHIM and UCCL_IBV_SO are not set: the queue is too long to be filled");
	do {
		CHECK(n < PAIRS);
		pair_open_small(rig, &pairs[n]);
		rc = grow_first(rig, &pairs[n++]);
	} while (!rc);
	CHECK_EQ(rc, -ENOSPC);
	CHECK(strstr(urccl_errmsg(), "keeps what is left"));
	CHECK_GE(n, 9);
	write_bulk(rig, &pairs[n - 1]);
	others = connect_others(rig);
	printf("%u grew, %u others found room\n", n - 1, others);
	CHECK_GE(others, LEFT / EACH);
	for (i = 0; i < n; i++)
		pair_close(rig, &pairs[i]);
}
