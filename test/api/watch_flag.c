/* SPDX-License-Identifier: Apache-2.0 */
/* URCCL_SQE_WATCH: the peers that a CONNECT or an ACCEPT gives are watched by its ring, with its
 * user_data, from the first notification to LOST; a later WATCH or CONNECT takes over; peers of an
 * ACCEPT stay watched when that ends, and those of a ring that closes go to the WATCH of all. */
#include "meet.h"

#define ROUNDS 30u
#define US     20000000u

static struct pair p;
static uint8_t blob[URCCL_METADATA_MAX];
static uint32_t blob_len;

static void dial(struct side *s, uint32_t flags, uint64_t user_data)
{
	struct urccl_sqe *sqe = side_sqe(s);

	urccl_prep_connect(sqe, blob, blob_len);
	urccl_sqe_add_flags(sqe, flags);
	urccl_sqe_set_deadline_us(sqe, US);
	urccl_sqe_set_data64(sqe, user_data);
	CHECK_EQ(urccl_submit(s->ring), 1);
}

static void accept_flagged(uint64_t user_data)
{
	struct urccl_sqe *sqe = side_sqe(&p.b);

	urccl_prep_accept(sqe);
	urccl_sqe_add_flags(sqe, URCCL_SQE_WATCH);
	urccl_sqe_set_data64(sqe, user_data);
	CHECK_EQ(urccl_submit(p.b.ring), 1);
}

/* An event of this kind, by the watcher of this user_data. */
static void event(struct side *s, struct side *other, enum urccl_cqe_kind kind, uint64_t user_data)
{
	struct urccl_cqe cqe = side_event(s, other, kind, NULL);

	CHECK(cqe.peer == s->peer.id && cqe.flags & URCCL_CQE_MORE && !cqe.res);
	CHECK_EQ(cqe.user_data, user_data);
}

static void note_comes(struct side *from, struct side *to, uint64_t user_data)
{
	CHECK_EQ(side_tell(from, to, from->peer.id, 1), 0);
	event(to, from, URCCL_KIND_NOTE, user_data);
}

/* b speaks as soon as it knows of a: that comes after the CONNECT's end. */
static void meets(uint64_t accepted_by)
{
	struct urccl_cqe cqe;
	struct urccl_sqe *sqe;

	dial(&p.a, URCCL_SQE_WATCH, 5);
	cqe = side_event(&p.b, &p.a, URCCL_KIND_PEER, NULL);
	CHECK_EQ(cqe.user_data, accepted_by);
	p.b.peer = urccl_cqe_peer(&cqe);
	sqe = side_sqe(&p.b);
	urccl_prep_notify(sqe, p.b.peer, 1, NULL, 0);
	urccl_sqe_set_data64(sqe, 3);
	CHECK_EQ(urccl_submit(p.b.ring), 1);
	cqe = side_end(&p.a, &p.b, 5);
	p.a.peer = urccl_cqe_peer(&cqe);
	event(&p.a, &p.b, URCCL_KIND_NOTE, 5);
	CHECK_EQ(side_end(&p.b, &p.a, 3).res, 0);
}

/* LOST is an event at both: the entries that asked for it have ended, or live on. */
static void leaves(uint64_t user_data_a, uint64_t user_data_b)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);
	uint32_t ends = 0, lost = 0;
	struct urccl_cqe cqe;

	urccl_prep_close(sqe, p.a.peer);
	CHECK_EQ(urccl_submit(p.a.ring), 1);
	while (!ends || !lost) {
		side_take(&p.a, &p.b, &cqe, NULL);
		CHECK_EQ(cqe.res, 0);
		ends += urccl_cqe_kind(&cqe) == URCCL_KIND_OP;
		if (urccl_cqe_kind(&cqe) != URCCL_KIND_LOST)
			continue;
		lost++;
		CHECK_EQ(cqe.user_data, user_data_a);
		CHECK(cqe.flags & URCCL_CQE_MORE);
	}
	event(&p.b, &p.a, URCCL_KIND_LOST, user_data_b);
	CHECK_EQ(side_drop(&p.b, &p.a, p.b.peer.id), 0);
}

static void newer_take_over(void)
{
	side_watch(&p.a, p.a.peer, 9);
	urccl_prep_nop(side_sqe(&p.a)); /* at its end the WATCH is taken */
	CHECK_EQ(urccl_submit(p.a.ring), 1);
	CHECK_EQ(side_end(&p.a, &p.b, 0).res, 0);
	note_comes(&p.b, &p.a, 9);
	dial(&p.a, URCCL_SQE_WATCH, 11); /* one more reference */
	CHECK_EQ(side_end(&p.a, &p.b, 9).res, -ECANCELED);
	CHECK_EQ(side_end(&p.a, &p.b, 11).res, 0);
	note_comes(&p.b, &p.a, 11);
	dial(&p.a, 0, 12);
	CHECK_EQ(side_end(&p.a, &p.b, 12).res, 0);
	note_comes(&p.b, &p.a, 11);
	CHECK_EQ(side_drop(&p.a, &p.b, p.a.peer.id), 0);
}

/* On another ring, where a context may have more than one. */
static void ring_closes(void)
{
	struct side second = p.a;

	if (p.params.flags & URCCL_OPEN_INLINE)
		return;
	CHECK_EQ(urccl_ring_open(p.a.ctx, NULL, &second.ring), 0);
	dial(&second, URCCL_SQE_WATCH, 21);
	CHECK_EQ(side_end(&second, &p.b, 21).res, 0);
	note_comes(&p.b, &second, 21);
	urccl_ring_close(second.ring);
	side_watch(&p.a, (struct urccl_peer){0}, 22);
	note_comes(&p.b, &p.a, 22);
}

int main(int argc, char **argv)
{
	uint32_t i;

	pair_options(&p, argc, argv);
	pair_sim(&p);
	side_open(&p, &p.a);
	side_open(&p, &p.b);
	blob_len = (uint32_t)urccl_metadata(p.b.ctx, blob, sizeof(blob));
	CHECK((int)blob_len > 0);
	accept_flagged(7);
	for (i = 0; i < ROUNDS; i++) {
		meets(7);
		note_comes(&p.a, &p.b, 7);
		leaves(5, 7);
	}
	meets(7);
	newer_take_over();
	side_accept(&p.b, 8);
	CHECK_EQ(side_end(&p.b, &p.a, 7).res, -ECANCELED);
	note_comes(&p.a, &p.b, 7);
	ring_closes();
	pair_close(&p);
	return 0;
}
