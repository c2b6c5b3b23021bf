/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Large writes and reads are stopped at a random moment, by CANCEL or by their deadline. From the
 * terminal CQE on our buffer is ours, and with REMOTE_QUIET the peer's is the peer's: both are
 * scribbled on, watched, and must not change; nor must what was scribbled here turn up there. What
 * is scribbled is what the next round moves, each time a byte that no recent round had. The peer
 * lives and answers: its memory is proved to be quiet each time, and each outcome is in time and
 * comes with its end, unless the machine was late by then. Over libfabric the end is the close of
 * an endpoint, for which there are 20 ms before the outcome is told: the guest's emulated processor
 * may take longer, but no longer than it is given elsewhere.
 *
 *	canary [what pair.h takes] [--rounds=N] [--bytes=N] [--count] [--fold=N]
 *
 * The seed is printed; --seed runs it again. With --count, for runs beside other work, what was
 * late or not proved in time is counted and not judged; a byte that changed is. With --fold both
 * buffers are N bytes that are mapped again and again, in the processor's cache: a byte that is
 * late at any of their addresses is seen among them.
 */
#include <sys/mman.h>
#include <sys/random.h>
#include "lateness.h"
#include "pair.h"
#include "random.h"

/* Copies of 64 MiB take a provider of the tests' own longer than a peer has to answer. */
#if defined(__SANITIZE_ADDRESS__) || PAIR_SLOW
#define SLOW 1
#else
#define SLOW 0
#endif

#define MARK	 1000u
#define WATCH_NS 1000000u
#define TEN_MIN	 (600ull * 1000000)
#define SLACK_NS 50000000ull /* of an outcome, after the deadline */

static struct pair p;
static struct target t;
static struct urccl_region region;
static uint8_t *local;
static uint64_t bytes = 64ull << 20, rounds = 10, seed, full_ns;
static uint64_t round_now, stopped, unproved, early, late;
static uint64_t looked_at; /* bytes of a buffer, behind which they come again */
static int count;
static uint8_t ours, theirs, value; /* what fills our buffer, the peer's; the last one scribbled */

/* Takes what is this test's own off the command line; the pair takes the rest. */
static void options(int argc, char **argv)
{
	int i, n = 1, seeded = 0;

	for (i = 1; i < argc; i++) {
		if (!strncmp(argv[i], "--rounds=", 9))
			rounds = strtoull(argv[i] + 9, NULL, 0);
		else if (!strncmp(argv[i], "--bytes=", 8))
			bytes = strtoull(argv[i] + 8, NULL, 0);
		else if (!strncmp(argv[i], "--fold=", 7))
			looked_at = strtoull(argv[i] + 7, NULL, 0);
		else if (!strcmp(argv[i], "--count"))
			count = 1;
		else
			argv[n++] = argv[i];
		seeded |= !strncmp(argv[i], "--seed=", 7);
	}
	pair_options(&p, n, argv);
	if (!seeded)
		CHECK_EQ(getrandom(&p.seed, sizeof(p.seed), 0), sizeof(p.seed));
	seed = p.seed | 1;
	looked_at = looked_at ? looked_at : bytes;
	CHECK_EQ(bytes % looked_at, 0);
}

/* io_uring is not to be had everywhere. */
static void try_open(void)
{
	struct urccl *ctx;

	if (p.params.tcp_driver != URCCL_TCP_IO_URING)
		return;
	if (urccl_open(&p.params, &ctx))
		SKIP(urccl_errmsg());
	urccl_close(ctx);
}

/* Every byte is value. */
static int all(const uint8_t *at, uint8_t byte)
{
	return at[0] == byte && !memcmp(at, at + 1, looked_at - 1);
}

/* Else says where, and what is there. */
static void check_filled(const char *where, const uint8_t *at, uint8_t byte)
{
	uint64_t from = 0, to = looked_at;

	if (all(at, byte))
		return;
	while (at[from] == byte)
		from++;
	while (at[to - 1] == byte)
		to--;
	fprintf(stderr,
		"round %llu, %s: %u where %u is due, from %llu to %llu; %llu unproved before\n",
		(unsigned long long)round_now, where, at[from], byte, (unsigned long long)from,
		(unsigned long long)to, (unsigned long long)unproved);
	CHECK(!"a byte changed");
}

static void scribble(uint8_t *at, uint8_t *what)
{
	*what = ++value;
	memset(at, *what, looked_at);
}

static void watch(uint64_t ns)
{
	uint64_t end = now_ns() + ns;
	struct urccl_cqe cqe;

	do
		CHECK(!side_take_within(&p.a, &p.b, ns, &cqe, NULL));
	while (now_ns() < end);
}

/* Where threads get no time a living peer's word cannot come in time. */
static void check_excused(const char *what)
{
	if (SLOW || count || canary_ns() >= CANARY_LATE_NS)
		return;
	fprintf(stderr, "%s, on a machine that was not late\n", what);
	CHECK(!"promised of a peer that answers");
}

static void submit(int reads, uint32_t deadline_us)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);

	if (reads)
		urccl_prep_read(sqe, t.remote, local, bytes, 0);
	else
		urccl_prep_write(sqe, t.remote, local, bytes, 0);
	urccl_sqe_set_region(sqe, region);
	urccl_sqe_set_deadline_us(sqe, deadline_us);
	urccl_sqe_set_data64(sqe, 1);
	CHECK_EQ(urccl_submit(p.a.ring), 1);
}

static void submit_cancel(void)
{
	static const enum urccl_cancel_by how[] = {URCCL_CANCEL_BY_USER_DATA,
						   URCCL_CANCEL_BY_REGION, URCCL_CANCEL_BY_REMOTE};
	uint64_t keys[] = {1, region.id, t.remote.id};
	struct urccl_sqe *sqe = side_sqe(&p.a);
	uint64_t i = random_below(&seed, 3);

	urccl_prep_cancel(sqe, how[i], keys[i]);
	urccl_sqe_set_data64(sqe, MARK);
	CHECK_EQ(urccl_submit(p.a.ring), 1);
}

/* How long an end may be behind its outcome. */
static uint64_t close_ns(void)
{
	return p.transport == URCCL_TRANSPORT_FABRIC ? emulated_ns() : 0;
}

/* The entry's end, and before or after it what its CANCEL said. *when: of the outcome. */
static struct urccl_cqe take_end(int cancelled, uint64_t *when)
{
	struct urccl_cqe cqe, end = {0};
	int ended = 0, told = 0;

	while (!ended || cancelled) {
		side_take(&p.a, &p.b, &cqe, NULL);
		if (cqe.user_data == MARK) {
			CHECK(cqe.res == 1 || cqe.res == -EALREADY || cqe.res == -ENOENT);
			cancelled = 0;
			continue;
		}
		CHECK(!ended);
		*when = told ? *when : now_ns();
		if (cqe.flags & URCCL_CQE_MORE) {
			CHECK(!told++);
			continue;
		}
		early += (uint64_t)told;
		if (told && now_ns() - *when > close_ns())
			check_excused("an outcome without its end");
		end = cqe;
		ended = 1;
	}
	return end;
}

/* Lets it run for so long. */
static void run_for(uint64_t ns)
{
	uint64_t end = now_ns() + ns;

	while (now_ns() < end) {
		side_turn(&p.a);
		side_turn(&p.b);
	}
}

static void check_end(const struct urccl_cqe *cqe, int timed)
{
	if (cqe->res == (int64_t)bytes)
		return;
	CHECK_EQ(cqe->res, timed ? -ETIMEDOUT : -ECANCELED);
	stopped++;
	if (cqe->flags & URCCL_CQE_REMOTE_QUIET)
		return;
	unproved++;
	/* Over libfabric both ends close for it, which a deadline does not wait for. */
	if (!timed || p.transport != URCCL_TRANSPORT_FABRIC)
		check_excused("not proved at the peer");
}

static void check_in_time(uint64_t took, uint64_t deadline)
{
	uint64_t ns = (deadline + SLACK_NS + emulated_ns()) * (PAIR_SLOW ? 40 : 1);

	if (took <= ns)
		return;
	late++;
	if (!count)
		check_took(took, ns, canary_ns());
}

static uint8_t *memory(void)
{
	int fd, rw = PROT_READ | PROT_WRITE;
	uint8_t *at = mmap(NULL, bytes, rw, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint64_t off;

	CHECK(at != MAP_FAILED);
	if (looked_at == bytes)
		return at;
	fd = memfd_create("canary", MFD_CLOEXEC);
	CHECK_EQ(ftruncate(fd, (off_t)looked_at), 0);
	for (off = 0; off < bytes; off += looked_at)
		CHECK(mmap(at + off, looked_at, rw, MAP_SHARED | MAP_FIXED, fd, 0) == at + off);
	close(fd);
	return at;
}

static void open_target(void)
{
	uint32_t rights = URCCL_RIGHT_READ | URCCL_RIGHT_WRITE;

	if (looked_at == bytes) {
		target_open(&p, &t, bytes, p.shared);
		return;
	}
	t = (struct target){.bytes = memory(), .len = bytes};
	t.region = side_register(&p.b, t.bytes, bytes, rights);
	CHECK_EQ(urccl_advertise(p.b.ctx, t.region, 0, bytes, rights, 0, &t.advert), 0);
	CHECK_EQ(urccl_import(p.a.ctx, p.a.peer, &t.advert, 1, &t.remote), 0);
}

static void begin(void)
{
	pair_open(&p);
	open_target();
	region = side_register(&p.a, local, bytes, 0);
	scribble(local, &ours);
	scribble(t.bytes, &theirs);
}

/* What nobody proved to be quiet is so when both contexts are closed. */
static void meet_again(void)
{
	target_close(&p, &t);
	pair_close(&p);
	if (p.sim)
		p.params.sim_network = NULL;
	begin();
}

static void round_of(int reads, int timed)
{
	uint64_t ns = random_below(&seed, full_ns + full_ns / 8 + 1);
	uint64_t start, when = 0;
	struct urccl_cqe cqe;
	int quiet;

	canary_reset();
	start = now_ns();
	submit(reads, timed ? (uint32_t)(ns / 1000 + 1) : TEN_MIN);
	if (!timed) {
		run_for(ns);
		submit_cancel();
	}
	cqe = take_end(!timed, &when);
	check_end(&cqe, timed);
	if (timed && cqe.res < 0)
		check_in_time(when - start, ns / 1000 * 1000 + 1000);
	if (cqe.res > 0) {
		check_filled("here", local, reads ? theirs : ours);
		check_filled("there", t.bytes, reads ? theirs : ours);
	}
	quiet = reads || cqe.res > 0 || (cqe.flags & URCCL_CQE_REMOTE_QUIET);
	scribble(local, &ours);
	if (quiet)
		scribble(t.bytes, &theirs);
	watch(WATCH_NS);
	check_filled("here, after the end", local, ours);
	/* Not proved to be quiet: it may be written to meanwhile, and ThreadSanitizer says so. */
	if (quiet)
		check_filled("there, after the end", t.bytes, theirs);
	else
		CHECK(PAIR_SLOW || !memchr(t.bytes, ours, looked_at));
	if (!quiet)
		meet_again();
}

/* How long all of it takes: the moments are chosen from that. */
static void measure(int reads)
{
	uint64_t start = now_ns(), ns, when = 0;

	submit(reads, TEN_MIN);
	CHECK_EQ(take_end(0, &when).res, bytes);
	ns = now_ns() - start;
	full_ns = full_ns && full_ns < ns ? full_ns : ns;
}

int main(int argc, char **argv)
{
	uint64_t i;

	options(argc, argv);
	canary_start();
	try_open();
	printf("seed %llu, %llu rounds of %llu bytes\n", (unsigned long long)p.seed,
	       (unsigned long long)rounds, (unsigned long long)bytes);
	fflush(stdout);
	local = memory();
	begin();
	for (i = 0; i < 3; i++)
		measure(i & 1);
	scribble(local, &ours);
	scribble(t.bytes, &theirs);
	/* On a busy machine the first ones may all have been measured too long. */
	for (round_now = 0; round_now < rounds || (!stopped && round_now < 10 * rounds);
	     round_now++)
		round_of(random_below(&seed, 2) != 0, random_below(&seed, 4) == 0);
	printf("%llu stopped on their way, %llu of them unproved at the peer, %llu told early, %llu late\n",
	       (unsigned long long)stopped, (unsigned long long)unproved, (unsigned long long)early,
	       (unsigned long long)late);
	CHECK(stopped || rounds < 8);
	target_close(&p, &t);
	pair_close(&p);
	return 0;
}
