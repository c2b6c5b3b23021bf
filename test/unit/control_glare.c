/* SPDX-License-Identifier: Apache-2.0 */
/* Two contexts dial each other at the same time, by metadata or by address, with or without an
 * ACCEPT: both CONNECTs succeed, there is one connection, and no PEER event for it. */
#include "control_rig.h"

enum { BY_BLOB = 0, BY_TEXT = 1 };

static void dial(struct side *from, struct side *to, int how)
{
	if (how == BY_TEXT)
		side_connect(from, to->text, (uint32_t)strlen(to->text), 0, 7);
	else
		side_connect(from, to->blob, to->blob_len, 0, 7);
}

static uint32_t connected(struct side *s, uint64_t incarnation)
{
	struct urccl_peer_info info = {.size = sizeof(info)};
	struct urccl_cqe cqe = side_next(s);

	CHECK_EQ(cqe.user_data, 7);
	CHECK_EQ(cqe.res, 0);
	CHECK_EQ(urccl_peer_info(s->ctx, (struct urccl_peer){(uint32_t)cqe.handle}, &info), 0);
	CHECK_EQ(info.incarnation, incarnation);
	return (uint32_t)cqe.handle;
}

/* A third CONNECT gives the same handle: there is no second connection. */
static void once_more(struct side *from, struct side *to, uint32_t handle)
{
	dial(from, to, BY_TEXT);
	CHECK_EQ(connected(from, to->incarnation), handle);
}

/* Each side has two references, and none by a PEER event. */
static void hang_up(struct side *s, uint32_t handle)
{
	side_hang_up(s, handle, 8);
	CHECK_EQ(side_end_of(s, 8), 0);
	side_hang_up(s, handle, 8);
	CHECK_EQ(side_end_of(s, 8), 0);
	side_hang_up(s, handle, 8);
	CHECK_EQ(side_end_of(s, 8), -ESTALE);
}

static void meet(struct side *a, struct side *b, int how_a, int how_b)
{
	uint32_t ab, ba;

	dial(a, b, how_a);
	dial(b, a, how_b);
	ab = connected(a, b->incarnation);
	ba = connected(b, a->incarnation);
	once_more(a, b, ab);
	once_more(b, a, ba);
	hang_up(a, ab);
	hang_up(b, ba);
}

int main(void)
{
	struct urccl_params p = rig_params();
	struct side a, b;
	int round;

	side_open(&a, &p);
	side_open(&b, &p);
	for (round = 0; round < 40; round++) {
		meet(&a, &b, BY_BLOB, BY_BLOB);
		meet(&a, &b, BY_TEXT, BY_TEXT);
		meet(&a, &b, BY_BLOB, BY_TEXT);
		meet(&b, &a, BY_BLOB, BY_TEXT);
		if (round == 20) {
			side_accept(&a, 1);
			side_accept(&b, 1);
		}
	}
	side_close(&a);
	side_close(&b);
	return 0;
}
