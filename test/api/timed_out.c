/* SPDX-License-Identifier: Apache-2.0 */
/* Entries whose deadline passes while they are on their way to a peer that answers: each that ends
 * with -ETIMEDOUT has REMOTE_QUIET, and is quiet: memory of both ends that is used for something
 * else at once is left alone. The library waits for the peer's word for 20 ms only: a round in
 * which threads had to wait for a processor for about as long shows nothing, and another is made.
 */
#include <dirent.h>
#include "pair.h"

#define N	   16u
#define SLOTS	   8u
#define LEN	   (4u << 20)
#define ROUNDS	   10u	     /* that are to be quiet */
#define MOST	   400u	     /* rounds at all */
#define STARVED_NS 10000000u /* that excuses a round */
#define UNEXCUSED  5u	     /* where it was the machine that had no processor for its own */
#define EXCUSED	   20u	     /* and three more for each that was quiet */

static struct pair p;
static struct target t;
static uint8_t *local;

static void submit_all(uint32_t deadline_us)
{
	struct urccl_sqe *sqe;
	uint32_t i;

	for (i = 0; i < N; i++) {
		uint64_t off = (uint64_t)(i % SLOTS) * LEN;

		sqe = side_sqe(&p.a);
		if (i % 2)
			urccl_prep_read(sqe, t.remote, local + off, LEN, off);
		else
			urccl_prep_write(sqe, t.remote, local + off, LEN, off);
		urccl_sqe_set_data64(sqe, i);
		urccl_sqe_set_deadline_us(sqe, deadline_us);
	}
	CHECK_EQ(urccl_submit(p.a.ring), N);
}

/* ---- whether there was a processor ---- */

/* What a thread has waited for one, in ns, of waits that are over; 0: it is gone. */
static uint64_t waited(const char *thread)
{
	unsigned long long ran, wait = 0;
	char path[320];
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/task/%s/schedstat", thread);
	f = fopen(path, "r");
	if (!f)
		return 0;
	if (fscanf(f, "%llu %llu", &ran, &wait) != 2)
		wait = 0;
	fclose(f);
	return wait;
}

/* All threads of this process. */
static uint64_t starved_ns(void)
{
	DIR *dir = opendir("/proc/self/task");
	uint64_t sum = 0;
	struct dirent *d;

	CHECK(dir);
	while ((d = readdir(dir)))
		if (d->d_name[0] != '.')
			sum += waited(d->d_name);
	closedir(dir);
	return sum;
}

/* Where nobody counts, or every access takes long, every round is excused. */
static int counts(void)
{
	return !PAIR_SLOW && starved_ns();
}

/* ---- rounds ---- */

struct round {
	uint32_t late, loud; /* timed out; of them, those that are not quiet at the peer */
	uint32_t begun;	     /* of them, those of which some bytes were placed */
};

/* "... %u of %u bytes ..." */
static int is_begun(const struct urccl_cqe *cqe)
{
	char why[512];
	const char *of;

	CHECK_GE(urccl_explain(p.a.ctx, cqe, why, sizeof(why)), 10);
	of = strstr(why, " of 4194304 bytes");
	CHECK(of);
	return of[-1] != '0' || (of - why > 1 && of[-2] != ' ');
}

static struct round take_all(void)
{
	uint32_t seen[N] = {0}, ended = 0;
	struct urccl_cqe cqe;
	struct round r = {0};

	while (ended < N) {
		side_take(&p.a, &p.b, &cqe, NULL);
		if (cqe.flags &
		    URCCL_CQE_MORE) { /* where a thread had no processor for longer yet */
			CHECK_EQ(cqe.res, -ETIMEDOUT);
			continue;
		}
		CHECK(cqe.user_data < N && !seen[cqe.user_data]++);
		ended++;
		if (cqe.res == LEN) {
			CHECK(cqe.flags & URCCL_CQE_REMOTE_QUIET);
			continue;
		}
		CHECK_EQ(cqe.res, -ETIMEDOUT);
		r.late++;
		r.begun += is_begun(&cqe);
		r.loud += !(cqe.flags & URCCL_CQE_REMOTE_QUIET);
	}
	return r;
}

/* Where a reader is not told of the other's bytes they are looked at when all is over. */
static void check_quiet(void)
{
	struct urccl_cqe cqe;
	uint32_t i;

	memset(local, 0x11, (size_t)SLOTS * LEN);
	memset(t.bytes, 0x22, (size_t)SLOTS * LEN);
	for (i = 0; i < 20; i++)
		CHECK(!side_take_within(&p.a, &p.b, 100000, &cqe, NULL));
	for (i = 0; i < SLOTS * LEN; i += 61)
		CHECK(local[i] == 0x11 && t.bytes[i] == 0x22);
}

/* All threads that it needs have run. */
static void pass(void)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);

	urccl_prep_write(sqe, t.remote, local, 1, 0);
	CHECK_EQ(pair_run(&p, &p.a, sqe).res, 1);
}

/* 1: it was loud, and there was always a processor for it. */
static int is_bad(const struct round *r, uint64_t starved_before)
{
	if (!r->loud)
		return 0;
	pass();
	return counts() && starved_ns() - starved_before < STARVED_NS;
}

/* Half of what they take, so that they are under way then. */
static uint32_t half_us(void)
{
	uint64_t took = UINT64_MAX, from;
	uint32_t i;

	for (i = 0; i < 3; i++) {
		from = now_ns();
		submit_all(100000000);
		CHECK_EQ(take_all().late, 0);
		if (now_ns() - from < took)
			took = now_ns() - from;
	}
	return 1 + (uint32_t)(took / 2000);
}

int main(int argc, char **argv)
{
	uint32_t i, quiet = 0, bad = 0, loud = 0, deadline_us = 0;
	uint64_t starved;
	struct round r;

	pair_begin(&p, argc, argv);
	target_open(&p, &t, (uint64_t)SLOTS * LEN, 0);
	local = malloc((size_t)SLOTS * LEN);
	CHECK(local);
	memset(local, 1, (size_t)SLOTS * LEN);
	side_register(&p.a, local, (uint64_t)SLOTS * LEN, 0);
	for (i = 0; quiet < ROUNDS; i++) {
		CHECK_LE(i, MOST);
		starved = starved_ns();
		submit_all(i % 8 ? deadline_us : (deadline_us = half_us()));
		r = take_all();
		bad += (uint32_t)is_bad(&r, starved);
		CHECK_LE(bad, UNEXCUSED);
		loud += counts() && r.loud;
		CHECK_LE(loud, EXCUSED + 3 * quiet);
		if (r.loud || !r.begun)
			continue;
		if (quiet++ % 8 == 0)
			check_quiet();
	}
	printf("%u rounds, %u of them loud, %u of those without cause\n", i, loud, bad);
	target_close(&p, &t);
	pair_close(&p);
	free(local);
	return 0;
}
