/* SPDX-License-Identifier: Apache-2.0 */
/* Small writes do not wait for a large one that was there before them, to the same peer and of the
 * same class; and of two peers with the same to do neither waits for the other's last byte. */
#include "meet.h"
#include "span.h"

#define LARGE  (1ull << 30)
#define PIECE  (PAIR_SLOW ? 1ull << 18 : 4ull << 20)
#define PIECES 64u
#define SMALL  32u
#define ROUNDS 5u

static struct pair p;
static struct side c;		     /* another peer; its handle is a's */
static struct span here, there, far; /* a's, b's, c's */
static struct urccl_region region;

static struct urccl_remote import(struct side *s, const struct span *span)
{
	struct urccl_region r = side_register(s, span->bytes, span->len, URCCL_RIGHT_WRITE);
	struct urccl_remote remote;
	struct urccl_advert advert;

	CHECK_EQ(urccl_advertise(s->ctx, r, 0, span->len, URCCL_RIGHT_WRITE, 0, &advert), 0);
	CHECK_EQ(urccl_import(p.a.ctx, s == &c ? c.peer : p.a.peer, &advert, 1, &remote), 0);
	return remote;
}

static void prepare(struct urccl_remote remote, uint64_t len, uint64_t user_data)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);

	urccl_prep_write(sqe, remote, here.bytes, len, 0);
	urccl_sqe_set_region(sqe, region);
	urccl_sqe_set_timeout(sqe, 60000000);
	urccl_sqe_set_data64(sqe, user_data);
}

static void submit(struct urccl_remote remote, uint64_t len, uint64_t user_data)
{
	prepare(remote, len, user_data);
	CHECK_EQ(urccl_submit(p.a.ring), 1);
}

/* Both peers have their turn, whichever has CQEs. */
static uint64_t take(void)
{
	uint64_t late = now_ns() + PAIR_LATE_NS;
	struct urccl_cqe cqe;

	do {
		CHECK(now_ns() < late);
		if (c.ring)
			side_turn(&c);
		side_turn(&p.b);
	} while (!side_take_within(&p.a, &p.b, 10000, &cqe, NULL));
	CHECK_GE(cqe.res, 1);
	return cqe.user_data;
}

/* One after the other: each must overtake what is left of the large one. */
static void small_ones(struct urccl_remote remote)
{
	uint64_t len = p.transport == URCCL_TRANSPORT_SIM || PAIR_SLOW ? LARGE / 16 : LARGE;
	uint32_t i;

	submit(remote, 64, 0);
	CHECK_EQ(take(), 0);
	prepare(remote, len, 1);
	for (i = 0; i < SMALL; i++)
		prepare(remote, 64, 2);
	CHECK_EQ(urccl_submit(p.a.ring), 1 + SMALL);
	for (i = 0; i < SMALL; i++)
		CHECK_EQ(take(), 2);
	CHECK_EQ(take(), 1);
}

/* Two entries in flight to each, as long as one has not done all of its own. Returns how many
 * pieces were done by then. */
static uint32_t two_peers(struct urccl_remote b, struct urccl_remote other)
{
	uint32_t done[2] = {0}, i;
	uint64_t who;

	for (i = 0; i < 4; i++)
		prepare(i % 2 ? other : b, PIECE, i % 2);
	CHECK_EQ(urccl_submit(p.a.ring), 4);
	while (done[0] < PIECES && done[1] < PIECES) {
		who = take();
		done[who]++;
		submit(who ? other : b, PIECE, who);
	}
	for (i = 0; i < 4; i++)
		take();
	return done[0] + done[1];
}

/* On a busy machine a peer that has to copy may itself not run for a while, which is not the
 * engine's doing: an engine that favours one does so every time. */
static void fair(struct urccl_remote b, struct urccl_remote other)
{
	uint32_t i;

	/* The other one's path is as warm as the first one's. */
	submit(other, PIECES * PIECE, 0);
	CHECK_EQ(take(), 0);
	for (i = 0; i < ROUNDS; i++)
		if (two_peers(b, other) >= PIECES + PIECES / 4)
			return;
	CHECK_NE(i, ROUNDS);
}

int main(int argc, char **argv)
{
	struct urccl_remote b;
	struct side a;

	pair_begin(&p, argc, argv);
	span_open(&here, LARGE);
	span_open(&there, LARGE);
	span_open(&far, LARGE);
	region = side_register(&p.a, here.bytes, here.len, 0);
	b = import(&p.b, &there);
	small_ones(b);
	side_open(&p, &c);
	side_accept(&c, 1);
	a = p.a;
	side_connect(&a, &c);
	c.peer = a.peer;
	fair(b, import(&c, &far));
	side_close(&c);
	pair_close(&p);
	span_close(&here);
	span_close(&there);
	span_close(&far);
	return 0;
}
