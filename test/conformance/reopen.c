/* SPDX-License-Identifier: Apache-2.0 */
/* Devices come and go, and leave no descriptor and no memory behind. */
#include "fds.h"
#include "rig.h"

#define ROUNDS 100u

static void one(const struct settings *settings)
{
	struct pair pair;
	struct rig rig;

	rig_open(&rig, settings);
	pair_open(&rig, &pair);
	pair_close(&rig, &pair);
	rig_close(&rig);
}

void case_reopen(struct rig *rig)
{
	int64_t held;
	uint32_t round, fds;

	one(rig->settings);
	held = allocations_held();
	fds = fds_open();
	for (round = 0; round < ROUNDS; round++)
		one(rig->settings);
	CHECK_EQ(allocations_held(), held);
	CHECK_EQ(fds_open(), fds);
}
