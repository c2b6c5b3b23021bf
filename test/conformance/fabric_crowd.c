/* SPDX-License-Identifier: Apache-2.0 */
/* Many ways fail at once, and to make them anew, one after the other, takes longer than one peer is
 * waited for: no ep ends of it, as both sides are heard to be at work. */
#include "rig.h"

#define CUTTER 4097u /* bytes, as the words have it */
#define PAIRS  16u
#define LEN    8192u

static struct pair pairs[PAIRS];
static struct grant grants[PAIRS];
static struct piece pieces[PAIRS];

static uint32_t out(void)
{
	uint32_t i, n = 0;

	for (i = 0; i < PAIRS; i++) {
		CHECK(!pairs[i].end[0].down && !pairs[i].end[1].down);
		n += (uint32_t)pieces[i].out;
	}
	return n;
}

static void move_all(struct rig *rig, struct area *local, uint32_t len)
{
	uint32_t i;

	for (i = 0; i < PAIRS; i++) {
		pieces[i] = (struct piece){.out = 0};
		piece_fill(&pieces[i], CHUNK_WRITE, &pairs[i].end[0], local, 0, &grants[i], 0, len);
		piece_post(rig, &pieces[i]);
	}
	WAIT(rig, out() == PAIRS);
}

void case_fabric_crowd(struct rig *rig)
{
	const char *words = getenv("URCCL_TEST_PROVIDER");
	struct area local, remote;
	uint32_t i;

	if (!words || !strstr(words, "cutter=4097") || !strstr(words, "close_slow="))
		SKIP("the provider closes no endpoint slowly");
	area_open(&rig->node[0], &local, LEN);
	area_open(&rig->node[1], &remote, LEN);
	for (i = 0; i < PAIRS; i++) {
		pair_open(rig, &pairs[i]);
		grant_open(&grants[i], &pairs[i].end[1], &pairs[i].end[0], &remote, 0, LEN,
			   URCCL_RIGHT_WRITE);
	}
	move_all(rig, &local, CUTTER);
	for (i = 0; i < PAIRS; i++)
		CHECK_EQ(pieces[i].chunk.res, -EIO);
	move_all(rig, &local, LEN);
	for (i = 0; i < PAIRS; i++)
		CHECK_EQ(pieces[i].chunk.res, 0);
	for (i = 0; i < PAIRS; i++)
		grant_close(rig, &grants[i]);
	for (i = 0; i < PAIRS; i++)
		pair_close(rig, &pairs[i]);
	area_close(&local);
	area_close(&remote);
}
