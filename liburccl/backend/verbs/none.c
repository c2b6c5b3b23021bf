/* SPDX-License-Identifier: Apache-2.0 */
/* Transport ib of a library built without rdma-core's header. */
#include "backend/backend.h"

static uint32_t none_scan(const struct device_config *config)
{
	(void)config;
	fail(-EOPNOTSUPP,
	     "ib: this library was built without infiniband/verbs.h of rdma-core 32 (Debian: "
	     "libibverbs-dev)");
	return 0;
}

static int none_open(const struct device_config *config, struct device **dev)
{
	(void)dev;
	none_scan(config);
	return -EOPNOTSUPP;
}

const struct backend backend_ib = {
	.name = "ib",
	.transport = URCCL_TRANSPORT_IB,
	.chunk_bytes = 1024u * 1024,
	.scan = none_scan,
	.open = none_open,
};
