/* SPDX-License-Identifier: Apache-2.0 */
/* Entries with a checksum, of every kind and size: the bytes are right, and the CQE says that they
 * were compared. Where they change on their way the entry fails with -EBADMSG, and so does its
 * notification; none succeeds with other bytes than it was given. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include "meet.h"

#ifdef __SANITIZE_THREAD__
#define MAY_RACE 0
#else
#define MAY_RACE 1
#endif

#define LEN    (3u << 20)
#define ROUNDS 400u

static struct pair p;
static struct target t;
static uint8_t *local;

static struct urccl_cqe move(struct urccl_sqe *sqe, int64_t res)
{
	struct urccl_cqe cqe;

	urccl_sqe_add_flags(sqe, URCCL_SQE_CHECKSUM);
	cqe = pair_run(&p, &p.a, sqe);
	CHECK_EQ(cqe.res, res);
	CHECK(cqe.flags & URCCL_CQE_CHECKED);
	return cqe;
}

static void ranges(void)
{
	static const uint32_t sizes[] = {0, 1, 7, 512, 513, 4096, 70001, 300000, LEN};
	struct urccl_sqe *sqe;
	uint32_t i;

	for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		pattern_fill(local, LEN, 0, i);
		sqe = side_sqe(&p.a);
		urccl_prep_write(sqe, t.remote, local, sizes[i], LEN - sizes[i]);
		move(sqe, sizes[i]);
		CHECK(pattern_holds(t.bytes + LEN - sizes[i], sizes[i], 0, i));
		pattern_fill(t.bytes, LEN, 0, i + 100);
		sqe = side_sqe(&p.a);
		urccl_prep_read(sqe, t.remote, local, sizes[i], 0);
		move(sqe, sizes[i]);
		CHECK(pattern_holds(local, sizes[i], 0, i + 100));
	}
}

static void vectors(void)
{
	static struct urccl_seg seg[64];
	struct urccl_sqe *sqe;
	uint32_t i;

	pattern_fill(local, LEN, 0, 7);
	for (i = 0; i < 64; i++) {
		seg[i].addr = (uintptr_t)local + i * 8192ull;
		seg[i].len = 1 + i * 101;
		seg[i].off = (63 - i) * 8192ull;
		seg[i].remote = t.remote.id;
	}
	sqe = side_sqe(&p.a);
	urccl_prep_writev(sqe, p.a.peer, seg, 64);
	move(sqe, 64 + 101 * 63 * 32);
	for (i = 0; i < 64; i++)
		CHECK(pattern_holds(t.bytes + seg[i].off, seg[i].len, i * 8192ull, 7));
	memset(local, 0, LEN);
	sqe = side_sqe(&p.a);
	urccl_prep_readv(sqe, p.a.peer, seg, 64);
	move(sqe, 64 + 101 * 63 * 32);
	for (i = 0; i < 64; i++)
		CHECK(pattern_holds(local + i * 8192, seg[i].len, i * 8192ull, 7));
}

static void pages(struct urccl_region region)
{
	struct urccl_paged paged = {
		.size = sizeof(paged),
		.ndims = 1,
		.block = 3000,
		.dim = {{.count = 200, .local_stride = 3000, .remote_stride = 4096}},
	};
	struct urccl_sqe *sqe;
	uint32_t i;

	pattern_fill(local, LEN, 0, 9);
	sqe = side_sqe(&p.a);
	urccl_prep_write_paged(sqe, t.remote, region, &paged, 1);
	move(sqe, 600000);
	for (i = 0; i < 200; i++)
		CHECK(pattern_holds(t.bytes + i * 4096, 3000, i * 3000ull, 9));
	memset(local, 0, LEN);
	sqe = side_sqe(&p.a);
	urccl_prep_read_paged(sqe, t.remote, region, &paged, 1);
	move(sqe, 600000);
	CHECK(pattern_holds(local, 600000, 0, 9));
}

static void notified(void)
{
	uint8_t note[URCCL_NOTE_MAX];
	struct urccl_sqe *sqe = side_sqe(&p.a);
	struct urccl_cqe cqe;

	pattern_fill(local, LEN, 0, 11);
	urccl_prep_write(sqe, t.remote, local, LEN, 0);
	urccl_sqe_set_notify(p.a.ring, sqe, 77, "placed", 6);
	move(sqe, LEN);
	cqe = side_event(&p.b, &p.a, URCCL_KIND_NOTE, note);
	CHECK_EQ(cqe.tag, 77);
	CHECK_EQ(cqe.res, 6);
	CHECK(!memcmp(note, "placed", 6) && pattern_holds(t.bytes, LEN, 0, 11));
}

/* Nobody asked for it, nobody says it. */
static void without(void)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);
	struct urccl_cqe cqe;

	urccl_prep_write(sqe, t.remote, local, 4096, 0);
	cqe = pair_run(&p, &p.a, sqe);
	CHECK_EQ(cqe.res, 4096);
	CHECK(!(cqe.flags & URCCL_CQE_CHECKED));
}

/* ---- bytes that change on their way ---- */

static void told(uint64_t tag, int64_t res)
{
	struct urccl_cqe cqe = side_event(&p.b, &p.a, URCCL_KIND_NOTE, NULL);

	CHECK_EQ(cqe.tag, tag);
	CHECK_EQ(cqe.res, res < 0 ? res : 0);
}

/* One entry of either way: 1: it came right, 0: it failed as it should. */
static int one(uint32_t i, uint32_t len, uint32_t flags)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);
	int reads = i % 2;
	struct urccl_cqe cqe;

	pattern_fill(reads ? t.bytes : local, len, 0, i);
	if (reads)
		urccl_prep_read(sqe, t.remote, local, len, 0);
	else
		urccl_prep_write(sqe, t.remote, local, len, 0);
	urccl_sqe_add_flags(sqe, flags);
	urccl_sqe_set_notify(p.a.ring, sqe, i, NULL, 0);
	cqe = pair_run(&p, &p.a, sqe);
	told(i, cqe.res);
	if (cqe.res == (int64_t)len)
		return 1;
	CHECK_EQ(cqe.res, -EBADMSG);
	CHECK(cqe.flags & URCCL_CQE_CHECKED);
	check_sentence(&p.a, &cqe, "checksums differ");
	return 0;
}

static void flipped(void)
{
	uint32_t i, right = 0, silent = 0;

	for (i = 0; i < ROUNDS; i++) {
		if (!one(i, LEN / 64, URCCL_SQE_CHECKSUM))
			continue;
		right++;
		CHECK(pattern_holds(i % 2 ? local : t.bytes, LEN / 64, 0, i));
	}
	CHECK(right && right < ROUNDS);
	for (i = 0; i < ROUNDS; i++) {
		CHECK_EQ(one(i, LEN / 64, 0), 1);
		silent += !pattern_holds(i % 2 ? local : t.bytes, LEN / 64, 0, i);
	}
	CHECK(silent);
}

/* What fails for another reason does not fail for its checksum: pieces that are placed in part,
 * once more where the answer was lost. */
static void maimed(void)
{
	uint32_t i, failed = 0;
	struct urccl_sqe *sqe;
	struct urccl_cqe cqe;

	for (i = 0; i < ROUNDS; i++) {
		sqe = side_sqe(&p.a);
		urccl_prep_write(sqe, t.remote, local, LEN / 64, 0);
		urccl_sqe_add_flags(sqe, URCCL_SQE_CHECKSUM);
		cqe = pair_run(&p, &p.a, sqe);
		CHECK(cqe.res == LEN / 64 || cqe.res == -EIO);
		failed += cqe.res < 0;
	}
	CHECK(failed && failed < ROUNDS);
}

/* Instead of the one that is there. */
static void network(const char *what)
{
	char faults[100];

	snprintf(faults, sizeof(faults), "seed=%llu,delay=1us..2us,%s", (unsigned long long)p.seed,
		 what);
	side_close(&p.a);
	side_close(&p.b);
	CHECK_EQ(urccl_sim_close(p.sim), 0);
	CHECK_EQ(urccl_sim_open(faults, &p.sim), 0);
	p.params.sim_network = p.sim;
	pair_open(&p);
	target_open(&p, &t, LEN, 0);
	side_register(&p.a, local, LEN, 0);
}

/* Networks of a fault in a few packets. */
static void networks(void)
{
	network("early=50%,flip=9%");
	flipped();
	network("partial=30%,drop=30%,resend=1us,retries=20");
	maimed();
}

static uint32_t stop;

static void *scribble(void *arg)
{
	volatile uint8_t *at = arg;
	uint32_t i = 0;

	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED))
		at[(i += 4099) % LEN]++;
	return NULL;
}

/* Memory that is mapped: what is written while it is copied is noticed all the same. */
static void changed(void)
{
	uint64_t until = now_ns() + PAIR_LATE_NS;
	struct urccl_sqe *sqe;
	struct urccl_cqe cqe;
	pthread_t thread;

	CHECK_EQ(pthread_create(&thread, NULL, scribble, local), 0);
	do {
		CHECK(!is_late(until));
		sqe = side_sqe(&p.a);
		urccl_prep_write(sqe, t.remote, local, LEN, 0);
		urccl_sqe_add_flags(sqe, URCCL_SQE_CHECKSUM);
		cqe = pair_run(&p, &p.a, sqe);
	} while (cqe.res == LEN);
	CHECK_EQ(cqe.res, -EBADMSG);
	__atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
	pthread_join(thread, NULL);
}

static void all(int shared)
{
	struct urccl_region region;

	target_open(&p, &t, LEN, shared);
	region = side_register(&p.a, local, LEN, 0);
	ranges();
	vectors();
	pages(region);
	notified();
	without();
	/* The simulated network copies first, and sums the copy. */
	if (MAY_RACE && shared && !p.sim)
		changed();
	CHECK_EQ(urccl_unregister(p.a.ctx, region), 0);
	target_close(&p, &t);
}

int main(int argc, char **argv)
{
	local = malloc(LEN);
	CHECK(local);
	pair_begin(&p, argc, argv);
	all(0);
	all(1);
	if (p.sim)
		networks();
	pair_close(&p);
	free(local);
	return 0;
}
