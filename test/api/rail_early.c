/* SPDX-License-Identifier: Apache-2.0 */
/* A rail breaks while its peer is not taken yet, the one that was chosen or another: the peer comes
 * all the same, and both rails get their share. Where it is the chosen one, and only one side has
 * it yet, there is no path: then who dials again has both. */
#include "pair.h"

#define LEN   (1u << 20)
#define DEPTH 8u
#define SHARE 5000000000ull /* ns until both have it */

static const uint64_t waits[] = {0, 1000000, 5000000, 30000000, 300000000}; /* ns */
static uint8_t local[DEPTH * LEN];

static struct urccl_sqe *dial(struct pair *p)
{
	static uint8_t blob[URCCL_METADATA_MAX]; /* the library's until its end */
	int len = urccl_metadata(p->b.ctx, blob, sizeof(blob));
	struct urccl_sqe *sqe = side_sqe(&p->a);

	CHECK_GE(len, 1);
	urccl_prep_connect(sqe, blob, (uint32_t)len);
	CHECK_EQ(urccl_submit(p->a.ring), 1);
	return sqe;
}

static void watch(struct side *s)
{
	urccl_prep_watch(side_sqe(s), s->peer);
	CHECK_EQ(urccl_submit(s->ring), 1);
}

/* 1: the last entries went by both rails. */
static int shares(struct pair *p, const struct target *t)
{
	uint32_t i, both = 0;
	struct urccl_cqe cqe;

	for (i = 0; i < DEPTH; i++) {
		uint64_t off = (uint64_t)i * LEN;

		urccl_prep_write(side_sqe(&p->a), t->remote, local + off, LEN, off);
	}
	CHECK_EQ(urccl_submit(p->a.ring), DEPTH);
	for (i = 0; i < DEPTH; i++) {
		side_take(&p->a, &p->b, &cqe, NULL);
		CHECK_EQ(cqe.res, LEN);
		both += (cqe.path >> URCCL_PATH_RAILS_SHIFT & 0xff) == 3;
	}
	return both >= DEPTH / 2;
}

static void one(struct pair *p, uint32_t rail, uint64_t wait)
{
	uint64_t late;
	struct urccl_cqe cqe;
	struct target t;

	pair_sim(p);
	side_open(p, &p->a);
	side_open(p, &p->b);
	dial(p);
	CHECK(!side_take_within(&p->a, &p->b, wait, &cqe, NULL));
	pair_pull(p, rail, 1);
	pair_pull(p, rail, 0);
	/* Both sides hear of it before the peer is taken. */
	if (side_take_within(&p->a, &p->b, 5000000, &cqe, NULL)) {
		CHECK_EQ(cqe.res, -EHOSTUNREACH);
		dial(p);
	}
	urccl_prep_accept(side_sqe(&p->b));
	CHECK_EQ(urccl_submit(p->b.ring), 1);
	side_take(&p->a, &p->b, &cqe, NULL);
	if (cqe.res == -EHOSTUNREACH) {
		dial(p);
		side_take(&p->a, &p->b, &cqe, NULL);
	}
	CHECK_EQ(cqe.res, 0);
	p->a.peer.id = (uint32_t)cqe.handle;
	side_take(&p->b, &p->a, &cqe, NULL);
	CHECK_EQ(urccl_cqe_kind(&cqe), URCCL_KIND_PEER);
	p->b.peer.id = cqe.peer;
	watch(&p->a);
	watch(&p->b);
	target_open(p, &t, sizeof(local), 0);
	side_register(&p->a, local, sizeof(local), 0);
	for (late = now_ns() + SHARE; !shares(p, &t);)
		CHECK(!is_late(late));
	target_close(p, &t);
	pair_close(p);
}

int main(int argc, char **argv)
{
	uint32_t i;

	for (i = 0; i < 2 * sizeof(waits) / sizeof(waits[0]); i++) {
		struct pair p;

		pair_options(&p, argc, argv);
		p.faults = "rails=2,rate=50m,delay=1us..20us";
		one(&p, i & 1, waits[i / 2]);
	}
	return 0;
}
