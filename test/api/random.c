/* SPDX-License-Identifier: Apache-2.0 */
/* Thousands of random entries in flight together: writes, reads, vectors, pages and notifications,
 * of random sizes, classes and order flags, some cancelled, some with a deadline that is hard to
 * meet. Each ends once; what succeeded is there, byte by byte; what did not failed for a reason it
 * was given. */
#include "pair.h"
#include "random.h"

#define SLOTS	   128u
#define SLOT_BYTES (96u << 10)
#define ROUNDS	   6000u
#define PLACES	   (SLOTS + ROUNDS / 16) /* twice as many spare ones as entries have deadlines */

static struct pair p;
static struct target t;
static struct urccl_region local;
static uint8_t *bytes; /* a's, a slot for each entry as at the target */
static uint64_t seed;

static struct slot {
	uint32_t busy, opcode, timed, place;
	uint64_t version, len;
	struct urccl_seg segs[4];
	struct urccl_paged paged;
} slots[SLOTS];
static uint32_t busy, ended, succeeded, cancelled, timed_out, late_quiet, notes, places;

static uint64_t slot_off(const struct slot *s)
{
	return (uint64_t)s->place * SLOT_BYTES;
}

static int is_read(const struct slot *s)
{
	return s->opcode == URCCL_OP_READ || s->opcode == URCCL_OP_READV ||
	       s->opcode == URCCL_OP_READ_PAGED;
}

/* Four pieces that together are the slot's bytes. */
static void prep_vector(struct urccl_sqe *sqe, struct slot *s)
{
	uint64_t at = 0, n, off = slot_off(s);
	uint32_t i;

	for (i = 0; i < 4; i++) {
		n = i < 3 ? random_below(&seed, s->len - at + 1) : s->len - at;
		s->segs[i] = (struct urccl_seg){.addr = (uint64_t)(uintptr_t)(bytes + off + at),
						.len = n,
						.off = off + at,
						.remote = t.remote.id};
		at += n;
	}
	if (is_read(s))
		urccl_prep_readv(sqe, p.a.peer, s->segs, 4);
	else
		urccl_prep_writev(sqe, p.a.peer, s->segs, 4);
}

static void prep_paged(struct urccl_sqe *sqe, struct slot *s)
{
	uint64_t block = 16 + random_below(&seed, 2000), n = s->len / block;

	s->len = n * block;
	s->paged = (struct urccl_paged){.size = sizeof(s->paged),
					.ndims = 1,
					.local_off = slot_off(s),
					.remote_off = slot_off(s),
					.block = block};
	s->paged.dim[0] = (struct urccl_dim){.count = n,
					     .local_stride = (int64_t)block,
					     .remote_stride = (int64_t)block};
	if (is_read(s))
		urccl_prep_read_paged(sqe, t.remote, local, &s->paged, 1);
	else
		urccl_prep_write_paged(sqe, t.remote, local, &s->paged, 1);
}

static void prep(struct urccl_sqe *sqe, struct slot *s)
{
	uint64_t off = slot_off(s);

	s->opcode = (uint32_t)(URCCL_OP_READ + random_below(&seed, 7));
	s->len = random_below(&seed, random_below(&seed, 8) ? 600 : SLOT_BYTES);
	switch (s->opcode) {
	case URCCL_OP_READ:
		urccl_prep_read(sqe, t.remote, bytes + off, s->len, off);
		break;
	case URCCL_OP_WRITE:
		urccl_prep_write(sqe, t.remote, bytes + off, s->len, off);
		break;
	case URCCL_OP_READV:
	case URCCL_OP_WRITEV:
		prep_vector(sqe, s);
		break;
	case URCCL_OP_NOTIFY:
		s->len = 0;
		urccl_prep_notify(sqe, p.a.peer, s->version, NULL, 0);
		break;
	default:
		prep_paged(sqe, s);
		break;
	}
	/* The bytes that move, and others in their place. */
	if (is_read(s))
		pattern_fill(t.bytes + off, s->len, off, s->version);
	else
		pattern_fill(bytes + off, s->len, off, s->version);
}

static void start(struct slot *s, uint64_t version)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);
	uint32_t flags = 0;

	s->version = version;
	prep(sqe, s);
	if (!random_below(&seed, 8))
		flags |= URCCL_SQE_LINK;
	if (!random_below(&seed, 16))
		flags |= URCCL_SQE_FENCE;
	if (!random_below(&seed, 64))
		flags |= URCCL_SQE_DRAIN;
	if (s->opcode != URCCL_OP_NOTIFY && !random_below(&seed, 8))
		urccl_sqe_set_notify(p.a.ring, sqe, version, NULL, 0);
	urccl_sqe_add_flags(sqe, flags);
	urccl_sqe_set_group(sqe, (uint32_t)random_below(&seed, 4));
	urccl_sqe_set_class(sqe, (enum urccl_class)random_below(&seed, 3));
	urccl_sqe_set_data64(sqe, (uint64_t)(s - slots));
	s->timed = !random_below(&seed, 32);
	if (s->timed)
		urccl_sqe_set_deadline_us(sqe, (uint32_t)(1 + random_below(&seed, 300)));
	s->busy = 1;
	busy++;
}

static void cancel(uint64_t slot)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);

	urccl_prep_cancel(sqe, URCCL_CANCEL_BY_USER_DATA, slot);
	urccl_sqe_set_data64(sqe, 1000000);
	busy++;
}

static void on_end(const struct urccl_cqe *cqe)
{
	struct slot *s = &slots[cqe->user_data];

	CHECK(cqe->user_data < SLOTS && s->busy);
	s->busy = 0;
	ended++;
	if (cqe->res < 0) {
		/* Its bytes may still land: the next one has another place. */
		if (!(cqe->flags & URCCL_CQE_REMOTE_QUIET) && !is_read(s) &&
		    s->opcode != URCCL_OP_NOTIFY) {
			CHECK(places < PLACES);
			s->place = places++;
		}
		/* A deadline is its own alone: who waited for it is cancelled. */
		CHECK_EQ(cqe->res, s->timed && cqe->res == -ETIMEDOUT ? -ETIMEDOUT : -ECANCELED);
		cancelled += cqe->res == -ECANCELED;
		timed_out += cqe->res == -ETIMEDOUT;
		late_quiet += cqe->res == -ETIMEDOUT && cqe->flags & URCCL_CQE_REMOTE_QUIET;
		/* On a busy machine a deadline leaves the peer no time for its word. */
		CHECK(s->opcode == URCCL_OP_NOTIFY || s->timed ||
		      cqe->flags & (URCCL_CQE_REMOTE_QUIET | URCCL_CQE_UNKNOWN));
		return;
	}
	succeeded++;
	CHECK_EQ(cqe->res, (int64_t)s->len);
	CHECK(pattern_holds((is_read(s) ? bytes : t.bytes) + slot_off(s), s->len, slot_off(s),
			    s->version));
}

static void on_cqe(const struct urccl_cqe *cqe)
{
	if (urccl_cqe_kind(cqe) == URCCL_KIND_NOTE) {
		notes++;
		return;
	}
	if (pair_is_outcome(&p, cqe))
		return;
	CHECK_EQ(cqe->flags & URCCL_CQE_MORE, 0);
	busy--;
	if (cqe->user_data == 1000000)
		CHECK(cqe->res > 0 || cqe->res == -ENOENT || cqe->res == -EALREADY ||
		      cqe->res == -ECANCELED); /* in a chain that broke */
	else
		on_end(cqe);
}

/* b's events are only counted. */
static void drain_b(void)
{
	struct urccl_cqe cqe;

	while (side_take_within(&p.b, &p.a, 0, &cqe, NULL))
		on_cqe(&cqe);
}

int main(int argc, char **argv)
{
	struct urccl_cqe cqe;
	uint32_t i, k;

	pair_begin(&p, argc, argv);
	seed = p.seed * 0x9e3779b97f4a7c15ull + 1;
	target_open(&p, &t, (uint64_t)PLACES * SLOT_BYTES, p.shared);
	while (places < SLOTS) {
		slots[places].place = places;
		places++;
	}
	bytes = malloc(t.len);
	CHECK(bytes);
	local = side_register(&p.a, bytes, t.len, 0);
	for (i = 0; i < ROUNDS || busy;) {
		for (k = 0; k < 8 && i < ROUNDS; k++) {
			struct slot *s = &slots[random_below(&seed, SLOTS)];

			if (urccl_sq_space_left(p.a.ring) < 2)
				break;
			if (!s->busy)
				start(s, ++i);
			/* Of one that may be anywhere, or that cannot have got far. */
			if (!random_below(&seed, 20))
				cancel(random_below(&seed, 2) ? random_below(&seed, SLOTS)
							      : (uint64_t)(s - slots));
		}
		CHECK_GE(urccl_submit(p.a.ring), 0);
		if (side_take_within(&p.a, &p.b, random_below(&seed, 4) ? 0 : 100000, &cqe, NULL))
			on_cqe(&cqe);
		while (side_take_within(&p.a, &p.b, 0, &cqe, NULL))
			on_cqe(&cqe);
		drain_b();
	}
	printf("%u succeeded, %u cancelled, %u timed out, %u of them quiet, %u of %u places\n",
	       succeeded, cancelled, timed_out, late_quiet, places, PLACES);
	CHECK_EQ(ended, ROUNDS);
	CHECK_EQ(succeeded + cancelled + timed_out, ROUNDS);
	CHECK_GE(succeeded, ROUNDS / 4);
	CHECK_GE(cancelled, ROUNDS / 100);
	CHECK_GE(notes, 100);
	target_close(&p, &t);
	pair_close(&p);
	return 0;
}
