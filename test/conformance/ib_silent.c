/* SPDX-License-Identifier: Apache-2.0 */
/* The device takes requests and completes none (SHIM=swallow=N of ibv_shim.c), not even when its
 * queue pairs are broken: the ep is down after dead_after_ms, and every chunk comes out once the
 * queue pairs are destroyed. */
#include "rig.h"

#define LEN	   65536u
#define PIECES	   8u
#define EACH	   (LEN / PIECES)
#define MOST	   1000u   /* pieces until then */
#define DEAD_AFTER 400u	   /* ms */
#define DRAIN	   1000u   /* ms, likewise until a device is not asked any more */
#define POLLS	   300000u /* with fewer the machine was away: three times what it takes there */

static void in_time(uint64_t since, uint32_t polls, uint64_t ms)
{
	uint64_t ns = clock_ns() - since;

	printf("%llu ms, %u polls\n", (unsigned long long)(ns / NSEC_PER_MSEC), polls);
	CHECK(polls < POLLS || ns <= ms * NSEC_PER_MSEC);
}

void case_ib_silent(struct rig *unused)
{
	struct settings settings = *unused->settings;
	struct piece pieces[PIECES];
	struct area local, remote;
	struct pair pair;
	struct end *end = &pair.end[0];
	struct rig rig;
	struct grant g;
	uint64_t since;
	uint32_t i, n, polls;

	if (!getenv("SHIM"))
		SKIP("SHIM and UCCL_IBV_SO are not set: no device is silent here");
	settings.dead_after_ms = DEAD_AFTER;
	rig_open(&rig, &settings);
	memset(pieces, 0, sizeof(pieces));
	pair_open(&rig, &pair);
	area_open(&rig.node[0], &local, LEN);
	area_open(&rig.node[1], &remote, LEN);
	grant_open(&g, &pair.end[1], end, &remote, 0, LEN, URCCL_RIGHT_READ | URCCL_RIGHT_WRITE);
	for (n = polls = 0, since = clock_ns(); !end->down; polls++) {
		CHECK(clock_ns() - since < RIG_PATIENCE_NS);
		i = n % PIECES;
		if (n < MOST && (!pieces[i].taken || pieces[i].out)) {
			since = clock_ns();
			polls = 0;
			piece_fill(&pieces[i], i % 2 ? CHUNK_READ : CHUNK_WRITE, end, &local,
				   i * EACH, &g, i * EACH, EACH);
			piece_try(&pieces[i]);
			n++;
		}
		rig_step(&rig);
	}
	CHECK_EQ(end->down_res, -ETIMEDOUT);
	CHECK_GE(clock_ns() - since, DEAD_AFTER * NSEC_PER_MSEC / 2);
	in_time(since, polls, 3 * DEAD_AFTER);
	since = clock_ns();
	for (polls = 0; end->out != end->taken; polls++) {
		CHECK(clock_ns() - since < RIG_PATIENCE_NS);
		rig_step(&rig);
	}
	in_time(since, polls, 2 * DRAIN);
	area_fill(&local, 0, LEN, 3, 0);
	for (i = 0; i < 50; i++)
		rig_step(&rig);
	CHECK(area_is(&local, 0, LEN, 3, 0));
	grant_close(&rig, &g);
	pair_close(&rig, &pair);
	area_close(&local);
	area_close(&remote);
	rig_close(&rig);
}
