/* SPDX-License-Identifier: Apache-2.0 */
/* A peer that is lost before it is up, but after a CONNECT gave its handle: a WATCH of it ends with
 * LOST, whether it came before or after the loss. */
#include "engine_rig.h"

enum { ENTRIES = 8, SLOTS = 4, CONNECT = 1, WATCH };

static struct engine_rig rig;

/* The control thread's answer is here before the peer is up. */
static void connected(void)
{
	struct urccl_sqe *sqe = rig_sqe(&rig, CONNECT);
	struct control_req *req;
	struct urccl_cqe cqe;
	struct msg *m;

	urccl_prep_connect(sqe, "127.0.0.1:1", 11);
	sqe->user_data = CONNECT;
	rig_enter(&rig);
	do {
		engine_drive(rig.e);
		m = mailbox_take(&rig.control);
	} while (!m);
	CHECK_EQ(m->type, CONTROL_CONNECT);
	req = container_of(m, struct control_req, msg);
	req->handle = RIG_PEER;
	msg_reply(m, 0);
	rig_turns(&rig);
	cqe = rig_ended(&rig, CONNECT);
	CHECK_EQ(cqe.res, 0);
	CHECK_EQ(cqe.handle, RIG_PEER);
}

static void watch(void)
{
	struct urccl_sqe *sqe = rig_sqe(&rig, WATCH);

	urccl_prep_watch(sqe, (struct urccl_peer){RIG_PEER});
	sqe->user_data = WATCH;
	rig_enter(&rig);
	rig_turns(&rig);
}

static void lost(int watched_before)
{
	struct urccl_cqe cqe;

	rig_peer_add(&rig);
	connected();
	if (watched_before)
		watch();
	CHECK(!rig_cqe(&rig, &cqe));
	rig_peer_lost(&rig);
	if (!watched_before)
		watch();
	cqe = rig_ended(&rig, WATCH);
	CHECK_EQ(urccl_cqe_kind(&cqe), URCCL_KIND_LOST);
	CHECK_EQ(cqe.res, -ECONNRESET);
	CHECK(!(cqe.flags & URCCL_CQE_MORE));
	rig_remotes_close(&rig);
	rig_peer_del(&rig);
}

int case_engine_watch_early(void)
{
	rig_engine_open(&rig, ENTRIES, SLOTS);
	lost(1);
	lost(0);
	rig_engine_close(&rig);
	return 0;
}
