/* SPDX-License-Identifier: Apache-2.0 */
/* Four contexts work on the words of a fifth, whose own program uses C11 atomics on them: every add
 * counts once, however often the network brings it and whatever of it fails on the way, no two see
 * the same word before them, and a lock made of CMP_SWAP keeps what it guards. */
#include <pthread.h>
#include "meet.h"

#define GUESTS 4u
#define ADDS   4000u /* of a guest */
#define OWN    20000u
#define LOCKED 60u  /* rounds of a guest */
#define DEPTH  100u /* more than are under way at a time */

enum { COUNTER, LOCK, GUARDED, WORDS };

static struct pair p;
static struct side guests[GUESTS];
static struct urccl_remote remotes[GUESTS];
static struct urccl_region regions[GUESTS];
static uint64_t *words;
static uint64_t local[GUESTS];
static uint8_t seen[GUESTS * ADDS + OWN];

static struct urccl_cqe next_end(uint32_t i)
{
	struct urccl_cqe cqe;

	side_take(&guests[i], &p.b, &cqe, NULL);
	CHECK_EQ(cqe.flags & ~(uint32_t)URCCL_CQE_REMOTE_QUIET, URCCL_KIND_OP);
	return cqe;
}

static void open_guest(uint32_t i, const struct urccl_advert *advert)
{
	side_open(&p, &guests[i]);
	side_connect(&guests[i], &p.b);
	CHECK_EQ(urccl_import(guests[i].ctx, guests[i].peer, advert, 1, &remotes[i]), 0);
	regions[i] = side_register(&guests[i], &local[i], sizeof(local[i]), 0);
}

/* Beside what the pair's own network does, messages fail, those that arrived among them. */
static void open_network(void)
{
	char faults[100];

	if (p.transport != URCCL_TRANSPORT_SIM)
		return;
	snprintf(faults, sizeof(faults), "seed=%llu,delay=1us..100us,duplicate=12.5%%,error=6.25%%",
		 (unsigned long long)p.seed);
	CHECK_EQ(urccl_sim_open(faults, &p.sim), 0);
	p.params.sim_network = p.sim;
}

static void open_all(void)
{
	const uint32_t all = URCCL_RIGHT_READ | URCCL_RIGHT_WRITE | URCCL_RIGHT_ATOMIC;
	struct urccl_region region;
	struct urccl_advert advert;
	void *memory;
	uint32_t i;

	open_network();
	side_open(&p, &p.b);
	side_accept(&p.b, 1);
	CHECK_EQ(urccl_alloc(p.b.ctx, WORDS * 8, &memory), 0);
	words = memory;
	region = side_register(&p.b, words, WORDS * 8, all);
	CHECK_EQ(urccl_advertise(p.b.ctx, region, 0, WORDS * 8, all, 0, &advert), 0);
	for (i = 0; i < GUESTS; i++)
		open_guest(i, &advert);
}

/* ---- sums ---- */

static void saw(uint64_t old)
{
	CHECK(old < sizeof(seen));
	CHECK(!__atomic_exchange_n(&seen[old], 1, __ATOMIC_RELAXED));
}

static void *own_adds(void *arg)
{
	uint32_t i;

	(void)arg;
	for (i = 0; i < OWN; i++)
		saw(__atomic_fetch_add(&words[COUNTER], 1, __ATOMIC_SEQ_CST));
	return NULL;
}

static void add(uint32_t i)
{
	struct urccl_sqe *sqe = side_sqe(&guests[i]);

	urccl_prep_fetch_add(sqe, remotes[i], COUNTER * 8, 1);
}

static void sums(void)
{
	uint32_t sent[GUESTS] = {0}, ended[GUESTS] = {0}, left = GUESTS * ADDS, i;
	struct urccl_cqe cqe;
	pthread_t thread;

	CHECK_EQ(pthread_create(&thread, NULL, own_adds, NULL), 0);
	while (left) {
		for (i = 0; i < GUESTS; i++) {
			for (; sent[i] < ADDS && sent[i] - ended[i] < DEPTH; sent[i]++)
				add(i);
			CHECK_GE(urccl_submit(guests[i].ring), 0);
		}
		for (i = 0; i < GUESTS; i++) {
			while (ended[i] < sent[i] &&
			       side_take_within(&guests[i], &p.b, 20000, &cqe, NULL)) {
				CHECK_EQ(cqe.res, 8);
				saw(cqe.old);
				ended[i]++;
				left--;
			}
		}
	}
	CHECK_EQ(pthread_join(thread, NULL), 0);
	CHECK_EQ(__atomic_load_n(&words[COUNTER], __ATOMIC_SEQ_CST), sizeof(seen));
	for (i = 0; i < sizeof(seen); i++)
		CHECK(seen[i]);
}

/* ---- a lock ---- */

enum step { TAKE_LOCK, READ_IT, WRITE_IT, LEAVE, STEPS };

static void begin_step(uint32_t i, enum step step)
{
	struct urccl_sqe *sqe = side_sqe(&guests[i]);

	if (step == TAKE_LOCK)
		urccl_prep_cmp_swap(sqe, remotes[i], LOCK * 8, 0, i + 1);
	else if (step == READ_IT)
		urccl_prep_read(sqe, remotes[i], &local[i], 8, GUARDED * 8);
	else if (step == WRITE_IT)
		urccl_prep_write(sqe, remotes[i], &local[i], 8, GUARDED * 8);
	else
		urccl_prep_cmp_swap(sqe, remotes[i], LOCK * 8, i + 1, 0);
	CHECK_EQ(urccl_submit(guests[i].ring), 1);
}

/* The step is over: the next one, unless it failed, as data may in the simulated network. */
static void end_step(uint32_t i, enum step *step, const struct urccl_cqe *cqe, uint32_t *rounds)
{
	int is_data = *step == READ_IT || *step == WRITE_IT;

	if (is_data && p.sim && cqe->res == -EIO)
		return;
	CHECK_EQ(cqe->res, 8);
	if (*step == TAKE_LOCK && cqe->old)
		return;
	if (*step == LEAVE)
		CHECK_EQ(cqe->old, i + 1);
	if (*step == READ_IT)
		local[i]++;
	*rounds += *step == LEAVE;
	*step = (*step + 1) % STEPS;
}

/* Counts up what the lock guards, step by step, all guests in turn. */
static void locked(void)
{
	enum step step[GUESTS] = {TAKE_LOCK, TAKE_LOCK, TAKE_LOCK, TAKE_LOCK};
	uint32_t rounds = 0, i;
	struct urccl_cqe cqe;

	while (rounds < LOCKED * GUESTS) {
		for (i = 0; i < GUESTS; i++)
			begin_step(i, step[i]);
		for (i = 0; i < GUESTS; i++) {
			cqe = next_end(i);
			end_step(i, &step[i], &cqe, &rounds);
		}
	}
	/* Those in the middle of a round finish it. */
	for (i = 0; i < GUESTS; i++) {
		while (step[i] != TAKE_LOCK) {
			begin_step(i, step[i]);
			cqe = next_end(i);
			end_step(i, &step[i], &cqe, &rounds);
		}
	}
	CHECK_EQ(__atomic_load_n(&words[GUARDED], __ATOMIC_SEQ_CST), rounds);
	CHECK_EQ(__atomic_load_n(&words[LOCK], __ATOMIC_SEQ_CST), 0);
}

int main(int argc, char **argv)
{
	uint32_t i;

	pair_options(&p, argc, argv);
	open_all();
	sums();
	locked();
	for (i = 0; i < GUESTS; i++)
		side_close(&guests[i]);
	side_close(&p.b);
	if (p.sim)
		CHECK_EQ(urccl_sim_close(p.sim), 0);
	return 0;
}
