/* SPDX-License-Identifier: Apache-2.0 */
/* Payloads that the peer fetches: one copy where both sides allow it, and nothing is fetched, or
 * counts as fetched, after it was taken back. */
#include "shm_cma_rig.h"

/* Far more than a peer is given to finish what it began. */
#define HELD_NS (5 * NSEC_PER_MSEC)

static void both_ways(uint32_t path)
{
	struct chunk c;

	memset(local, 1, LEN);
	c = start(CHUNK_WRITE);
	CHECK_EQ(rig_do(&r, 0, &c), 0);
	CHECK(c.flags & CHUNK_QUIET);
	CHECK_EQ(c.path, path);
	CHECK(all(memory, 1));
	memset(memory, 2, LEN);
	c = start(CHUNK_READ);
	CHECK_EQ(rig_do(&r, 0, &c), 0);
	CHECK_EQ(c.path, path);
	CHECK(all(local, 2));
}

static void moves(uint8_t cma0, uint8_t cma1, uint32_t path)
{
	begin(cma0, cma1);
	both_ways(path);
	end();
}

/* A side that cannot have what its memory is read past: the first to need one dials. */
static void without_gate(uint32_t which)
{
	begin_devices(URCCL_ALLOW_YES, URCCL_ALLOW_YES);
	gate_first = which;
	gates_denied = 1;
	begin_peers();
	CHECK_EQ(gates_denied, 0);
	both_ways(BOUNCE);
	end();
}

/* Peers of a version that knows of none. */
static void before_gates(void)
{
	version = SHM_GATES - 1;
	moves(URCCL_ALLOW_YES, URCCL_ALLOW_YES, BOUNCE);
	version = 0;
}

/* The peer has the request and was never heard of again: the buffer is ours at once. */
static void cancelled_before(void)
{
	struct chunk c;

	begin(URCCL_ALLOW_YES, URCCL_ALLOW_YES);
	memset(local, 1, LEN);
	c = start(CHUNK_WRITE);
	rig_post(&r, 0, &c);
	rig_poll(&r, 0);
	backend_shm.cancel(&c, CANCEL_NOW);
	rig_poll(&r, 0);
	CHECK(c.op);
	CHECK_EQ(c.res, -ECANCELED);
	memset(local, 3, LEN);
	while (rig_poll(&r, 1) || shm_rings_busy(side(1)))
		;
	CHECK(all(memory, 0));
	/* The next one is as good as ever. */
	c = start(CHUNK_WRITE);
	CHECK_EQ(rig_do(&r, 0, &c), 0);
	CHECK(all(memory, 3));
	end();
}

/* The peer is fetching: the buffer is not ours until it says that it is not. */
static void cancelled_within(int closing)
{
	struct shm_side *us;
	struct chunk c;
	uint64_t until;
	uint32_t i;

	begin(URCCL_ALLOW_YES, URCCL_ALLOW_YES);
	us = side(1)->pages.side[0];
	c = start(CHUNK_WRITE);
	rig_post(&r, 0, &c);
	rig_poll(&r, 0);
	store_release(&us->inside, 1);
	store_release(&us->fetching, ~side(0)->far.writes[0]);
	if (closing)
		backend_shm.ep_close(r.ep[0]);
	else
		backend_shm.cancel(&c, CANCEL_NOW);
	for (until = rig_ns() + HELD_NS; rig_ns() < until || !side(0)->cma.gate.closed;) {
		rig_poll(&r, 0);
		CHECK(!c.op && !r.closed[0]);
		CHECK_EQ(backend_shm.arm(r.dev[0]), 1);
	}
	store_release(&us->fetching, 0);
	for (i = 0; i < 10; i++)
		rig_poll(&r, 0);
	CHECK(c.op);
	CHECK_EQ(c.res, -ECANCELED);
	CHECK_EQ(r.closed[0], closing);
	if (!closing) {
		RIG_UNTIL(&r, !side(0)->cma.gate.closed);
		end();
		return;
	}
	backend_shm.ep_free(r.ep[0]);
	backend_shm.close(r.dev[0]);
	end_without_0();
}

/* The peer has answered, and withdraws what it answered from. */
static void revoked(void)
{
	struct chunk c;

	begin(URCCL_ALLOW_YES, URCCL_ALLOW_YES);
	c = start(CHUNK_READ);
	rig_post(&r, 0, &c);
	rig_poll(&r, 0);
	rig_poll(&r, 1);
	CHECK_EQ(backend_shm.unexpose(&x), 0);
	memset(memory, 4, LEN);
	RIG_UNTIL(&r, c.op);
	CHECK_EQ(c.res, -EACCES);
	CHECK(all(local, 0));
	rig_expose(&r, 1, m, URCCL_RIGHT_READ, &x, &rkey);
	c = start(CHUNK_READ);
	CHECK_EQ(rig_do(&r, 0, &c), 0);
	CHECK(all(local, 4));
	end();
}

/* Memory that is gone at either side fails what needs it and nothing else. */
static void unmapped(enum chunk_kind kind, uint8_t **which)
{
	struct chunk c;

	begin(URCCL_ALLOW_YES, URCCL_ALLOW_YES);
	CHECK_EQ(mprotect(*which + LEN / 2, LEN / 2, PROT_NONE), 0);
	c = start(kind);
	CHECK_EQ(rig_do(&r, 0, &c), -EFAULT);
	c.len = LEN / 2;
	CHECK_EQ(rig_do(&r, 0, &c), 0);
	CHECK_EQ(c.path, 0);
	CHECK(!r.down[0] && !r.down[1]);
	end();
}

int main(void)
{
	need_cma();
	moves(URCCL_ALLOW_YES, URCCL_ALLOW_YES, 0);
	moves(URCCL_ALLOW_YES, URCCL_ALLOW_NO, BOUNCE);
	moves(URCCL_ALLOW_DEFAULT, URCCL_ALLOW_YES, BOUNCE);
	without_gate(0);
	without_gate(1);
	before_gates();
	cancelled_before();
	cancelled_within(0);
	cancelled_within(1);
	revoked();
	unmapped(CHUNK_WRITE, &local);
	unmapped(CHUNK_READ, &memory);
	unmapped(CHUNK_WRITE, &memory);
	return 0;
}
