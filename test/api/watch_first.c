/* SPDX-License-Identifier: Apache-2.0 */
/* A program that watches everybody before it dials: the first notification of the peer, sent the
 * moment that one has the connection, comes after CONNECT's end, and memory of the peer can be
 * imported by then. */
#include "meet.h"

#define ROUNDS 100u
#define US     10000000u

static struct pair p;
static struct target t;

/* b says something as soon as it knows of a; its handle of a. */
static uint32_t answer(void)
{
	struct urccl_cqe cqe = side_event(&p.b, &p.a, URCCL_KIND_PEER, NULL);
	struct urccl_sqe *sqe = side_sqe(&p.b);

	urccl_prep_notify(sqe, (struct urccl_peer){cqe.peer}, 5, NULL, 0);
	urccl_sqe_set_data64(sqe, 5);
	CHECK_EQ(urccl_submit(p.b.ring), 1);
	return cqe.peer;
}

/* Its watcher hears of the end, too. */
static void leave(uint32_t peer)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);
	struct urccl_cqe cqe;
	uint32_t ends = 0, lost = 0;

	urccl_prep_close(sqe, (struct urccl_peer){peer});
	CHECK_EQ(urccl_submit(p.a.ring), 1);
	while (!ends || !lost) {
		side_take(&p.a, &p.b, &cqe, NULL);
		ends += urccl_cqe_kind(&cqe) == URCCL_KIND_OP;
		lost += urccl_cqe_kind(&cqe) == URCCL_KIND_LOST;
		CHECK_EQ(cqe.res, 0);
	}
}

static void visit(const void *blob, uint32_t len)
{
	struct urccl_remote remote;
	struct urccl_cqe cqe;
	uint32_t a, b;

	side_dial(&p.a, blob, len, US, 9);
	b = answer();
	cqe = side_end(&p.a, &p.b, 9);
	CHECK_EQ(cqe.res, 0);
	a = (uint32_t)cqe.handle;
	cqe = side_event(&p.a, &p.b, URCCL_KIND_NOTE, NULL);
	CHECK_EQ(cqe.peer, a);
	CHECK_EQ(urccl_import(p.a.ctx, (struct urccl_peer){a}, &t.advert, 1, &remote), 0);
	CHECK_EQ(side_end(&p.b, &p.a, 5).res, 0);
	leave(a);
	CHECK_EQ(side_event(&p.b, &p.a, URCCL_KIND_LOST, NULL).peer, b);
	CHECK_EQ(side_drop(&p.b, &p.a, b), 0);
}

int main(int argc, char **argv)
{
	uint8_t blob[URCCL_METADATA_MAX];
	uint32_t i;
	int len;

	pair_options(&p, argc, argv);
	if (p.transport == URCCL_TRANSPORT_SIM)
		pair_sim(&p);
	side_open(&p, &p.a);
	side_open(&p, &p.b);
	side_watch(&p.a, (struct urccl_peer){0}, 1);
	side_accept(&p.b, 2);
	side_watch(&p.b, (struct urccl_peer){0}, 3);
	t.bytes = calloc(1, 4096);
	t.region = side_register(&p.b, t.bytes, 4096, URCCL_RIGHT_READ);
	CHECK_EQ(urccl_advertise(p.b.ctx, t.region, 0, 4096, URCCL_RIGHT_READ, 0, &t.advert), 0);
	len = urccl_metadata(p.b.ctx, blob, sizeof(blob));
	CHECK_GE(len, 1);
	for (i = 0; i < ROUNDS; i++)
		visit(blob, (uint32_t)len);
	side_close(&p.a);
	side_close(&p.b);
	free(t.bytes);
	return 0;
}
