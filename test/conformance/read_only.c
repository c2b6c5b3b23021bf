/* SPDX-License-Identifier: Apache-2.0 */
/* A READ to memory that is mapped read-only is refused before a device has it, and no queue pair
 * breaks of it; what is there can be written to the peer. */
#include <sys/mman.h>
#include "rig.h"

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif

#define PAGE 4096u
#define LEN  (2 * PAGE - 256) /* area_open() maps so many pages */

void case_read_only(struct rig *rig)
{
	struct device *dev = rig->node[0].dev;
	struct area local, remote;
	struct pair pair;
	struct end *end = &pair.end[0];
	struct piece p;
	struct grant g;

	pair_open(rig, &pair);
	area_open(&rig->node[0], &local, LEN);
	area_open(&rig->node[1], &remote, LEN);
	if (strcmp(dev->ops->name, "ib") && madvise(local.bytes, PAGE, MADV_POPULATE_READ))
		SKIP("a kernel before 5.14 does not tell the provider of our tests");
	area_fill(&local, 0, LEN, 1, 0);
	dev->ops->unreg(dev, &local.extent);
	CHECK_EQ(mprotect(local.bytes, 2 * PAGE, PROT_READ), 0);
	CHECK_EQ(dev->ops->reg(dev, &local.extent), 0);
	grant_open(&g, &pair.end[1], end, &remote, 0, LEN, URCCL_RIGHT_READ | URCCL_RIGHT_WRITE);
	piece_fill(&p, CHUNK_READ, end, &local, 0, &g, 0, LEN);
	CHECK_EQ(piece_run(rig, &p), -EFAULT);
	CHECK(p.chunk.flags & CHUNK_QUIET);
	CHECK(area_is(&local, 0, LEN, 1, 0));
	CHECK_EQ(piece_move(rig, CHUNK_WRITE, end, &local, 0, &g, 0, LEN), 0);
	CHECK(area_is(&remote, 0, LEN, 1, 0));
	CHECK(!end->down);
	grant_close(rig, &g);
	pair_close(rig, &pair);
	area_close(&local);
	area_close(&remote);
}
