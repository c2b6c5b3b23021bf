/* SPDX-License-Identifier: Apache-2.0 */
/* Several CONNECTs at once make one handshake and one peer; each is a reference, and the last CLOSE
 * ends it: the other side sees an end in order, the handle is stale. */
#include "control_rig.h"

#define TIMES 16

static uint32_t all_at_once(struct side *a, struct side *b)
{
	struct urccl_cqe cqe;
	uint32_t peer = 0;
	int i;

	for (i = 0; i < TIMES; i++)
		if (i % 2)
			side_connect(a, b->blob, b->blob_len, 0, 1);
		else
			side_connect(a, b->text, (uint32_t)strlen(b->text), 0, 1);
	for (i = 0; i < TIMES; i++) {
		cqe = side_next(a);
		CHECK_EQ(cqe.user_data, 1);
		CHECK_EQ(cqe.res, 0);
		CHECK(!peer || peer == cqe.handle);
		peer = (uint32_t)cqe.handle;
	}
	return peer;
}

static void watch_all(struct side *s)
{
	struct urccl_sqe *sqe = urccl_get_sqe(s->ring);

	urccl_prep_watch(sqe, (struct urccl_peer){0});
	urccl_sqe_set_data64(sqe, 5);
	CHECK_EQ(urccl_submit(s->ring), 1);
}

static void told_once(struct side *b, uint32_t *peer)
{
	struct urccl_cqe cqe = side_next(b);

	CHECK_EQ(cqe.user_data, 2);
	CHECK_EQ(urccl_cqe_kind(&cqe), URCCL_KIND_PEER);
	*peer = cqe.peer;
}

static void ends_in_order(struct side *b, uint32_t peer)
{
	struct urccl_peer_info info = {.size = sizeof(info)};
	struct urccl_cqe cqe = side_next(b);

	CHECK_EQ(cqe.user_data, 5);
	CHECK_EQ(urccl_cqe_kind(&cqe), URCCL_KIND_LOST);
	CHECK_EQ(cqe.peer, peer);
	CHECK_EQ(cqe.res, 0);
	CHECK_EQ(urccl_get_peer_info(b->ctx, (struct urccl_peer){peer}, &info), 0);
	CHECK_EQ(info.state, URCCL_PEER_LOST);
	side_hang_up(b, peer, 6);
	CHECK_EQ(side_end_of(b, 6), 0);
	CHECK_EQ(urccl_get_peer_info(b->ctx, (struct urccl_peer){peer}, &info), -ESTALE);
}

int case_control_refs(void)
{
	struct urccl_params p = rig_params();
	struct side a, b;
	uint32_t peer, other;
	int round, i;

	side_open(&a, &p);
	side_open(&b, &p);
	side_accept(&b, 2);
	watch_all(&b);
	for (round = 0; round < 10; round++) {
		peer = all_at_once(&a, &b);
		told_once(&b, &other);
		for (i = 0; i < TIMES; i++) {
			side_hang_up(&a, peer, 3);
			CHECK_EQ(side_end_of(&a, 3), 0);
		}
		side_hang_up(&a, peer, 3);
		CHECK_EQ(side_end_of(&a, 3), -ESTALE);
		ends_in_order(&b, other);
	}
	side_close(&a);
	side_close(&b);
	return 0;
}
