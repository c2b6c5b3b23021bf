/* SPDX-License-Identifier: Apache-2.0 */
/* max_peers: the next dialler is told that the peer is full, dialling on is refused here, and both
 * work again once somebody has gone. Two that dial each other count once. */
#include "control_rig.h"

/* Where the other's dial came first a PEER event did too: that is another reference. */
struct end {
	uint32_t peer, refs;
};

static void met(struct side *s, struct end *e)
{
	struct urccl_cqe cqe;

	e->refs = 0;
	do {
		cqe = side_next(s);
		CHECK_EQ(cqe.res, 0);
		e->peer = (uint32_t)cqe.handle;
		e->refs++;
	} while (cqe.user_data != 4);
}

static void part(struct side *s, const struct end *e)
{
	uint32_t i;

	for (i = 0; i < e->refs; i++) {
		side_hang_up(s, e->peer, 5);
		CHECK_EQ(side_end_of(s, 5), 0);
	}
}

int case_control_full(void)
{
	struct urccl_params p = rig_params();
	struct side server, a, b;
	struct urccl_cqe event;
	struct end ends[2];
	uint32_t peer;
	int round;

	side_open(&a, &p);
	side_open(&b, &p);
	p.max_peers = 1;
	side_open(&server, &p);
	side_accept(&a, 2);
	side_accept(&b, 2);
	side_accept(&server, 2);

	peer = side_connected(&a, &server, 0);
	event = side_next(&server);
	side_cannot_connect(&b, server.blob, server.blob_len, -EMFILE, "full");
	side_cannot_connect(&server, b.blob, b.blob_len, -EMFILE, "max_peers (1)");
	/* One that is connected may be dialled all the same. */
	CHECK_EQ(side_connected(&server, &a, 0), event.peer);
	side_hang_up(&server, event.peer, 3);
	CHECK_EQ(side_end_of(&server, 3), 0);
	side_hang_up(&server, event.peer, 3);
	CHECK_EQ(side_end_of(&server, 3), 0);
	side_hang_up(&a, peer, 3);
	CHECK_EQ(side_end_of(&a, 3), 0);

	for (round = 0; round < 10; round++) {
		side_connect(&b, server.blob, server.blob_len, 0, 4);
		side_connect(&server, b.blob, b.blob_len, 0, 4);
		met(&b, &ends[0]);
		met(&server, &ends[1]);
		part(&b, &ends[0]);
		part(&server, &ends[1]);
	}
	side_close(&a);
	side_close(&b);
	side_close(&server);
	return 0;
}
