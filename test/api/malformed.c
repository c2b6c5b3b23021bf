/* SPDX-License-Identifier: Apache-2.0 */
/* Fields and flags of an entry that have values which they cannot have, there or at all. */
#include "malformed.h"

static void fields(void)
{
	WRONG(nop_entry(), sqe->opcode = 200, -EINVAL, "opcode 200");
	WRONG(nop_entry(), sqe->opcode = URCCL_OP_LAST, -EINVAL, "opcode");
	WRONG(nop_entry(), sqe->addr = 1, -EINVAL, "field addr");
	WRONG(nop_entry(), sqe->group = 1, -EINVAL, "field group");
	WRONG(nop_entry(), sqe->reserved = 1, -EINVAL, "field reserved");
	WRONG(nop_entry(), sqe->flags = URCCL_SQE_FENCE, -EINVAL, "FENCE");
	WRONG(nop_entry(), sqe->flags = URCCL_SQE_NOTIFY | URCCL_SQE_EXT, -EINVAL,
	      "flags URCCL_SQE_NOTIFY, URCCL_SQE_EXT mean nothing on nop");
	WRONG(write_entry(), sqe->reserved = 5, -EINVAL, "field reserved");
	WRONG(write_entry(), sqe->tag = 5, -EINVAL, "field tag");
	WRONG(write_entry(), sqe->dtype = URCCL_DTYPE_BF16, -EOPNOTSUPP, "dtype");
	WRONG(write_entry(), sqe->flags = 1 << 11, -EOPNOTSUPP, "flags bit 11");
	WRONG(write_entry(), sqe->flags = 3 << URCCL_SQE_CLASS_SHIFT, -EOPNOTSUPP, "class 3");
	WRONG(write_entry(), urccl_sqe_ext(p.a.ring, sqe)->codec = 1, -EOPNOTSUPP,
	      "field codec of the second half");
	WRONG(write_entry(), urccl_sqe_ext(p.a.ring, sqe)->reserved1 = 1, -EINVAL,
	      "field reserved1 of");
	WRONG(write_entry(), urccl_sqe_set_notify(p.a.ring, sqe, 1, local, 257), -E2BIG, "257");
	WRONG(write_entry(), urccl_sqe_set_notify(p.a.ring, sqe, 1, NULL, 1), -EINVAL,
	      "no address");
	WRONG(nop_entry(), urccl_prep_notify(sqe, p.a.peer, 1, local, 300), -E2BIG, "300");
	WRONG(nop_entry(), urccl_prep_cancel(sqe, (enum urccl_cancel_by)9, 0), -EINVAL, "kind 9");
	WRONG(nop_entry(), urccl_prep_cancel(sqe, URCCL_CANCEL_BY_ALL, 1), -EINVAL, "key");
	WRONG(nop_entry(), urccl_prep_cancel(sqe, URCCL_CANCEL_BY_GROUP, 0), -EINVAL, "a group");
	WRONG(nop_entry(), urccl_prep_cancel(sqe, URCCL_CANCEL_BY_GROUP, 1ull << 32), -EINVAL,
	      "key 4294967296");
	WRONG(nop_entry(), urccl_prep_timeout(sqe, 1, 0, 2), -EINVAL, "flags 0x2");
	WRONG(nop_entry(), urccl_prep_timeout(sqe, 1, 0, 0);
	      sqe->deadline_us = 1, -EINVAL, "field deadline_us");
}

int main(int argc, char **argv)
{
	malformed_begin(argc, argv);
	fields();
	malformed_end();
	malformed_atomic(argc, argv);
	malformed_handle(argc, argv);
	malformed_msg_ring(argc, argv);
	malformed_paged(argc, argv);
	malformed_range(argc, argv);
	malformed_slow(argc, argv);
	malformed_vector(argc, argv);
	malformed_words(argc, argv);
	return 0;
}
