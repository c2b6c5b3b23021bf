/* SPDX-License-Identifier: Apache-2.0 */
/* A bit changes in shm's ring, between the two sides, which take turns: an entry with a checksum
 * fails with -EBADMSG, its notification comes with that, and the next one is none the worse. One
 * without a checksum succeeds with other bytes than it was given. */
#include "in_ring.h"
#include "meet.h"

#define LEN   100000u
#define PIECE 64u /* long enough to be met once */

static struct pair p;
static struct target t;
static uint8_t local[LEN];

/* ---- the bit ---- */

/* The owner of the bytes has them sent, the other side is not called meanwhile. */
static void flip(const uint8_t *piece, int reads)
{
	uint64_t late = now_ns() + PAIR_LATE_NS;
	uint8_t *at;

	while (!(at = in_ring(piece, PIECE))) {
		CHECK(!is_late(late));
		side_turn(&p.a);
		if (reads)
			side_turn(&p.b);
	}
	at[PIECE / 2] ^= 8;
}

/* ---- entries ---- */

static void submit(int reads, uint32_t len, uint64_t tag, uint32_t flags)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);

	pattern_fill(local, len, 0, 2 * tag);
	pattern_fill(t.bytes, len, 0, 2 * tag + 1);
	if (reads)
		urccl_prep_read(sqe, t.remote, local, len, 0);
	else
		urccl_prep_write(sqe, t.remote, local, len, 0);
	urccl_sqe_add_flags(sqe, flags);
	urccl_sqe_set_notify(p.a.ring, sqe, tag, NULL, 0);
	CHECK_EQ(urccl_submit(p.a.ring), 1);
}

static struct urccl_cqe ends(uint64_t tag, int64_t told)
{
	struct urccl_cqe cqe = pair_end(&p, &p.a, 0), note;

	note = side_event(&p.b, &p.a, URCCL_KIND_NOTE, NULL);
	CHECK_EQ(note.tag, tag);
	CHECK_EQ(note.res, told);
	return cqe;
}

static void goes_well(int reads, uint32_t len, uint64_t tag)
{
	submit(reads, len, tag, URCCL_SQE_CHECKSUM);
	CHECK_EQ(ends(tag, 0).res, len);
	CHECK(pattern_holds(local, len, 0, 2 * tag + (uint64_t)reads));
	CHECK(pattern_holds(t.bytes, len, 0, 2 * tag + (uint64_t)reads));
}

static void hits(int reads, uint32_t len, uint64_t tag)
{
	const uint8_t *piece = (reads ? t.bytes : local) + len / 2;
	uint32_t i, differ = 0;
	struct urccl_cqe cqe;

	submit(reads, len, tag, URCCL_SQE_CHECKSUM);
	flip(piece, reads);
	cqe = ends(tag, -EBADMSG);
	CHECK_EQ(cqe.res, -EBADMSG);
	CHECK(cqe.flags & URCCL_CQE_CHECKED);
	check_sentence(&p.a, &cqe, "checksums differ");
	goes_well(reads, len, tag + 1);
	submit(reads, len, tag + 2, 0);
	flip(piece, reads);
	CHECK_EQ(ends(tag + 2, 0).res, len);
	for (i = 0; i < len; i++)
		differ += local[i] != t.bytes[i];
	CHECK_EQ(differ, 1);
}

int main(int argc, char **argv)
{
	pair_options(&p, argc, argv);
	p.params.flags |= URCCL_OPEN_INLINE;
	pair_open(&p);
	target_open(&p, &t, LEN, 0);
	side_register(&p.a, local, LEN, 0);
	goes_well(0, LEN, 1);
	hits(0, 400, 10);
	hits(1, 400, 20);
	hits(0, LEN, 30);
	hits(1, LEN, 40);
	target_close(&p, &t);
	pair_close(&p);
	return 0;
}
