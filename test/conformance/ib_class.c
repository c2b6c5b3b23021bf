/* SPDX-License-Identifier: Apache-2.0 */
/* Service level and traffic class of each class of entries reach the queue pairs that carry it; one
 * that is not set is what suits RoCE. ibv_shim.c noted them. */
#include <dlfcn.h>
#include "rig.h"

#define WAYS	3u /* queue pairs of an end: of what is urgent, and two of bulk */
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

/* A device like the first, with these: what its end is given when it meets another. */
static void meets(struct rig *rig, const int16_t sl[3], const int16_t tc[3])
{
	struct node node = {.rig = rig, .params = rig->node[0].params};
	struct device_config config = {.params = &node.params, .incarnation = 77};
	struct end ours, theirs;
	uint32_t i;

	memcpy(node.params.rdma_sl, sl, sizeof(node.params.rdma_sl));
	memcpy(node.params.rdma_tc, tc, sizeof(node.params.rdma_tc));
	CHECK_EQ(rig->backend->open(&config, &node.dev), 0);
	end_open(&node, &ours);
	end_open(&rig->node[1], &theirs);
	CHECK_EQ(rig->backend->ep_meet(ours.ep, theirs.addr, theirs.addr_len), 0);
	for (i = 0; i < WAYS; i++) {
		uint32_t cls = i == 0 ? URCCL_CLASS_LATENCY : URCCL_CLASS_BULK;

		is(routed(WAYS - i), sl[cls] < 0 ? AUTO_SL : sl[cls],
		   tc[cls] < 0 ? AUTO_TC : tc[cls]);
	}
	rig->backend->ep_free(ours.ep);
	rig->backend->ep_free(theirs.ep);
	rig->backend->close(node.dev);
}

void case_ib_class(struct rig *rig)
{
	static const int16_t none[] = {URCCL_AUTO, URCCL_AUTO, URCCL_AUTO};
	static const int16_t all[] = {6, 6, 6}, zero[] = {0, 0, 0};
	static const int16_t sl[] = {[URCCL_CLASS_BULK] = 1, [URCCL_CLASS_LATENCY] = 5, 9};
	static const int16_t tc[] = {[URCCL_CLASS_BULK] = 32, [URCCL_CLASS_LATENCY] = 184, 8};
	static const int16_t some[] = {[URCCL_CLASS_BULK] = 2, [URCCL_CLASS_LATENCY] = URCCL_AUTO,
				       URCCL_AUTO};

	if (!getenv("SHIM"))
		SKIP("SHIM and UCCL_IBV_SO are not set: nobody notes what queue pairs are given");
	meets(rig, none, none);
	meets(rig, sl, tc);
	meets(rig, some, none);
	meets(rig, none, some);
	meets(rig, all, zero);
}
