/* SPDX-License-Identifier: Apache-2.0 */
/* Faults of a simulated network. Our end is INLINE: an entry is on its way when it was submitted,
 * before anything else happens. */
#include <sys/mman.h>
#include "sentences.h"

#define FEW  16u
#define LONG 300u /* segments */
#define MANY 512u /* fewer than records of failures are kept */

static struct pair q;
static struct target there;
static struct urccl_region ours;

static void network(const char *faults, uint32_t entries)
{
	memset(&q, 0, sizeof(q));
	q.params = p.params;
	q.params.transport = "sim";
	q.ring_params = p.ring_params;
	q.ring_params.entries = entries;
	q.transport = URCCL_TRANSPORT_SIM;
	q.faults = faults;
	q.seed = 1;
	pair_sim(&q);
	q.params.flags = URCCL_OPEN_INLINE;
	side_open(&q, &q.a);
	q.params.flags = 0;
	pair_open(&q);
	target_open(&q, &there, sizeof(local), 0);
	ours = side_register(&q.a, local, sizeof(local), 0);
	side_warm(&q.a, 0, 1);
	CHECK_EQ(pair_end(&q, &q.a, 1).res, 0);
}

static void network_end(void)
{
	side_close(&q.a);
	if (q.b.ctx)
		side_close(&q.b);
	CHECK_EQ(urccl_sim_close(q.sim), 0);
	munmap(there.bytes, there.len);
}

static void submit(uint32_t flags)
{
	struct urccl_sqe *sqe = side_sqe(&q.a);

	urccl_prep_write(sqe, there.remote, local, sizeof(local), 0);
	urccl_sqe_add_flags(sqe, flags);
	CHECK_EQ(urccl_submit(q.a.ring), 1);
}

/* A vector whose bytes nobody sums up. */
static void submit_long(uint32_t deadline_us)
{
	static struct urccl_seg segs[LONG];
	struct urccl_sqe *sqe = side_sqe(&q.a);
	uint32_t i;

	for (i = 0; i < LONG; i++)
		segs[i] = (struct urccl_seg){.addr = (uintptr_t)local,
					     .len = 8,
					     .off = 8ull * i,
					     .remote = there.remote.id};
	urccl_prep_writev(sqe, q.a.peer, segs, LONG);
	urccl_sqe_set_deadline_us(sqe, deadline_us);
	CHECK_EQ(urccl_submit(q.a.ring), 1);
}

static void fails_by(const char *name, const struct urccl_cqe *cqe, int64_t res)
{
	said_entry(name, &q.a, cqe, res);
	urccl_sim_freeze(q.sim, 0);
	if (cqe->flags & URCCL_CQE_MORE)
		CHECK_EQ(side_end(&q.a, NULL, 0).res, res);
}

/* The outcome, which may come before the end; others are told of it. */
static void fails(const char *name, int64_t res)
{
	struct urccl_cqe cqe;

	do
		side_take(&q.a, NULL, &cqe, NULL);
	while (urccl_cqe_kind(&cqe) != URCCL_KIND_OP);
	fails_by(name, &cqe, res);
}

static void devices(void)
{
	network("error=100%", FEW);
	submit(0);
	fails("device_error", -EIO);
	submit_long(20000000);
	fails("device_error_long", -EIO);
	network_end();
	network("delay=1us", FEW);
	urccl_sim_freeze(q.sim, 1);
	submit_long(100000);
	fails("peer_frozen_long", -ETIMEDOUT);
	network_end();
	network("flip=100%", FEW);
	submit(URCCL_SQE_CHECKSUM);
	fails("bit_flipped", -EBADMSG);
	network_end();
}

static void rails(void)
{
	network("delay=1us", FEW);
	urccl_sim_freeze(q.sim, 1);
	submit(URCCL_SQE_NO_REPLAY);
	urccl_sim_pull(q.sim, 0, 1);
	fails("rail_pulled", -ECONNRESET);
	urccl_sim_pull(q.sim, 0, 0);
	network_end();
}

/* Whenever it has the rail again that is taken away, long before it is through. */
static void rail_comes_and_goes(void)
{
	struct urccl_cqe cqe;
	uint32_t on = 0;
	int ended;

	network("rate=1k", FEW);
	submit(0);
	do {
		on = !on;
		urccl_sim_pull(q.sim, 0, (int)on);
		do
			ended = side_take_within(&q.a, NULL, 2000000, &cqe, NULL);
		while (!ended && q.a.rails_down != on);
	} while (!ended);
	fails_by("rail_breaks_again", &cqe, -ECONNRESET);
	urccl_sim_pull(q.sim, 0, 0);
	network_end();
}

static void others(void)
{
	int res;

	network("delay=1us", FEW);
	urccl_sim_freeze(q.sim, 1);
	submit(0);
	res = urccl_revoke(q.b.ctx, there.region);
	CHECK(!res || res == -ETIMEDOUT);
	fails("revoked_meanwhile", -EACCES);
	network_end();
	network("delay=1us", FEW);
	urccl_sim_freeze(q.sim, 1);
	submit(0);
	side_close(&q.b);
	fails("peer_closes", -ECONNRESET);
	network_end();
}

/* What an entry under way needs is taken from it by its own program. */
static void taken_back(void)
{
	int res;

	network("delay=1us", FEW);
	urccl_sim_freeze(q.sim, 1);
	submit(0);
	res = urccl_unimport(q.a.ctx, there.remote);
	CHECK(!res || res == -ETIMEDOUT);
	fails("forgotten_meanwhile", -ECANCELED);
	network_end();
	network("delay=1us", FEW);
	urccl_sim_freeze(q.sim, 1);
	submit(0);
	res = urccl_unregister(q.a.ctx, ours);
	CHECK(!res || res == -ETIMEDOUT);
	fails("unregistered_meanwhile", -ECANCELED);
	network_end();
}

/* Its program takes us, and no packet of its device comes. */
static void dead_on_arrival(void)
{
	uint8_t blob[URCCL_METADATA_MAX];
	struct side c = {0};
	struct urccl_cqe cqe;
	int len;

	network("delay=1us", FEW);
	side_open(&q, &c);
	side_accept(&c, 1);
	len = urccl_metadata(c.ctx, blob, sizeof(blob));
	CHECK_GE(len, 1);
	urccl_sim_freeze(q.sim, 1);
	cqe = side_dialled(&q.a, &c, blob, (uint32_t)len, 300000);
	said_entry("no_rail_comes_up", &q.a, &cqe, -ETIMEDOUT);
	urccl_sim_freeze(q.sim, 0);
	side_close(&c);
	network_end();
}

/* Notifications that fail, to one who hears of none of it, until there are too many to keep. */
static void owed(void)
{
	uint32_t i, left = 0, lost = 0, reset = 0;
	struct urccl_sqe *sqe;
	struct urccl_cqe *cqe;

	network("delay=1us", 2 * MANY);
	urccl_sim_freeze(q.sim, 1);
	while (!lost || left) {
		for (i = 0; !lost && !reset && !left && i < MANY; i++) {
			sqe = urccl_get_sqe(q.a.ring);
			CHECK(sqe);
			urccl_prep_notify(sqe, q.a.peer, i, NULL, 0);
			urccl_sqe_set_deadline_us(sqe, 1000);
		}
		if (i)
			CHECK_EQ(urccl_submit(q.a.ring), MANY);
		left += i;
		CHECK_GE(urccl_wait(q.a.ring, &cqe, NULL), 1);
		if (urccl_cqe_kind(cqe) == URCCL_KIND_LOST) {
			said_entry("owes_too_much", &q.a, cqe, -ECONNRESET);
			lost++;
		} else {
			CHECK(cqe->res == -ETIMEDOUT || cqe->res == -ECONNRESET);
			left -= !(cqe->flags & URCCL_CQE_MORE);
			reset |= cqe->res == -ECONNRESET;
		}
		urccl_cqe_seen(q.a.ring, cqe);
	}
	network_end();
}

void networks(void)
{
	devices();
	rails();
	rail_comes_and_goes();
	others();
	taken_back();
	dead_on_arrival();
	owed();
}
