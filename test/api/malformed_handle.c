/* SPDX-License-Identifier: Apache-2.0 */
/* Handles of nothing. */
#include "malformed.h"

static void handles(void)
{
	WRONG(write_entry(), sqe->remote = 0, -EINVAL, "a remote's handle is wanted");
	WRONG(write_entry(), sqe->remote ^= 1u << 20, -ESTALE, "remote handle");
	WRONG(write_entry(), sqe->remote ^= 7, -ESTALE, "remote handle");
	WRONG(write_entry(), sqe->region = NO_REGION, -ESTALE, "region handle");
	WRONG(nop_entry(), urccl_prep_notify(sqe, (struct urccl_peer){0}, 1, NULL, 0), -EINVAL,
	      "a peer's handle is wanted");
	WRONG(nop_entry(),
	      urccl_prep_notify(sqe, (struct urccl_peer){p.a.peer.id ^ 1u << 29}, 1, NULL, 0),
	      -ESTALE, "peer handle");
	WRONG(nop_entry(), urccl_prep_close(sqe, (struct urccl_peer){NO_PEER}), -ESTALE,
	      "peer handle");
	WRONG(nop_entry(), urccl_prep_watch(sqe, (struct urccl_peer){NO_PEER}), -ESTALE,
	      "peer handle");
}

void malformed_handle(int argc, char **argv)
{
	malformed_begin(argc, argv);
	handles();
	malformed_end();
}
