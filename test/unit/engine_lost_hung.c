/* SPDX-License-Identifier: Apache-2.0 */
/* A device whose driver hangs has an entry's buffer, or a rail that does not close, when its peer
 * is lost: the outcome of the entry is told, and LOST, in a time that does not depend on either,
 * and nothing of the peer comes after LOST but the end of the entry. */
#include "engine_rig.h"

enum { ENTRIES = 8, SLOTS = 4, LEN = 4096, WRITE = 1, ALL, LATER };

#define HOUR_US 3600000000u
#define TOLD_NS (1200 * NSEC_PER_MSEC)
#define LOST_NS (6300 * NSEC_PER_MSEC)

static struct engine_rig rig;
static struct engine_cmd lost;
static struct clock sim;
static uint64_t since;

static void begin(uint32_t writes, uint32_t stuck)
{
	clock_init(&sim);
	rig_engine_open_by(&rig, &sim, -1, ENTRIES, SLOTS);
	rig_peer_open(&rig);
	rig_key(&rig, 0, 0);
	rig_watch(&rig, 0, ALL);
	rig.hung = 1;
	rig.stuck = stuck;
	if (writes)
		urccl_sqe_set_deadline_us(rig_write(&rig, 0, LEN, WRITE), HOUR_US);
	rig_enter(&rig);
	rig_turns(&rig);
	CHECK_EQ(rig.ntaken, writes);
	lost = (struct engine_cmd){.peer = rig.peer,
				   .cause = -ECONNRESET,
				   .reason = REASON_PEER_RESET};
	since = clock_now(&sim);
	rig_send(&rig, &lost, ENGINE_PEER_LOST);
}

/* The next CQE, so soon after the loss; as a program that waits. */
static struct urccl_cqe next(uint64_t user_data, uint64_t ns)
{
	uint64_t at = since;
	struct urccl_cqe cqe;

	while (!rig_cqe(&rig, &cqe)) {
		CHECK_GE(engine_sleep(rig.e, NEVER_NS), 0);
		at = clock_now(&sim);
		engine_drive(rig.e);
		rig_answer(&rig);
	}
	CHECK_EQ(cqe.user_data, user_data);
	CHECK_LE(at - since, ns);
	return cqe;
}

static void written(uint32_t more)
{
	struct urccl_cqe cqe = next(WRITE, TOLD_NS);

	CHECK_EQ(cqe.res, -ECONNRESET);
	CHECK_EQ(cqe.flags & URCCL_CQE_MORE, more);
}

static void happens(enum urccl_cqe_kind kind, uint64_t ns)
{
	struct urccl_cqe cqe = next(ALL, ns);

	CHECK_EQ(urccl_cqe_kind(&cqe), kind);
	CHECK_EQ(cqe.peer, RIG_PEER);
}

/* The peer had sent it. */
static void note(uint32_t seq)
{
	static struct message m = {.type = MESSAGE_NOTE};

	m.seq = seq;
	rig_event(&rig, (struct event){.type = EVENT_MESSAGE,
				       .ep = &rig.ep[0],
				       .data = (const uint8_t *)&m,
				       .len = sizeof(m)});
}

static void end(void)
{
	CHECK_EQ(rig_returns(&rig, &lost), 0);
	rig_remotes_close(&rig);
	rig_peer_del(&rig);
	rig_engine_close(&rig);
	clock_fini(&sim);
}

/* It lets go when its ep is closed. */
static void until_closed(void)
{
	begin(1, 0);
	written(URCCL_CQE_MORE);
	written(0);
	happens(URCCL_KIND_LOST, TOLD_NS);
	end();
}

static void for_ever(void)
{
	struct urccl_cqe cqe;

	begin(1, 1);
	written(URCCL_CQE_MORE);
	note(1);
	happens(URCCL_KIND_NOTE, TOLD_NS);
	happens(URCCL_KIND_LOST, LOST_NS);
	note(2);
	rig_turns(&rig);
	CHECK(!rig_cqe(&rig, &cqe));
	rig_watch(&rig, RIG_PEER, LATER);
	CHECK_EQ(rig_ended(&rig, LATER).res, -ECONNRESET);
	rig_closed(&rig, &rig.ep[0]);
	rig_turns(&rig);
	CHECK_EQ(rig_ended(&rig, WRITE).flags & URCCL_CQE_MORE, 0);
	end();
}

static void without_entries(void)
{
	begin(0, 1);
	happens(URCCL_KIND_LOST, LOST_NS);
	rig_closed(&rig, &rig.ep[0]);
	end();
}

int case_engine_lost_hung(void)
{
	alarm(60);
	until_closed();
	for_ever();
	without_entries();
	return 0;
}
