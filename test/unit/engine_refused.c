/* SPDX-License-Identifier: Apache-2.0 */
/* What the peer's device refuses, its owner has taken back; or the owner is no more, and not all of
 * what was its has gone with it. So the entry ends with neither: by the rail that is made anew the
 * peer is asked for a key, and its word counts; one that is lost gives none. */
#include "engine_rig.h"

enum { ENTRIES = 8, LEN = 4096 };

static struct engine_rig rig;

static void begin(void)
{
	rig_engine_open(&rig, ENTRIES, 4);
	rig_peer_open(&rig);
	rig_key(&rig, 0, 0);
}

static void end(void)
{
	rig_engine_close(&rig);
}

/* out: of the chunk, CHUNK_QUIET: nothing of it was done. */
static void refused(uint16_t flags, uint8_t out)
{
	rig_write(&rig, 0, LEN, 1)->flags |= flags;
	rig_enter(&rig);
	rig_turns(&rig);
	CHECK_EQ(rig.ntaken, 1);
	rig_out(&rig, 0, -EACCES, CHUNK_REFUSED | out);
	rig_event(&rig, (struct event){.type = EVENT_DOWN, .ep = &rig.ep[0], .res = -EACCES});
	rig_turns(&rig);
	CHECK_EQ(rig.ntaken, 0);
}

static void nothing_ended(void)
{
	struct urccl_cqe cqe;

	CHECK(!rig_cqe(&rig, &cqe));
}

static void rail_anew(void)
{
	struct engine_cmd cmd = {.peer = rig.peer, .rail = &rig.rail[0]};

	rig_command(&rig, &cmd, ENGINE_RAIL_CLOSE);
	cmd = (struct engine_cmd){.peer = rig.peer, .part = 0};
	rig_command(&rig, &cmd, ENGINE_RAIL_FENCED);
	rig_rail_open(&rig, 0);
	rig_turns(&rig);
	CHECK_EQ(rig.ntaken, 0);
	nothing_ended();
}

static void ends(int res, uint32_t reason)
{
	struct urccl_cqe cqe = rig_ended(&rig, 1);
	struct failure why;

	CHECK_EQ(cqe.res, res);
	CHECK_EQ(failures_get(&rig.e->failures, cqe.fail.detail, &why), 0);
	CHECK_EQ(why.reason, reason);
}

static void owner_dies(void)
{
	begin();
	refused(0, CHUNK_QUIET);
	nothing_ended();
	rig_peer_lost(&rig);
	ends(-ECONNRESET, REASON_PEER_RESET);
	rig_remotes_close(&rig);
	rig_peer_del(&rig);
	end();
}

static void owner_refuses(void)
{
	struct engine_cmd cmd;

	begin();
	refused(0, CHUNK_QUIET);
	nothing_ended();
	rail_anew();
	cmd = (struct engine_cmd){
		.remote = rig.remote[0], .rail = &rig.rail[0], .cause = -EACCES};
	rig_send(&rig, &cmd, ENGINE_REMOTE_KEYS);
	CHECK_EQ(rig_returns(&rig, &cmd), -EACCES);
	ends(-EACCES, REASON_KEYS);
	rig_peer_close(&rig);
	end();
}

/* Its word that it revokes comes before there is a rail. */
static void owner_revokes(void)
{
	struct engine_cmd cmd;

	begin();
	refused(0, CHUNK_QUIET);
	cmd = (struct engine_cmd){.remote = rig.remote[0]};
	rig_command(&rig, &cmd, ENGINE_REMOTE_REVOKE);
	ends(-EACCES, REASON_REVOKED);
	rig_peer_close(&rig);
	end();
}

/* The rail went first, and its keys with it: NO_REPLAY goes too, as nothing of it was done. */
static void owner_gives(uint16_t flags)
{
	struct urccl_cqe cqe;

	begin();
	refused(flags, CHUNK_QUIET);
	nothing_ended();
	rail_anew();
	rig_key(&rig, 0, 0);
	rig_turns(&rig);
	CHECK_EQ(rig.ntaken, 1);
	rig_out(&rig, 0, 0, CHUNK_QUIET);
	rig_turns(&rig);
	cqe = rig_ended(&rig, 1);
	CHECK_EQ(cqe.res, LEN);
	CHECK(cqe.path & URCCL_PATH_REPLAYED);
	rig_peer_close(&rig);
	end();
}

/* Some of it was. */
static void is_not_replayed(void)
{
	struct engine_cmd cmd;

	begin();
	refused(URCCL_SQE_NO_REPLAY, 0);
	cmd = (struct engine_cmd){.peer = rig.peer, .rail = &rig.rail[0]};
	rig_command(&rig, &cmd, ENGINE_RAIL_CLOSE);
	cmd = (struct engine_cmd){.peer = rig.peer, .part = 0};
	rig_command(&rig, &cmd, ENGINE_RAIL_FENCED);
	ends(-ECONNRESET, REASON_NO_REPLAY);
	rig_peer_close(&rig);
	end();
}

int case_engine_refused(void)
{
	owner_dies();
	owner_refuses();
	owner_revokes();
	owner_gives(0);
	owner_gives(URCCL_SQE_NO_REPLAY);
	is_not_replayed();
	return 0;
}
