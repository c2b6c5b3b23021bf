/* SPDX-License-Identifier: Apache-2.0 */
/* A write to memory of a peer's device, and the peer is lost before it acknowledged the entry's
 * notification: the CQE says of both what it knows, that the notification may have come and that
 * the device may not have the bytes. */
#include "engine_rig.h"

enum { ENTRIES = 8, LEN = 4096, ENTRY = 1 };

static struct engine_rig rig;

static void comes_out(enum chunk_kind kind, uint8_t flags)
{
	CHECK_EQ(rig.ntaken, 1);
	CHECK_EQ(rig.taken[0]->kind, kind);
	rig_out(&rig, 0, 0, CHUNK_QUIET | flags);
	rig_turns(&rig);
}

/* What its CQE says beside its kind. */
static uint32_t lost_behind(uint8_t flags)
{
	struct urccl_cqe cqe;

	rig_peer_open(&rig);
	rig_key(&rig, 0, 0);
	urccl_sqe_set_notify(&rig.r->pub, rig_write(&rig, 0, LEN, ENTRY), 7, NULL, 0);
	rig_enter(&rig);
	rig_turns(&rig);
	comes_out(CHUNK_WRITE, flags);
	comes_out(CHUNK_SEND, 0);
	rig_peer_lost(&rig);
	cqe = rig_ended(&rig, ENTRY);
	CHECK_EQ(cqe.res, -ECONNRESET);
	rig_remotes_close(&rig);
	rig_peer_del(&rig);
	return cqe.flags & ~(uint32_t)URCCL_CQE_KIND_MASK;
}

int case_engine_unflushed(void)
{
	rig_engine_open(&rig, ENTRIES, 4);
	CHECK_EQ(lost_behind(0), URCCL_CQE_UNKNOWN);
	CHECK_EQ(lost_behind(CHUNK_UNFLUSHED), URCCL_CQE_UNKNOWN | URCCL_CQE_NOT_FLUSHED);
	rig_engine_close(&rig);
	return 0;
}
