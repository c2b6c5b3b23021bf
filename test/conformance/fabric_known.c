/* SPDX-License-Identifier: Apache-2.0 */
/* Peers come and go, each by a device of its own: what is known of them, and is not needed any
 * more, does not grow with their number. The provider of our tests counts the names. */
#include "rig.h"

#define PEERS 200u
#define MOST  80u

/* A device like the first is rig's second one for a while. */
static void come_and_go(struct rig *rig, uint64_t incarnation)
{
	struct device *dev, *second = rig->node[1].dev;
	struct device_config config = {.params = &rig->node[1].params, .incarnation = incarnation};
	struct pair pair;

	CHECK_EQ(rig->backend->open(&config, &dev), 0);
	rig->node[1].dev = dev;
	pair_open(rig, &pair);
	pair_close(rig, &pair);
	rig->node[1].dev = second;
	rig->backend->close(dev);
}

void case_fabric_known(struct rig *rig)
{
	uint32_t i, most = 0, n;

	if (!strstr(rig->settings->transport, "urccl_test") || !getenv("FI_PROVIDER_PATH"))
		SKIP("only the provider of our tests counts names");
	for (i = 0; i < PEERS; i++) {
		come_and_go(rig, 1000 + i);
		n = provider_count("urccl_test_names");
		most = n > most ? n : most;
	}
	printf("%u names at most\n", most);
	CHECK_LE(most, MOST);
}
