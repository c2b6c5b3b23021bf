/* SPDX-License-Identifier: Apache-2.0 */
/* Several CONNECTs to one peer at once give one handle and a reference each. The last CLOSE ends
 * what is unfinished and comes after it; the other side hears LOST with 0 and -ECONNRESET on what
 * it had in flight; afterwards the handles are stale, first at the one, then at the other. */
#include "meet.h"

#define REFS 8u
#define N    24u
#define LEN  (4u << 20)

static struct pair p;
static struct target at_b, at_a; /* at_a: a's memory, imported at b */
static uint8_t *from_a, *from_b;

static void connect_all(void)
{
	uint8_t blob[URCCL_METADATA_MAX];
	int len = urccl_metadata(p.b.ctx, blob, sizeof(blob));
	struct urccl_cqe cqe;
	uint32_t i;

	CHECK_GE(len, 1);
	for (i = 0; i < REFS; i++)
		side_dial(&p.a, blob, (uint32_t)len, 20000000, 1);
	for (i = 0; i < REFS; i++) {
		cqe = side_end(&p.a, &p.b, 1);
		CHECK_EQ(cqe.res, 0);
		CHECK(cqe.handle && (!i || cqe.handle == p.a.peer.id));
		p.a.peer.id = (uint32_t)cqe.handle;
	}
	p.b.peer.id = side_event(&p.b, &p.a, URCCL_KIND_PEER, NULL).peer;
	side_silent(&p.b, &p.a, 1000000);
	/* Once more, now that it is there. */
	cqe = side_dialled(&p.a, &p.b, blob, (uint32_t)len, 20000000);
	CHECK_EQ(cqe.handle, p.a.peer.id);
}

static void target_of_a(void)
{
	uint32_t rights = URCCL_RIGHT_READ | URCCL_RIGHT_WRITE;

	at_a.bytes = calloc(1, LEN);
	CHECK(at_a.bytes);
	at_a.region = side_register(&p.a, at_a.bytes, LEN, rights);
	CHECK_EQ(urccl_advertise(p.a.ctx, at_a.region, 0, LEN, rights, 0, &at_a.advert), 0);
	CHECK_EQ(urccl_import(p.b.ctx, p.b.peer, &at_a.advert, 1, &at_a.remote), 0);
}

static void submit_writes(struct side *s, const struct target *t, const uint8_t *from)
{
	struct urccl_sqe *sqe;
	uint32_t i;

	for (i = 0; i < N; i++) {
		sqe = side_sqe(s);
		urccl_prep_write(sqe, t->remote, from, LEN, 0);
		urccl_sqe_set_data64(sqe, 2);
	}
	CHECK_EQ(urccl_submit(s->ring), N);
}

/* All but one of the references: nothing changes. */
static void not_yet(void)
{
	uint32_t i;

	for (i = 0; i < REFS; i++)
		CHECK_EQ(side_drop(&p.a, &p.b, p.a.peer.id), 0);
	CHECK_EQ(side_tell(&p.a, &p.b, p.a.peer.id, 5), 0);
	CHECK_EQ(side_event(&p.b, &p.a, URCCL_KIND_NOTE, NULL).tag, 5);
}

static void last_close(void)
{
	struct urccl_sqe *sqe;
	struct urccl_cqe cqe;
	uint32_t left;

	submit_writes(&p.b, &at_a, from_b);
	submit_writes(&p.a, &at_b, from_a);
	sqe = side_sqe(&p.a);
	urccl_prep_close(sqe, p.a.peer);
	urccl_sqe_set_data64(sqe, 3);
	CHECK_EQ(urccl_submit(p.a.ring), 1);
	for (left = N; left; left--) {
		cqe = side_end(&p.a, &p.b, 2);
		CHECK(cqe.res == LEN || cqe.res == -ECANCELED);
		if (cqe.res < 0)
			check_sentence(&p.a, &cqe, "this side closed");
	}
	CHECK_EQ(side_end(&p.a, &p.b, 3).res, 0);
	for (left = N + 1; left;) {
		side_take(&p.b, &p.a, &cqe, NULL);
		if (cqe.flags & URCCL_CQE_MORE && urccl_cqe_kind(&cqe) == URCCL_KIND_OP)
			continue;
		left--;
		if (urccl_cqe_kind(&cqe) == URCCL_KIND_LOST)
			CHECK_EQ(cqe.res, 0);
		else
			CHECK(cqe.user_data == 2 && (cqe.res == LEN || cqe.res == -ECONNRESET));
	}
	CHECK_EQ(urccl_cqe_kind(&cqe), URCCL_KIND_LOST);
}

static void stale(void)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);

	urccl_prep_write(sqe, at_b.remote, from_a, 1, 0);
	CHECK_EQ(pair_run(&p, &p.a, sqe).res, -ESTALE);
	CHECK_EQ(side_tell(&p.a, &p.b, p.a.peer.id, 1), -ESTALE);
	sqe = side_sqe(&p.b);
	urccl_prep_write(sqe, at_a.remote, from_b, 1, 0);
	CHECK_EQ(pair_run(&p, &p.b, sqe).res, -ECONNRESET);
	CHECK_EQ(side_tell(&p.b, &p.a, p.b.peer.id, 1), -ECONNRESET);
	CHECK_EQ(side_drop(&p.b, &p.a, p.b.peer.id), 0);
	CHECK_EQ(side_tell(&p.b, &p.a, p.b.peer.id, 1), -ESTALE);
	CHECK_EQ(side_drop(&p.b, &p.a, p.b.peer.id), -ESTALE);
	CHECK_EQ(urccl_unimport(p.b.ctx, at_a.remote), -ESTALE);
}

int main(int argc, char **argv)
{
	pair_options(&p, argc, argv);
	pair_sim(&p);
	side_open(&p, &p.a);
	side_open(&p, &p.b);
	side_accept(&p.b, 1);
	connect_all();
	side_watch(&p.b, p.b.peer, 4);
	target_of_a();
	target_open(&p, &at_b, LEN, 0);
	from_a = calloc(1, LEN);
	from_b = calloc(1, LEN);
	CHECK(from_a && from_b);
	side_register(&p.a, from_a, LEN, 0);
	side_register(&p.b, from_b, LEN, 0);
	not_yet();
	last_close();
	stale();
	pair_close(&p);
	return 0;
}
