/* SPDX-License-Identifier: Apache-2.0 */
/* Two contexts that dial each other at the same moment have one connection: each side knows the
 * other by one handle, however often it dialled, each CONNECT and PEER event is a reference, both
 * directions work, and the last CLOSE of one side ends it for both. */
#include "meet.h"

#define ROUNDS 25u
#define US     20000000u

struct end {
	struct side *side, *other;
	uint8_t blob[URCCL_METADATA_MAX];
	uint32_t blob_len;
	uint32_t handle, refs, ends;
};

static struct pair p;
static struct end ends[2];

static void take(struct end *e, uint64_t ns)
{
	struct urccl_cqe cqe;

	while (side_take_within(e->side, e->other, ns, &cqe, NULL)) {
		uint32_t kind = urccl_cqe_kind(&cqe);
		uint32_t handle = kind == URCCL_KIND_OP ? (uint32_t)cqe.handle : cqe.peer;

		CHECK_EQ(cqe.res, 0);
		CHECK(kind == URCCL_KIND_OP || kind == URCCL_KIND_PEER);
		CHECK(handle && (!e->handle || handle == e->handle));
		e->handle = handle;
		e->refs++;
		e->ends += kind == URCCL_KIND_OP;
	}
}

/* n CONNECTs of each side, mixed. */
static void dial(uint32_t n)
{
	uint64_t late = now_ns() + PAIR_LATE_NS;
	uint32_t i, k;

	for (i = 0; i < n; i++)
		for (k = 0; k < 2; k++)
			side_dial(ends[k].side, ends[!k].blob, ends[!k].blob_len, US, i);
	while (ends[0].ends < n || ends[1].ends < n) {
		CHECK(!is_late(late));
		take(&ends[0], 100000);
		take(&ends[1], 100000);
	}
}

static void talk(struct end *from, struct end *to, uint64_t tag)
{
	struct urccl_cqe cqe;

	CHECK_EQ(side_tell(from->side, to->side, from->handle, tag), 0);
	/* A PEER event may still be on its way, never after a note of that peer. */
	for (;;) {
		side_take(to->side, from->side, &cqe, NULL);
		if (urccl_cqe_kind(&cqe) == URCCL_KIND_NOTE)
			break;
		CHECK_EQ(urccl_cqe_kind(&cqe), URCCL_KIND_PEER);
		CHECK_EQ(cqe.peer, to->handle);
		to->refs++;
	}
	CHECK_EQ(cqe.peer, to->handle);
	CHECK_EQ(cqe.tag, tag);
}

/* The last reference: the side that closes hears of the end too, before its CLOSE ends. */
static void drop_last(struct end *e)
{
	struct urccl_sqe *sqe = side_sqe(e->side);
	struct urccl_cqe cqe;

	urccl_prep_close(sqe, (struct urccl_peer){e->handle});
	CHECK_EQ(urccl_submit(e->side->ring), 1);
	cqe = side_event(e->side, e->other, URCCL_KIND_LOST, NULL);
	CHECK_EQ(cqe.res, 0);
	CHECK_EQ(cqe.peer, e->handle);
	CHECK_EQ(side_end(e->side, e->other, 0).res, 0);
}

static void part(struct end *first, struct end *second)
{
	struct urccl_cqe cqe;

	while (--first->refs)
		CHECK_EQ(side_drop(first->side, second->side, first->handle), 0);
	talk(first, second, 3);
	drop_last(first);
	CHECK_EQ(side_tell(first->side, second->side, first->handle, 9), -ESTALE);
	CHECK_EQ(side_drop(first->side, second->side, first->handle), -ESTALE);
	cqe = side_event(second->side, first->side, URCCL_KIND_LOST, NULL);
	CHECK_EQ(cqe.res, 0);
	CHECK_EQ(cqe.peer, second->handle);
	CHECK_EQ(side_tell(second->side, first->side, second->handle, 9), -ECONNRESET);
	while (second->refs--)
		CHECK_EQ(side_drop(second->side, first->side, second->handle), 0);
	CHECK_EQ(side_drop(second->side, first->side, second->handle), -ESTALE);
}

static void begin(struct end *e, struct side *side, struct side *other)
{
	int len;

	e->side = side;
	e->other = other;
	side_open(&p, side);
	side_accept(side, 1);
	side_watch(side, (struct urccl_peer){0}, 2);
	len = urccl_metadata(side->ctx, e->blob, sizeof(e->blob));
	CHECK_GE(len, 1);
	e->blob_len = (uint32_t)len;
}

int main(int argc, char **argv)
{
	uint32_t i;

	pair_options(&p, argc, argv);
	pair_sim(&p);
	begin(&ends[0], &p.a, &p.b);
	begin(&ends[1], &p.b, &p.a);
	for (i = 0; i < ROUNDS; i++) {
		ends[0].handle = ends[0].refs = ends[0].ends = 0;
		ends[1].handle = ends[1].refs = ends[1].ends = 0;
		dial(1 + i % 3);
		talk(&ends[0], &ends[1], 1);
		talk(&ends[1], &ends[0], 2);
		CHECK(ends[0].refs > i % 3 && ends[1].refs > i % 3);
		part(&ends[i % 2], &ends[!(i % 2)]);
	}
	pair_close(&p);
	return 0;
}
