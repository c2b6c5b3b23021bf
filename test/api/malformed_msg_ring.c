/* SPDX-License-Identifier: Apache-2.0 */
/* Messages to rings that are not there, and with what they do not use. */
#include "malformed.h"

static struct urccl_sqe *msg_entry(void)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);

	urccl_prep_msg_ring(sqe, urccl_ring_id(p.a.ring), 1, 1, 1);
	return sqe;
}

static void messages(void)
{
	WRONG(nop_entry(), urccl_prep_msg_ring(sqe, 0, 1, 1, 1), -ESTALE, "ring id 0");
	WRONG(nop_entry(), urccl_prep_msg_ring(sqe, urccl_ring_id(p.a.ring) + 99, 1, 1, 1), -ESTALE,
	      "no open ring");
	WRONG(msg_entry(), sqe->off = 1, -EINVAL, "field off");
	WRONG(msg_entry(), sqe->group = 1, -EINVAL, "field group");
	WRONG(msg_entry(), sqe->flags = URCCL_SQE_FENCE, -EINVAL, "FENCE");
	WRONG(msg_entry(), sqe->flags = URCCL_SQE_NOTIFY, -EINVAL, "flags");
	WRONG(msg_entry(), sqe->flags = URCCL_SQE_ACKED, -EINVAL, "flags");
	WRONG(msg_entry(), sqe->region = region.id, -EINVAL, "field region");
	WRONG(msg_entry(), sqe->reserved = 1, -EINVAL, "field reserved");
	WRONG(msg_entry(), sqe->dtype = URCCL_DTYPE_FP32, -EINVAL, "field dtype");
}

void malformed_msg_ring(int argc, char **argv)
{
	malformed_begin(argc, argv);
	messages();
	malformed_end();
}
