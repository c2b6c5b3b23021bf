/* SPDX-License-Identifier: Apache-2.0 */
/* Who is not driven for three times dead_after, since its process is stopped, does not count that
 * against the other end: one that had been silent for half of dead_after before is given the rest
 * of it, and is down then. */
#include <time.h>
#include "tcp_cut.h"

static void run(void)
{
	static const struct timespec stopped = {.tv_sec = 3 * DEAD_MS / 1000,
						.tv_nsec = 3 * DEAD_MS % 1000 * 1000000L};
	uint64_t until, since;

	meet();
	post();
	cut(ALL_OF_IT);
	for (until = clock_ns() + DEAD_NS / 2; clock_ns() < until;)
		turn_seldom();
	CHECK(!a.down);
	nanosleep(&stopped, NULL);
	for (since = clock_ns(); !a.down && clock_ns() - since < PATIENCE_NS;)
		turn_seldom();
	since = clock_ns() - since;
	printf("down after %llu ms\n", (unsigned long long)(since / NSEC_PER_MSEC));
	CHECK_EQ(a.down_res, -ECONNRESET);
	CHECK_GE(since, DEAD_NS / 8);
	mend();
	backend_tcp.unexpose(&exposure);
	tcp_close_eps(&a, &b);
}

int case_tcp_stopped(void)
{
	by_each(run);
	return 0;
}
