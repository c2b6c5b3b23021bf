/* SPDX-License-Identifier: Apache-2.0 */
/* An idle peer that is killed is lost within 100 ms although a forked child holds its sockets, also
 * when its data path was closed for being idle. The program waits by either way. */
#include <signal.h>
#include "killed.h"
#include "lateness.h"

static void until_suspended(struct side *s)
{
	uint64_t until = now_ns() + PAIR_LATE_NS;

	while (side_is_warm(s, s->peer)) {
		side_silent(s, NULL, 1000000);
		CHECK(!is_late(until));
	}
}

/* The best of some tries. */
static uint64_t lost_after(struct pair *p, int suspended)
{
	uint64_t best = UINT64_MAX, killed, lost;
	struct killed k;
	uint32_t i;

	killed_open(p, &k);
	for (i = 0; i < KILLED_TRIES; i++) {
		killed_start(p, &k);
		if (suspended)
			until_suspended(&p->a);
		killed = killed_signal(&k, SIGKILL);
		lost = killed_lost(&p->a, i % 2, "process has ended");
		best = lost - killed < best ? lost - killed : best;
		CHECK_EQ(side_drop(&p->a, NULL, p->a.peer.id), 0);
		killed_end(&k);
	}
	printf("%s, lost after %llu us\n", suspended ? "suspended" : "idle",
	       (unsigned long long)best / 1000);
	return best;
}

int main(int argc, char **argv)
{
	struct pair p;
	uint32_t i;

	killed_possible();
	pair_options(&p, argc, argv);
	p.params.dead_after_ms = 600000;
	for (i = 0; i < 2; i++) {
		p.params.idle_after_ms = i ? 20 : 0;
		side_open(&p, &p.a);
		CHECK_LE(lost_after(&p, (int)i), KILLED_NS + emulated_ns());
		side_close(&p.a);
	}
	return 0;
}
