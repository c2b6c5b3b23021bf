/* SPDX-License-Identifier: Apache-2.0 */
/* An owner that can give no key, its table of them being full, fails the entry; once it can again
 * the next entry on the same remote has one. */
#include "pair.h"

#define MANY 65536u
#define RW   (URCCL_RIGHT_READ | URCCL_RIGHT_WRITE)

static struct pair p;
static struct target t;
static uint8_t full[MANY], local[64];

static struct urccl_cqe writes(void)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);

	urccl_prep_write(sqe, t.remote, local, sizeof(local), 0);
	return pair_run(&p, &p.a, sqe);
}

/* A key for each byte. */
static struct urccl_region fill(void)
{
	struct urccl_advert *ads = calloc(MANY, sizeof(*ads));
	struct urccl_region region = side_register(&p.b, full, MANY, RW);
	struct urccl_remote remote;
	struct urccl_sqe *sqe = side_sqe(&p.a);
	uint32_t i;

	CHECK(ads);
	for (i = 0; i < MANY; i++)
		CHECK_EQ(urccl_advertise(p.b.ctx, region, i, 1, RW, 0, &ads[i]), 0);
	CHECK_EQ(urccl_import(p.a.ctx, p.a.peer, ads, MANY, &remote), 0);
	free(ads);
	urccl_prep_warm(sqe, p.a.peer);
	urccl_sqe_set_deadline_us(sqe, 300000000);
	CHECK_EQ(pair_run(&p, &p.a, sqe).res, 0);
	return region;
}

int main(int argc, char **argv)
{
	struct urccl_region region;
	struct urccl_sqe *sqe;
	struct urccl_cqe cqe;

	pair_begin(&p, argc, argv);
	side_register(&p.a, local, sizeof(local), 0);
	region = fill();
	target_open(&p, &t, 4096, 0);
	cqe = writes();
	CHECK_EQ(cqe.res, -EREMOTEIO);
	check_sentence(&p.a, &cqe, "could not give keys");
	sqe = side_sqe(&p.b);
	urccl_prep_revoke(sqe, region);
	CHECK_EQ(pair_run(&p, &p.b, sqe).res, 0);
	CHECK_EQ(writes().res, 64);
	pair_close(&p);
	return 0;
}
