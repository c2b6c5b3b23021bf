/* SPDX-License-Identifier: Apache-2.0 */
/* Of two rails one looks slow at first: single pieces of it wait for a machine that is busy with
 * the other one; or it is slow indeed, for a while. Within five seconds of being as good it has its
 * share; while it is slow the other one loses little by it. */
#include "engine_rig.h"

enum { ENTRIES = 64, RATE = 20 << 20, SECONDS = 5 };

static struct engine_rig rig;
static struct clock clk;
static uint64_t rate[RIG_RAILS]; /* of each rail's own machine; 0: it shares that of rail 0 */
static struct machine {
	struct chunk *chunk; /* that it carries, NULL: none */
	uint64_t until;
} machines[RIG_RAILS];
static uint64_t carried[RIG_RAILS];

static uint32_t machine_of(const struct chunk *c)
{
	uint32_t number = rig_number(&rig, c->ep);

	return rate[number] ? number : 0;
}

/* The oldest first, from then on. */
static void machine_begin(uint32_t number, uint64_t now)
{
	struct machine *m = &machines[number];
	uint32_t i;

	for (i = 0; i < rig.ntaken && !m->chunk; i++) {
		if (machine_of(rig.taken[i]) != number)
			continue;
		m->chunk = rig.taken[i];
		m->until = now + m->chunk->len * NSEC_PER_SEC / rate[number];
	}
}

static void machine_end(uint32_t number)
{
	struct machine *m = &machines[number];
	uint32_t i = 0;

	if (!m->chunk || m->until > clock_now(&clk))
		return;
	while (rig.taken[i] != m->chunk)
		CHECK(++i < rig.ntaken);
	carried[rig_number(&rig, m->chunk->ep)] += m->chunk->len;
	m->chunk = NULL;
	rig_out(&rig, i, 0, CHUNK_QUIET);
	machine_begin(number, m->until);
}

static uint64_t next(void)
{
	uint64_t at = NEVER_NS;
	uint32_t i;

	for (i = 0; i < RIG_RAILS; i++)
		if (machines[i].chunk && machines[i].until < at)
			at = machines[i].until;
	return at;
}

/* What ended begins anew. */
static void take(uint32_t len)
{
	struct urccl_cqe cqe;

	while (rig_cqe(&rig, &cqe)) {
		CHECK_EQ(cqe.res, len);
		rig_write(&rig, 0, len, 1);
	}
	rig_enter(&rig);
}

/* Bulk for so long; rail 1's percent of it. */
static uint64_t move(uint32_t len, uint64_t seconds)
{
	uint64_t until = clock_now(&clk) + seconds * NSEC_PER_SEC;
	uint32_t i;

	memset(carried, 0, sizeof(carried));
	while (clock_now(&clk) < until) {
		take(len);
		rig_turns(&rig);
		for (i = 0; i < RIG_RAILS; i++)
			machine_begin(i, clock_now(&clk));
		clock_sleep(&clk, next());
		for (i = 0; i < RIG_RAILS; i++)
			machine_end(i);
	}
	return 100 * carried[1] / (carried[0] + carried[1]);
}

static void begin(uint64_t first, uint64_t second, uint32_t len, uint32_t depth)
{
	uint32_t i;

	clock_init(&clk);
	rig_engine_open_by(&rig, &clk, -1, ENTRIES, 4);
	rig_peer_add(&rig);
	rig_rail_open(&rig, 1);
	rig_peer_up(&rig);
	rig_key(&rig, 0, 0);
	rig_key(&rig, 0, 1);
	rate[0] = first;
	rate[1] = second;
	for (i = 0; i < depth; i++)
		rig_write(&rig, 0, len, 1);
}

static void end(void)
{
	memset(machines, 0, sizeof(machines));
	rig_peer_close(&rig);
	rig_engine_close(&rig);
	clock_fini(&clk);
}

/* Its share is as large as what it has on its way. */
static void shares_machine(uint32_t len, uint32_t depth)
{
	begin(RATE, 0, len, depth);
	move(len, SECONDS);
	CHECK_GE(move(len, 2), 10);
	end();
}

static void becomes_fast(uint32_t len, uint32_t depth)
{
	begin(RATE, RATE / 100, len, depth);
	move(len, 21);
	CHECK_GE(carried[0], 20ull * RATE);
	rate[1] = RATE;
	move(len, SECONDS);
	CHECK_GE(move(len, 2), 30);
	end();
}

int case_engine_slow_rail(void)
{
	shares_machine(64u << 10, 32);
	shares_machine(256u << 10, 8);
	becomes_fast(64u << 10, 32);
	becomes_fast(256u << 10, 8);
	return 0;
}
