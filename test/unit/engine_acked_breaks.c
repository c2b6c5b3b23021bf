/* SPDX-License-Identifier: Apache-2.0 */
/* The only rail breaks each time it has acknowledged a write, before it could prove that it is
 * placed: the write goes again nine times and fails at the tenth, as one that was on its way. */
#include "engine_rig.h"

enum { ENTRIES = 8, LEN = 4096, TIMES = 10 };

static struct engine_rig rig;

static void acknowledged(void)
{
	CHECK_EQ(rig.ntaken, 1);
	CHECK_EQ(rig.taken[0]->kind, CHUNK_WRITE);
	rig_out(&rig, 0, 0, 0);
	rig_turns(&rig);
	CHECK_EQ(rig.ntaken, 1);
	CHECK_EQ(rig.taken[0]->kind, CHUNK_FLUSH);
}

/* And is closed at both ends. */
static void breaks(void)
{
	struct engine_cmd cmd = {.peer = rig.peer, .rail = &rig.rail[0]};

	rig_event(&rig, (struct event){.type = EVENT_DOWN, .ep = &rig.ep[0], .res = -EIO});
	rig_turns(&rig);
	CHECK_EQ(rig.peer->nup, 0);
	rig_command(&rig, &cmd, ENGINE_RAIL_CLOSE);
	CHECK_EQ(rig.ntaken, 0);
	cmd = (struct engine_cmd){.peer = rig.peer, .part = 0};
	rig_command(&rig, &cmd, ENGINE_RAIL_FENCED);
}

static void comes_back(void)
{
	rig_rail_open(&rig, 0);
	rig_key(&rig, 0, 0);
	rig_turns(&rig);
	CHECK_EQ(rig.peer->nup, 1);
}

int case_engine_acked_breaks(void)
{
	struct urccl_cqe cqe;
	struct failure why;
	uint32_t i;

	rig_engine_open(&rig, ENTRIES, 4);
	rig_peer_open(&rig);
	rig_key(&rig, 0, 0);
	rig_write(&rig, 0, LEN, 1);
	rig_enter(&rig);
	rig_turns(&rig);
	for (i = 1; i < TIMES; i++) {
		acknowledged();
		breaks();
		comes_back();
		CHECK(!rig_cqe(&rig, &cqe));
	}
	acknowledged();
	breaks();
	cqe = rig_ended(&rig, 1);
	CHECK_EQ(cqe.res, -ECONNRESET);
	CHECK_EQ(failures_get(&rig.e->failures, cqe.fail.detail, &why), 0);
	CHECK_EQ(why.reason, REASON_REPLAYS);
	rig_peer_close(&rig);
	rig_engine_close(&rig);
	return 0;
}
