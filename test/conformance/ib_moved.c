/* SPDX-License-Identifier: Apache-2.0 */
/* A port gets another address while its device is open: eps that are opened from then on tell it
 * to their peers and talk by it. MOVE is the command that gives it, MOVE_BACK the one that takes
 * it. */
#include <stdlib.h>
#include "rig.h"

#define LEN 100000u

/* In an address: the first GID, and its kind. */
#define GID_AT	36u
#define KIND_AT 54u

static void run(const char *name)
{
	const char *command = getenv(name);

	if (!command)
		SKIP("MOVE and MOVE_BACK name no commands");
	CHECK_EQ(system(command), 0);
}

/* A poll after arm() looks for what the device tells of its ports, others do now and then. */
static void look(struct rig *rig)
{
	struct device *dev = rig->node[0].dev;

	dev->ops->arm(dev);
	rig_step(rig);
}

/* Of the kind that was best before; for a moment there is none. */
static int is_other(const struct end *end, const uint8_t *before)
{
	return end->addr[KIND_AT] == before[KIND_AT] &&
	       memcmp(end->addr + GID_AT, before + GID_AT, 16);
}

static void move(struct rig *rig, const char *how)
{
	uint64_t until = clock_ns() + RIG_PATIENCE_NS;
	uint8_t before[EP_ADDR_MAX];
	struct end end;

	end_open(&rig->node[0], &end);
	memcpy(before, end.addr, sizeof(before));
	run(how);
	while (!is_other(&end, before)) {
		look(rig);
		rig->backend->ep_free(end.ep);
		end_open(&rig->node[0], &end);
		CHECK(!is_late(until));
	}
	rig->backend->ep_free(end.ep);
}

static void talk(struct rig *rig)
{
	struct area local, remote;
	struct pair pair;
	struct grant g;

	pair_open(rig, &pair);
	area_open(&rig->node[0], &local, LEN);
	area_open(&rig->node[1], &remote, LEN);
	area_fill(&local, 0, LEN, 2, 0);
	grant_open(&g, &pair.end[1], &pair.end[0], &remote, 0, LEN, URCCL_RIGHT_WRITE);
	CHECK_EQ(piece_move(rig, CHUNK_WRITE, &pair.end[0], &local, 0, &g, 0, LEN), 0);
	CHECK(area_is(&remote, 0, LEN, 2, 0));
	grant_close(rig, &g);
	pair_close(rig, &pair);
	area_close(&local);
	area_close(&remote);
}

void case_ib_moved(struct rig *rig)
{
	talk(rig);
	move(rig, "MOVE");
	talk(rig);
	move(rig, "MOVE_BACK");
	talk(rig);
}
