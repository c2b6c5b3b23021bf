/* SPDX-License-Identifier: Apache-2.0 */
/* An ep of another network is not reached, nor one that is gone, nor oneself. */
#include "rig.h"

static void unreachable(struct rig *rig, const struct end *to)
{
	struct end end;

	end_open(&rig->node[0], &end);
	CHECK_EQ(rig->backend->ep_connect(end.ep, to->addr, to->addr_len, 1, NULL), 0);
	WAIT(rig, end.down);
	CHECK_EQ(end.down_res, -EHOSTUNREACH);
	rig->backend->ep_close(end.ep);
	WAIT(rig, end.closed);
	rig->backend->ep_free(end.ep);
}

void case_sim_networks(struct rig *rig)
{
	struct rig other;
	struct end far, gone, self;

	rig_open(&other, rig->settings);
	end_open(&other.node[1], &far);
	unreachable(rig, &far);
	other.backend->ep_free(far.ep);
	rig_close(&other);

	end_open(&rig->node[1], &gone);
	rig->backend->ep_free(gone.ep);
	unreachable(rig, &gone);

	end_open(&rig->node[0], &self);
	CHECK_EQ(rig->backend->ep_connect(self.ep, self.addr, self.addr_len, 1, NULL), 0);
	WAIT(rig, self.down);
	CHECK_EQ(self.down_res, -EHOSTUNREACH);
	rig->backend->ep_close(self.ep);
	WAIT(rig, self.closed);
	rig->backend->ep_free(self.ep);
}
