/* SPDX-License-Identifier: Apache-2.0 */
/* A device whose posts take their time, for it copies: deadlines that pass meanwhile are seen soon,
 * and little is posted after them. */
#include "engine_rig.h"

#define ENTRIES	  200u
#define AFTER_US  40000u
#define POST_NS	  (2 * NSEC_PER_MSEC) /* a chunk: all of them together in 400 ms */
#define AFTER_MAX (4u << 20)	      /* bytes that are posted behind the deadline */

static struct engine_rig rig;
static struct backend device;
static uint64_t began, late;

/* It is done when it was posted. */
static uint32_t post(struct ep *ep, struct chunk **chunks, uint32_t n)
{
	uint64_t start;
	uint32_t i;

	(void)ep;
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

int main(void)
{
	uint32_t i, seen = 0, failed = 0;
	struct urccl_cqe cqe;

	rig_engine_open(&rig, 256, 4);
	device = rig_backend;
	device.chunk_bytes = 1u << 20;
	device.post = post;
	rig.dev.ops = &device;
	rig_peer_open(&rig);
	rig_key(&rig, 0, 0);
	for (i = 0; i < ENTRIES; i++)
		urccl_sqe_set_timeout(rig_write(&rig, 0, RIG_BYTES, i), AFTER_US);
	rig_enter(&rig);
	began = clock_ns();
	while (seen < ENTRIES) {
		engine_drive(rig.e);
		for (; rig_cqe(&rig, &cqe); seen++) {
			CHECK(cqe.res == RIG_BYTES || cqe.res == -ETIMEDOUT);
			failed += cqe.res < 0;
		}
		CHECK(clock_ns() - began < 10 * NSEC_PER_SEC);
	}
	CHECK_GE(failed, 1);
	CHECK_LE(late, AFTER_MAX);
	rig_peer_close(&rig);
	rig_engine_close(&rig);
	return 0;
}
