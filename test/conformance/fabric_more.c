/* SPDX-License-Identifier: Apache-2.0 */
/* Small writes that are posted together go to the provider as one chain, and the smallest as bytes
 * that it copies. The provider of our tests counts both, and begins no chain before its end. */
#include <dlfcn.h>
#include "rig.h"

#define MANY   32u
#define INJECT 64u /* bytes, as the words have it */
#define ROOM   128u

struct counts {
	uint32_t moves, injected, more;
};

static uint32_t value(void *provider, const char *name)
{
	const uint32_t *n = dlsym(provider, name);

	CHECK(n);
	return *n;
}

static struct counts counted(void)
{
	struct counts c;
	char path[512];
	void *provider;

	snprintf(path, sizeof(path), "%s/liburccltest-fi.so", getenv("FI_PROVIDER_PATH"));
	provider = dlopen(path, RTLD_NOW | RTLD_NOLOAD);
	CHECK(provider);
	c.moves = value(provider, "urccl_test_moves");
	c.injected = value(provider, "urccl_test_injected");
	c.more = value(provider, "urccl_test_more");
	dlclose(provider);
	return c;
}

static void post_all(struct rig *rig, struct piece *pieces)
{
	struct chunk *chunks[MANY];
	uint32_t i;

	for (i = 0; i < MANY; i++) {
		chunks[i] = &pieces[i].chunk;
		pieces[i].taken = 1;
	}
	CHECK_EQ(rig->backend->post(chunks[0]->ep, chunks, MANY), MANY);
}

void case_fabric_more(struct rig *rig)
{
	const char *words = getenv("URCCL_TEST_PROVIDER");
	struct piece pieces[MANY];
	struct area local, remote;
	struct counts before, after;
	struct pair pair;
	struct grant g;
	uint32_t i;

	if (!words || !strstr(words, "inject=64"))
		SKIP("the provider counts no chains");
	pair_open(rig, &pair);
	area_open(&rig->node[0], &local, MANY * ROOM);
	area_open(&rig->node[1], &remote, MANY * ROOM);
	grant_open(&g, &pair.end[1], &pair.end[0], &remote, 0, MANY * ROOM, URCCL_RIGHT_WRITE);
	CHECK_EQ(piece_move(rig, CHUNK_WRITE, &pair.end[0], &local, 0, &g, 0, ROOM), 0);
	area_fill(&local, 0, MANY * ROOM, 1, 0);
	for (i = 0; i < MANY; i++)
		piece_fill(&pieces[i], CHUNK_WRITE, &pair.end[0], &local, i * ROOM, &g, i * ROOM,
			   i % 2 ? INJECT : ROOM);
	before = counted();
	post_all(rig, pieces);
	after = counted();
	CHECK_EQ(after.moves - before.moves, MANY);
	CHECK_EQ(after.injected - before.injected, MANY / 2);
	CHECK_EQ(after.more - before.more, MANY - 1);
	pair.end[0].taken += MANY;
	WAIT(rig, pair.end[0].out == pair.end[0].taken);
	for (i = 0; i < MANY; i++) {
		CHECK_EQ(pieces[i].chunk.res, 0);
		CHECK(area_is(&remote, i * ROOM, i % 2 ? INJECT : ROOM, 1, i * ROOM));
	}
	grant_close(rig, &g);
	pair_close(rig, &pair);
	area_close(&local);
	area_close(&remote);
}
