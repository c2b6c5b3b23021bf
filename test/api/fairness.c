/* SPDX-License-Identifier: Apache-2.0 */
/* Small writes do not wait for a large one that was there before them, to the same peer and of
 * whatever class; and of peers with the same to do none has much less of it done than another. */
#include "meet.h"
#include "span.h"

#define LARGE  (1ull << 29)
#define PIECE  (PAIR_SLOW ? 1ull << 18 : 4ull << 20)
#define PIECES 24u
#define SMALL  32u
#define CHAIN  3u
#define PEERS  8u /* of the second part, at most: b and others */
#define DEPTH  2u
#define ROUNDS 5u

static struct pair p;
static struct side others[PEERS - 1]; /* their handles are a's */
static uint32_t npeers, nothers;
static struct span here, there, far; /* a's, b's, the others' */
static struct urccl_region region;

static struct urccl_remote import(struct side *s, struct urccl_peer peer, uint8_t *bytes,
				  uint64_t len)
{
	struct urccl_region r = side_register(s, bytes, len, URCCL_RIGHT_WRITE);
	struct urccl_remote remote;
	struct urccl_advert advert;

	CHECK_EQ(urccl_advertise(s->ctx, r, 0, len, URCCL_RIGHT_WRITE, 0, &advert), 0);
	CHECK_EQ(urccl_import(p.a.ctx, peer, &advert, 1, &remote), 0);
	return remote;
}

static struct urccl_sqe *prepare(struct urccl_remote remote, uint64_t len, uint64_t user_data)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);

	urccl_prep_write(sqe, remote, here.bytes, len, 0);
	urccl_sqe_set_region(sqe, region);
	urccl_sqe_set_deadline_us(sqe, 60000000);
	urccl_sqe_set_data64(sqe, user_data);
	return sqe;
}

static void submit(struct urccl_remote remote, uint64_t len, uint64_t user_data)
{
	prepare(remote, len, user_data);
	CHECK_EQ(urccl_submit(p.a.ring), 1);
}

/* All peers have their turn, whichever has CQEs. */
static uint64_t take(void)
{
	uint64_t late = now_ns() + PAIR_LATE_NS;
	struct urccl_cqe cqe;
	uint32_t i;

	do {
		CHECK(!is_late(late));
		for (i = 0; i < nothers; i++)
			side_turn(&others[i]);
		side_turn(&p.b);
	} while (!side_take_within(&p.a, &p.b, 10000, &cqe, NULL));
	CHECK_GE(cqe.res, 1);
	return cqe.user_data;
}

/* Each must overtake what is left of the large one: some at once, and one after the other some that
 * begin when much of it is on its way. */
static void small_ones(struct urccl_remote remote, uint64_t len, enum urccl_class cls)
{
	uint32_t i;

	if (p.transport == URCCL_TRANSPORT_SIM || PAIR_SLOW)
		len = LARGE / 16;
	submit(remote, 64, 0);
	CHECK_EQ(take(), 0);
	urccl_sqe_set_class(prepare(remote, len, 1), cls);
	for (i = 0; i < SMALL; i++)
		prepare(remote, 64, 2);
	for (i = 0; i < CHAIN; i++)
		urccl_sqe_add_flags(prepare(remote, 64, 2), i + 1 < CHAIN ? URCCL_SQE_LINK : 0);
	CHECK_EQ(urccl_submit(p.a.ring), 1 + SMALL + CHAIN);
	for (i = 0; i < SMALL + CHAIN; i++)
		CHECK_EQ(take(), 2);
	CHECK_EQ(take(), 1);
}

/* Entries in flight to each, as long as none has done all of its own. Returns how many pieces the
 * last one had done by then. */
static uint32_t run(const struct urccl_remote *remotes)
{
	uint32_t done[PEERS] = {0}, least = PIECES, i;
	uint64_t who;

	for (i = 0; i < DEPTH * npeers; i++)
		prepare(remotes[i % npeers], PIECE, i % npeers);
	CHECK_EQ(urccl_submit(p.a.ring), DEPTH * npeers);
	while (who = take(), ++done[who] < PIECES)
		submit(remotes[who], PIECE, who);
	for (i = 1; i < DEPTH * npeers; i++)
		take();
	for (i = 0; i < npeers; i++)
		least = done[i] < least ? done[i] : least;
	return least;
}

/* On a busy machine a peer that has to copy may itself not run for a while, which is not the
 * engine's doing: an engine that favours one does so every time. Where each peer has threads two of
 * them are as many as there may be CPUs for, and less is asked; without, each has its turn. */
static void fair(const struct urccl_remote *remotes)
{
	uint32_t least = npeers > 2 ? PIECES * 2 / 3 : PIECES / 4, i;

	/* The others' paths are as warm as the first one's. */
	for (i = 1; i < npeers; i++) {
		submit(remotes[i], PIECE, 0);
		CHECK_EQ(take(), 0);
	}
	for (i = 0; i < ROUNDS; i++)
		if (run(remotes) >= least)
			return;
	CHECK_NE(i, ROUNDS);
}

static struct urccl_remote other_open(struct side *s, uint8_t *bytes)
{
	struct side a = p.a;

	side_open(&p, s);
	side_accept(s, 1);
	side_connect(&a, s);
	s->peer = a.peer;
	nothers++;
	return import(s, s->peer, bytes, PIECE);
}

int main(int argc, char **argv)
{
	struct urccl_remote remotes[PEERS];
	uint32_t i;

	pair_begin(&p, argc, argv);
	npeers = p.params.flags & URCCL_OPEN_INLINE ? PEERS : 2;
	span_open(&here, LARGE);
	span_open(&there, LARGE);
	span_open(&far, (PEERS - 1) * PIECE);
	region = side_register(&p.a, here.bytes, here.len, 0);
	remotes[0] = import(&p.b, p.a.peer, there.bytes, there.len);
	small_ones(remotes[0], LARGE, URCCL_CLASS_BULK);
	small_ones(remotes[0], LARGE / 4, URCCL_CLASS_LATENCY);
	small_ones(remotes[0], LARGE / 4, URCCL_CLASS_CONTROL);
	for (i = 1; i < npeers; i++)
		remotes[i] = other_open(&others[i - 1], far.bytes + (i - 1) * PIECE);
	fair(remotes);
	for (i = 0; i < nothers; i++)
		side_close(&others[i]);
	pair_close(&p);
	span_close(&here);
	span_close(&there);
	span_close(&far);
	return 0;
}
