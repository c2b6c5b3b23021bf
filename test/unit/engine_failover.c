/* SPDX-License-Identifier: Apache-2.0 */
/* A CONNECT that succeeds after its program was told that it did not is undone, and nobody has the
 * peer's handle from that: of its end, before it was up, nobody hears. */
#include "engine_rig.h"

enum { ENTRIES = 8, SLOTS = 4, CONNECT = 1, WATCH, TIMEOUT_US = 10000 };

static struct engine_rig rig;

static struct control_req *asked(uint32_t type)
{
	struct msg *m;

	do {
		engine_drive(rig.e);
		m = mailbox_take(&rig.control);
	} while (!m);
	CHECK_EQ(m->type, type);
	CHECK(!m->next);
	return container_of(m, struct control_req, msg);
}

static void told_late(void)
{
	struct urccl_cqe cqe;

	while (!rig_cqe(&rig, &cqe))
		engine_drive(rig.e);
	CHECK_EQ(cqe.user_data, CONNECT);
	CHECK_EQ(cqe.res, -ETIMEDOUT);
	CHECK(cqe.flags & URCCL_CQE_MORE);
}

int case_engine_failover(void)
{
	struct control_req *connect, *drop, *undo;
	struct urccl_sqe *sqe;
	struct urccl_cqe cqe;

	alarm(60);
	rig_engine_open(&rig, ENTRIES, SLOTS);
	rig_peer_add(&rig);
	sqe = rig_sqe(&rig, CONNECT);
	urccl_prep_connect(sqe, "127.0.0.1:1", 11);
	urccl_sqe_set_deadline_us(sqe, TIMEOUT_US);
	sqe->user_data = CONNECT;
	rig_enter(&rig);
	connect = asked(CONTROL_CONNECT);
	drop = asked(CONTROL_DROP);
	told_late();

	connect->handle = RIG_PEER;
	msg_reply(&connect->msg, 0);
	undo = asked(CONTROL_CLOSE);
	CHECK_EQ(undo->handle, RIG_PEER);
	msg_reply(&undo->msg, 0);
	msg_reply(&drop->msg, 0);
	rig_turns(&rig);
	cqe = rig_ended(&rig, CONNECT);
	CHECK_EQ(cqe.res, -ETIMEDOUT);
	CHECK(!(cqe.flags & URCCL_CQE_MORE));

	sqe = rig_sqe(&rig, WATCH);
	urccl_prep_watch(sqe, (struct urccl_peer){0});
	sqe->user_data = WATCH;
	rig_enter(&rig);
	rig_turns(&rig);
	rig_remotes_close(&rig);
	rig_peer_lost(&rig);
	CHECK(!rig_cqe(&rig, &cqe));
	rig_peer_del(&rig);
	rig_engine_close(&rig);
	return 0;
}
