/* SPDX-License-Identifier: Apache-2.0 */
/* A network that acknowledges a vector before its bytes are there, and then stands still or breaks:
 * what the CQE says was placed is, so that a program which goes on from fail.segment has it all. */
#include "pair.h"

#define SEGS	   8u
#define LEN	   2048u
#define STEP	   (2 * LEN)   /* they do not touch */
#define ACKED_NS   30000000ull /* the acknowledgements have come then, and no bytes */
#define TIMEOUT_US 5000000u    /* of simulated time, which a thread that is away takes, too */

static struct pair p;
static struct target t;
static uint8_t local[SEGS * STEP];
static uint64_t version;

static struct urccl_sqe *vector(uint32_t from)
{
	static struct urccl_seg segs[SEGS];
	struct urccl_sqe *sqe = side_sqe(&p.a);
	uint32_t i;

	for (i = 0; i < SEGS; i++)
		segs[i] = (struct urccl_seg){.addr = (uint64_t)(uintptr_t)local + i * STEP,
					     .len = LEN,
					     .off = i * STEP,
					     .remote = t.remote.id};
	urccl_prep_writev(sqe, p.a.peer, segs + from, SEGS - from);
	urccl_sqe_set_class(sqe, URCCL_CLASS_LATENCY); /* by one rail */
	return sqe;
}

static int is_placed(uint32_t i)
{
	return pattern_holds(t.bytes + i * STEP, LEN, i * STEP, version);
}

/* Its acknowledgements have come when this returns. */
static void acknowledged(uint32_t flags)
{
	struct urccl_sqe *sqe = vector(0);

	memset(t.bytes, 0, sizeof(local));
	pattern_fill(local, sizeof(local), 0, ++version);
	urccl_sqe_add_flags(sqe, flags);
	urccl_sqe_set_deadline_us(sqe, TIMEOUT_US);
	urccl_sqe_set_data64(sqe, 1);
	sqe = side_sqe(&p.a);
	urccl_prep_timeout(sqe, ACKED_NS, 0, 0);
	urccl_sqe_set_data64(sqe, 2);
	CHECK_EQ(urccl_submit(p.a.ring), 2);
	CHECK_EQ(pair_end(&p, &p.a, 2).res, -ETIME);
	CHECK(!is_placed(0));
}

static struct urccl_cqe fails(int res)
{
	struct urccl_cqe cqe = pair_end(&p, &p.a, 1);
	uint32_t i;

	CHECK_EQ(cqe.res, res);
	for (i = 0; i < SEGS && i < cqe.fail.segment; i++)
		CHECK(is_placed(i));
	return cqe;
}

static void goes_on(uint32_t from)
{
	uint32_t i;

	CHECK_EQ(pair_run(&p, &p.a, vector(from)).res, (SEGS - from) * LEN);
	for (i = 0; i < SEGS; i++)
		CHECK(is_placed(i));
}

static void freezes(void)
{
	struct urccl_cqe cqe;

	acknowledged(0);
	urccl_sim_freeze(p.sim, 1);
	cqe = fails(-ETIMEDOUT);
	check_sentence(&p.a, &cqe, " 0 of 16384 bytes were known to be placed");
	urccl_sim_freeze(p.sim, 0);
	goes_on(cqe.fail.segment);
}

static void breaks(void)
{
	struct urccl_cqe cqe = pair_run(&p, &p.a, vector(0));
	uint32_t rail = !(cqe.path >> URCCL_PATH_RAILS_SHIFT & 1);

	acknowledged(URCCL_SQE_NO_REPLAY);
	pair_pull(&p, rail, 1);
	cqe = fails(-ECONNRESET);
	goes_on(cqe.fail.segment);
}

int main(int argc, char **argv)
{
	pair_options(&p, argc, argv);
	p.params.flags |= URCCL_OPEN_INLINE;
	p.faults = "clock=simulated,rails=2,early=100%,delay=20ms..20ms";
	pair_open(&p);
	target_open(&p, &t, sizeof(local), 0);
	side_register(&p.a, local, sizeof(local), 0);
	freezes();
	breaks();
	target_close(&p, &t);
	pair_close(&p);
	return 0;
}
