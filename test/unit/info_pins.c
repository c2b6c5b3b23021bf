/* SPDX-License-Identifier: Apache-2.0 */
/* What urccl_info --doctor says that a context of transport ib pins by itself is what the transport
 * asks a device to pin, in whole pages of 4 KiB, and so are a peer's queue pairs. */
#include "backend/verbs/verbs.h"
#include "info/info.h"
#include "test.h"

static uint64_t pages(uint64_t len)
{
	return (len + 4095) / 4096 * 4096;
}

int case_info_pins(void)
{
	CHECK_EQ(IB_PINS_RAIL, pages(VERBS_FLUSH_LEN));
	CHECK_EQ(IB_PINS_PEER, pages(VERBS_PAGES_LEN));
	CHECK_EQ(IB_QPS, backend_ib.qps);
	return 0;
}
