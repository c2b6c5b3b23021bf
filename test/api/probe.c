/* SPDX-License-Identifier: Apache-2.0 */
/* A probe measures within its bounds, over the transport in use, without anything that the programs
 * did for it; it ends in time where the peer does not answer, and says why. */
#include <pthread.h>
#include "pair.h"

static struct pair p;
static uint32_t stop;

static int is_inline(void)
{
	return !!(p.params.flags & URCCL_OPEN_INLINE);
}

/* The peer's program, which has nothing to do with it. */
static void *turn_b(void *arg)
{
	(void)arg;
	while (!__atomic_load_n(&stop, __ATOMIC_ACQUIRE))
		side_turn(&p.b);
	return NULL;
}

static int probe(struct urccl_peer peer, const struct urccl_measure_args *args,
		 struct urccl_measurement *out)
{
	pthread_t thread;
	int res;

	*out = (struct urccl_measurement){.size = sizeof(*out)};
	stop = 0;
	if (is_inline())
		CHECK_EQ(pthread_create(&thread, NULL, turn_b, NULL), 0);
	res = urccl_measure(p.a.ctx, peer, args, out);
	__atomic_store_n(&stop, 1, __ATOMIC_RELEASE);
	if (is_inline()) {
		CHECK_EQ(pthread_join(thread, NULL), 0);
		side_turn(&p.b); /* this thread's again */
	}
	return res;
}

static void measures(void)
{
	struct urccl_measure_args args = {.size = sizeof(args), .exchanges = 5, .bytes = 3 << 20};
	struct urccl_measurement out;
	int i;

	for (i = 0; i < 2; i++) {
		CHECK_EQ(probe(p.a.peer, &args, &out), 0);
		CHECK_EQ(out.size, sizeof(out));
		CHECK_EQ(out.path & URCCL_PATH_TRANSPORT, p.transport);
		CHECK_EQ(out.mapped, p.transport == URCCL_TRANSPORT_SHM);
		CHECK_EQ(out.exchanges, 5);
		CHECK_GE(out.rtt_min_ns, 1);
		CHECK_GE(out.rtt_median_ns, out.rtt_min_ns);
		CHECK_GE(out.written, 256 << 10);
		CHECK_LE(out.written, 3 << 20);
		CHECK_GE(out.write_ns, 1);
		CHECK_GE(out.read, 256 << 10);
		CHECK_LE(out.read, 3 << 20);
		CHECK_GE(out.read_ns, 1);
	}
	CHECK_EQ(probe(p.a.peer, NULL, &out), 0);
	CHECK_EQ(out.exchanges, 32);
	args.flags = URCCL_MEASURE_NO_BURST;
	CHECK_EQ(probe(p.a.peer, &args, &out), 0);
	CHECK_GE(out.rtt_min_ns, 1);
	CHECK_EQ(out.written + out.write_ns + out.read + out.read_ns, 0);
}

/* No longer than it may: a burst without end of bytes ends by its time. */
static void bounded(void)
{
	struct urccl_measure_args args = {.size = sizeof(args), .bytes = 1ull << 50, .burst_ns = 1};
	struct urccl_measurement out;

	CHECK_EQ(probe(p.a.peer, &args, &out), 0);
	CHECK_GE(out.written, 256 << 10);
	CHECK_LE(out.written, 1 << 20);
	CHECK_LE(out.read, 1 << 20);
}

static void refused(void)
{
	struct urccl_measure_args args = {.size = sizeof(args), .exchanges = 4097};
	struct urccl_peer nobody = {NO_PEER};
	struct urccl_measurement out;

	CHECK_EQ(probe(nobody, NULL, &out), -ESTALE);
	CHECK(*urccl_errmsg());
	CHECK_EQ(probe(p.a.peer, &args, &out), -EINVAL);
	args = (struct urccl_measure_args){.size = sizeof(args), .flags = 2};
	CHECK_EQ(probe(p.a.peer, &args, &out), -EINVAL);
	CHECK_EQ(urccl_measure(p.a.ctx, p.a.peer, NULL, NULL), -EINVAL);
	CHECK_EQ(out.exchanges, 0);
}

static void *elsewhere(void *arg)
{
	struct urccl_measurement out = {.size = sizeof(out)};

	(void)arg;
	CHECK_EQ(urccl_measure(p.a.ctx, p.a.peer, NULL, &out), is_inline() ? -EBUSY : 0);
	return NULL;
}

static void any_thread(void)
{
	pthread_t thread;

	CHECK_EQ(pthread_create(&thread, NULL, elsewhere, NULL), 0);
	CHECK_EQ(pthread_join(thread, NULL), 0);
}

/* The entries of the program go on as if nothing were. */
static void ring_untouched(void)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);

	urccl_prep_nop(sqe);
	CHECK_EQ(pair_run(&p, &p.a, sqe).res, 0);
	CHECK(!urccl_peek_cqe(p.a.ring));
	CHECK(!urccl_peek_cqe(p.b.ring));
}

static void gone(void)
{
	struct urccl_measurement out = {.size = sizeof(out)};
	int res;

	if (is_inline()) {
		/* Nobody drives it: sim and mapped memory do without. */
		res = urccl_measure(p.a.ctx, p.a.peer, NULL, &out);
		CHECK_EQ(res,
			 p.transport == URCCL_TRANSPORT_TCP || p.transport == URCCL_TRANSPORT_FABRIC
				 ? -ETIMEDOUT
				 : 0);
		if (res)
			CHECK(*urccl_errmsg());
	}
	side_close(&p.b);
	res = urccl_measure(p.a.ctx, p.a.peer, NULL, &out);
	CHECK(res == -ECONNRESET || res == -ESTALE);
	CHECK(*urccl_errmsg());
}

int main(int argc, char **argv)
{
	pair_options(&p, argc, argv);
	p.params.deadline_ms = PAIR_SLOW ? 20000 : 2000;
	pair_open(&p);
	measures();
	bounded();
	refused();
	any_thread();
	ring_untouched();
	gone();
	pair_close(&p);
	return 0;
}
