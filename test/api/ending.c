/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Regions are unregistered, rings closed and the context too, in any order, with entries of all of
 * them under way to a peer that is well, stopped or killed. Each call comes back within 2 s, and
 * from then on what it gave back is the program's: it is scribbled on and does not change, not even
 * when the peer goes on. ending [what pair.h takes] [--rounds=N]; the seed is printed.
 */
#include <signal.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/wait.h>
#include "child.h"
#include "lateness.h"
#include "meet.h"
#include "random.h"

#define RINGS	3u
#define REGIONS 6u
#define LEN	(1u << 20)
#define ENTRIES 16u /* of a ring */
#define SCRAP	0x77u
#define LATE_NS 2000000000ull

enum health { WELL, STOPPED, KILLED, HEALTHS };

static struct pair p;
static struct child child;
static struct urccl_ring *ring[RINGS];
static uint32_t nrings; /* an INLINE context has one */
static struct urccl_region region[REGIONS];
static struct urccl_remote remote;
static uint8_t *local; /* REGIONS of LEN bytes */
static uint8_t owned[REGIONS];
static uint32_t users[REGIONS]; /* bits of rings */
static struct target t;		/* sim's */
static uint64_t seed, rounds = 3, slowest;

static int is_sim(void)
{
	return p.transport == URCCL_TRANSPORT_SIM;
}

static void options(int argc, char **argv)
{
	int i, n = 1, seeded = 0;

	for (i = 1; i < argc; i++) {
		seeded |= !strncmp(argv[i], "--seed=", 7);
		if (!strncmp(argv[i], "--rounds=", 9))
			rounds = strtoull(argv[i] + 9, NULL, 0);
		else
			argv[n++] = argv[i];
	}
	pair_options(&p, n, argv);
	if (!seeded)
		CHECK_EQ(getrandom(&p.seed, sizeof(p.seed), 0), sizeof(p.seed));
	seed = p.seed | 1;
	nrings = p.params.flags & URCCL_OPEN_INLINE ? 1 : RINGS;
	printf("seed %llu\n", (unsigned long long)p.seed);
	fflush(stdout);
}

/* ---- before ---- */

/* A simulated network ends at the process, where nobody can be killed: a peer that is stopped is
 * one that is not called, of one that is killed the only rail is gone. */
static void peer_here(enum health health)
{
	uint32_t flags = p.params.flags;

	p.params.flags = health == STOPPED ? URCCL_OPEN_INLINE : 0;
	pair_sim(&p);
	side_open(&p, &p.b);
	p.params.flags = flags;
	pair_open(&p);
	target_open(&p, &t, (uint64_t)REGIONS * LEN, 0);
	remote = t.remote;
}

static void peer_there(void)
{
	child_start(&p, &child, (uint64_t)REGIONS * LEN, NULL);
	side_open(&p, &p.a);
	child_connect(&p, &child);
	CHECK_EQ(urccl_import(p.a.ctx, p.a.peer, &child.advert, 1, &remote), 0);
}

static void begin(enum health health)
{
	uint32_t i;

	if (is_sim())
		peer_here(health);
	else
		peer_there();
	settle_end(&p.a);
	ring[0] = p.a.ring;
	for (i = 1; i < nrings; i++)
		CHECK_EQ(urccl_ring_open(p.a.ctx, NULL, &ring[i]), 0);
	for (i = 0; i < REGIONS; i++) {
		region[i] = side_register(&p.a, local + i * LEN, LEN, 0);
		owned[i] = 0;
		users[i] = 0;
	}
}

static void submit(uint32_t r)
{
	uint32_t i, n;

	for (i = 0; i < ENTRIES; i++) {
		struct urccl_sqe *sqe = urccl_get_sqe(ring[r]);

		CHECK(sqe);
		n = (uint32_t)random_below(&seed, REGIONS);
		if (random_below(&seed, 2))
			urccl_prep_read(sqe, remote, local + n * LEN, LEN, n * LEN);
		else
			urccl_prep_write(sqe, remote, local + n * LEN, LEN, n * LEN);
		if (random_below(&seed, 2))
			urccl_sqe_set_region(sqe, region[n]);
		if (!random_below(&seed, 4))
			urccl_sqe_set_notify(ring[r], sqe, i, NULL, 0);
		urccl_sqe_set_deadline_us(sqe, 60000000);
		users[n] |= 1u << r;
	}
	CHECK_EQ(urccl_submit(ring[r]), ENTRIES);
}

/* Lets it run for so long. */
static void run_for(uint64_t us)
{
	uint64_t end = now_ns() + us * 1000;

	while (now_ns() < end) {
		side_turn(&p.a);
		side_turn(&p.b);
	}
}

static void afflict(enum health health)
{
	int status;

	if (is_sim() && health == KILLED)
		urccl_sim_pull(p.sim, 0, 1);
	if (is_sim() || health == WELL)
		return;
	CHECK_EQ(kill(child.pid, health == KILLED ? SIGKILL : SIGSTOP), 0);
	CHECK_EQ(waitpid(child.pid, &status, WUNTRACED), child.pid);
}

/* ---- the end ---- */

static void given_back(uint32_t n)
{
	if (owned[n])
		return;
	owned[n] = 1;
	memset(local + n * LEN, SCRAP, LEN);
}

static void check_scraps(void)
{
	uint32_t n, i;

	for (n = 0; n < REGIONS; n++)
		for (i = 0; owned[n] && i < LEN; i++)
			CHECK_EQ(local[n * LEN + i], SCRAP);
}

static uint64_t begun(void)
{
	canary_reset();
	return now_ns();
}

static void took(uint64_t ns)
{
	slowest = ns > slowest ? ns : slowest;
}

static void timed(uint64_t start)
{
	took(check_within(start, LATE_NS));
}

static void unregister(uint32_t n)
{
	took(check_taken_back(urccl_unregister, p.a.ctx, region[n]));
	given_back(n);
}

/* What no other ring used is quiet, too. */
static void close_ring(uint32_t r)
{
	uint64_t start = begun();
	uint32_t n;

	urccl_ring_close(ring[r]);
	timed(start);
	if (!r) /* which is not turned any more */
		p.a.ring = NULL;
	for (n = 0; n < REGIONS; n++) {
		users[n] &= ~(1u << r);
		if (!users[n])
			given_back(n);
	}
}

static void close_all(void)
{
	uint64_t start = begun();
	uint32_t n;

	urccl_close(p.a.ctx);
	timed(start);
	p.a.ring = NULL;
	for (n = 0; n < REGIONS; n++)
		given_back(n);
}

/* Everything once, in any order, until the context is closed. */
static void end(void)
{
	uint32_t order[RINGS + REGIONS + 1], n = nrings + REGIONS + 1, i, k, swap;

	for (i = 0; i < n; i++)
		order[i] = i;
	for (i = n - 1; i; i--) {
		k = (uint32_t)random_below(&seed, i + 1);
		swap = order[i];
		order[i] = order[k];
		order[k] = swap;
	}
	for (i = 0; i < n; i++) {
		if (order[i] < nrings) {
			close_ring(order[i]);
		} else if (order[i] < nrings + REGIONS) {
			unregister(order[i] - nrings);
		} else {
			close_all();
			break;
		}
		run_for(random_below(&seed, 500));
	}
	check_scraps();
}

static void peer_end(enum health health)
{
	if (is_sim()) {
		run_for(20000);
		side_close(&p.b);
		CHECK_EQ(urccl_sim_close(p.sim), 0);
		p.params.sim_network = p.sim = NULL;
		munmap(t.bytes, t.len);
	} else if (health != KILLED) {
		kill(child.pid, SIGCONT);
		child_lost(&child);
		child_kill(&child);
	} else {
		close(child.lost);
	}
	check_scraps();
	memset(&p.a, 0, sizeof(p.a));
}

int main(int argc, char **argv)
{
	uint32_t i, r, health;

	child_main(argc, argv);
	options(argc, argv);
	local = mmap(NULL, (size_t)REGIONS * LEN, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(local != MAP_FAILED);
	canary_start();
	for (health = 0; health < HEALTHS; health++) {
		for (i = 0; i < rounds; i++) {
			memset(local, 1, (size_t)REGIONS * LEN);
			begin(health);
			for (r = 0; r < nrings; r++)
				submit(r);
			run_for(random_below(&seed, 4000));
			afflict(health);
			end();
			peer_end(health);
		}
	}
	printf("the slowest call took %llu us\n", (unsigned long long)(slowest / 1000));
	return 0;
}
