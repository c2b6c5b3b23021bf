/* SPDX-License-Identifier: Apache-2.0 */
/* A provider that wants memory to be allocated when it is registered (FI_MR_ALLOCATED) knows it by
 * its pages: what is registered is not to get others. Another one does not mind. What peers may
 * touch is registered once for all of them where it is pinned, or by the device's helper for each
 * where a provider's regions are of an endpoint; not by the engine's thread. */
#include "rig.h"

#define LEN    (64u * 1024)
#define PEERS  3u
#define SPANS  2u
#define RIGHTS (URCCL_RIGHT_READ | URCCL_RIGHT_WRITE)

static struct pair pairs[PEERS];
static struct exposure exposures[PEERS];
static uint8_t key[KEY_MAX];
static uint32_t key_len;

static uint32_t regions(void)
{
	return provider_count("urccl_test_regions");
}

/* Of this thread, which is both engines'. */
static uint32_t own_regions(void)
{
	uint32_t (*own)(void);
	void *p = provider_symbol("urccl_test_own_regions");

	memcpy(&own, &p, sizeof(own));
	return own();
}

/* The key works. */
static void write_by(struct rig *rig, struct pair *pair, struct area *local, struct area *remote,
		     uint32_t pattern)
{
	struct end *importer = &pair->end[0];
	struct grant g = {.importer = importer};

	CHECK_EQ(rig->backend->import(importer->ep, key, key_len, LEN, &g.rkey), 0);
	area_fill(local, 0, LEN, pattern, 0);
	CHECK_EQ(piece_move(rig, CHUNK_WRITE, importer, local, 0, &g, 0, LEN), 0);
	CHECK(area_is(remote, 0, LEN, pattern, 0));
	rig->backend->forget(importer->ep, &g.rkey);
}

static void share(struct rig *rig, struct pin *pin, struct area *local, struct area *remote)
{
	struct device *owner = rig->node[1].dev;
	uint32_t i, before = regions(), own;

	if (owner->caps & CAP_PIN)
		CHECK_EQ(owner->ops->pin(owner, pin), 0);
	own = own_regions();
	for (i = 0; i < PEERS; i++) {
		struct exposure *x = &exposures[i];
		int n;

		*x = (struct exposure){.ep = pairs[i].end[1].ep,
				       .memory = remote->memory,
				       .pin = pin,
				       .len = LEN,
				       .rights = RIGHTS,
				       .expires_ns = NEVER_NS};
		n = owner->ops->expose(x, key, sizeof(key));
		CHECK_GE(n, 1);
		key_len = (uint32_t)n;
		write_by(rig, &pairs[i], local, remote, i);
	}
	for (i = 0; i < PEERS; i++)
		WAIT(rig, !owner->ops->unexpose(&exposures[i]));
	CHECK_EQ(own_regions(), own);
	CHECK_EQ(regions() - before, owner->caps & CAP_PIN ? SPANS : PEERS * SPANS);
	if (owner->caps & CAP_PIN)
		CHECK_EQ(owner->ops->unpin(owner, pin), 0);
}

void case_fabric_pins(struct rig *rig)
{
	const char *words = getenv("URCCL_TEST_PROVIDER");
	struct area local, remote;
	struct pin pin;
	uint32_t i;

	if (!words || !strstr(rig->settings->transport, "urccl_test"))
		SKIP("only the provider of our tests asks for what it is told to");
	CHECK_EQ(!!(rig->node[0].dev->caps & CAP_BY_PAGES), strstr(words, "allocated") != NULL);
	CHECK_EQ(!!(rig->node[0].dev->caps & CAP_PIN), !strstr(words, "endpoint"));
	for (i = 0; i < PEERS; i++)
		pair_open(rig, &pairs[i]);
	area_open(&rig->node[0], &local, LEN);
	area_open_spans(&rig->node[1], &remote, LEN, SPANS);
	pin = (struct pin){.memory = remote.memory, .len = LEN, .rights = RIGHTS};
	share(rig, &pin, &local, &remote);
	for (i = 0; i < PEERS; i++)
		pair_close(rig, &pairs[i]);
	area_close(&local);
	area_close(&remote);
}
