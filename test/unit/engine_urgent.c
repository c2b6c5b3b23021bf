/* SPDX-License-Identifier: Apache-2.0 */
/* What is long is bulk whatever its class, so that nothing that goes before bulk waits behind it;
 * and of short ones no more are on their way than two windows. */
#include "engine_rig.h"

enum { ENTRIES = 512 };

#define BLOCKS 256u /* of RIG_BYTES: 64 MiB */
#define SHORT  65536u
#define SMALL  64u
#define SEGS   4u
#define TURNS  64u /* fill any window */

static struct engine_rig rig;

static void begin(void)
{
	rig_peer_open(&rig);
	rig_key(&rig, 0, 0);
}

static void end(void)
{
	rig_peer_close(&rig);
	rig_all_ended(&rig);
}

/* The device takes all that it is given, and lets nothing out. */
static void enter(void)
{
	uint32_t i;

	rig_enter(&rig);
	for (i = 0; i < TURNS; i++)
		rig_turns(&rig);
}

static void is_bulk(void)
{
	uint32_t i;

	CHECK(rig.ntaken);
	for (i = 0; i < rig.ntaken; i++)
		CHECK_EQ(rig.taken[i]->cls, URCCL_CLASS_BULK);
}

/* Those of each class have their own way past a long one. */
static void past_a_long_one(enum urccl_class cls)
{
	struct urccl_paged paged;
	enum urccl_class small;
	uint32_t n;

	begin();
	urccl_sqe_set_class(rig_write_blocks(&rig, &paged, BLOCKS, 1), cls);
	enter();
	is_bulk();
	CHECK_LE(rig_bytes_taken(&rig), rig.rail[0].window + (64u << 10));
	for (small = URCCL_CLASS_BULK; small <= URCCL_CLASS_CONTROL; small++) {
		n = rig.ntaken;
		urccl_sqe_set_class(rig_write(&rig, 0, SMALL, 2), small);
		enter();
		CHECK_EQ(rig.ntaken, n + 1);
		CHECK_EQ(rig.taken[n]->len, SMALL);
		CHECK_EQ(rig.taken[n]->cls, URCCL_CLASS_LATENCY);
	}
	end();
}

/* As many as there are: those of a bulk entry would still find room for what is urgent. */
static void many_short_ones(enum urccl_class cls)
{
	uint64_t most;
	uint32_t i;

	begin();
	most = 2 * rig.rail[0].window;
	for (i = 0; i < ENTRIES; i++)
		urccl_sqe_set_class(rig_write(&rig, 0, SHORT, i), cls);
	enter();
	CHECK_GE(rig_bytes_taken(&rig), most / 2);
	CHECK_LE(rig_bytes_taken(&rig), most + SHORT);
	CHECK_EQ(rig.taken[0]->cls, URCCL_CLASS_LATENCY);
	end();
}

static void vector(uint32_t seg_bytes, enum urccl_class as)
{
	struct urccl_seg segs[SEGS];
	struct urccl_sqe *sqe = rig_sqe(&rig, 1);
	uint32_t i;

	begin();
	for (i = 0; i < SEGS; i++)
		segs[i] = (struct urccl_seg){.addr = (uintptr_t)rig.bytes + i * SHORT,
					     .len = seg_bytes,
					     .off = i * SHORT,
					     .region = RIG_REGION,
					     .remote = RIG_REMOTE};
	urccl_prep_writev(sqe, (struct urccl_peer){RIG_PEER}, segs, SEGS);
	urccl_sqe_set_class(sqe, URCCL_CLASS_LATENCY);
	enter();
	CHECK_EQ(rig_bytes_taken(&rig), SEGS * seg_bytes);
	for (i = 0; i < rig.ntaken; i++)
		CHECK_EQ(rig.taken[i]->cls, as);
	end();
}

int case_engine_urgent(void)
{
	rig_engine_open(&rig, ENTRIES, 4);
	past_a_long_one(URCCL_CLASS_BULK);
	past_a_long_one(URCCL_CLASS_LATENCY);
	past_a_long_one(URCCL_CLASS_CONTROL);
	many_short_ones(URCCL_CLASS_LATENCY);
	many_short_ones(URCCL_CLASS_CONTROL);
	vector(SHORT / SEGS, URCCL_CLASS_LATENCY);
	vector(SHORT / SEGS + 1, URCCL_CLASS_BULK);
	rig_engine_close(&rig);
	return 0;
}
