/* SPDX-License-Identifier: Apache-2.0 */
/* What a rail carries is believed when it has enough to do, also if that is one large chunk at a
 * time: one that became slower is known for it. With little to do only more than was known counts.
 * */
#include "engine/post.h"
#include "test.h"

#define CHUNK (256u << 10)
#define SMALL (4u << 10)

static struct engine e;
static struct rail rail;

/* n of len bytes, one after the other, at rate bytes a second. */
static void carries(uint32_t n, uint32_t len, uint64_t rate)
{
	for (; n; n--) {
		rail_busy(&e, &rail);
		rail.rate_mark_ns = e.now;
		e.now += len * NSEC_PER_SEC / rate;
		rail_carried(&e, &rail, len);
	}
}

int case_engine_loaded(void)
{
	const uint64_t fast = 1ull << 30, slow = 10u << 20;

	rail.window = 4u << 20;
	carries(200, CHUNK, fast);
	CHECK_GE(rail.rate, fast / 2);
	CHECK_LE(rail.rate, fast * 2);
	carries(40, SMALL, slow);
	CHECK_GE(rail.rate, fast / 2);
	carries(40, CHUNK, slow);
	CHECK_LE(rail.rate, slow * 2);
	carries(200, CHUNK, fast);
	CHECK_GE(rail.rate, fast / 2);
	return 0;
}
