/* SPDX-License-Identifier: Apache-2.0 */
/* A domain has so many endpoints (eps=12 of the provider of our tests): a peer that would have
 * another is refused with what helps, and when one has gone there is room again. */
#include "rig.h"

#define ENDPOINTS 12u /* one is for messages */

void case_fabric_room(struct rig *rig)
{
	const char *words = getenv("URCCL_TEST_PROVIDER");
	struct node *node = &rig->node[0];
	struct end ends[ENDPOINTS];
	uint8_t addr[EP_ADDR_MAX];
	uint32_t len, i, n = 0;
	struct ep *ep;
	int rc = 0;

	if (!words || !strstr(words, "eps=12"))
		SKIP("the provider has as many endpoints as are asked for");
	while (n < ENDPOINTS && !(rc = rig->backend->ep_open(node->dev, &ep, addr, &len)))
		ends[n++].ep = ep;
	printf("%u peers: %s\n", n, rc ? urccl_errmsg() : "no limit met");
	CHECK_EQ(rc, -ENOSPC);
	CHECK_EQ(n, ENDPOINTS - 1);
	CHECK(strstr(urccl_errmsg(), "of which it says to have 12: set max_warm"));
	rig->backend->ep_free(ends[--n].ep);
	end_open(node, &ends[n++]);
	for (i = 0; i < n; i++)
		rig->backend->ep_free(ends[i].ep);
}
