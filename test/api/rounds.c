/* SPDX-License-Identifier: Apache-2.0 */
/* What is made and ended again and again costs the same each time, in time, memory and descriptors,
 * and the first handle of all stays stale, however often its slot is used anew.
 *
 *	api-rounds [--rounds=N,HANDLES] OPTIONS
 *
 * N times a region is made and ended, and a connection; HANDLES times a remote.
 */
#include <time.h>
#include "held.h"
#include "meet.h"

#define RW    (URCCL_RIGHT_READ | URCCL_RIGHT_WRITE)
#define PARTS 24u
#define FEW   4u
#define AGAIN \
	50u /* more parts, where the machine was busy during the last: they grow all the same */
#define US	20000000u
#define MORE_NS 2000000ull /* that a part takes longer, where half as long again is less */
#define SLOT	32	   /* bytes, twice as many as it has: arrays of them are doubled */

static struct pair p;
static struct side from, to; /* that connect, and part again */
static struct target t;
static uint8_t bytes[4096];

static void turn(void)
{
	side_turn(&p.a);
	side_turn(&p.b);
	side_turn(&from);
	side_turn(&to);
	usleep(1000);
}

/* What this process has computed: others on the machine only slow it. */
static uint64_t cpu_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ull + (uint64_t)ts.tv_nsec;
}

/* The cheapest of FEW parts of n rounds each: what a thread spins and what a busy machine adds is
 * only ever too much, and what grows with the rounds is in every part.
 */
static uint64_t cheapest(uint64_t n, void (*round)(void))
{
	uint64_t least = UINT64_MAX, start, took, i, part;

	for (part = 0; part < FEW; part++) {
		start = cpu_ns();
		for (i = 0; i < n; i++)
			round();
		took = cpu_ns() - start;
		least = took < least ? took : least;
	}
	return least;
}

/* In parts: the second few tell what is usual, the last few what has become of it. */
static void flat(const char *what, uint64_t rounds, void (*round)(void))
{
	uint64_t usual, last, again, n = rounds / PARTS, i;
	struct held before;

	cheapest(n, round);
	usual = cheapest(n, round);
	before = held_settled(turn);
	/* A handle's slot that has had all its generations is retired: its few bytes stay. */
	before.bytes += (int64_t)(rounds / 1024) * SLOT;
	for (i = 0; i < rounds - 3 * FEW * n; i++)
		round();
	last = cheapest(n, round);
	for (i = 0; i < AGAIN && last > usual + usual / 2 + MORE_NS; i++) {
		usleep(100000);
		again = cheapest(n, round);
		last = again < last ? again : last;
	}
	check_held(what, &before, turn);
	printf("%s: %.1f us of CPU a round, at the end %.1f\n", what,
	       (double)usual * 1e-3 / (double)n, (double)last * 1e-3 / (double)n);
	CHECK_LE(last, usual + usual / 2 + MORE_NS);
}

/* ---- regions ---- */

static struct urccl_region first_region;

static void region_round(void)
{
	struct urccl_region r = side_register(&p.a, bytes, sizeof(bytes), RW);

	if (!first_region.id)
		first_region = r;
	else
		CHECK_NE(r.id, first_region.id);
	CHECK_EQ(urccl_unregister(p.a.ctx, r), 0);
}

static void regions_stale(void)
{
	CHECK_EQ(urccl_unregister(p.a.ctx, first_region), -ESTALE);
}

/* ---- remotes: more often than a slot has generations ---- */

static struct urccl_remote first_remote;

static void remote_round(void)
{
	struct urccl_remote r;

	CHECK_EQ(urccl_import(p.a.ctx, p.a.peer, &t.advert, 1, &r), 0);
	if (!first_remote.id)
		first_remote = r;
	else
		CHECK_NE(r.id, first_remote.id);
	CHECK_EQ(urccl_unimport(p.a.ctx, r), 0);
}

static void remotes_stale(void)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);

	CHECK_EQ(urccl_unimport(p.a.ctx, first_remote), -ESTALE);
	urccl_prep_write(sqe, first_remote, bytes, 1, 0);
	CHECK_EQ(pair_run(&p, &p.a, sqe).res, -ESTALE);
}

/* ---- connections, between two contexts more ---- */

static uint8_t blob[URCCL_METADATA_MAX];
static int blob_len;
static uint32_t first_peer;

static void peer_round(void)
{
	struct urccl_cqe cqe = side_dialled(&from, &to, blob, (uint32_t)blob_len, US);
	uint32_t there;

	CHECK_EQ(cqe.res, 0);
	if (!first_peer)
		first_peer = (uint32_t)cqe.handle;
	else
		CHECK_NE(cqe.handle, first_peer);
	there = side_event(&to, &from, URCCL_KIND_PEER, NULL).peer;
	CHECK_EQ(side_drop(&from, &to, (uint32_t)cqe.handle), 0);
	CHECK_EQ(side_event(&to, &from, URCCL_KIND_LOST, NULL).peer, there);
	CHECK_EQ(side_drop(&to, &from, there), 0);
}

static void peers(uint64_t n)
{
	side_open(&p, &from);
	side_open(&p, &to);
	side_accept(&to, 1);
	side_watch(&to, (struct urccl_peer){0}, 2);
	blob_len = urccl_metadata(to.ctx, blob, sizeof(blob));
	flat("connections", n, peer_round);
	CHECK_EQ(side_tell(&from, &to, first_peer, 1), -ESTALE);
	side_close(&from);
	side_close(&to);
}

int main(int argc, char **argv)
{
	uint64_t n = 120, handles = 5000;
	int set = argc > 1 && sscanf(argv[1], "--rounds=%lu,%lu", &n, &handles) == 2;

	pair_begin(&p, argc - set, argv + set);
	target_open(&p, &t, 4096, 0);
	flat("regions", n, region_round);
	regions_stale();
	flat("remotes", handles, remote_round);
	remotes_stale();
	peers(n);
	target_close(&p, &t);
	pair_close(&p);
	return 0;
}
