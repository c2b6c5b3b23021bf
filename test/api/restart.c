/* SPDX-License-Identifier: Apache-2.0 */
/* A peer that is killed and comes back at the same address is another one: its predecessor's
 * handle, remotes, adverts and metadata lead nowhere, no byte of theirs reaches it, and a new
 * CONNECT by text does. */
#include "child.h"
#include "meet.h"

#define LEN 65536u

static struct pair p;
static struct child old, new;
static uint8_t local[LEN];
static char place[PLACE_MAX];

static int64_t move(struct urccl_remote remote, int reads)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);

	if (reads)
		urccl_prep_read(sqe, remote, local, LEN, 0);
	else
		urccl_prep_write(sqe, remote, local, LEN, 0);
	CHECK_EQ(urccl_submit(p.a.ring), 1);
	return side_end(&p.a, NULL, 0).res;
}

/* Writes that are on their way when it dies. */
static void die_at_work(struct urccl_remote remote)
{
	struct urccl_cqe cqe;
	uint32_t i;

	for (i = 0; i < 100; i++) {
		struct urccl_sqe *sqe = side_sqe(&p.a);

		urccl_prep_write(sqe, remote, local, LEN, 0);
	}
	CHECK_EQ(urccl_submit(p.a.ring), 100);
	child_kill(&old);
	child_start(&p, &new, LEN, place);
	for (i = 0; i < 100; i++) {
		cqe = side_end(&p.a, NULL, 0);
		if (cqe.res != LEN)
			CHECK_EQ(cqe.res, -ECONNRESET);
	}
}

int main(int argc, char **argv)
{
	struct urccl_remote first, second, none = {0};
	uint32_t handle, i;
	struct urccl_cqe cqe;

	child_main(argc, argv);
	pair_options(&p, argc, argv);
	if (p.transport == URCCL_TRANSPORT_SIM)
		SKIP("a simulated network ends at the process");
	place_v4(place, free_port());
	child_start(&p, &old, LEN, place);
	side_open(&p, &p.a);
	memset(local, 0x99, LEN);
	side_register(&p.a, local, LEN, 0);
	child_connect(&p, &old);
	handle = p.a.peer.id;
	CHECK_EQ(urccl_import(p.a.ctx, p.a.peer, &old.advert, 1, &first), 0);
	CHECK_EQ(move(first, 0), LEN);
	die_at_work(first);
	CHECK_EQ(move(first, 0), -ECONNRESET);
	/* The old metadata: whoever is there now is not the one. */
	cqe = side_dialled(&p.a, NULL, old.blob, old.blob_len, 20000000);
	CHECK_EQ(cqe.res, -ESTALE);
	check_sentence(&p.a, &cqe, "incarnation");
	cqe = side_dialled(&p.a, NULL, place, (uint32_t)strlen(place), 20000000);
	CHECK_EQ(cqe.res, 0);
	p.a.peer.id = (uint32_t)cqe.handle;
	CHECK_NE(p.a.peer.id, handle);
	CHECK_EQ(urccl_import(p.a.ctx, p.a.peer, &old.advert, 1, &none), -ESTALE);
	CHECK_EQ(move(first, 0), -ESTALE);
	CHECK_EQ(move(first, 1), -ESTALE);
	CHECK_EQ(side_drop(&p.a, NULL, handle), 0);
	CHECK_EQ(move(first, 0), -ESTALE);
	CHECK_EQ(side_drop(&p.a, NULL, handle), -ESTALE);
	CHECK_EQ(urccl_import(p.a.ctx, p.a.peer, &new.advert, 1, &second), 0);
	CHECK_EQ(move(second, 1), LEN);
	for (i = 0; i < LEN; i++)
		CHECK_EQ(local[i], 0);
	CHECK_EQ(move(second, 0), LEN);
	child_kill(&new);
	side_close(&p.a);
	return 0;
}
