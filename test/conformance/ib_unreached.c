/* SPDX-License-Identifier: Apache-2.0 */
/* An end that nobody answers is known to be none in less than a second, meeting included. */
#include "rig.h"

#define MOST_NS NSEC_PER_SEC
#define POLLS	100000u /* with fewer the machine was away */

void case_ib_unreached(struct rig *rig)
{
	struct end ours, theirs;
	uint32_t polls = 0;
	uint64_t since;

	end_open(&rig->node[0], &ours);
	end_open(&rig->node[1], &theirs);
	since = clock_ns();
	CHECK_EQ(end_connect(&ours, theirs.addr, theirs.addr_len, 1, NULL), 0);
	for (; !ours.down; polls++) {
		CHECK(clock_ns() - since < RIG_PATIENCE_NS);
		rig_step(rig);
	}
	since = clock_ns() - since;
	printf("%llu ms, %u polls\n", (unsigned long long)(since / NSEC_PER_MSEC), polls);
	CHECK_EQ(ours.down_res, -ETIMEDOUT);
	CHECK(since < MOST_NS || polls < POLLS);
	rig->backend->ep_close(ours.ep);
	WAIT(rig, ours.closed);
	rig->backend->ep_free(ours.ep);
	rig->backend->ep_free(theirs.ep);
}
