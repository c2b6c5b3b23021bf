/* SPDX-License-Identifier: Apache-2.0 */
/* A peer that is lost has LOST told when its entries have ended, and after the last note that came
 * of it: not before, also where somebody looks earlier; and a WATCH that comes after that ends.
 * What was on its way names that; an entry that comes meanwhile goes none, though one is there. */
#include "engine_rig.h"

enum { ENTRIES = 8, SLOTS = 4, LEN = 4096, WRITE = 1, EARLY, LATER, GONE, ALL, MORE, TAG = 7 };

static struct engine_rig rig;

static void nothing(void)
{
	struct urccl_cqe cqe;

	rig_turns(&rig);
	CHECK(!rig_cqe(&rig, &cqe));
}

/* The device keeps the buffer of an entry while its peer is being lost. */
static void begin(struct engine_cmd *lost)
{
	rig_engine_open(&rig, ENTRIES, SLOTS);
	rig_peer_open(&rig);
	rig_key(&rig, 0, 0);
	rig_write(&rig, 0, LEN, WRITE);
	rig_enter(&rig);
	rig_turns(&rig);
	CHECK_EQ(rig.ntaken, 1);
	rig.hung = 1;
	*lost = (struct engine_cmd){.peer = rig.peer,
				    .cause = -ECONNRESET,
				    .reason = REASON_PEER_RESET};
	rig_send(&rig, lost, ENGINE_PEER_LOST);
}

static void names(const struct urccl_cqe *cqe, uint32_t reason, uint32_t transport)
{
	struct failure why;

	CHECK_EQ(failures_get(&rig.e->failures, cqe->fail.detail, &why), 0);
	CHECK_EQ(why.reason, reason);
	CHECK_EQ(why.transport, transport);
}

static void refused(int res, uint32_t reason)
{
	struct urccl_cqe cqe;

	rig_write(&rig, 0, LEN, MORE);
	rig_enter(&rig);
	rig_turns(&rig);
	CHECK(rig.peer->rail);
	cqe = rig_ended(&rig, MORE);
	CHECK_EQ(cqe.res, res);
	names(&cqe, reason, 0);
}

static void written(void)
{
	struct urccl_cqe cqe;

	rig_out(&rig, 0, -ECANCELED, CHUNK_QUIET);
	rig_turns(&rig);
	cqe = rig_ended(&rig, WRITE);
	CHECK_EQ(cqe.res, -ECONNRESET);
	names(&cqe, REASON_PEER_RESET, URCCL_TRANSPORT_SIM);
}

static void end(struct engine_cmd *lost)
{
	CHECK_EQ(rig_returns(&rig, lost), 0);
	rig_remotes_close(&rig);
	rig_peer_del(&rig);
	rig_engine_close(&rig);
}

static void of_the_peer(void)
{
	struct engine_cmd lost;
	struct urccl_cqe cqe;

	begin(&lost);
	rig_watch(&rig, RIG_PEER, EARLY);
	nothing();
	rig_watch(&rig, RIG_PEER, LATER);
	CHECK_EQ(rig_ended(&rig, EARLY).res, -ECANCELED);
	nothing();
	written();
	cqe = rig_ended(&rig, LATER);
	CHECK_EQ(urccl_cqe_kind(&cqe), URCCL_KIND_LOST);
	CHECK(!(cqe.flags & URCCL_CQE_MORE));
	rig_watch(&rig, RIG_PEER, GONE);
	CHECK_EQ(rig_ended(&rig, GONE).res, -ECONNRESET);
	end(&lost);
}

static void more_entries(void)
{
	struct engine_cmd lost;

	begin(&lost);
	rig_turns(&rig);
	refused(-ECONNRESET, REASON_PEER_LOST);
	rig.peer->restarted = 1;
	refused(-ESTALE, REASON_PEER_RESTARTED);
	written();
	end(&lost);
}

static void of_all(void)
{
	struct message m = {.type = MESSAGE_NOTE, .seq = 1, .tag = TAG};
	struct engine_cmd lost;
	struct urccl_cqe cqe;

	begin(&lost);
	rig_watch(&rig, 0, ALL);
	nothing();
	rig_event(&rig, (struct event){.type = EVENT_MESSAGE,
				       .ep = &rig.ep[0],
				       .data = (const uint8_t *)&m,
				       .len = sizeof(m)});
	rig_turns(&rig);
	cqe = rig_ended(&rig, ALL);
	CHECK_EQ(urccl_cqe_kind(&cqe), URCCL_KIND_NOTE);
	CHECK_EQ(cqe.tag, TAG);
	nothing();
	written();
	cqe = rig_ended(&rig, ALL);
	CHECK_EQ(urccl_cqe_kind(&cqe), URCCL_KIND_LOST);
	rig_watch(&rig, RIG_PEER, GONE);
	CHECK_EQ(rig_ended(&rig, GONE).res, -ECONNRESET);
	end(&lost);
}

int case_engine_watch_losing(void)
{
	of_the_peer();
	more_entries();
	of_all();
	return 0;
}
