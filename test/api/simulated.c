/* SPDX-License-Identifier: Apache-2.0 */
/* A simulated clock: hours pass in no time, deadlines are kept by it, the same seed gives the same
 * history and another seed another one; it is refused where it would not hold. */
#include "pair.h"

#define ENTRIES 2000u
#define LEN	(32u << 10)
#define HOUR	3600000000000ull
#define FAULTS                                                                           \
	"clock=simulated,delay=1us..200us,drop=5%,resend=50us,retries=30,duplicate=10%," \
	"early=40%,error=1%,partial=1%,freeze=500us..2ms/3ms..5ms,flap=50us..100us/1ms..2ms"

static struct pair p;
static struct target t;
static uint8_t local[16 * LEN];
static uint64_t state;

static uint64_t below(uint64_t n)
{
	state = state * 6364136223846793005ull + 1442695040888963407ull;
	return (state >> 33) % n;
}

static void begin(int argc, char **argv, const char *faults, uint64_t seed)
{
	pair_options(&p, argc, argv);
	p.params.flags |= URCCL_OPEN_INLINE;
	p.faults = faults;
	p.seed = seed;
	pair_open(&p);
	target_open(&p, &t, 16 * LEN, 0);
	side_register(&p.a, local, sizeof(local), 0);
}

static void end(void)
{
	target_close(&p, &t);
	pair_close(&p);
}

/* ---- time ---- */

static void hours(int argc, char **argv)
{
	struct urccl_wait_args args = {.size = sizeof(args), .min_n = 1, .timeout_ns = 5 * HOUR};
	uint64_t from = now_ns();
	struct urccl_sqe *sqe;
	struct urccl_cqe cqe, *c;

	begin(argc, argv, "clock=simulated,delay=10us", p.seed);
	CHECK_EQ(urccl_wait(p.a.ring, &c, &args), -ETIME);
	sqe = side_sqe(&p.a);
	urccl_prep_timeout(sqe, HOUR, 0, 0);
	CHECK_EQ(urccl_submit(p.a.ring), 1);
	CHECK_EQ(urccl_wait(p.a.ring, &c, &args), 1);
	CHECK_EQ(c->res, -ETIME);
	urccl_cqe_seen(p.a.ring, c);

	sqe = side_sqe(&p.a);
	urccl_prep_write(sqe, t.remote, local, LEN, 0);
	CHECK_EQ(pair_run(&p, &p.a, sqe).res, LEN);
	urccl_sim_freeze(p.sim, 1);
	sqe = side_sqe(&p.a);
	urccl_prep_write(sqe, t.remote, local, LEN, 0);
	urccl_sqe_set_deadline_us(sqe, 4000000000u);
	cqe = pair_run(&p, &p.a, sqe);
	CHECK_EQ(cqe.res, -ETIMEDOUT);
	check_sentence(&p.a, &cqe, "4000000000 us");
	urccl_sim_freeze(p.sim, 0);
	end();
	CHECK(!is_late(from + PAIR_LATE_NS));
}

/* ---- histories ---- */

static void start(uint32_t i)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);
	uint64_t slot = below(16) * LEN, len = below(LEN);

	if (below(4) == 0)
		urccl_prep_notify(sqe, p.a.peer, i, NULL, 0);
	else if (below(2))
		urccl_prep_read(sqe, t.remote, local + slot, len, slot);
	else
		urccl_prep_write(sqe, t.remote, local + slot, len, slot);
	if (below(4) == 0)
		urccl_sqe_set_deadline_us(sqe, (uint32_t)(1 + below(3000)));
	urccl_sqe_set_data64(sqe, i);
}

/* What came, in which order; FNV-1a (Fowler, Noll, Vo). idle: turns of both between the answer of
 * WARM and what the program does next, as a loop has that did not look at the right moment. */
static uint64_t live(int argc, char **argv, uint64_t seed, uint32_t idle)
{
	uint64_t hash = 14695981039346656037ull;
	uint32_t started = 0, ended = 0, failed = 0;
	struct urccl_cqe cqe;

	state = 1;
	begin(argc, argv, FAULTS, seed);
	urccl_prep_warm(side_sqe(&p.a), p.a.peer);
	CHECK_EQ(urccl_submit(p.a.ring), 1);
	side_take(&p.a, &p.b, &cqe, NULL);
	for (; idle; idle--) {
		side_turn(&p.a);
		side_turn(&p.b);
	}
	while (ended < ENTRIES) {
		while (started < ENTRIES && started - ended < 24)
			start(started++);
		CHECK_GE(urccl_submit(p.a.ring), 0);
		side_turn(&p.a);
		side_turn(&p.b);
		while (urccl_peek_cqe(p.b.ring))
			side_take(&p.b, &p.a, &cqe, NULL);
		while (side_take_within(&p.a, &p.b, 0, &cqe, NULL)) {
			hash = (hash ^ (uint64_t)cqe.res ^ cqe.user_data << 20) * 1099511628211ull;
			ended += !(cqe.flags & URCCL_CQE_MORE);
			failed += cqe.res < 0;
		}
	}
	CHECK(failed > ENTRIES / 20 && failed < ENTRIES * 3 / 4);
	end();
	return hash;
}

static void refused(const char *transport, uint32_t flags, uint32_t max_warm, const char *words)
{
	struct urccl_params params = p.params;
	struct urccl *ctx = NULL;

	params.transport = transport;
	params.flags = flags;
	params.max_warm = max_warm;
	CHECK_EQ(urccl_open(&params, &ctx), -EINVAL);
	CHECK(!ctx && strstr(urccl_errmsg(), words));
}

int main(int argc, char **argv)
{
	uint64_t first;

	hours(argc, argv);
	first = live(argc, argv, 7, 0);
	CHECK_EQ(live(argc, argv, 7, 0), first);
	CHECK_EQ(live(argc, argv, 7, 3), first);
	CHECK_NE(live(argc, argv, 8, 0), first);
	pair_options(&p, argc, argv);
	CHECK_EQ(urccl_sim_open("clock=simulated", &p.sim), 0);
	p.params.sim_network = p.sim;
	refused("sim", 0, 0, "URCCL_OPEN_INLINE");
	refused("sim,tcp", URCCL_OPEN_INLINE, 0, "transport sim alone");
	refused("sim", URCCL_OPEN_INLINE, 4, "max_warm is 4");
	CHECK_EQ(urccl_sim_close(p.sim), 0);
	return 0;
}
