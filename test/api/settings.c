/* SPDX-License-Identifier: Apache-2.0 */
/* Contexts of one process with settings of their own: each goes by its own, and two that share no
 * transport cannot connect and say why, rather than use another. */
#include "meet.h"

static struct pair p;
static uint8_t local[4096];

static uint32_t metadata(struct side *s, uint8_t blob[URCCL_METADATA_MAX])
{
	int len = urccl_metadata(s->ctx, blob, URCCL_METADATA_MAX);

	CHECK_GE(len, 1);
	return (uint32_t)len;
}

static struct urccl_cqe dial(struct side *from, struct side *to)
{
	uint8_t blob[URCCL_METADATA_MAX];

	return side_dialled(from, to, blob, metadata(to, blob), 20000000);
}

/* Each with its own default of a timeout, towards one who says nothing. */
static void timeouts(struct side *hasty, struct side *patient)
{
	char place[PLACE_MAX];
	struct urccl_cqe cqe;
	struct urccl_sqe *sqe;
	uint16_t port;
	int fd = raw_listen(&port);

	place_v4(place, port);
	side_dial(patient, place, (uint32_t)strlen(place), 0, 1);
	cqe = side_dialled(hasty, NULL, place, (uint32_t)strlen(place), 0);
	CHECK_EQ(cqe.res, -ETIMEDOUT);
	check_sentence(hasty, &cqe, "100000 us");
	side_silent(patient, NULL, 0);
	sqe = side_sqe(patient);
	urccl_prep_cancel(sqe, URCCL_CANCEL_BY_USER_DATA, 1);
	urccl_sqe_add_flags(sqe, URCCL_SQE_SKIP_SUCCESS);
	CHECK_EQ(urccl_submit(patient->ring), 1);
	CHECK_EQ(side_end(patient, NULL, 1).res, -ECANCELED);
	close(fd);
}

static void limits(struct side *s, uint32_t peer, uint32_t max, int64_t res)
{
	struct urccl_seg segs[4];
	struct urccl_sqe *sqe = side_sqe(s);
	struct urccl_cqe cqe;

	memset(segs, 0, sizeof(segs));
	urccl_prep_readv(sqe, (struct urccl_peer){peer}, segs, 4);
	CHECK_EQ(urccl_submit(s->ring), 1);
	cqe = side_end(s, NULL, 0);
	CHECK_EQ(cqe.res, res);
	if (res == -E2BIG) {
		char why[64];

		snprintf(why, sizeof(why), "4 segments are above the limit of %u", max);
		check_sentence(s, &cqe, why);
	}
}

/* What the other one does not have is not silently replaced. */
static void no_common_transport(struct side *only_this)
{
	struct side other;
	struct urccl_cqe cqe;

	p.params.transport = p.transport == URCCL_TRANSPORT_TCP ? "shm" : "tcp";
	p.params.sim_network = NULL;
	side_open(&p, &other);
	side_accept(&other, 1);
	cqe = dial(only_this, &other);
	CHECK_EQ(cqe.res, -EHOSTUNREACH);
	check_sentence(only_this, &cqe, "no transport in common: this side has ");
	cqe = dial(&other, only_this);
	CHECK_EQ(cqe.res, -EHOSTUNREACH);
	side_close(&other);
}

int main(int argc, char **argv)
{
	struct urccl_params common;
	struct side other;
	struct urccl_cqe cqe;

	pair_options(&p, argc, argv);
	pair_sim(&p);
	common = p.params;
	p.params.deadline_ms = 100;
	p.params.max_segs = 3;
	side_open(&p, &p.a);
	/* The next is of the other kind, driven or threaded. */
	p.params = common;
	p.params.flags ^= URCCL_OPEN_INLINE;
	p.params.max_segs = 100;
	p.params.chunk_bytes = 4096;
	side_open(&p, &other);
	side_accept(&other, 1);
	side_register(&p.a, local, sizeof(local), 0);
	cqe = dial(&p.a, &other);
	CHECK_EQ(cqe.res, 0);
	limits(&p.a, (uint32_t)cqe.handle, 3, -E2BIG);
	limits(&other, side_event(&other, &p.a, URCCL_KIND_PEER, NULL).peer, 100, -EINVAL);
	timeouts(&p.a, &other);
	no_common_transport(&p.a);
	side_close(&other);
	side_close(&p.a);
	if (p.sim)
		CHECK_EQ(urccl_sim_close(p.sim), 0);
	return 0;
}
