/* SPDX-License-Identifier: Apache-2.0 */
/* A CANCEL by region waits for the entries that were of the region when it began, and for no
 * other: one whose memory was looked up later, when a newer region there was gone, is none. */
#include "engine_rig.h"

enum { ENTRIES = 8, SLOTS = 4, LEN = 4096, FIRST = 1, WAITS, TARGET, CANCEL };

static struct engine_rig rig;

/* Over all of the rig's bytes, and with the slot behind its own. */
static struct memory *region(uint32_t number)
{
	struct memory *m = calloc(1, sizeof(*m) + sizeof(m->spans[0]));

	CHECK(m);
	m->handle = RIG_HANDLE + number;
	m->len = RIG_BYTES;
	m->nspans = 1;
	m->spans[0] = (struct span){.len = RIG_BYTES, .addr = (uintptr_t)rig.bytes, .fd = -1};
	return m;
}

/* The engine has this map now, and gives back the one before. */
static void map(struct memory *m, struct memory_map *now, enum engine_cmd_type type)
{
	struct engine_cmd cmd = {.memory = m, .map = now};

	rig_command(&rig, &cmd, type);
	memory_map_free(cmd.map);
}

static void cancel(uint32_t handle)
{
	struct urccl_sqe *sqe = rig_sqe(&rig, CANCEL);

	urccl_prep_cancel(sqe, URCCL_CANCEL_BY_REGION, handle);
	sqe->user_data = CANCEL;
	rig_enter(&rig);
	rig_turns(&rig);
}

/* It is in no region when it is taken, and waits. */
static void wait_in_none(void)
{
	struct urccl_sqe *sqe = rig_write(&rig, 0, LEN, FIRST);

	sqe->flags |= URCCL_SQE_LINK;
	sqe = rig_write(&rig, 0, LEN, WAITS);
	urccl_sqe_set_region(sqe, (struct urccl_region){0});
	rig_enter(&rig);
	rig_turns(&rig);
	CHECK_EQ(rig.ntaken, 1);
}

int main(void)
{
	struct memory *old, *newer;
	struct memory_map *first;
	struct urccl_cqe cqe;

	rig_engine_open(&rig, ENTRIES, SLOTS);
	rig_peer_open(&rig);
	rig_key(&rig, 0, 0);
	wait_in_none();
	old = region(1);
	newer = region(2);
	first = memory_map_add(NULL, old);
	CHECK(first);
	map(old, first, ENGINE_REGION_ADD);
	urccl_sqe_set_region(rig_write(&rig, 0, LEN, TARGET), (struct urccl_region){old->handle});
	rig_enter(&rig);
	map(newer, memory_map_add(first, newer), ENGINE_REGION_ADD);
	rig.hung = 1;
	cancel(old->handle);
	CHECK_EQ(rig.ntaken, 2);
	CHECK(!rig_cqe(&rig, &cqe));

	map(newer, memory_map_add(NULL, old), ENGINE_REGION_DEL);
	rig_out(&rig, 0, 0, CHUNK_QUIET);
	rig_turns(&rig);
	CHECK_EQ(rig_ended(&rig, FIRST).res, LEN);
	CHECK_EQ(rig.ntaken, 2);
	rig_out(&rig, 1, 0, CHUNK_QUIET);
	rig_turns(&rig);
	CHECK_EQ(rig_ended(&rig, WAITS).res, LEN);
	CHECK(!rig_cqe(&rig, &cqe));

	rig_out(&rig, 0, -ECANCELED, CHUNK_QUIET);
	rig_turns(&rig);
	CHECK_EQ(rig_ended(&rig, TARGET).res, -ECANCELED);
	CHECK_EQ(rig_ended(&rig, CANCEL).res, 1);
	map(old, NULL, ENGINE_REGION_DEL);
	rig_peer_close(&rig);
	rig_engine_close(&rig);
	free(old);
	free(newer);
	return 0;
}
