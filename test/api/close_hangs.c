/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A provider that does not come back from closing an endpoint, or says for ever that it is busy,
 * and has a buffer meanwhile: the entry's outcome comes in time, its end does not, and the context
 * closes within 2 s all the same, as one without a peer does. The log says what was left, and the
 * memory stays. close_hangs [what pair.h takes] [--idle]: nothing is under way.
 */
#include <sys/mman.h>
#include "lateness.h"
#include "pair.h"

#define LEN	 4097u /* bytes that the provider fails, as its words have it */
#define SHORT_US 300000u
#define LATE_NS	 100000000u
#define CLOSE_NS 2000000000u

/* What is left is left, also for who looks for leaks. */
const char *__lsan_default_options(void);
const char *__lsan_default_options(void)
{
	return "detect_leaks=0";
}

static const char left[] = "has not returned from a call that closes";
static struct pair p;
static uint32_t logged;

static void heard(void *arg, int level, const char *text)
{
	(void)arg;
	if (level == URCCL_LOG_ERROR && strstr(text, left))
		__atomic_fetch_add(&logged, 1, __ATOMIC_RELAXED);
}

static int is_there(void *addr)
{
	return !msync(addr, LEN, MS_ASYNC);
}

/* It breaks its way, which is never closed: its outcome comes, and nothing else. */
static void leave_one_under_way(void *local, struct target *t)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);
	uint64_t start = now_ns();
	struct urccl_cqe cqe;

	urccl_prep_write(sqe, t->remote, local, LEN, 0);
	urccl_sqe_set_timeout(sqe, SHORT_US);
	CHECK_EQ(urccl_submit(p.a.ring), 1);
	side_take(&p.a, &p.b, &cqe, NULL);
	check_within(start, SHORT_US * 1000ull + LATE_NS);
	CHECK_EQ(cqe.res, -ETIMEDOUT);
	CHECK(cqe.flags & URCCL_CQE_MORE);
	CHECK(!(cqe.flags & URCCL_CQE_REMOTE_QUIET));
	CHECK(!side_take_within(&p.a, &p.b, LATE_NS, &cqe, NULL));
}

/* The ring with it. */
static void close_context(struct side *s)
{
	uint64_t start;

	settle_end(s);
	canary_reset();
	start = now_ns();
	urccl_close(s->ctx);
	check_within(start, CLOSE_NS);
	CHECK(strstr(urccl_errmsg(), left));
}

int main(int argc, char **argv)
{
	int idle = !strcmp(argv[argc - 1], "--idle");
	struct side alone;
	struct target t;
	void *local;

	pair_options(&p, argc - idle, argv);
	p.params.log = heard;
	p.params.log_level = URCCL_LOG_ERROR;
	canary_start();
	pair_open(&p);
	target_open(&p, &t, LEN, 1);
	CHECK_EQ(urccl_alloc(p.a.ctx, LEN, &local), 0);
	side_register(&p.a, local, LEN, URCCL_RIGHT_READ);
	canary_reset();
	if (!idle)
		leave_one_under_way(local, &t);
	close_context(&p.a);
	close_context(&p.b);
	side_open(&p, &alone);
	close_context(&alone);
	CHECK_EQ(logged, 3);
	CHECK(is_there(local) && is_there(t.bytes));
	return 0;
}
