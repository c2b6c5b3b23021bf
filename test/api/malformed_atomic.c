/* SPDX-License-Identifier: Apache-2.0 */
/* Atomics with what they do not use, and of 8 bytes that are not in the remote. */
#include "malformed.h"

static struct urccl_sqe *swap_entry(void)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);

	urccl_prep_cmp_swap(sqe, t.remote, 0, 1, 2);
	return sqe;
}

static void atomic(struct urccl_sqe *(*entry)(void))
{
	WRONG(entry(), sqe->region = region.id, -EINVAL, "field region");
	WRONG(entry(), sqe->tag = 1, -EINVAL, "field tag");
	WRONG(entry(), sqe->reserved = 1, -EINVAL, "field reserved");
	WRONG(entry(), sqe->dtype = URCCL_DTYPE_FP32, -EINVAL, "field dtype");
	WRONG(entry(), sqe->flags = URCCL_SQE_ACKED, -EINVAL, "flags");
	WRONG(entry(), sqe->flags = URCCL_SQE_NO_REPLAY, -EINVAL, "flags");
	WRONG(entry(), sqe->flags = URCCL_SQE_CHECKSUM, -EINVAL, "flags");
	WRONG(entry(), sqe->remote ^= 1u << 20, -ESTALE, "remote handle");
	WRONG(entry(), sqe->off = t.len - 7, -ERANGE, "8 bytes at offset 4089");
	WRONG(entry(), sqe->off = UINT64_MAX, -ERANGE, "remote");
	WRONG(entry(), sqe->off = 4, -EINVAL, "multiple of 8");
	WRONG(entry(), urccl_sqe_set_notify(p.a.ring, sqe, 1, local, 257), -E2BIG, "257");
	WRONG(entry(), urccl_sqe_ext(p.a.ring, sqe)->codec = 1, -EOPNOTSUPP, "second half");
}

void malformed_atomic(int argc, char **argv)
{
	malformed_begin(argc, argv);
	WRONG(add_entry(), sqe->swap = 1, -EINVAL, "field len");
	atomic(add_entry);
	atomic(swap_entry);
	malformed_end();
}
