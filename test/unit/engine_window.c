/* SPDX-License-Identifier: Apache-2.0 */
/* Of bulk a rail has about as much on its way as it moves in 10 ms, by what was measured, and never
 * more than in 25 ms: a fast one gets more than it began with, a slow one soon has less. The device
 * here lets bytes out at a rate, however long the processor is away. */
#include "engine_rig.h"

enum { ENTRIES = 8 };

#define BLOCKS	4096u /* of RIG_BYTES: 1 GiB */
#define AWAY_NS (1 * NSEC_PER_MSEC)
#define LATE_NS (60 * NSEC_PER_SEC)

static struct engine_rig rig;
static uint64_t most, on_its_way;

/* What is let out was there: time away is no time in which more went. */
static void let_out(uint64_t rate, uint64_t *left, uint64_t ns)
{
	*left += rate * (ns < AWAY_NS ? ns : AWAY_NS) / NSEC_PER_SEC;
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
	uint64_t begin = clock_ns(), then = begin, now, left = 0;

	do {
		now = clock_ns();
		CHECK(now - begin < LATE_NS);
		let_out(rate, &left, now - then);
		then = now;
	} while (fast ? most < much : rig.rail[0].window > much || on_its_way > much);
}

static void moves(uint64_t rate, uint64_t much, int fast)
{
	struct urccl_paged paged;
	uint64_t begin, then, now, left = 0;

	rig_peer_open(&rig);
	rig_key(&rig, 0, 0);
	rig_write_blocks(&rig, &paged, BLOCKS, 1);
	rig_enter(&rig);
	most = 0;
	until(rate, much, fast);
	most = 0;
	for (begin = then = clock_ns(); then - begin < 300 * NSEC_PER_MSEC; then = now) {
		now = clock_ns();
		let_out(rate, &left, now - then);
	}
	CHECK(most);
	CHECK_LE(most, rate / 40 > much ? rate / 40 : much);
	rig_peer_close(&rig);
	rig_all_ended(&rig);
}

int case_engine_window(void)
{
	rig_engine_open(&rig, ENTRIES, 4);
	moves(1ull << 30, 8u << 20, 1);
	moves(20u << 20, 512u << 10, 0);
	rig_engine_close(&rig);
	return 0;
}
