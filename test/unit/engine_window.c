/* SPDX-License-Identifier: Apache-2.0 */
/* Of bulk a rail has about as much on its way as it moves in 10 ms, by what was measured, and never
 * more than in 25 ms: a fast one gets more than it began with, a slow one soon has less. The device
 * here lets bytes out at a rate, by a clock that the test moves. */
#include "engine_rig.h"

enum { ENTRIES = 8 };

#define BLOCKS	4096u /* of RIG_BYTES: 1 GiB */
#define STEP_NS (20 * NSEC_PER_USEC)
#define LATE_NS (60 * NSEC_PER_SEC)

static struct engine_rig rig;
static struct clock clk;
static struct clock_member device; /* keeps the clock from going on by itself */
static uint64_t most, on_its_way;

static void let_out(uint64_t rate, uint64_t *left)
{
	rig_clock_add(&clk, STEP_NS);
	clock_busy(&clk);
	*left += rate * STEP_NS / NSEC_PER_SEC;
	while (rig.ntaken && rig.taken[0]->len <= *left && rig.nevents < RIG_EVENTS) {
		*left -= rig.taken[0]->len;
		rig_out(&rig, 0, 0, CHUNK_QUIET);
	}
	if (!rig.ntaken)
		*left = 0;
	rig_turns(&rig);
	on_its_way = rig_bytes_taken(&rig);
	most = on_its_way > most ? on_its_way : most;
}

/* Until so much was on its way (fast), or no more than that can be (slow). */
static void until(uint64_t rate, uint64_t much, int fast)
{
	uint64_t end = clock_now(&clk) + LATE_NS, left = 0;

	do {
		CHECK(clock_now(&clk) < end);
		let_out(rate, &left);
	} while (fast ? most < much : rig.rail[0].window > much || on_its_way > much);
}

static void moves(uint64_t rate, uint64_t much, int fast)
{
	struct urccl_paged paged;
	uint64_t end, left = 0;

	rig_peer_open(&rig);
	rig_key(&rig, 0, 0);
	rig_write_blocks(&rig, &paged, BLOCKS, 1);
	rig_enter(&rig);
	most = 0;
	until(rate, much, fast);
	most = 0;
	for (end = clock_now(&clk) + 300 * NSEC_PER_MSEC; clock_now(&clk) < end;)
		let_out(rate, &left);
	CHECK(most);
	CHECK_LE(most, rate / 40 > much ? rate / 40 : much);
	rig_peer_close(&rig);
	rig_all_ended(&rig);
}

int case_engine_window(void)
{
	clock_init(&clk);
	clock_join(&clk, &device);
	rig_engine_open_by(&rig, &clk, -1, ENTRIES, 4);
	moves(1ull << 30, 8u << 20, 1);
	moves(20u << 20, 512u << 10, 0);
	rig_engine_close(&rig);
	clock_leave(&clk, &device);
	clock_fini(&clk);
	return 0;
}
