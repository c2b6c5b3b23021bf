/* SPDX-License-Identifier: Apache-2.0 */
/* A program that drives its context by its own calls (INLINE) computes for three times dead_after
 * while much is on its way to it, and some is asked of it: its host answers, so that neither side
 * loses the other, and when it is back all of that goes on and gets through. */
#include "pair.h"

#define N	64u
#define LEN	(1u << 20)
#define DEAD_MS 1000u
#define AWAY_NS (3 * DEAD_MS * 1000000ull)

static struct pair p; /* b computes */
static struct target t;
static uint8_t *local;
static uint32_t ended;

static int reads(uint32_t i)
{
	return i % 4 == 3;
}

/* Keys are fetched, with b's help. */
static void warm(void)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);

	urccl_prep_read(sqe, t.remote, local + 3 * LEN, 1, 3 * LEN);
	CHECK_EQ(pair_run(&p, &p.a, sqe).res, 1);
}

static void submit_all(void)
{
	uint32_t i;

	for (i = 0; i < N; i++) {
		struct urccl_sqe *sqe = side_sqe(&p.a);
		uint64_t off = (uint64_t)i * LEN;

		if (reads(i)) {
			urccl_prep_read(sqe, t.remote, local + off, LEN, off);
		} else {
			urccl_prep_write(sqe, t.remote, local + off, LEN, off);
			urccl_sqe_add_flags(sqe, URCCL_SQE_NOTIFY);
			sqe->tag = i;
		}
		urccl_sqe_set_deadline_us(sqe, 100000000);
	}
	CHECK_EQ(urccl_submit(p.a.ring), (int)N);
}

/* The next of a that ends, if one does by then. */
static int take(struct side *other, uint64_t until)
{
	uint64_t now = now_ns();
	struct urccl_cqe cqe;

	if (now >= until || !side_take_within(&p.a, other, until - now, &cqe, NULL))
		return 0;
	CHECK_EQ(urccl_cqe_kind(&cqe), URCCL_KIND_OP);
	CHECK_EQ(cqe.flags & URCCL_CQE_MORE, 0);
	CHECK_EQ(cqe.res, LEN);
	ended++;
	return 1;
}

static void computes(void)
{
	uint64_t until = now_ns() + AWAY_NS;

	while (take(NULL, until))
		;
	/* A simulated device does without its peer's CPU. */
	if (p.transport != URCCL_TRANSPORT_SIM)
		CHECK(ended < N);
}

static void goes_on(void)
{
	uint64_t late = now_ns() + PAIR_LATE_NS;
	struct urccl_cqe cqe;
	uint32_t i;

	while (ended < N)
		CHECK(take(&p.b, late));
	for (i = 0; i < N; i++) {
		if (reads(i))
			continue;
		side_take(&p.b, &p.a, &cqe, NULL);
		CHECK_EQ(urccl_cqe_kind(&cqe), URCCL_KIND_NOTE);
		CHECK_EQ(cqe.res, 0);
	}
	for (i = 0; i < N; i++) {
		uint64_t off = (uint64_t)i * LEN;

		CHECK(pattern_holds((reads(i) ? local : t.bytes) + off, LEN, off, 1));
	}
}

int main(int argc, char **argv)
{
	uint32_t i;

	pair_options(&p, argc, argv);
	p.params.dead_after_ms = DEAD_MS;
	pair_open_idle(&p);
	target_open(&p, &t, (uint64_t)N * LEN, 0);
	local = malloc((uint64_t)N * LEN);
	CHECK(local);
	for (i = 0; i < N; i++) {
		uint64_t off = (uint64_t)i * LEN;

		pattern_fill(local + off, LEN, off, !reads(i));
		pattern_fill(t.bytes + off, LEN, off, reads(i));
	}
	side_register(&p.a, local, (uint64_t)N * LEN, 0);
	warm();
	submit_all();
	computes();
	goes_on();
	target_close(&p, &t);
	pair_close(&p);
	free(local);
	return 0;
}
