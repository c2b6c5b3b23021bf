/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that the device can read and the processor cannot (SHIM=opaque=1 of ibv_shim.c), as a
 * GPU's that is registered by its address: the few bytes of a WRITE are not copied here but fetched
 * by the device, even where just a part of what was registered together is such memory. Ordinary
 * memory's are copied. */
#include <dlfcn.h>
#include <sys/mman.h>
#include "rig.h"

#define PAGE   4096u
#define LEN    (4 * PAGE - 256) /* area_open() maps so many pages */
#define OPAQUE 0x5a

static const uint32_t lens[] = {1, 8, 32};

static unsigned long inlined(void)
{
	void *shim = dlopen(getenv("UCCL_IBV_SO"), RTLD_NOW | RTLD_NOLOAD);
	const unsigned long *n = shim ? dlsym(shim, "shim_inlined") : NULL;

	CHECK(n);
	dlclose(shim);
	return *n;
}

/* From the byte at off; how many requests went inline. */
static unsigned long writes(struct rig *rig, struct end *end, const struct area *local,
			    uint64_t off, const struct grant *g, struct area *remote)
{
	unsigned long before = inlined();
	uint32_t i;

	for (i = 0; i < ARRAY_SIZE(lens); i++) {
		area_fill(remote, 0, LEN, 2, 0);
		CHECK_EQ(piece_move(rig, CHUNK_WRITE, end, local, off, g, 0, lens[i]), 0);
		CHECK(area_is(remote, lens[i], LEN - lens[i], 2, lens[i]));
	}
	return inlined() - before;
}

static int is_opaque(const struct area *remote, uint32_t len)
{
	const uint8_t *p = area_at(remote, 0, len);
	uint32_t i;

	for (i = 0; i < len; i++)
		if (p[i] != OPAQUE)
			return 0;
	return 1;
}

/* Its pages from number first on cannot be read. */
static void make_opaque(struct area *local, uint32_t first)
{
	struct device *dev = local->node->dev;
	uint8_t *at = local->bytes;

	CHECK_EQ(dev->ops->unreg(dev, &local->extent), 0);
	CHECK_EQ(mprotect(at + first * PAGE, (4 - first) * PAGE, PROT_NONE), 0);
	local->extent.read = EXTENT_READ_UNKNOWN;
	CHECK_EQ(dev->ops->reg(dev, &local->extent), 0);
}

void case_ib_opaque(struct rig *rig)
{
	uint32_t most = lens[ARRAY_SIZE(lens) - 1];
	struct area local, remote;
	struct pair pair;
	struct end *end = &pair.end[0];
	struct grant g;

	if (!getenv("SHIM"))
		SKIP("SHIM and UCCL_IBV_SO are not set: no memory is a device's here");
	pair_open(rig, &pair);
	area_open(&rig->node[0], &local, LEN);
	area_open(&rig->node[1], &remote, LEN);
	grant_open(&g, &pair.end[1], end, &remote, 0, LEN, URCCL_RIGHT_WRITE);
	area_fill(&local, 0, LEN, 1, 0);
	CHECK_EQ(writes(rig, end, &local, 0, &g, &remote), ARRAY_SIZE(lens));
	CHECK(area_is(&remote, 0, most, 1, 0));

	make_opaque(&local, 3);
	CHECK_EQ(writes(rig, end, &local, 3 * PAGE, &g, &remote), 0);
	CHECK(is_opaque(&remote, most));
	CHECK_EQ(writes(rig, end, &local, 0, &g, &remote), 0);
	CHECK(is_opaque(&remote, most));
	make_opaque(&local, 0);
	CHECK_EQ(writes(rig, end, &local, PAGE, &g, &remote), 0);
	CHECK(is_opaque(&remote, most));

	grant_close(rig, &g);
	pair_close(rig, &pair);
	area_close(&local);
	area_close(&remote);
}
