/* SPDX-License-Identifier: Apache-2.0 */
/* Devices come and go, and leave no descriptor and no memory behind. */
#include <dirent.h>
#include "rig.h"

#define ROUNDS 100u

static uint32_t count_fds(void)
{
	DIR *dir = opendir("/proc/self/fd");
	uint32_t n = 0;

	CHECK(dir);
	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

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
	fds = count_fds();
	for (round = 0; round < ROUNDS; round++)
		one(rig->settings);
	CHECK_EQ(allocations_held(), held);
	CHECK_EQ(count_fds(), fds);
}
