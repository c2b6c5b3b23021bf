/* SPDX-License-Identifier: Apache-2.0 */
/* What the owner has refused for good it is not asked for again: entries on a forged advert end
 * with -EACCES also while its process is stopped. */
#include "faults.h"

#define LONG_US 3000000u

static struct pair p;
static struct peer peer;
static uint8_t local[64];

static int64_t writes(struct urccl_remote remote)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);

	urccl_prep_write(sqe, remote, local, sizeof(local), 0);
	urccl_sqe_set_deadline_us(sqe, LONG_US);
	urccl_sqe_set_data64(sqe, 2);
	return pair_run(&p, &p.a, sqe).res;
}

int main(int argc, char **argv)
{
	struct settings s = {.transport = "tcp", .dead_after_ms = 60000};
	struct urccl_remote good, forged;
	struct urccl_peer handle;
	struct urccl_cqe cqe;

	peer_main(argc, argv);
	p.params.size = sizeof(p.params);
	urccl_params_init(&p.params);
	p.params.transport = "tcp";
	p.params.dead_after_ms = 60000;
	p.ring_params.size = sizeof(p.ring_params);
	side_open(&p, &p.a);
	side_register(&p.a, local, sizeof(local), 0);
	place_v4(s.listen, free_port());
	peer_start(&peer, &s);
	cqe = side_dialled(&p.a, NULL, peer.blob, peer.blob_len, 20000000);
	CHECK_EQ(cqe.res, 0);
	handle.id = (uint32_t)cqe.handle;
	CHECK_EQ(urccl_import(p.a.ctx, handle, &peer.advert, 1, &good), 0);
	peer.advert.token[15] ^= 1;
	CHECK_EQ(urccl_import(p.a.ctx, handle, &peer.advert, 1, &forged), 0);

	CHECK_EQ(writes(good), (int64_t)sizeof(local));
	CHECK_EQ(writes(forged), -EACCES);
	peer_stop(&peer);
	CHECK_EQ(writes(forged), -EACCES);
	CHECK_EQ(writes(good), -ETIMEDOUT);
	peer_go_on(&peer);
	CHECK_EQ(writes(good), (int64_t)sizeof(local));
	side_close(&p.a);
	peer_end(&peer);
	return 0;
}
