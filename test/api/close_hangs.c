/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A provider that does not come back from closing an endpoint, or says for ever that it is busy,
 * and has a buffer meanwhile: the entry's outcome comes in time, its end does not, and the context
 * closes within 2 s all the same, as one without a peer does. The log says so, and the memory
 * stays. close_hangs [what pair.h takes] [--idle | --dial | --beside | --late]: nothing is under
 * way; or another peer is dialled, or written to, with success or, where the provider serves one
 * thread at a time, an end in time.
 */
#include <sys/mman.h>
#include "lateness.h"
#include "meet.h"

#define LEN	 4097u /* bytes that the provider fails, as its words have it */
#define SHORT_US 300000u
#define LATE_NS	 100000000u
#define WRITES	 200u /* to another peer */
#define CLOSE_NS 2000000000u

/* What is left is left, also for who looks for leaks. */
const char *__lsan_default_options(void);
const char *__lsan_default_options(void)
{
	return "detect_leaks=0";
}

static const char left[] = "has not returned from a call that closes";
static struct pair p, beside; /* a in both */
static struct target beside_target;
static uint32_t logged;
static uint8_t ours[LEN];

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

/* The outcome of a write comes in time. 1: it has no end yet. */
static int outcome(struct side *to, void *local, struct target *t)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);
	uint64_t start = now_ns();
	struct urccl_cqe cqe;

	urccl_prep_write(sqe, t->remote, local, LEN, 0);
	urccl_sqe_set_deadline_us(sqe, SHORT_US);
	CHECK_EQ(urccl_submit(p.a.ring), 1);
	side_take(&p.a, to, &cqe, NULL);
	check_within(start, SHORT_US * 1000ull + LATE_NS);
	CHECK_EQ(cqe.res, -ETIMEDOUT);
	if (cqe.flags & URCCL_CQE_MORE)
		CHECK(!(cqe.flags & URCCL_CQE_REMOTE_QUIET));
	return !!(cqe.flags & URCCL_CQE_MORE);
}

/* It breaks its way, which is never closed: its outcome comes, and nothing else. A machine that
 * stood still until the deadline did not begin it. */
static void leave_under_way(void *local, struct target *t)
{
	struct urccl_cqe cqe;

	while (!outcome(&p.b, local, t)) {
		CHECK_GE(canary_ns(), CANARY_LATE_NS);
		canary_reset();
	}
	CHECK(!side_take_within(&p.a, &p.b, LATE_NS, &cqe, NULL));
}

/* The thread that dials waits for the one that hangs. */
static void dial_meanwhile(struct side *to)
{
	uint8_t blob[URCCL_METADATA_MAX];
	struct urccl_sqe *sqe;
	struct urccl_cqe cqe;
	int len;

	side_open(&p, to);
	sqe = side_sqe(to);
	urccl_prep_accept(sqe);
	CHECK_EQ(urccl_submit(to->ring), 1);
	len = urccl_metadata(to->ctx, blob, sizeof(blob));
	CHECK_GE(len, 1);
	sqe = side_sqe(&p.a);
	urccl_prep_connect(sqe, blob, (uint32_t)len);
	CHECK_EQ(urccl_submit(p.a.ring), 1);
	CHECK(!side_take_within(&p.a, to, LATE_NS, &cqe, NULL));
}

/* Another peer of a's, which it is connected to. */
static void beside_open(void)
{
	beside.params = p.params;
	beside.transport = p.transport;
	beside.a = p.a;
	side_open(&p, &beside.b);
	side_accept(&beside.b, 1);
	side_connect(&beside.a, &beside.b);
	target_open(&beside, &beside_target, LEN, 1);
}

/* It knows nothing of the one that hangs. */
static void write_beside(void)
{
	struct urccl_cqe cqe;
	uint32_t i;

	for (i = 0; i < WRITES; i++) {
		struct urccl_sqe *sqe = side_sqe(&p.a);

		pattern_fill(ours, LEN - 1, 0, i);
		urccl_prep_write(sqe, beside_target.remote, ours, LEN - 1, 0);
		CHECK_EQ(urccl_submit(p.a.ring), 1);
		side_take(&p.a, &beside.b, &cqe, NULL);
		CHECK_EQ(cqe.res, LEN - 1);
		CHECK(pattern_holds(beside_target.bytes, LEN - 1, 0, i));
	}
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
	int dials = !strcmp(argv[argc - 1], "--dial");
	int late = !strcmp(argv[argc - 1], "--late");
	int writes = late || !strcmp(argv[argc - 1], "--beside");
	struct side alone, other;
	struct target t;
	void *local;

#ifdef __SANITIZE_THREAD__
	if (dials)
		SKIP("settle.c closes a ring of a living context here, which waits for the dial");
#endif
	pair_options(&p, argc - (idle || dials || writes), argv);
	p.params.log = heard;
	p.params.log_level = URCCL_LOG_ERROR;
	canary_start();
	pair_open(&p);
	target_open(&p, &t, LEN, 1);
	CHECK_EQ(urccl_alloc(p.a.ctx, LEN, &local), 0);
	side_register(&p.a, local, LEN, URCCL_RIGHT_READ);
	side_register(&p.a, ours, sizeof(ours), URCCL_RIGHT_READ);
	if (writes)
		beside_open();
	canary_reset();
	if (!idle)
		leave_under_way(local, &t);
	if (dials)
		dial_meanwhile(&other);
	canary_reset();
	if (late)
		CHECK(!outcome(&beside.b, local, &beside_target));
	else if (writes)
		write_beside();
	close_context(&p.a);
	close_context(&p.b);
	side_open(&p, &alone);
	close_context(&alone);
	if (dials || writes)
		close_context(dials ? &other : &beside.b);
	CHECK_EQ(logged, dials || writes ? 4 : 3);
	CHECK(is_there(local));
	/* The peer has closed nothing of its own where peers share what is closed. */
	CHECK(!strcmp(p.params.transport, "fabric:cxi") || is_there(t.bytes));
	return 0;
}
