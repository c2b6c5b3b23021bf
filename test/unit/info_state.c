/* SPDX-License-Identifier: Apache-2.0 */
/* What urccl_info calls a context, by when its engine last told of itself: one that turns no more
 * is stuck, one that sleeps past its time is late. On a segment that is made here and found among
 * this process's descriptors as those of running contexts are. */
#include <string.h>
#include <unistd.h>

#include "info/info.h"
#include "test.h"

#define SECOND 1000000000ull
#define NOW    (1000 * SECOND)

static struct segment *s;
static struct context c;

static void shows(char state, const char *word)
{
	c.state = state;
	if (strcmp(context_state(&c, NOW), word))
		fprintf(stderr, "%s, not %s\n", context_state(&c, NOW), word);
	CHECK(!strcmp(context_state(&c, NOW), word));
}

/* Stopped or dead is the process, whatever its engine told. */
static void process_shows(const char *word)
{
	shows('R', word);
	shows('S', word);
	shows('T', "stopped");
	shows('t', "stopped");
	shows('Z', "dead");
}

static void runs(void)
{
	s->engine.state = SEGMENT_RUNS;
	s->engine.wake_at_ns = 0;
	s->engine.updated_ns = NOW - SECOND;
	process_shows("busy");
	/* Its look was after ours. */
	s->engine.updated_ns = NOW + SECOND;
	process_shows("busy");
	s->engine.updated_ns = NOW - SECOND - 1;
	process_shows("stuck");
	s->engine.updated_ns = 0;
	process_shows("stuck");
	/* Whose program has not called turns no engine. */
	s->head.is_inline = 1;
	process_shows("not driven");
	s->engine.updated_ns = NOW;
	process_shows("busy");
	s->head.is_inline = 0;
}

static void sleeps(void)
{
	s->engine.state = SEGMENT_SLEEPS;
	s->engine.updated_ns = NOW - 100 * SECOND;
	s->engine.wake_at_ns = ~0ull; /* until something comes */
	process_shows("asleep");
	s->engine.wake_at_ns = NOW + SECOND;
	process_shows("asleep");
	s->engine.wake_at_ns = NOW - SECOND;
	process_shows("asleep");
	s->engine.wake_at_ns = NOW - SECOND - 1;
	process_shows("late");
}

int main(void)
{
	struct segment_params p = {.incarnation = 1, .npeers = 1};
	struct segment_file *f = segment_open(&p);

	CHECK(f);
	s = segment_of(f);
	if (*s->head.alone)
		SKIP(s->head.alone);
	s->engine.updated_ns = 1;
	CHECK_EQ(contexts_find(getpid(), &c, 1), 1);
	CHECK_EQ(c.view.s->engine.updated_ns, 1);
	runs();
	sleeps();
	context_close(&c);
	segment_close(f);
	CHECK_EQ(contexts_find(getpid(), &c, 1), 0);
	return 0;
}
