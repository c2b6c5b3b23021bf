/* SPDX-License-Identifier: Apache-2.0 */
/* The completion queue grows with the eps, and an ep that would pass the device's limit is refused
 * by that limit's name; when another one has gone there is room again. */
#include "rig.h"

#define EPS 200u

void case_ib_room(struct rig *rig)
{
	struct node *node = &rig->node[0];
	struct end ends[EPS];
	struct ep *ep;
	uint8_t addr[EP_ADDR_MAX];
	uint32_t len, i, n = 0;
	int rc = 0;

	while (n < EPS && !(rc = rig->backend->ep_open(node->dev, &ep, addr, &len))) {
		ends[n].ep = ep;
		n++;
	}
	printf("%u eps: %s\n", n, rc ? urccl_errmsg() : "no limit met");
	CHECK_EQ(rc, -ENOSPC);
	CHECK(strstr(urccl_errmsg(), "max_cqe"));
	CHECK_GE(n, 9);
	rig->backend->ep_free(ends[--n].ep);
	end_open(node, &ends[n++]);
	for (i = 0; i < n; i++)
		rig->backend->ep_free(ends[i].ep);
}
