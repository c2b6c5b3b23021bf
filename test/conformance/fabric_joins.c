/* SPDX-License-Identifier: Apache-2.0 */
/* Many connect at once, and to know their peers, one after the other, takes the provider seconds:
 * none of them fails of what it waits for the others. */
#include "rig.h"

#define PAIRS 24u

static struct pair pairs[PAIRS];

static uint32_t up(void)
{
	uint32_t i, n = 0;

	for (i = 0; i < PAIRS; i++) {
		CHECK(!pairs[i].end[0].down && !pairs[i].end[1].down);
		n += (uint32_t)(pairs[i].end[0].up && pairs[i].end[1].up);
	}
	return n;
}

void case_fabric_joins(struct rig *rig)
{
	const char *words = getenv("URCCL_TEST_PROVIDER");
	uint32_t i;

	if (!words || !strstr(words, "av_slow="))
		SKIP("the provider learns no name slowly");
	for (i = 0; i < PAIRS; i++)
		pair_start(rig, &pairs[i]);
	WAIT(rig, up() == PAIRS);
	for (i = 0; i < PAIRS; i++)
		pair_close(rig, &pairs[i]);
}
