/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that is more than a device registers at a time is registered in pieces. */
#include "verbs_device.h"

/* No piece has more than the device takes, counted in pages, they follow on each other, and a
 * request finds the one that it is in. */
static void pieces(uint64_t max, uint64_t addr, uint64_t len, uint32_t n)
{
	struct verbs_local at = {.addr = addr};
	struct extent extent;
	struct ibv_sge sge;
	uint64_t next = addr;
	uint32_t i;

	begin(max);
	at.memory = memory(&extent, addr, len);
	CHECK_EQ(verbs_reg(&d.dev, &extent), 0);
	CHECK_EQ(nregs, n);
	for (i = 0; i < n; i++) {
		CHECK_EQ(mrs[i].addr, next);
		CHECK_LE((mrs[i].addr + mrs[i].len - 1) / PAGE - mrs[i].addr / PAGE,
			 max / PAGE - 1);
		next += mrs[i].len;
		at.addr = next - 1;
		CHECK_EQ(verbs_local_next(&at, 0, 8, &sge), 1);
		CHECK_EQ(sge.lkey, mrs[i].mr.lkey);
	}
	CHECK_EQ(next, addr + len);
	CHECK_EQ(verbs_unreg(&d.dev, &extent), 0);
	CHECK_EQ(live(), 0);
	free((void *)(uintptr_t)at.memory);
}

int case_verbs_pieces(void)
{
	pieces(16 * PAGE, BASE, 16 * PAGE, 1);
	pieces(16 * PAGE, BASE + 100, 16 * PAGE, 2);
	pieces(16 * PAGE + 100, BASE + PAGE + 8, 40 * PAGE, 3);
	pieces(4 * GIB - 1, BASE, 80 * GIB, 28);
	return 0;
}
