/* SPDX-License-Identifier: Apache-2.0 */
/* Chunks that are posted together go to the provider several at a time, as many as it takes in one
 * operation and as long as that is short; a long one goes alone. The provider of our tests counts
 * operations. */
#include "rig.h"

#define MANY	 64u
#define ROOM	 20000u
#define LONG	 MANY	 /* the one behind them */
#define LONG_LEN 100000u /* more than is gathered */
#define SMALL	 1024u	 /* up to that they go first, with what is urgent */
#define LEN	 (MANY * ROOM + LONG_LEN)

static uint32_t ranges(void)
{
	const char *words = getenv("URCCL_TEST_PROVIDER");
	const char *at = words ? strstr(words, "iov=") : NULL;

	if (!at)
		SKIP("the provider takes one range at a time");
	return (uint32_t)strtoul(at + 4, NULL, 10);
}

static uint32_t length_of(uint32_t i, uint32_t most)
{
	return i == LONG ? LONG_LEN : 1 + i * 331 % most;
}

/* Returns the operations that it took. */
static uint32_t move_all(struct rig *rig, struct end *end, enum chunk_kind kind,
			 const struct area *local, const struct grant *g, uint32_t most)
{
	struct piece pieces[MANY + 1];
	uint32_t i, before = provider_count("urccl_test_moves");

	for (i = 0; i <= MANY; i++)
		piece_fill(&pieces[i], kind, end, local, i * ROOM, g, i * ROOM, length_of(i, most));
	pieces_post(rig, pieces, MANY + 1);
	WAIT(rig, end->out == end->taken);
	for (i = 0; i <= MANY; i++)
		CHECK_EQ(pieces[i].chunk.res, 0);
	return provider_count("urccl_test_moves") - before;
}

static void check_all(const struct area *area, uint32_t most, uint64_t pattern, uint64_t else_)
{
	uint32_t i, len;

	for (i = 0; i <= MANY; i++) {
		len = length_of(i, most);
		CHECK(area_is(area, i * ROOM, len, pattern, i * ROOM));
		if (i != LONG)
			CHECK(area_is(area, i * ROOM + len, ROOM - len, else_, i * ROOM + len));
	}
}

/* That they make: both queues, and the long one. */
static uint32_t operations(uint32_t most)
{
	uint32_t i, r = ranges(), small = 0;

	for (i = 0; i < MANY; i++)
		small += length_of(i, most) <= SMALL;
	return (small + r - 1) / r + (MANY - small + r - 1) / r + 1;
}

static void both_ways(struct rig *rig, struct end *end, struct area *local, struct area *remote,
		      const struct grant *g, uint32_t most)
{
	uint32_t n = operations(most);

	area_fill(local, 0, LEN, 1, 0);
	area_fill(remote, 0, LEN, 2, 0);
	CHECK_EQ(move_all(rig, end, CHUNK_WRITE, local, g, most), n);
	check_all(remote, most, 1, 2);
	area_fill(local, 0, LEN, 3, 0);
	area_fill(remote, 0, LEN, 4, 0);
	CHECK_EQ(move_all(rig, end, CHUNK_READ, local, g, most), n);
	check_all(local, most, 4, 3);
}

void case_fabric_gather(struct rig *rig)
{
	struct area local, remote;
	struct pair pair;
	struct grant g;

	ranges();
	pair_open(rig, &pair);
	area_open(&rig->node[0], &local, LEN);
	area_open(&rig->node[1], &remote, LEN);
	grant_open(&g, &pair.end[1], &pair.end[0], &remote, 0, LEN,
		   URCCL_RIGHT_READ | URCCL_RIGHT_WRITE);
	both_ways(rig, &pair.end[0], &local, &remote, &g, 1000);  /* urgent */
	both_ways(rig, &pair.end[0], &local, &remote, &g, 15000); /* bulk, and some of the other */
	grant_close(rig, &g);
	pair_close(rig, &pair);
	area_close(&local);
	area_close(&remote);
}
