/* SPDX-License-Identifier: Apache-2.0 */
/* A peer is closed while writes are on their way to it, and opened anew in its place on the
 * network, with the same memory: of those writes no byte comes to the new one. By the simulated
 * clock. */
#include "meet.h"

#define LEN	65536u
#define WRITES	16u
#define WAIT_NS 1000000000ull /* of simulated time: more than any packet takes */

static struct pair p;
static struct target t;
static uint8_t local[LEN], memory[LEN];

static void open_b(void)
{
	const uint32_t rights = URCCL_RIGHT_READ | URCCL_RIGHT_WRITE;

	side_open(&p, &p.b);
	side_accept(&p.b, 1);
	side_connect(&p.a, &p.b);
	t.region = side_register(&p.b, memory, LEN, rights);
	CHECK_EQ(urccl_advertise(p.b.ctx, t.region, 0, LEN, rights, 0, &t.advert), 0);
	CHECK_EQ(urccl_import(p.a.ctx, p.a.peer, &t.advert, 1, &t.remote), 0);
	side_warm(&p.a, 0, 2);
	CHECK_EQ(pair_end(&p, &p.a, 2).res, 0);
}

static void enter_writes(void)
{
	uint32_t i;

	for (i = 0; i < WRITES; i++) {
		struct urccl_sqe *sqe = side_sqe(&p.a);

		urccl_prep_write(sqe, t.remote, local, LEN, 0);
		sqe->user_data = 3;
	}
	CHECK_EQ(urccl_submit(p.a.ring), WRITES);
	for (i = 0; i < 4; i++) /* they are on their way now, and take their time */
		side_turn(&p.a);
}

static void end_writes(void)
{
	struct urccl_cqe cqe;
	uint32_t left = WRITES;

	while (left) {
		side_take(&p.a, NULL, &cqe, NULL);
		CHECK_EQ(cqe.user_data, 3);
		CHECK_EQ(cqe.res, -ECONNRESET);
		left -= !(cqe.flags & URCCL_CQE_MORE);
	}
}

static void wait_long(void)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);

	urccl_prep_timeout(sqe, WAIT_NS, 0, 0);
	sqe->user_data = 4;
	CHECK_EQ(pair_run(&p, &p.a, sqe).res, -ETIME);
}

int main(int argc, char **argv)
{
	uint32_t i;

	pair_options(&p, argc, argv);
	p.params.flags |= URCCL_OPEN_INLINE;
	p.faults = "clock=simulated,delay=100ms";
	pair_sim(&p);
	side_open(&p, &p.a);
	memset(local, 0x99, LEN);
	side_register(&p.a, local, LEN, 0);
	open_b();
	enter_writes();
	side_close(&p.b);
	end_writes();
	open_b();
	wait_long();
	for (i = 0; i < LEN; i++)
		CHECK_EQ(memory[i], 0);
	pair_close(&p);
	return 0;
}
