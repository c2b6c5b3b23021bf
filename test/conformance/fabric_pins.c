/* SPDX-License-Identifier: Apache-2.0 */
/* A provider that wants memory to be allocated when it is registered (FI_MR_ALLOCATED) knows it by
 * its pages: what is registered is not to get others. Another one does not mind. */
#include "rig.h"

void case_fabric_pins(struct rig *rig)
{
	const char *words = getenv("URCCL_TEST_PROVIDER");

	if (!words || !strstr(rig->settings->transport, "urccl_test"))
		SKIP("only the provider of our tests asks for what it is told to");
	CHECK_EQ(rig->node[0].dev->pins, strstr(words, "allocated") != NULL);
	CHECK(rig->backend->pin && rig->backend->unpin);
}
