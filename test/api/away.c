/* SPDX-License-Identifier: Apache-2.0 */
/* A program that drives its context itself and is away for longer than the peer's word is waited
 * for: the word is there when it is back, behind much else, and counts. */
#include <time.h>
#include "meet.h"

#define LEN    (64ull << 20)
#define ROUNDS 20u
#define TRIES  10u
#define SOON   500000u /* ns that this thread may have waited for a processor in a round */

enum { MOVED, PROVED, UNPROVED, BUSY, OUTCOMES };

static struct pair p;
static struct target t;
static uint8_t *local;

static void nap(uint64_t ns)
{
	struct timespec ts = {0, (long)ns};

	nanosleep(&ts, NULL);
}

/* Its engine has been round since. */
static void b_looked(void)
{
	struct urccl_cqe cqe;
	int i;

	for (i = 0; i < 2; i++) {
		urccl_prep_nop(side_sqe(&p.b));
		CHECK_EQ(urccl_submit(p.b.ring), 1);
		side_take(&p.b, NULL, &cqe, NULL);
		CHECK_EQ(cqe.res, 0);
	}
}

/* PROVED: it was stopped, and nothing more of it lands; UNPROVED: nobody knows; BUSY: likewise, and
 * this thread had no processor when it was to look. */
static int how_it_ends(void)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);
	uint64_t waited = thread_waited_ns(), start = now_ns();
	struct urccl_cqe cqe;

	urccl_prep_write(sqe, t.remote, local, LEN, 0);
	urccl_sqe_set_deadline_us(sqe, 2000);
	CHECK_EQ(urccl_submit(p.a.ring), 1);
	while (now_ns() - start < 3000000)
		__urccl_ring_drive(p.a.ring);
	waited = thread_waited_ns() - waited;
	nap(60000000);
	b_looked();
	waited -= thread_waited_ns();
	do
		side_take(&p.a, NULL, &cqe, NULL);
	while (cqe.flags & URCCL_CQE_MORE);
	waited += thread_waited_ns();
	if (cqe.res >= 0)
		return MOVED;
	CHECK_EQ(cqe.res, -ETIMEDOUT);
	if (cqe.flags & URCCL_CQE_REMOTE_QUIET)
		return PROVED;
	return waited < SOON ? UNPROVED : BUSY;
}

/* Of what was stopped, and much was. */
static int all_proved(void)
{
	uint32_t n[OUTCOMES] = {0}, i;

	for (i = 0; i < ROUNDS; i++)
		n[how_it_ends()]++;
	printf("%u stopped with the peer's word, %u without, and %u more where this thread waited; "
	       "%u moved\n",
	       n[PROVED], n[UNPROVED], n[BUSY], n[MOVED]);
	return n[UNPROVED] <= ROUNDS / 10 && n[PROVED] >= ROUNDS / 2;
}

int main(int argc, char **argv)
{
	uint32_t tries, flags;

	pair_options(&p, argc, argv);
	flags = p.params.flags;
	if (!(flags & URCCL_OPEN_INLINE))
		SKIP("a progress thread is not away when its program is");
	pair_sim(&p);
	p.params.flags = 0;
	side_open(&p, &p.b);
	p.params.flags = flags;
	pair_open(&p);
	local = malloc(LEN);
	CHECK(local);
	memset(local, 1, LEN);
	side_register(&p.a, local, LEN, 0);
	target_open(&p, &t, LEN, 0);
	urccl_prep_write(side_sqe(&p.a), t.remote, local, 1, 0);
	CHECK_EQ(urccl_submit(p.a.ring), 1);
	CHECK_EQ(pair_end(&p, &p.a, 0).res, 1);
	for (tries = 1; !all_proved(); tries++)
		CHECK(tries < TRIES);
	side_close(&p.a);
	side_close(&p.b);
	if (p.sim)
		CHECK_EQ(urccl_sim_close(p.sim), 0);
	free(local);
	return 0;
}
