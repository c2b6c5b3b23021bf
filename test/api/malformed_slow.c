/* SPDX-License-Identifier: Apache-2.0 */
/* Slow calls with what they do not use, and without the CQE that brings their handle. */
#include "malformed.h"

static void slow_fields(void)
{
	struct urccl_range r = {.addr = (uintptr_t)local, .len = 64, .fd = -1};

	WRONG(nop_entry(), urccl_prep_register(sqe, &r, 1, 0);
	      sqe->peer = 1, -EINVAL, "field remote");
	WRONG(nop_entry(), urccl_prep_register(sqe, &r, 1, 0);
	      sqe->region = 1, -EINVAL, "field region");
	WRONG(nop_entry(), urccl_prep_register(sqe, &r, 1, 0); sqe->tag = 1, -EINVAL, "field tag");
	WRONG(nop_entry(), urccl_prep_register(sqe, &r, 1, 0);
	      sqe->rights = 1ull << 40, -EOPNOTSUPP, "rights");
	WRONG(nop_entry(), urccl_prep_register(sqe, &r, 1, 0);
	      sqe->len = 1ull << 32, -E2BIG, "limit");
	WRONG(nop_entry(), urccl_prep_register(sqe, &r, 1, 0);
	      sqe->flags = URCCL_SQE_FENCE, -EINVAL, "FENCE");
	WRONG(nop_entry(), urccl_prep_register(sqe, &r, 1, 0);
	      sqe->flags = URCCL_SQE_SKIP_SUCCESS, -EINVAL, "the handle that register gives");
	WRONG(nop_entry(), urccl_prep_import(sqe, p.a.peer, &t.advert, 1);
	      sqe->flags = URCCL_SQE_SKIP_SUCCESS, -EINVAL, "the handle that import gives");
	WRONG(nop_entry(), urccl_prep_connect(sqe, "127.0.0.1:1", 11);
	      sqe->flags = URCCL_SQE_SKIP_SUCCESS, -EINVAL, "the handle that connect gives");
	WRONG(nop_entry(), urccl_prep_connect(sqe, "127.0.0.1:1", 0), -EINVAL,
	      "no address to dial");
	WRONG(nop_entry(), urccl_prep_connect(sqe, NULL, 11), -EINVAL, "no address to dial");
	WRONG(nop_entry(), urccl_prep_unregister(sqe, region);
	      sqe->addr = 1, -EINVAL, "field addr");
	WRONG(nop_entry(), urccl_prep_revoke(sqe, region); sqe->off = 1, -EINVAL, "field off");
	WRONG(nop_entry(), urccl_prep_import(sqe, p.a.peer, &t.advert, 1);
	      sqe->off = 1, -EINVAL, "field off");
	WRONG(nop_entry(), urccl_prep_import(sqe, p.a.peer, &t.advert, 1);
	      sqe->len = 1ull << 32, -E2BIG, "limit");
	WRONG(nop_entry(), urccl_prep_warm(sqe, p.a.peer); sqe->len = 1, -EINVAL, "field len");
	WRONG(nop_entry(), urccl_prep_warm(sqe, p.a.peer);
	      sqe->flags = URCCL_SQE_NOTIFY, -EINVAL, "flags");
}

/* The chain that it would have started is broken before it began. */
static void linked(void)
{
	struct urccl_sqe *sqe = nop_entry();
	struct urccl_cqe cqe;

	urccl_prep_accept(sqe);
	urccl_sqe_add_flags(sqe, URCCL_SQE_LINK);
	cqe = pair_run(&p, &p.a, sqe);
	CHECK_EQ(cqe.res, -EINVAL);
	check_sentence(&p.a, &cqe, "chain");
	CHECK_EQ(pair_run(&p, &p.a, nop_entry()).res, -ECANCELED);
	CHECK_EQ(pair_run(&p, &p.a, nop_entry()).res, 0);
}

void malformed_slow(int argc, char **argv)
{
	malformed_begin(argc, argv);
	slow_fields();
	linked();
	malformed_end();
}
