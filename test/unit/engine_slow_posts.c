/* SPDX-License-Identifier: Apache-2.0 */
/* A device whose posts take their time, for it copies: deadlines that pass meanwhile are seen soon,
 * and little is posted after them, by one rail or two, also of what waits as a device was full. */
#include "engine_rig.h"

#define ENTRIES	  200u
#define AFTER_US  40000u
#define POST_NS	  (2 * NSEC_PER_MSEC) /* a chunk: all of them together in 400 ms */
#define AFTER_MAX (4u << 20)	      /* bytes by a rail that are posted behind the deadline */

static struct engine_rig rig;
static struct backend device;
static uint64_t began, late;
static uint32_t full; /* so many posts find no room */

/* It is done when it was posted. The engine has just taken the first when it comes: its deadline is
 * not behind what is counted here, however busy the machine is. */
static uint32_t post(struct ep *ep, struct chunk **chunks, uint32_t n)
{
	uint64_t start;
	uint32_t i;

	(void)ep;
	began = began ? began : clock_ns();
	if (full && full--)
		return 0;
	for (i = 0; i < n; i++) {
		start = clock_ns();
		if (start - began > AFTER_US * NSEC_PER_USEC)
			late += chunks[i]->len;
		while (clock_ns() - start < POST_NS)
			;
		rig.taken[rig.ntaken++] = chunks[i];
		rig_out(&rig, rig.ntaken - 1, 0, CHUNK_QUIET);
	}
	return n;
}

static void begin(uint32_t rails)
{
	uint32_t i;

	rig_engine_open(&rig, 256, 4);
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
	uint64_t until = clock_ns() + 10 * NSEC_PER_SEC;
	uint32_t i, seen = 0, failed = 0;
	struct urccl_cqe cqe;

	begin(rails);
	for (i = 0; i < ENTRIES; i++)
		urccl_sqe_set_deadline_us(rig_write(&rig, 0, RIG_BYTES, i), AFTER_US);
	rig_enter(&rig);
	full = turned_away;
	late = began = 0;
	while (seen < ENTRIES) {
		engine_drive(rig.e);
		for (; rig_cqe(&rig, &cqe); seen++) {
			CHECK(cqe.res == RIG_BYTES || cqe.res == -ETIMEDOUT);
			failed += cqe.res < 0;
		}
		CHECK(clock_ns() < until);
	}
	CHECK(!full);
	CHECK_GE(failed, 1);
	CHECK_LE(late, AFTER_MAX * rails);
	rig_peer_close(&rig);
	rig_engine_close(&rig);
}

int main(void)
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
