/* SPDX-License-Identifier: Apache-2.0 */
/* Nothing outside of the exposure is reached, whatever offset and length say; what is refused moves
 * no byte. */
#include "rig.h"

#define LEN  65536u
#define FROM 8192u /* the exposure begins here in the region, and ends as far from its end */
#define SIZE (LEN + 2 * FROM)

static const struct {
	uint64_t off;
	uint32_t len;
} bad[] = {
	{0, LEN + 1},
	{1, LEN},
	{LEN - 1, 2},
	{LEN, 1},
	{LEN + 1, 1},
	{LEN - 7, 8},
	{1ull << 32, 8},
	{1ull << 63, 8},
	{(1ull << 63) - 4, 8},
	{UINT64_MAX, 1},
	{UINT64_MAX - 7, 8},
	{UINT64_MAX - 3, 8},
	{UINT64_MAX - 1, LEN},
	{0 - (uint64_t)FROM, 8},
	{0 - (uint64_t)FROM, FROM},
};

static void refused(struct rig *rig, struct end *end, struct area *local, struct area *remote,
		    const struct grant *g, uint64_t off, uint32_t len)
{
	area_fill(local, 0, SIZE, 2, 0);
	CHECK_EQ(piece_move(rig, CHUNK_WRITE, end, local, 0, g, off, len), -ERANGE);
	CHECK(area_is(remote, 0, SIZE, 1, 0));
	CHECK_EQ(piece_move(rig, CHUNK_READ, end, local, 0, g, off, len), -ERANGE);
	CHECK(area_is(local, 0, SIZE, 2, 0));
	CHECK(!end->down);
}

static void allowed(struct rig *rig, struct end *end, struct area *local, struct area *remote,
		    const struct grant *g, uint64_t off, uint32_t len)
{
	uint64_t at = FROM + off;

	area_fill(local, 0, SIZE, 2, 0);
	CHECK_EQ(piece_move(rig, CHUNK_WRITE, end, local, 0, g, off, len), 0);
	CHECK(area_is(remote, 0, at, 1, 0));
	CHECK(area_is(remote, at, len, 2, 0));
	CHECK(area_is(remote, at + len, SIZE - at - len, 1, at + len));
	area_fill(remote, 0, SIZE, 1, 0);
}

void case_range(struct rig *rig)
{
	struct area local, remote;
	struct grant g;
	struct pair pair;
	uint32_t i;

	pair_open(rig, &pair);
	area_open(&rig->node[0], &local, SIZE);
	area_open(&rig->node[1], &remote, SIZE);
	area_fill(&remote, 0, SIZE, 1, 0);
	grant_open(&g, &pair.end[1], &pair.end[0], &remote, FROM, LEN,
		   URCCL_RIGHT_READ | URCCL_RIGHT_WRITE);
	for (i = 0; i < ARRAY_SIZE(bad); i++)
		refused(rig, &pair.end[0], &local, &remote, &g, bad[i].off, bad[i].len);
	allowed(rig, &pair.end[0], &local, &remote, &g, 0, LEN);
	allowed(rig, &pair.end[0], &local, &remote, &g, LEN - 1, 1);
	allowed(rig, &pair.end[0], &local, &remote, &g, LEN - 8, 8);
	grant_close(rig, &g);
	pair_close(rig, &pair);
	area_close(&local);
	area_close(&remote);
}
