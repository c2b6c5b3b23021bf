/* SPDX-License-Identifier: Apache-2.0 */
/* Thousands of dials at once, to a peer that is there, to nobody, to ourselves and to one that
 * never answers: each ends once, with the right code and by its deadline, and nothing is left.
 *
 *	api-dials_many [--dials=N] OPTIONS
 */
#include "fds.h"
#include "meet.h"

#define US	1000000u
#define RES_MAX 4u

static struct pair p;
static uint32_t there, ended;
static uint8_t *seen;

/* By the dial's number: a peer, nobody, ourselves, silence. */
static const int64_t results[RES_MAX] = {0, -ECONNREFUSED, -EINVAL, -ETIMEDOUT};

static void look_at(const struct urccl_cqe *cqe)
{
	uint32_t kind = cqe->user_data % RES_MAX;

	/* The deadline came before the word of the thread that dials: its outcome is known. */
	if (kind == 3 && cqe->flags & URCCL_CQE_MORE)
		return;
	CHECK_EQ(cqe->flags & URCCL_CQE_MORE, 0);
	CHECK(!seen[cqe->user_data]++);
	if (cqe->res != results[kind])
		check_sentence(&p.a, cqe, "no sentence can excuse it");
	ended++;
	if (kind)
		return;
	CHECK(!there || cqe->handle == there);
	there = (uint32_t)cqe->handle;
}

static void dial_all(uint32_t n, uint16_t nobody, uint16_t silent)
{
	uint8_t blobs[2][URCCL_METADATA_MAX];
	char places[2][PLACE_MAX];
	int len[2] = {urccl_metadata(p.b.ctx, blobs[0], URCCL_METADATA_MAX),
		      urccl_metadata(p.a.ctx, blobs[1], URCCL_METADATA_MAX)};
	struct urccl_sqe *sqe;
	struct urccl_cqe cqe;
	uint32_t i, kind;

	place_v4(places[0], nobody);
	place_v4(places[1], silent);
	for (i = 0; i < n; i++) {
		kind = i % RES_MAX;
		sqe = side_sqe(&p.a);
		if (kind & 1)
			urccl_prep_connect(sqe, places[kind / 2],
					   (uint32_t)strlen(places[kind / 2]));
		else
			urccl_prep_connect(sqe, blobs[kind / 2], (uint32_t)len[kind / 2]);
		urccl_sqe_set_deadline_us(sqe, kind == 3 ? US : 0);
		urccl_sqe_set_data64(sqe, i);
	}
	CHECK_EQ(urccl_submit(p.a.ring), (int)n);
	while (ended < n) {
		side_take(&p.a, &p.b, &cqe, NULL);
		look_at(&cqe);
	}
}

/* Each dial that reached the peer is a reference. */
static void close_all(uint32_t refs)
{
	while (refs--)
		CHECK_EQ(side_drop(&p.a, &p.b, there), 0);
	CHECK_EQ(side_tell(&p.a, &p.b, there, 1), -ESTALE);
}

int main(int argc, char **argv)
{
	uint32_t n = 2000, before;
	uint64_t until;
	uint16_t port, nobody = free_port();
	int silent, set = argc > 1 && sscanf(argv[1], "--dials=%u", &n) == 1;

	pair_options(&p, argc - set, argv + set);
	p.ring_params.entries = 16384;
	pair_sim(&p);
	silent = raw_listen(&port);
	seen = calloc(n, 1);
	CHECK(seen);
	side_open(&p, &p.a);
	side_open(&p, &p.b);
	side_accept(&p.b, 1);
	/* A provider of libfabric may keep its connection from device to device. */
	before = fds_open() + (p.transport == URCCL_TRANSPORT_FABRIC ? 2 : 0);
	dial_all(n, nobody, port);
	p.b.peer.id = side_event(&p.b, &p.a, URCCL_KIND_PEER, NULL).peer;
	side_silent(&p.b, &p.a, 1000000); /* one handshake for all of them */
	close_all((n + RES_MAX - 1) / RES_MAX);
	CHECK_EQ(side_drop(&p.b, &p.a, p.b.peer.id), 0);
	until = now_ns() + PAIR_LATE_NS;
	while (fds_open() > before && now_ns() < until)
		side_silent(&p.a, &p.b, 1000000);
	CHECK_LE(fds_open(), before);
	side_close(&p.a);
	side_close(&p.b);
	close(silent);
	free(seen);
	if (p.sim)
		CHECK_EQ(urccl_sim_close(p.sim), 0);
	return 0;
}
