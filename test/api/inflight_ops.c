/* SPDX-License-Identifier: Apache-2.0 */
/* max_inflight_ops: devices have no more pieces of entries at a time than that, however many are
 * submitted. The others wait, under their deadlines, and are carried out in their turn. */
#include "pair.h"

#define ENTRIES 200u
#define LEN	64u
#define DEPTH	128u /* what the simulated device takes by itself */

static struct pair p;
static struct target t;
static uint8_t local[ENTRIES * LEN];

static void begin(int argc, char **argv, uint32_t most)
{
	pair_options(&p, argc, argv);
	p.params.flags |= URCCL_OPEN_INLINE;
	p.params.max_inflight_ops = most;
	p.faults = "clock=simulated,delay=1ms";
	pair_open(&p);
	memset(&t, 0, sizeof(t));
	target_open(&p, &t, sizeof(local), 0);
	side_register(&p.a, local, sizeof(local), 0);
	side_warm(&p.a, 0, 1);
	CHECK_EQ(pair_end(&p, &p.a, 1).res, 0);
}

static void end(void)
{
	target_close(&p, &t);
	pair_close(&p);
}

static uint64_t chunks(void)
{
	struct urccl_stats stats = {.size = sizeof(stats)};

	CHECK_EQ(urccl_get_stats(p.a.ctx, &stats), 0);
	return stats.chunks;
}

static void post(uint32_t n, uint32_t deadline_us)
{
	uint32_t i;

	for (i = 0; i < n; i++) {
		struct urccl_sqe *sqe = side_sqe(&p.a);

		urccl_prep_write(sqe, t.remote, local + i * LEN, LEN, i * LEN);
		urccl_sqe_set_deadline_us(sqe, deadline_us);
	}
	CHECK_EQ(urccl_submit(p.a.ring), n);
}

/* The most that were on their way at a time. */
static uint64_t moves(uint64_t version)
{
	uint64_t before = chunks(), high = 0, ended = 0, now;
	struct urccl_cqe cqe;

	pattern_fill(local, sizeof(local), 0, version);
	post(ENTRIES, 0);
	while (ended < ENTRIES) {
		side_turn(&p.a);
		side_turn(&p.b);
		now = chunks() - before;
		while (side_take_within(&p.a, &p.b, 0, &cqe, NULL)) {
			CHECK_EQ(cqe.res, LEN);
			ended++;
		}
		CHECK_LE(ended, now);
		high = now - ended > high ? now - ended : high;
	}
	CHECK_EQ(chunks() - before, ENTRIES);
	CHECK(pattern_holds(t.bytes, sizeof(local), 0, version));
	return high;
}

/* Those that wait for one that does not come back end when they should. */
static void late(void)
{
	struct urccl_cqe cqe;
	uint32_t i;

	urccl_sim_freeze(p.sim, 1);
	post(8, 100000);
	for (i = 0; i < 8; i++) {
		side_take(&p.a, &p.b, &cqe, NULL);
		CHECK_EQ(cqe.flags & URCCL_CQE_MORE, 0);
		CHECK_EQ(cqe.res, -ETIMEDOUT);
	}
	urccl_sim_freeze(p.sim, 0);
	CHECK_EQ(moves(2), 1);
}

int main(int argc, char **argv)
{
	uint64_t high;

	begin(argc, argv, 1);
	CHECK_EQ(moves(1), 1);
	late();
	end();
	begin(argc, argv, 30);
	high = moves(1);
	CHECK(high <= 30 && high >= 10); /* a peer by itself has a third */
	end();
	begin(argc, argv, 0);
	high = moves(1);
	CHECK(high <= DEPTH && high > 30);
	end();
	return 0;
}
