/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A provider that does not come back from closing an endpoint, or says for ever that it is busy,
 * and has a buffer meanwhile: the entry's outcome comes in time, its end does not, and the context
 * closes within 2 s all the same, as one without a peer does. The log says what was left, and the
 * memory stays. close_hangs [what pair.h takes] [--idle | --group | --unregister | --dial |
 * --beside | --late | --import]: nothing is under way; or several entries are, in one operation; or
 * memory is unregistered meanwhile; or another peer dialled, or written to, with success or, where
 * the provider serves one thread at a time, an end in time; or another advert of the same memory
 * taken, used, with such an end, and given up.
 */
#include <sys/mman.h>
#include "lateness.h"
#include "meet.h"

#define LEN	 4097u /* bytes that the provider fails, as its words have it */
#define SHORT_US 300000u
#define LATE_NS	 100000000u
#define WRITES	 200u /* to another peer */
#define GROUP	 4u   /* ranges that the provider takes in one operation then */
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
static int repeated; /* more were under way than the last ones */
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

/* Outcomes of n that are submitted together come in time. Returns how many have no end yet. */
static uint32_t outcomes(struct side *to, void *local, struct target *t, uint32_t n)
{
	uint64_t start = now_ns();
	struct urccl_cqe cqe;
	uint32_t i, more = 0;

	for (i = 0; i < n; i++) {
		struct urccl_sqe *sqe = side_sqe(&p.a);

		urccl_prep_write(sqe, t->remote, local, LEN, 0);
		urccl_sqe_set_deadline_us(sqe, SHORT_US);
	}
	CHECK_EQ(urccl_submit(p.a.ring), n);
	for (i = 0; i < n; i++) {
		side_take(&p.a, to, &cqe, NULL);
		check_within(start, SHORT_US * 1000ull + LATE_NS);
		CHECK_EQ(cqe.res, -ETIMEDOUT);
		if (!(cqe.flags & URCCL_CQE_MORE))
			continue;
		CHECK(!(cqe.flags & URCCL_CQE_REMOTE_QUIET));
		more++;
	}
	return more;
}

/* They break their way, which is never closed: their outcomes come, and nothing else. A machine
 * that stood still until the deadline did not begin them. */
static void leave_under_way(void *local, struct target *t, uint32_t n)
{
	struct urccl_cqe cqe;

	while (outcomes(&p.b, local, t, n) != n) {
		CHECK_GE(canary_ns(), CANARY_LATE_NS);
		canary_reset();
		repeated = 1;
	}
	CHECK(!side_take_within(&p.a, &p.b, LATE_NS, &cqe, NULL));
}

/* What the provider has of it cannot be given back while it serves one thread at a time. */
static void unregister_meanwhile(struct urccl_region region)
{
	CHECK(urccl_unregister(p.a.ctx, region) < 0);
}

/* The same of what a connection begins with: the thread that dials is held up. */
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

/* The engine does not wait for what hangs. */
static void import_meanwhile(void *local, struct target *t)
{
	uint64_t start = now_ns();
	struct target again = *t;

	CHECK_EQ(urccl_import(p.a.ctx, p.a.peer, &again.advert, 1, &again.remote), 0);
	check_within(start, LATE_NS);
	CHECK_EQ(outcomes(&p.b, local, &again, 1), 0);
	start = now_ns();
	CHECK_EQ(urccl_unimport(p.a.ctx, again.remote), 0);
	check_within(start, LATE_NS);
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
	int groups = !strcmp(argv[argc - 1], "--group");
	int unregisters = !strcmp(argv[argc - 1], "--unregister");
	int dials = !strcmp(argv[argc - 1], "--dial");
	int late = !strcmp(argv[argc - 1], "--late");
	int imports = !strcmp(argv[argc - 1], "--import");
	int writes = late || !strcmp(argv[argc - 1], "--beside");
	struct urccl_region region;
	struct side alone, other;
	struct target t;
	void *local;

#ifdef __SANITIZE_THREAD__
	if (dials)
		SKIP("settle.c closes a ring of a living context here, which waits for the dial");
#endif
	pair_options(&p, argc - (idle || groups || unregisters || dials || writes || imports),
		     argv);
	p.params.log = heard;
	p.params.log_level = URCCL_LOG_ERROR;
	canary_start();
	pair_open(&p);
	target_open(&p, &t, LEN, 1);
	CHECK_EQ(urccl_alloc(p.a.ctx, LEN, &local), 0);
	side_register(&p.a, local, LEN, URCCL_RIGHT_READ);
	region = side_register(&p.a, ours, sizeof(ours), URCCL_RIGHT_READ);
	if (writes)
		beside_open();
	canary_reset();
	if (!idle)
		leave_under_way(local, &t, groups ? GROUP : 1);
	if (unregisters)
		unregister_meanwhile(region);
	if (dials)
		dial_meanwhile(&other);
	if (imports)
		import_meanwhile(local, &t);
	canary_reset();
	if (late)
		CHECK_EQ(outcomes(&beside.b, local, &beside_target, 1), 0);
	else if (writes)
		write_beside();
	close_context(&p.a);
	CHECK(!groups || repeated || strstr(urccl_errmsg(), " 1 operations "));
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
