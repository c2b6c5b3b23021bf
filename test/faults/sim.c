/* SPDX-License-Identifier: Apache-2.0 */
/* The matrix's faults on a simulated network, by its own words, and the peer as a context of this
 * process. What a word does it does after a while: the entries are there by then. */
#include <time.h>
#include "faults.h"

#define MS	 1000000ull
#define AFTER_MS 1500u /* from when a device is opened */
#define RW	 (URCCL_RIGHT_READ | URCCL_RIGHT_WRITE)

static const char *const words[FAULTS] = {
	[DROP_SHORT] = "flap=1500ms/1500ms,retries=30,resend=1ms",
	[RESET] = "restart=1500ms",
};

static char place[PLACE_MAX];
static uint64_t opened;

static void await(uint32_t ms)
{
	struct timespec rest = {0, 1000000};

	while (now_ns() < opened + ms * MS)
		nanosleep(&rest, NULL);
}

void sim_open(struct run *r)
{
	r->p.transport = URCCL_TRANSPORT_SIM;
	r->p.faults = words[r->cell.fault];
	pair_sim(&r->p);
	side_open(&r->p, &r->p.a);
	place_v4(place, free_port());
	r->p.params.listen = place;
	/* The peer's device, from then on. */
	if (r->cell.fault == KILL)
		r->p.params.sim = "kill=60s/1500ms";
	pair_open(&r->p);
	r->p.params.sim = NULL;
	opened = now_ns();
	target_open(&r->p, &r->target, MEMORY, 0);
	pattern_fill(r->target.bytes, MEMORY, 0, THEIRS);
	r->remote = r->target.remote;
}

/* Frozen, the network holds what is under way until the peer is gone. */
void sim_before(struct run *r)
{
	if (r->cell.fault == DROP_SHORT)
		await(AFTER_MS + 20);
	else if (r->cell.fault == DROP_DEAD && run_is_cut_first(r))
		urccl_sim_pull(r->p.sim, 0, 1);
	else if (r->cell.fault == KILL || r->cell.fault == RESTART || r->cell.fault == RESET)
		urccl_sim_freeze(r->p.sim, 1);
}

void sim_during(struct run *r)
{
	if (r->cell.fault == DROP_SHORT)
		return;
	if (r->cell.fault == DROP_DEAD) {
		urccl_sim_pull(r->p.sim, 0, 1);
		return;
	}
	if (r->cell.fault == RESTART)
		side_close(&r->p.b);
	else
		await(AFTER_MS + 20);
	urccl_sim_freeze(r->p.sim, 0);
}

void sim_revoke(struct run *r)
{
	struct urccl_sqe *sqe = side_sqe(&r->p.b);

	urccl_prep_revoke(sqe, r->target.region);
	urccl_sqe_set_data64(sqe, REVOKE);
	CHECK_EQ(urccl_submit(r->p.b.ring), 1);
}

void sim_revoked(struct run *r)
{
	uint64_t late = now_ns() + PAIR_LATE_NS;

	while (!r->revoked) {
		CHECK(!is_late(late));
		side_turn(&r->p.a);
		side_turn(&r->p.b);
		run_events(r);
	}
}

void sim_undo(const struct run *r)
{
	if (r->cell.fault == DROP_SHORT)
		await(2 * AFTER_MS + 20);
	else if (r->cell.fault == DROP_DEAD)
		urccl_sim_pull(r->p.sim, 0, 0);
}

void sim_anew(struct run *r)
{
	uint32_t old = r->p.a.peer.id;
	struct urccl_cqe cqe;
	int64_t res;

	pattern_fill(r->target.bytes, MEMORY, 0, THEIRS);
	side_open(&r->p, &r->p.b);
	side_accept(&r->p.b, 3);
	side_register(&r->p.b, r->target.bytes, MEMORY, RW);
	cqe = side_dialled(&r->p.a, &r->p.b, place, (uint32_t)strlen(place), 20000000);
	CHECK_EQ(cqe.res, 0);
	CHECK_NE(cqe.handle, old);
	res = run_one(r, 10000000);
	CHECK_EQ(res, -ESTALE);
	CHECK_EQ(side_drop(&r->p.a, &r->p.b, old), 0);
	CHECK_EQ(run_one(r, 10000000), -ESTALE);
	CHECK(pattern_holds(r->target.bytes, MEMORY, 0, THEIRS));
}
