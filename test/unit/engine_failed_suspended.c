/* SPDX-License-Identifier: Apache-2.0 */
/* A peer without a data path is given up, since more notifications to it failed than are kept in
 * mind, while the control thread has it that the peer is wanted: it hears of that, too. A simulated
 * clock stands still while it is asked, and goes on when it has answered. */
#include "engine_rig.h"

enum { ENTRIES = 1024, SLOTS = 4 };

static struct engine_rig rig;

static void cool(void)
{
	struct engine_cmd cmd = {.peer = rig.peer};

	rig_command(&rig, &cmd, ENGINE_PEER_PAUSE);
	cmd.rail = &rig.rail[0];
	rig_command(&rig, &cmd, ENGINE_RAIL_CLOSE);
	CHECK_EQ(rig.peer->state, PEER_SUSPENDED);
	CHECK(!rig.peer->rail);
}

/* The control thread answers nothing meanwhile. */
static void fail_some(uint32_t n)
{
	struct urccl_cqe cqe;
	uint32_t i;

	for (i = 0; i < n; i++)
		urccl_prep_notify(rig_sqe(&rig, 1), (struct urccl_peer){RIG_PEER}, i, rig.bytes,
				  URCCL_NOTE_MAX + 1);
	rig_enter(&rig);
	engine_drive(rig.e);
	for (i = 0; i < n; i++) {
		CHECK(rig_cqe(&rig, &cqe));
		CHECK_EQ(cqe.res, -E2BIG);
	}
}

static void fail_many(uint32_t n)
{
	for (; n > ENTRIES; n -= ENTRIES)
		fail_some(ENTRIES);
	fail_some(n);
}

/* What the control thread is told of it now, but for pings; answered. */
static uint32_t wanted(void)
{
	uint32_t reason = REASON_LAST, n = 0;
	struct msg *m, *next;

	engine_drive(rig.e);
	for (m = mailbox_take(&rig.control); m; m = next) {
		next = m->next;
		if (m->type == CONTROL_RESUME) {
			reason = container_of(m, struct control_req, msg)->reason;
			n++;
		}
		msg_reply(m, 0);
	}
	CHECK_EQ(n, 1);
	return reason;
}

static void gives_up(struct clock *clock)
{
	rig_engine_open_by(&rig, clock, -1, ENTRIES, SLOTS);
	rig_peer_open(&rig);
	cool();
	fail_many(FAILED_NOTES_MAX + 1);
	CHECK_EQ(clock ? clock->held : 1, 1);
	CHECK_EQ(wanted(), REASON_NONE);
	CHECK_EQ(wanted(), REASON_FAILED_NOTES);
	rig_peer_close(&rig);
	CHECK_EQ(clock ? clock->held : 0, 0);
	rig_engine_close(&rig);
}

int case_engine_failed_suspended(void)
{
	struct clock clock;

	gives_up(NULL);
	clock_init(&clock);
	gives_up(&clock);
	clock_fini(&clock);
	return 0;
}
