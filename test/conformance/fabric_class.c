/* SPDX-License-Identifier: Apache-2.0 */
/* The traffic class of each class of entries reaches the endpoints that carry it, as a code point;
 * where none is set they have the provider's. The provider of our tests notes what they were made
 * with. */
#include <dlfcn.h>
#include "rig.h"

#define DSCP 0x100u /* FI_TC_DSCP */

/* Of the last endpoint; *n: how many there were. */
static uint32_t made(uint32_t *n)
{
	char path[512];
	const uint32_t *class, *count;
	void *provider;

	snprintf(path, sizeof(path), "%s/liburccltest-fi.so", getenv("FI_PROVIDER_PATH"));
	provider = dlopen(path, RTLD_NOW | RTLD_NOLOAD);
	CHECK(provider);
	class = dlsym(provider, "urccl_test_tclass");
	count = dlsym(provider, "urccl_test_endpoints");
	CHECK(class && count);
	dlclose(provider);
	*n = *count;
	return *class;
}

/* A device like the first: what carries messages, and then a peer's bytes, is made with. */
static void makes(struct rig *rig, int16_t latency, int16_t bulk, uint32_t first, uint32_t second)
{
	struct node node = {.rig = rig, .params = rig->node[0].params};
	struct device_config config = {.params = &node.params, .incarnation = 77};
	uint32_t before, n;
	struct end end;

	node.params.rdma_tc[URCCL_CLASS_LATENCY] = latency;
	node.params.rdma_tc[URCCL_CLASS_BULK] = bulk;
	made(&before);
	CHECK_EQ(rig->backend->open(&config, &node.dev), 0);
	CHECK_EQ(made(&n), first);
	CHECK_EQ(n, before + 1);
	end_open(&node, &end);
	CHECK_EQ(made(&n), second);
	CHECK_EQ(n, before + 2);
	rig->backend->ep_free(end.ep);
	rig->backend->close(node.dev);
}

void case_fabric_class(struct rig *rig)
{
	if (!strstr(rig->settings->transport, "urccl_test") || !getenv("FI_PROVIDER_PATH"))
		SKIP("only the provider of our tests notes classes");
	makes(rig, URCCL_AUTO, URCCL_AUTO, 0, 0);
	makes(rig, 184, 32, DSCP | 46, DSCP | 8);
	makes(rig, 184, URCCL_AUTO, DSCP | 46, 0);
	makes(rig, URCCL_AUTO, 0, 0, DSCP);
}
