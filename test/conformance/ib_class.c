/* SPDX-License-Identifier: Apache-2.0 */
/* Service level and traffic class of each class of entries reach the queue pairs that carry it; one
 * that is not set is what suits RoCE. ibv_shim.c noted them. */
#include <dlfcn.h>
#include "rig.h"

#define ROUTES	8u /* of a pair, as it becomes: each end's four queue pairs */
#define SMALL	4u /* of which these are not of bulk, and the first */
#define AUTO_SL 3
#define AUTO_TC 104

struct route {
	uint8_t sl, tclass;
};

/* Of the queue pair that was routed n-th from the last. */
static struct route routed(unsigned long back)
{
	void *shim = dlopen(getenv("UCCL_IBV_SO"), RTLD_NOW | RTLD_NOLOAD);
	const unsigned long *n = shim ? dlsym(shim, "shim_nroutes") : NULL;
	const struct route *all = shim ? dlsym(shim, "shim_routes") : NULL;

	CHECK(n && all);
	dlclose(shim);
	CHECK_GE(*n, back);
	return all[*n - back];
}

static void is(struct route got, int sl, int tclass)
{
	CHECK_EQ(got.sl, sl);
	CHECK_EQ(got.tclass, tclass);
}

static void again(struct rig *rig, struct node *node, const int16_t sl[3], const int16_t tc[3])
{
	struct device_config config = {.params = &node->params, .incarnation = 77};

	rig->backend->close(node->dev);
	memcpy(node->params.rdma_sl, sl, sizeof(node->params.rdma_sl));
	memcpy(node->params.rdma_tc, tc, sizeof(node->params.rdma_tc));
	CHECK_EQ(rig->backend->open(&config, &node->dev), 0);
}

/* The devices anew, with these: what their ends are given when they meet, and as they grow. */
static void meets(struct rig *rig, const int16_t sl[3], const int16_t tc[3])
{
	struct pair pair;
	uint32_t i;

	again(rig, &rig->node[0], sl, tc);
	again(rig, &rig->node[1], sl, tc);
	pair_open(rig, &pair);
	for (i = 0; i < ROUTES; i++) {
		uint32_t cls = i < SMALL ? URCCL_CLASS_LATENCY : URCCL_CLASS_BULK;

		is(routed(ROUTES - i), sl[cls] < 0 ? AUTO_SL : sl[cls],
		   tc[cls] < 0 ? AUTO_TC : tc[cls]);
	}
	pair_close(rig, &pair);
}

void case_ib_class(struct rig *rig)
{
	static const int16_t none[] = {URCCL_AUTO, URCCL_AUTO, URCCL_AUTO};
	static const int16_t all[] = {6, 6, 6}, zero[] = {0, 0, 0};
	static const int16_t sl[] = {[URCCL_CLASS_BULK] = 1, [URCCL_CLASS_LATENCY] = 5, 9};
	static const int16_t tc[] = {[URCCL_CLASS_BULK] = 32, [URCCL_CLASS_LATENCY] = 184, 8};
	static const int16_t some[] = {
		[URCCL_CLASS_BULK] = 2, [URCCL_CLASS_LATENCY] = URCCL_AUTO, URCCL_AUTO};

	if (!getenv("SHIM"))
		SKIP("SHIM and UCCL_IBV_SO are not set: nobody notes what queue pairs are given");
	meets(rig, none, none);
	meets(rig, sl, tc);
	meets(rig, some, none);
	meets(rig, none, some);
	meets(rig, all, zero);
}
