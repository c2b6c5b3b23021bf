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

/* The end of an entry. Where the other's dial was through before ours began there is a PEER event
 * before it, and that is one more reference. */
static struct urccl_cqe ended(struct side *s, uint64_t data, uint32_t *told)
{
	struct urccl_cqe cqe = side_next(s);

	for (; urccl_cqe_kind(&cqe) == URCCL_KIND_PEER; cqe = side_next(s))
		++*told;
	CHECK_EQ(cqe.user_data, data);
	return cqe;
}

static uint32_t connected(struct side *s, uint64_t incarnation, uint32_t *told)
{
	struct urccl_peer_info info = {.size = sizeof(info)};
	struct urccl_cqe cqe = ended(s, 7, told);

	CHECK_EQ(cqe.res, 0);
	CHECK_EQ(urccl_get_peer_info(s->ctx, (struct urccl_peer){(uint32_t)cqe.handle}, &info), 0);
	CHECK_EQ(info.incarnation, incarnation);
	return (uint32_t)cqe.handle;
}

/* A third CONNECT gives the same handle: there is no second connection. */
static void once_more(struct side *from, struct side *to, uint32_t handle, uint32_t *told)
{
	dial(from, to, BY_TEXT);
	CHECK_EQ(connected(from, to->incarnation, told), handle);
}

/* Each side has two references, and those of PEER events. */
static void hang_up(struct side *s, uint32_t handle, uint32_t *told)
{
	uint32_t n;

	for (n = 0; n < 2 + *told; n++) {
		side_hang_up(s, handle, 8);
		CHECK_EQ(ended(s, 8, told).res, 0);
	}
	side_hang_up(s, handle, 8);
	CHECK_EQ(ended(s, 8, told).res, -ESTALE);
}

/* 1: they dialled at the same time indeed, and nobody was told of a peer. */
static int meet(struct side *a, struct side *b, int how_a, int how_b)
{
	uint32_t ab, ba, told_a = 0, told_b = 0;

	dial(a, b, how_a);
	dial(b, a, how_b);
	ab = connected(a, b->incarnation, &told_a);
	ba = connected(b, a->incarnation, &told_b);
	once_more(a, b, ab, &told_a);
	once_more(b, a, ba, &told_b);
	hang_up(a, ab, &told_a);
	hang_up(b, ba, &told_b);
	return !told_a && !told_b;
}

int case_control_glare(void)
{
	struct urccl_params p = rig_params();
	struct side a, b;
	int round, at_once = 0;

	side_open(&a, &p);
	side_open(&b, &p);
	for (round = 0; round < 40; round++) {
		at_once += meet(&a, &b, BY_BLOB, BY_BLOB);
		at_once += meet(&a, &b, BY_TEXT, BY_TEXT);
		at_once += meet(&a, &b, BY_BLOB, BY_TEXT);
		at_once += meet(&b, &a, BY_BLOB, BY_TEXT);
		if (round == 20) {
			CHECK_EQ(at_once, 4 * 21);
			side_accept(&a, 1);
			side_accept(&b, 1);
		}
	}
	CHECK_GE(at_once, 4 * 21 + 4 * 19 / 2);
	side_close(&a);
	side_close(&b);
	return 0;
}
