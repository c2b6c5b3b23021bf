/* SPDX-License-Identifier: Apache-2.0 */
/* A receiver that reads nothing, whose host lives, is waited for, three times dead_after too, and
 * then gets everything. One of which nothing comes any more, because packets are dropped, is down
 * when dead_after is over; also where its window was closed before. */
#include "tcp_cut.h"

/* b does nothing. */
static void turn_a(uint64_t ns)
{
	uint64_t until = clock_ns() + ns;

	while (clock_ns() < until && !a.down)
		turn_seldom();
	CHECK(a.chunks < (int)N || a.down);
}

static void is_waited_for(void)
{
	memset(remote, 0, ALL);
	post();
	turn_a(3 * DEAD_NS);
	CHECK(!a.down);
	TCP_WAIT(&a, &b, a.chunks == N);
	CHECK(!memcmp(local, remote, ALL) && !a.down && !b.down);
}

/* When so long nobody has read. */
static void is_cut(uint64_t after)
{
	uint64_t begin;

	post();
	turn_a(after);
	cut(ALL_OF_IT);
	begin = clock_ns();
	CHECK(!a.down);
	turn_a(PATIENCE_NS);
	CHECK_EQ(a.down_res, -ECONNRESET);
	printf("cut off: down after %llu ms\n",
	       (unsigned long long)((clock_ns() - begin) / NSEC_PER_MSEC));
	CHECK(after || !is_late(begin + 4 * DEAD_NS));
	mend();
	backend_tcp.unexpose(&exposure);
	tcp_close_eps(&a, &b);
}

static void run(void)
{
	meet();
	is_waited_for();
	is_cut(0);
	meet();
	is_cut(DEAD_NS);
}

int case_tcp_silent(void)
{
	by_each(run);
	return 0;
}
