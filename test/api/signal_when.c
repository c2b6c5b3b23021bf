/* SPDX-License-Identifier: Apache-2.0 */
/* Signal-when: the word is set once the entry has succeeded and not before its CQE can be seen; who
 * sees it sees every byte, of a READ here, of a WRITE of any kind at the peer. One entry's word may
 * start the next. */
#include "pair.h"

#define LEN    (64u << 10)
#define PAGE   4096u
#define PAGES  (LEN / PAGE)
#define ROUNDS 50u

static struct pair p;
static struct target t;
static struct memory {
	uint64_t words[8];
	uint8_t bytes[LEN], back[LEN];
} m;
static struct urccl_region region;

static uint64_t load(uint32_t i)
{
	return __atomic_load_n(&m.words[i], __ATOMIC_ACQUIRE);
}

/* Waits for the word, not for the CQE. */
static void await(uint32_t i, uint64_t value)
{
	uint64_t late = now_ns() + PAIR_LATE_NS;

	CHECK_GE(urccl_submit(p.a.ring), 1);
	while (load(i) != value) {
		CHECK(!is_late(late));
		side_turn(&p.a);
		side_turn(&p.b);
	}
	settle();
}

static void ends(uint64_t data)
{
	CHECK_EQ(pair_end(&p, &p.a, data).res, LEN);
}

static void write_and_read(void)
{
	struct urccl_sqe *sqe;
	uint64_t k;

	for (k = 1; k <= ROUNDS; k++) {
		pattern_fill(m.bytes, LEN, 0, k);
		sqe = side_sqe(&p.a);
		urccl_prep_write(sqe, t.remote, m.bytes, LEN, 0);
		urccl_sqe_set_signal(p.a.ring, sqe, &m.words[0], k);
		await(0, k);
		CHECK(pattern_holds(t.bytes, LEN, 0, k));
		ends(0);
		sqe = side_sqe(&p.a);
		urccl_prep_read(sqe, t.remote, m.back, LEN, 0);
		urccl_sqe_set_signal(p.a.ring, sqe, &m.words[1], k);
		await(1, k);
		CHECK(pattern_holds(m.back, LEN, 0, k));
		ends(0);
	}
}

static void vector(void)
{
	struct urccl_seg segs[PAGES];
	struct urccl_sqe *sqe = side_sqe(&p.a);
	uint32_t i;

	for (i = 0; i < PAGES; i++)
		segs[i] = (struct urccl_seg){.addr = (uint64_t)(uintptr_t)m.bytes + i * PAGE,
					     .len = PAGE,
					     .off = (PAGES - 1 - i) * PAGE,
					     .remote = t.remote.id};
	pattern_fill(m.bytes, LEN, 0, 100);
	urccl_prep_writev(sqe, p.a.peer, segs, PAGES);
	urccl_sqe_set_signal(p.a.ring, sqe, &m.words[2], 7);
	await(2, 7);
	for (i = 0; i < PAGES; i++)
		CHECK(pattern_holds(t.bytes + (PAGES - 1 - i) * PAGE, PAGE, i * PAGE, 100));
	ends(0);
}

static void pages(void)
{
	struct urccl_paged d = {
		.size = sizeof(d),
		.ndims = 1,
		.local_off = offsetof(struct memory, bytes),
		.block = PAGE,
		.dim = {{.count = PAGES, .local_stride = PAGE, .remote_stride = PAGE}},
	};
	struct urccl_sqe *sqe = side_sqe(&p.a);

	pattern_fill(m.bytes, LEN, 0, 101);
	urccl_prep_write_paged(sqe, t.remote, region, &d, 1);
	urccl_sqe_set_notify(p.a.ring, sqe, 5, NULL, 0);
	urccl_sqe_set_signal(p.a.ring, sqe, &m.words[3], 8);
	await(3, 8);
	CHECK(pattern_holds(t.bytes, LEN, 0, 101));
	ends(0);
}

/* Nobody else says that it has ended. */
static void silent(void)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);

	urccl_prep_write(sqe, t.remote, m.bytes, LEN, 0);
	urccl_sqe_add_flags(sqe, URCCL_SQE_SKIP_SUCCESS);
	urccl_sqe_set_signal(p.a.ring, sqe, &m.words[4], 9);
	await(4, 9);
}

/* A WRITE's word starts a READ of the same bytes. */
static void chained(void)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);

	pattern_fill(m.bytes, LEN, 0, 102);
	urccl_prep_read(sqe, t.remote, m.back, LEN, 0);
	urccl_sqe_set_data64(sqe, 2);
	urccl_sqe_set_wait(p.a.ring, sqe, &m.words[5], 3);
	urccl_sqe_set_signal(p.a.ring, sqe, &m.words[6], 4);
	sqe = side_sqe(&p.a);
	urccl_prep_write(sqe, t.remote, m.bytes, LEN, 0);
	urccl_sqe_set_data64(sqe, 1);
	urccl_sqe_set_signal(p.a.ring, sqe, &m.words[5], 3);
	await(6, 4);
	CHECK(pattern_holds(m.back, LEN, 0, 102));
	ends(1);
	ends(2);
}

int main(int argc, char **argv)
{
	pair_begin(&p, argc, argv);
	target_open(&p, &t, LEN, 0);
	region = side_register(&p.a, &m, sizeof(m), URCCL_RIGHT_WRITE);
	write_and_read();
	vector();
	pages();
	silent();
	chained();
	target_close(&p, &t);
	pair_close(&p);
	return 0;
}
