/* SPDX-License-Identifier: Apache-2.0 */
/* Posting takes this device long, for it copies. The engine still sees deadlines that pass
 * meanwhile and posts little after them, by one rail or two, also when the device's queue was full.
 * The posts themselves move the clock, so that a busy machine changes nothing. */
#include "engine_rig.h"

#define ENTRIES	  200u
#define AFTER_US  40000u
#define POST_NS	  (2 * NSEC_PER_MSEC) /* of one chunk; all of them together take 400 ms */
#define AFTER_MAX (4u << 20)	      /* bytes that a rail may be given behind the deadline */
#define TURNS_MAX 10000u

static struct engine_rig rig;
static struct clock clk;
static struct backend device;
static uint64_t began, late;
static uint32_t full; /* so many posts find no room */

/* Each chunk is done when it was posted. */
static uint32_t post(struct ep *ep, struct chunk **chunks, uint32_t n)
{
	uint32_t i;

	(void)ep;
	if (full && full--)
		return 0;
	for (i = 0; i < n; i++) {
		if (clock_now(&clk) - began > AFTER_US * NSEC_PER_USEC)
			late += chunks[i]->len;
		rig_clock_add(&clk, POST_NS);
		rig.taken[rig.ntaken++] = chunks[i];
		rig_out(&rig, rig.ntaken - 1, 0, CHUNK_QUIET);
	}
	return n;
}

static void begin(uint32_t rails)
{
	uint32_t i;

	clock_init(&clk);
	rig_engine_open_by(&rig, &clk, -1, 256, 4);
	rig.dev.ops = &device;
	rig_peer_add(&rig);
	for (i = 1; i < rails; i++)
		rig_rail_open(&rig, i);
	rig_peer_up(&rig);
	for (i = 0; i < rails; i++)
		rig_key(&rig, 0, i);
}

static void run(uint32_t rails, uint32_t turned_away)
{
	uint32_t i, turns = 0, seen = 0, failed = 0;
	struct urccl_cqe cqe;

	begin(rails);
	for (i = 0; i < ENTRIES; i++)
		urccl_sqe_set_deadline_us(rig_write(&rig, 0, RIG_BYTES, i), AFTER_US);
	rig_enter(&rig);
	full = turned_away;
	late = 0;
	began = clock_now(&clk);
	while (seen < ENTRIES) {
		engine_drive(rig.e);
		for (; rig_cqe(&rig, &cqe); seen++) {
			CHECK(cqe.res == RIG_BYTES || cqe.res == -ETIMEDOUT);
			failed += cqe.res < 0;
		}
		CHECK(++turns < TURNS_MAX);
	}
	CHECK(!full);
	CHECK_GE(failed, 1);
	CHECK_LE(late, AFTER_MAX * rails);
	rig_peer_close(&rig);
	rig_engine_close(&rig);
	clock_fini(&clk);
}

int case_engine_slow_posts(void)
{
	device = rig_backend;
	device.chunk_bytes = 1u << 20;
	device.post = post;
	run(1, 0);
	run(1, 1);
	run(2, 0);
	run(2, 40);
	return 0;
}
