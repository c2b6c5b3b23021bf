/* SPDX-License-Identifier: Apache-2.0 */
/* The transports over libfabric in a build without its headers. */
#include "backend/backend.h"

static int none_open(const struct device_config *config, struct device **dev)
{
	(void)config;
	(void)dev;
	return fail(-EOPNOTSUPP, "this liburccl was built without libfabric-dev: build it with "
				 "-Dfabric=enabled");
}

const struct backend backend_fabric = {.name = "fabric",
				       .transport = URCCL_TRANSPORT_FABRIC,
				       .scan = scan_one,
				       .open = none_open};
const struct backend backend_efa = {.name = "efa",
				    .transport = URCCL_TRANSPORT_EFA,
				    .scan = scan_one,
				    .open = none_open};
const struct backend backend_cxi = {.name = "cxi",
				    .transport = URCCL_TRANSPORT_CXI,
				    .scan = scan_one,
				    .open = none_open};
