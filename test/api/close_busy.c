/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A provider that says for ever of a region that it is busy, and of no endpoint: nothing hangs, the
 * context closes, and what the library allocated stays where the provider may still write.
 */
#include <sys/mman.h>
#include "pair.h"

#define LEN 4096u

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
	if (level == URCCL_LOG_WARN && strstr(text, "does not give 4096 bytes back"))
		__atomic_fetch_add(&logged, 1, __ATOMIC_RELAXED);
}

static int is_there(void *addr)
{
	return !msync(addr, LEN, MS_ASYNC);
}

int main(int argc, char **argv)
{
	struct target t;
	void *local;

	pair_options(&p, argc, argv);
	p.params.log = heard;
	p.params.log_level = URCCL_LOG_WARN;
	pair_open(&p);
	target_open(&p, &t, LEN, 1);
	CHECK_EQ(urccl_alloc(p.a.ctx, LEN, &local), 0);
	side_register(&p.a, local, LEN, URCCL_RIGHT_READ);
	side_close(&p.a);
	CHECK(is_there(local));
	side_close(&p.b);
	CHECK(is_there(t.bytes));
	CHECK_GE(logged, 2);
	return 0;
}
