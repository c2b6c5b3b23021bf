/* SPDX-License-Identifier: Apache-2.0 */
/* Entries that cannot be carried out: each ends with the right code and a sentence that names the
 * cause, and neither the ring nor the peer nor a byte of memory is the worse for it. */
#ifndef API_MALFORMED_H
#define API_MALFORMED_H

#include "pair.h"

static struct pair p;
static struct target t;
static _Alignas(8) uint8_t local[8192];
static uint8_t before[4096];
static struct urccl_region region;

/* Runs the entry as changed; then a good one, and looks at the target. */
static inline void wrong(struct urccl_sqe *sqe, int res, const char *why)
{
	struct urccl_sqe *good;
	struct urccl_cqe cqe = pair_run(&p, &p.a, sqe);

	if (cqe.res != res)
		fprintf(stderr, "expecting \"%s\"\n", why);
	CHECK_EQ(cqe.res, res);
	CHECK_EQ(cqe.flags & URCCL_CQE_MORE, 0);
	check_sentence(&p.a, &cqe, why);
	CHECK(!memcmp(t.bytes, before, sizeof(before)));
	good = side_sqe(&p.a);
	urccl_prep_read(good, t.remote, local, 8, 0);
	CHECK_EQ(pair_run(&p, &p.a, good).res, 8);
}

static inline struct urccl_sqe *write_entry(void)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);

	urccl_prep_write(sqe, t.remote, local, 64, 0);
	return sqe;
}

static inline struct urccl_sqe *add_entry(void)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);

	urccl_prep_fetch_add(sqe, t.remote, 0, 1);
	return sqe;
}

static inline struct urccl_sqe *nop_entry(void)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);

	urccl_prep_nop(sqe);
	return sqe;
}

/* What make returns, as changed. */
#define WRONG(make, change, res, why)         \
	do {                                  \
		struct urccl_sqe *sqe = make; \
		change;                       \
		wrong(sqe, res, why);         \
	} while (0)

static inline void malformed_begin(int argc, char **argv)
{
	pair_begin(&p, argc, argv);
	target_open(&p, &t, 4096, 0);
	pattern_fill(t.bytes, 4096, 0, 9);
	memcpy(before, t.bytes, sizeof(before));
	region = side_register(&p.a, local, sizeof(local), 0);
}

static inline void malformed_end(void)
{
	target_close(&p, &t);
	pair_close(&p);
}

/* The parts of malformed.c, each with a pair of its own. */
void malformed_atomic(int argc, char **argv);
void malformed_handle(int argc, char **argv);
void malformed_msg_ring(int argc, char **argv);
void malformed_paged(int argc, char **argv);
void malformed_range(int argc, char **argv);
void malformed_slow(int argc, char **argv);
void malformed_vector(int argc, char **argv);
void malformed_words(int argc, char **argv);

#endif
