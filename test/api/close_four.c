/* SPDX-License-Identifier: Apache-2.0 */
/* Four devices whose provider is busy for ever: the context closes in the time that one takes. */
#include "lateness.h"
#include "pair.h"

#define CLOSE_NS 2000000000u

/* What is left is left, also for who looks for leaks. */
const char *__lsan_default_options(void);
const char *__lsan_default_options(void)
{
	return "detect_leaks=0";
}

static struct pair p;
static uint32_t logged;

static void heard(void *arg, int level, const char *text)
{
	(void)arg;
	if (level == URCCL_LOG_ERROR && strstr(text, "has not returned from a call that closes"))
		__atomic_fetch_add(&logged, 1, __ATOMIC_RELAXED);
}

int main(int argc, char **argv)
{
	struct side s;
	uint64_t start;

	pair_options(&p, argc, argv);
	p.params.log = heard;
	p.params.log_level = URCCL_LOG_ERROR;
	canary_start();
	side_open(&p, &s);
	settle_end(&s);
	canary_reset();
	start = now_ns();
	urccl_close(s.ctx);
	check_within(start, CLOSE_NS);
	CHECK_EQ(logged, 4);
	return 0;
}
