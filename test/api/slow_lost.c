/* SPDX-License-Identifier: Apache-2.0 */
/* The peer goes while a slow call waits for it: WARM says so, REVOKE and UNREGISTER have nobody
 * left to wait for, and IMPORT finds no peer. */
#include "meet.h"

#define LEN 65536u
#define RW  (URCCL_RIGHT_READ | URCCL_RIGHT_WRITE)

static struct pair p;
static struct target t;
static void *bytes;
static struct urccl_region region;

/* b has memory of a's mapped, where that can be. */
static void give(void)
{
	static uint8_t local[64];
	struct urccl_advert ad;
	struct urccl_remote remote;
	struct urccl_sqe *sqe;

	CHECK_EQ(urccl_alloc(p.a.ctx, LEN, &bytes), 0);
	region = side_register(&p.a, bytes, LEN, RW);
	side_register(&p.b, local, sizeof(local), 0);
	CHECK_EQ(urccl_advertise(p.a.ctx, region, 0, LEN, RW, 0, &ad), 0);
	CHECK_EQ(urccl_import(p.b.ctx, p.b.peer, &ad, 1, &remote), 0);
	sqe = side_sqe(&p.b);
	urccl_prep_write(sqe, remote, local, sizeof(local), 0);
	CHECK_EQ(pair_run(&p, &p.b, sqe).res, 64);
}

static void post(struct urccl_sqe *sqe, uint64_t user_data)
{
	urccl_sqe_set_data64(sqe, user_data);
	CHECK_EQ(urccl_submit(p.a.ring), 1);
}

static void post_all(void)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);

	urccl_prep_warm(sqe, p.a.peer);
	post(sqe, 1);
	sqe = side_sqe(&p.a);
	urccl_prep_revoke(sqe, region);
	post(sqe, 2);
	sqe = side_sqe(&p.a);
	urccl_prep_unregister(sqe, region);
	post(sqe, 3);
}

static void take_all(void)
{
	uint32_t seen = 0, lost = 0;
	struct urccl_cqe cqe;

	while (seen != 0xe || !lost) {
		side_take(&p.a, NULL, &cqe, NULL);
		if (cqe.user_data > 3) { /* WATCH */
			lost |= urccl_cqe_kind(&cqe) == URCCL_KIND_LOST;
			continue;
		}
		if (pair_is_outcome(&p, &cqe))
			continue;
		CHECK_EQ(cqe.flags & URCCL_CQE_MORE, 0);
		CHECK(!(seen & 1u << cqe.user_data));
		seen |= 1u << cqe.user_data;
		/* Its keys may come while it closes. */
		CHECK(!cqe.res || (cqe.user_data == 1 && cqe.res == -ECONNRESET));
	}
}

int main(int argc, char **argv)
{
	struct urccl_sqe *sqe;
	struct urccl_cqe cqe;

	pair_begin_idle(&p, argc, argv);
	give();
	target_open(&p, &t, LEN, 0);
	post_all();
	side_close(&p.b);
	take_all();
	CHECK_EQ(urccl_free(p.a.ctx, bytes), 0);
	sqe = side_sqe(&p.a);
	urccl_prep_import(sqe, p.a.peer, &t.advert, 1);
	urccl_sqe_set_data64(sqe, 4);
	CHECK_EQ(urccl_submit(p.a.ring), 1);
	do
		side_take(&p.a, NULL, &cqe, NULL);
	while (cqe.user_data != 4);
	CHECK_EQ(cqe.res, -ECONNRESET);
	check_sentence(&p.a, &cqe, "lost");
	side_close(&p.a);
	if (p.sim)
		CHECK_EQ(urccl_sim_close(p.sim), 0);
	return 0;
}
