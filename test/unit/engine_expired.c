/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that a peer has mapped, and does not let go of when its time is over: the peer is asked
 * now and then, and nobody stays awake for it. */
#include "engine_rig.h"

enum { ENTRIES = 16, SLOTS = 4 };

#define LATE_NS (500 * NSEC_PER_MSEC)
#define MOST	(2 + LATE_NS / (100 * NSEC_PER_MSEC)) /* times that it is asked meanwhile */

static struct engine_rig rig;
static uint32_t asked, lets_go;

static int unexpose(struct exposure *x)
{
	(void)x;
	asked++;
	return lets_go ? 0 : -EINPROGRESS;
}

static void drive_until(uint64_t end)
{
	while (clock_ns() < end)
		rig_turns(&rig);
}

int case_engine_expired(void)
{
	struct backend ops = rig_backend;
	struct exposure x = {.rights = URCCL_RIGHT_READ, .len = RIG_BYTES};
	uint8_t key[KEY_MAX];
	struct engine_cmd cmd = {.exposure = &x, .rail = &rig.rail[0], .data = key};

	ops.expose = rig_expose;
	ops.unexpose = unexpose;
	rig_engine_open(&rig, ENTRIES, SLOTS);
	rig.dev.ops = &ops;
	rig.dev.caps |= CAP_ACCESS_OUTLIVES_KEY;
	rig_peer_open(&rig);
	list_init(&x.link);
	list_init(&x.expired);
	x.ep = &rig.ep[0];
	x.memory = rig.memory;
	x.expires_ns = clock_ns() + NSEC_PER_MSEC;
	cmd.peer = rig.peer;
	rig_command(&rig, &cmd, ENGINE_EXPOSE);
	CHECK_EQ(exposures_next(rig.e), x.expires_ns + 1);

	drive_until(x.expires_ns + LATE_NS);
	CHECK_GE(asked, 2);
	CHECK_LE(asked, MOST);
	CHECK_GE(exposures_next(rig.e), x.expires_ns + LATE_NS);

	lets_go = 1;
	while (exposures_next(rig.e) != NEVER_NS)
		rig_turns(&rig);
	CHECK(!x.exposed);
	rig_peer_close(&rig);
	rig_engine_close(&rig);
	return 0;
}
