/* SPDX-License-Identifier: Apache-2.0 */
/* Of a provider whose regions are of an endpoint, and take long to make, the device's helper makes
 * an exposure's one after the other: a peer that connects meanwhile does not wait for all of them,
 * and an ep that closes for none. */
#include "rig.h"

#define SPANS 32u
#define LEN   (SPANS * 4096u)

static void write_all(struct rig *rig, struct pair *pair, struct piece *p, struct area *local,
		      struct grant *g)
{
	*p = (struct piece){.out = 0};
	piece_fill(p, CHUNK_WRITE, &pair->end[0], local, 0, g, 0, LEN);
	piece_post(rig, p);
}

void case_fabric_fill(struct rig *rig)
{
	const char *words = getenv("URCCL_TEST_PROVIDER");
	struct pair pair, second, third;
	struct grant g, last;
	struct area local, remote;
	struct piece p, q;
	uint32_t i;

	if (!words || !strstr(words, "mr_slow="))
		SKIP("the provider makes no region slowly");
	area_open(&rig->node[0], &local, LEN);
	area_open_spans(&rig->node[1], &remote, LEN, SPANS);
	pair_open(rig, &pair);
	grant_open(&g, &pair.end[1], &pair.end[0], &remote, 0, LEN, URCCL_RIGHT_WRITE);
	write_all(rig, &pair, &p, &local, &g);
	pair_open(rig, &second);
	CHECK(!p.out);
	WAIT(rig, p.out);
	CHECK_EQ(p.chunk.res, 0);
	pair_open(rig, &third);
	grant_open(&last, &third.end[1], &third.end[0], &remote, 0, LEN, URCCL_RIGHT_WRITE);
	write_all(rig, &third, &q, &local, &last);
	for (i = 0; i < 2; i++)
		rig->backend->ep_close(third.end[i].ep);
	WAIT(rig, third.end[0].closed && third.end[1].closed);
	CHECK(q.out && q.chunk.res);
	grant_close(rig, &last);
	pair_close(rig, &third);
	grant_close(rig, &g);
	pair_close(rig, &second);
	pair_close(rig, &pair);
	area_close(&local);
	area_close(&remote);
}
