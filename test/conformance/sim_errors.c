/* SPDX-License-Identifier: Apache-2.0 */
/* As often as asked for chunks fail with -EIO, their bytes placed, partly placed or not at all;
 * those that succeed are placed. */
#include "rig.h"

#define PIECES 400u
#define EACH   (20u << 10)
#define LEN    (PIECES * EACH)

struct seen {
	uint32_t failed, whole, none;
};

static void look(struct seen *seen, const struct piece *p, const struct area *remote, uint32_t i)
{
	int whole = area_is(remote, i * EACH, EACH, 1, i * EACH);

	if (!p->chunk.res) {
		CHECK(whole);
		return;
	}
	CHECK_EQ(p->chunk.res, -EIO);
	seen->failed++;
	seen->whole += (uint32_t)whole;
	seen->none += (uint32_t)area_is(remote, i * EACH, EACH, 2, i * EACH);
}

static void flush_until_it_works(struct rig *rig, struct end *end, const struct grant *g)
{
	struct piece p;
	int32_t res;

	do {
		piece_fill(&p, CHUNK_FLUSH, end, NULL, 0, g, 0, 0);
		res = piece_run(rig, &p);
		CHECK(res == 0 || res == -EIO);
	} while (res);
}

void case_sim_errors(struct rig *unused)
{
	static struct piece pieces[PIECES];
	struct settings settings = *unused->settings;
	struct seen seen = {0};
	struct area local, remote;
	struct grant g;
	struct pair pair;
	struct rig rig;
	uint32_t i;

	strcat(settings.sim, ",error=15%,partial=12%");
	rig_open(&rig, &settings);
	pair_open(&rig, &pair);
	area_open(&rig.node[0], &local, LEN);
	area_open(&rig.node[1], &remote, LEN);
	area_fill(&local, 0, LEN, 1, 0);
	area_fill(&remote, 0, LEN, 2, 0);
	grant_open(&g, &pair.end[1], &pair.end[0], &remote, 0, LEN, URCCL_RIGHT_WRITE);
	for (i = 0; i < PIECES; i++) {
		piece_fill(&pieces[i], CHUNK_WRITE, &pair.end[0], &local, i * EACH, &g, i * EACH,
			   EACH);
		piece_post(&rig, &pieces[i]);
	}
	WAIT(&rig, pair.end[0].out == pair.end[0].taken);
	flush_until_it_works(&rig, &pair.end[0], &g);
	for (i = 0; i < PIECES; i++)
		look(&seen, &pieces[i], &remote, i);
	printf("failed %u, of them placed %u, not at all %u\n", seen.failed, seen.whole, seen.none);
	CHECK(seen.failed > PIECES / 8 && seen.failed < PIECES / 2);
	CHECK(seen.whole && seen.none && seen.whole + seen.none < seen.failed);
	grant_close(&rig, &g);
	pair_close(&rig, &pair);
	area_close(&local);
	area_close(&remote);
	rig_close(&rig);
}
