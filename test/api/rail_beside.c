/* SPDX-License-Identifier: Apache-2.0 */
/* Two contexts have several transports, whose rails have numbers of their own: what becomes of
 * those that are not used is nothing to those that are. */
#include "pair.h"

#define LEN    (1u << 20)
#define N      8u
#define ROUNDS 6u

static uint8_t local[N * LEN];

/* Path bits of all. */
static uint32_t move(struct pair *p, const struct target *t)
{
	uint32_t i, path = 0;
	struct urccl_cqe cqe;

	for (i = 0; i < N; i++) {
		uint64_t off = (uint64_t)i * LEN;

		urccl_prep_write(side_sqe(&p->a), t->remote, local + off, LEN, off);
	}
	CHECK_EQ(urccl_submit(p->a.ring), N);
	for (i = 0; i < N; i++) {
		side_take(&p->a, &p->b, &cqe, NULL);
		CHECK_EQ(cqe.res, LEN);
		CHECK_EQ(cqe.path & URCCL_PATH_TRANSPORT, URCCL_TRANSPORT_SIM);
		path |= cqe.path;
	}
	return path;
}

static void one(struct pair *p)
{
	struct target t;
	uint32_t i;

	pair_open(p);
	target_open(p, &t, sizeof(local), 0);
	side_register(&p->a, local, sizeof(local), 0);
	for (i = 0; i < 3; i++)
		CHECK(!(move(p, &t) & URCCL_PATH_REPLAYED));
	CHECK(!p->a.rails_down && !p->b.rails_down);
	pair_pull(p, 0, 1);
	pair_rails(p, 1);
	move(p, &t);
	pair_pull(p, 0, 0);
	pair_rails(p, 0);
	move(p, &t);
	target_close(p, &t);
	pair_close(p);
}

int main(int argc, char **argv)
{
	uint32_t i;

	for (i = 0; i < ROUNDS; i++) {
		struct pair p;

		pair_options(&p, argc, argv);
		p.params.transport = i & 1 ? "sim,tcp" : "sim,shm,tcp";
		p.faults = "rails=2,delay=1us..20us";
		one(&p);
	}
	return 0;
}
