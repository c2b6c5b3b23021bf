/* SPDX-License-Identifier: Apache-2.0 */
/* Of two writes with checksums the first is hit in shm's ring and refused, and then the refusal is
 * hit too, so that it names the second: neither succeeds, and a sentence says why. */
#include "in_ring.h"
#include "meet.h"

#define LEN   400u
#define PIECE 64u /* long enough to be met once */

/* A header begins with its kind, flags, status, a reserved byte, and the length: a NAK, with a
 * checksum, for a checksum. The number is behind that and the acknowledgement. */
static const uint8_t nak[] = {5, 8, 4, 0, 0, 0, 0, 0};
#define NAK_NUMBER 12

static struct pair p;
static struct target t;
static uint8_t local[2 * LEN];

/* Where it is, once a has put it there, or b: then a, which may have to wake b, had its turn
 * before, and has not taken it yet. */
static uint8_t *sent(const uint8_t *piece, uint32_t len, int by_b)
{
	uint64_t late = now_ns() + PAIR_LATE_NS;
	uint8_t *at;

	while (!(at = in_ring(piece, len))) {
		CHECK(!is_late(late));
		side_turn(&p.a);
		if (by_b)
			side_turn(&p.b);
	}
	return at;
}

/* From then on a has what it needs of b, and sends without asking. */
static void warm_up(void)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);

	urccl_prep_write(sqe, t.remote, local, 8, 0);
	CHECK_EQ(pair_run(&p, &p.a, sqe).res, 8);
}

static void submit(void)
{
	uint32_t i;

	pattern_fill(local, sizeof(local), 0, 1);
	for (i = 0; i < 2; i++) {
		struct urccl_sqe *sqe = side_sqe(&p.a);

		urccl_prep_write(sqe, t.remote, local + i * LEN, LEN, i * LEN);
		urccl_sqe_add_flags(sqe, URCCL_SQE_CHECKSUM);
	}
	CHECK_EQ(urccl_submit(p.a.ring), 2);
}

int main(int argc, char **argv)
{
	struct urccl_cqe cqe;
	uint32_t i;

	pair_options(&p, argc, argv);
	p.params.flags |= URCCL_OPEN_INLINE;
	pair_open(&p);
	target_open(&p, &t, sizeof(local), 0);
	side_register(&p.a, local, sizeof(local), 0);
	warm_up();
	submit();
	sent(local + LEN + LEN / 2, PIECE, 0);
	*sent(local + LEN / 2, PIECE, 0) ^= 8;
	sent(nak, sizeof(nak), 1)[NAK_NUMBER]++;
	for (i = 0; i < 2; i++) {
		cqe = pair_end(&p, &p.a, 0);
		CHECK_EQ(cqe.res, -ECONNRESET);
		check_sentence(&p.a, &cqe, "its checksum differs or is missing");
	}
	side_close(&p.a);
	side_close(&p.b);
	return 0;
}
